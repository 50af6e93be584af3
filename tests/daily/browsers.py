"""Debian's chromium and firefox-esr with a window: pages, a large file, three videos at a time."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

from harness import paths
from harness.processes import PATIENCE, Failure
from programs.rows import python_server, sha256_of
from programs.stage import Stage, want, want_equal

from .screen import Screen, keep

HERE = Path(__file__).parent
FULL = bool(os.environ.get("FULL"))
PORT = 8080
FILE_BYTES = (700 if FULL else 60) * 1_000_000
VIDEO_SECONDS = 180 if FULL else 15
# So much data that three of them are a load: noise cannot be packed.
VIDEO_WORDS = ("-f", "lavfi", "-i", f"testsrc2=size=640x360:rate=25:duration={VIDEO_SECONDS}", "-vf", "noise=alls=24:allf=t", "-c:v", "libx264", "-preset", "ultrafast",
               "-pix_fmt", "yuv420p", "-g", "50", "-b:v", "3M", "-f", "hls", "-hls_time", "2", "-hls_list_size", "0", "-loglevel", "error")
JOB_SECONDS = {"pages": 60.0, "download": 400.0 if FULL else 60.0, "videos": 4.0 * VIDEO_SECONDS + 60.0}
SANDBOX_ON = {"chromium": "You are adequately sandboxed.", "firefox": "pages have a filter of their own"}


def site() -> Path:
    """The pages, with videos and a file, made once."""
    folder = paths.ROOT / "target" / "daily-site"
    done = folder / f"made-{VIDEO_SECONDS}-{FILE_BYTES}"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(HERE / "pages", folder)
        shutil.copy(paths.ROOT / "target" / "npm" / "node_modules" / "hls.js" / "dist" / "hls.light.min.js", folder / "hls.js")
        for number in range(3):
            place = folder / f"video{number}"
            place.mkdir()
            subprocess.run([paths.tool("ffmpeg"), *VIDEO_WORDS, str(place / "list.m3u8")], check=True, stdin=subprocess.DEVNULL)
        with open("/dev/urandom", "rb") as source, open(folder / "file.bin", "wb") as file:
            for _ in range(FILE_BYTES // 1_000_000):
                file.write(source.read(1_000_000))
        (folder / "download.html").write_text('<!doctype html><title>A file</title><a href="file.bin" download>file.bin</a>')
        done.touch()
    return folder


def browse(stage: Stage, name: str, job: str, page: str, row: str) -> dict:
    """Lets a browser do something; what it found."""
    env, folder = stage.env, stage.env.folder / "browser"
    folder.mkdir()
    # A user's: it has nothing else here to write to.
    folder.chmod(0o777)
    served = site()
    python_server(stage, "web.py", PORT, stage.server.address, str(PORT), str(served))
    screen = Screen(env)
    seconds = JOB_SECONDS[job] * PATIENCE
    words = [paths.PYTHON, str(HERE / "browser.py"), name, job, f"http://{stage.server.host}:{PORT}/{page}", str(folder), str(seconds)]
    variables = {"DISPLAY": screen.display, "HOME": str(folder), "TMPDIR": str(folder), "XDG_RUNTIME_DIR": str(folder),
                 "GECKODRIVER": str(paths.ROOT / "target" / "cargo" / "bin" / "geckodriver")}
    try:
        found = json.loads(stage.run_client("browser", words, seconds + 60 * PATIENCE, **variables).splitlines()[-1])
    finally:
        if (folder / "window.png").exists():
            keep(folder / "window.png", row)
    stage.finish()
    return found


def pages(stage: Stage, name: str, row: str) -> str:
    found = browse(stage, name, "pages", "shop.html", row)
    posted = hashlib.sha256(b"x" * 300_000).hexdigest()
    want_equal("what the page says", found["told"], f"60 pictures, 3 texts, {posted}")
    if "user" in row:
        want(SANDBOX_ON[name] in found["sandbox"], f"its sandbox: {found['sandbox']}")
    return ""


def download(stage: Stage, name: str, row: str) -> str:
    found = browse(stage, name, "download", "file.bin", row)
    want_equal("bytes", found["bytes"], FILE_BYTES)
    want_equal("sha256", sha256_of(stage.env.folder / "browser" / "file.bin"), sha256_of(site() / "file.bin"))
    return f"{FILE_BYTES // 1_000_000} MB"


def videos(stage: Stage, name: str, row: str) -> str:
    found = browse(stage, name, "videos", "videos.html", row)
    told = f"{found['ended']} of {VIDEO_SECONDS} s, {found['stalls']} stalls, {found['dropped']} of {found['frames']} frames dropped"
    if found["stalls"] or found["errors"] or found["ended"] != 3:
        raise Failure(f"{told}, {found['errors']}")
    return told
