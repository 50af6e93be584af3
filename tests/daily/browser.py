"""Drives a browser with a window; runs where the browser does, so that both are under weft, or neither is.

    browser.py chromium|firefox pages|download|videos URL FOLDER SECONDS

Prints what the page came to as JSON, and leaves FOLDER/window.png.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By

SIZE = (1000, 760)


def chromium(folder: Path) -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    options.add_argument(f"--user-data-dir={folder}/profile")
    # There is no graphics hardware, nobody to be asked, and a container's /dev/shm is small.
    for word in ("--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--autoplay-policy=no-user-gesture-required", "--disable-background-networking"):
        options.add_argument(word)
    if os.geteuid() == 0:
        # Chromium refuses to run as root with its sandbox.
        options.add_argument("--no-sandbox")
    driver = webdriver.Chrome(options=options, service=webdriver.chrome.service.Service("/usr/bin/chromedriver"))
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})
    return driver


def firefox(folder: Path) -> webdriver.Firefox:
    options = webdriver.FirefoxOptions()
    options.binary_location = "/usr/bin/firefox-esr"
    wanted = {"browser.download.folderList": 2, "browser.download.dir": str(folder), "browser.helperApps.neverAsk.saveToDisk": "application/octet-stream",
              "media.autoplay.default": 0, "datareporting.policy.dataSubmissionEnabled": False, "browser.aboutwelcome.enabled": False}
    for name, value in wanted.items():
        options.set_preference(name, value)
    log = str(folder / "geckodriver.log")
    return webdriver.Firefox(options=options, service=webdriver.firefox.service.Service(os.environ["GECKODRIVER"], log_path=log))


BROWSERS: dict[str, Callable[[Path], webdriver.Remote]] = {"chromium": chromium, "firefox": firefox}


def wait_for(what: Callable[[], bool], seconds: float, why: Callable[[], str]) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {seconds:g} s: {why()}")
        time.sleep(0.1)


def filters(status: Path) -> int:
    """Filters of system calls that a process has."""
    return int(re.search(r"^Seccomp_filters:\s*(\d+)", status.read_text(), re.MULTILINE)[1])


def sandbox(driver: webdriver.Remote, name: str) -> str:
    """What is known of the browser's own sandbox: what it says itself, or what its processes for pages have beyond what this one has."""
    if name == "chromium":
        driver.get("chrome://sandbox")
        return driver.find_element(By.TAG_NAME, "body").text.strip().splitlines()[-1]
    pages = [status for status in Path("/proc").glob("[0-9]*/status") if re.match(r"Name:\s*(Isolated Web|Web Content)", _read(status))]
    beyond = min((filters(status) for status in pages), default=0) - filters(Path("/proc/self/status"))
    return "pages have a filter of their own" if beyond > 0 else f"{len(pages)} processes for pages, {beyond} filters beyond this one's"


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def pages(driver: webdriver.Remote, url: str, folder: Path, seconds: float) -> dict:
    """A page of many parts, five times over."""
    for _ in range(5):
        driver.get(url)
        wait_for(lambda: driver.title == "complete", seconds, lambda: driver.title)
    return {"told": driver.find_element(By.ID, "told").text}


def download(driver: webdriver.Remote, url: str, folder: Path, seconds: float) -> dict:
    """A click on a link to a large file."""
    *_, name = url.split("/")
    driver.get(url.removesuffix(name) + "download.html")
    driver.find_element(By.TAG_NAME, "a").click()
    file, parts = folder / name, ("*.crdownload", "*.part")
    wait_for(lambda: file.exists() and file.stat().st_size > 0 and not any(list(folder.glob(part)) for part in parts), seconds, lambda: f"{folder} has {sorted(path.name for path in folder.iterdir())}")
    return {"bytes": file.stat().st_size}


def videos(driver: webdriver.Remote, url: str, folder: Path, seconds: float) -> dict:
    """Three at a time, to their ends."""
    driver.get(url)
    told = lambda: driver.execute_script("return window.told")  # noqa: E731
    wait_for(lambda: driver.execute_script("return document.querySelector('video').currentTime") > 4, seconds, lambda: str(told()))
    driver.save_screenshot(str(folder / "page.png"))
    shot(folder)
    wait_for(lambda: driver.title == "complete", seconds, lambda: str(told()))
    return told()


def shot(folder: Path) -> None:
    """The whole screen, unless there is a picture of it already."""
    picture = folder / "window.png"
    if not picture.exists():
        os.spawnvp(os.P_WAIT, "import", ["import", "-window", "root", str(picture)])


JOBS = {"pages": pages, "download": download, "videos": videos}


def main(name: str, job: str, url: str, folder: str, seconds: str) -> None:
    place = Path(folder)
    driver = BROWSERS[name](place)
    try:
        driver.set_window_rect(0, 0, *SIZE)
        found = JOBS[job](driver, url, place, float(seconds))
        shot(place)
        if job == "pages":
            found["sandbox"] = sandbox(driver, name)
        print(json.dumps(found))
    finally:
        driver.quit()


main(*sys.argv[1:])
