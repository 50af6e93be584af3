"""SIP voice over weft and over the kernel at the same time: what each loses, and how even it comes."""

from __future__ import annotations

import os
import re
from pathlib import Path

from harness import paths
from harness.processes import PATIENCE, Process
from programs.stage import Stage, want, want_equal

FULL = bool(os.environ.get("FULL"))
SECONDS = 600 if FULL else 15
PORT = 5060
ANSWERS = "answers"
CONFIG = """
sip_listen {address}:{port}
audio_player aufile,{folder}/heard.wav
audio_source aufile,{tone}
audio_alert none
rtp_stats yes
jitter_buffer_type off
module_path /usr/lib/baresip/modules
module account.so
module g711.so
module aufile.so
module_app menu.so
"""
# What is said at the end of a call, of what was sent and what came.
STATISTICS = re.compile(r"packets:\s+(\d+)\s+(\d+).*?lost:\s+(-?\d+)\s+(-?\d+)\s+jitter:\s+([\d.]+)\s+([\d.]+)", re.DOTALL)


def _tone(stage: Stage) -> Path:
    file = stage.env.folder / "tone.wav"
    words = ["-loglevel", "error", "-f", "lavfi", "-i", f"sine=frequency=440:sample_rate=8000:duration={SECONDS + 30}", "-ac", "1", str(file)]
    stage.env.run("tone", [paths.tool("ffmpeg"), *words])
    return file


def _baresip(stage: Stage, name: str, address: str, words: list[str], tone: Path) -> Process:
    folder = stage.env.folder / name
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "config").write_text(CONFIG.format(address=address, port=PORT, folder=folder, tone=tone))
    answers = name == ANSWERS
    mode = "auto" if answers else "manual"
    (folder / "accounts").write_text(f"<sip:{name}@{address}>;regint=0;answermode={mode}\n")
    (folder / "contacts").write_text("")
    command = [paths.tool("baresip"), "-f", str(folder), "-t", str(SECONDS + (6 if answers else 4))]
    if not answers:
        command += ["-e", f"/dial sip:{ANSWERS}@{stage.server.host}:{PORT}"]
    return stage.env.start(name, [*words, *command], HOME=str(folder))


def call(stages: dict[str, Stage]) -> str:
    """A call of each stage at the same time."""
    told: list[str] = []
    pairs: dict[str, Process] = {}
    for place, stage in stages.items():
        tone = _tone(stage)
        answering = _baresip(stage, ANSWERS, stage.server.address, stage.server.words, tone)
        stage.env.wait_listening(answering, PORT, "udp")
        pairs[place] = _baresip(stage, "calls", stage.client.address, stage.client.words, tone)
    for place, calling in pairs.items():
        calling.wait((SECONDS + 60) * PATIENCE)
        found = STATISTICS.search(calling.stdout + calling.stderr)
        want(found is not None, f"{place}: no statistics of the call:\n{calling.stdout[-800:]}{calling.stderr[-800:]}")
        assert found is not None
        sent, received, *lost = map(int, found.groups()[:4])
        jitter = found.groups()[4:]
        # Fifty packets a second, both ways; the first second is that of the handshake.
        for what, count in (("sent", sent), ("received", received)):
            want(count >= 50 * (SECONDS - 2), f"{place}: {count} packets {what} in {SECONDS} s")
        want_equal(f"{place}: packets lost", lost, [0, 0])
        told.append(f"{place}: {received} packets, jitter {jitter[0]} and {jitter[1]} ms")
    for stage in stages.values():
        stage.finish()
    return "; ".join(told)
