"""Screens on which windows are looked at: X servers without hardware, and pictures of what they show."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from harness import paths
from harness.environment import Environment
from harness.processes import PATIENCE, Failure

PICTURES = paths.ROOT / "target" / "daily"
GEOMETRY = "1024x800"
SECONDS_MAX = 20 * PATIENCE


class Screen:
    """An X server that listens on a file only, for whoever is on this machine."""

    def __init__(self, env: Environment, name: str = "screen") -> None:
        said = env.folder / f"{name}.display"
        said.touch()
        script = 'exec "$0" -displayfd 5 -screen 0 "$1"x24 -nolisten tcp -nolisten local -noreset 5>"$2"'
        self._server = env.start(name, ["sh", "-c", script, paths.tool("Xvfb"), GEOMETRY, str(said)])
        self._server.wait_for(lambda: said.read_text().endswith("\n"), "a display", SECONDS_MAX)
        self.display = f":{said.read_text().strip()}"

    def picture(self, file: Path) -> None:
        done = subprocess.run([paths.tool("import"), "-window", "root", str(file)], env=dict(os.environ, DISPLAY=self.display), capture_output=True, text=True)
        if done.returncode:
            raise Failure(f"no picture: {done.stderr}")


def part_of(file: Path, colour: str) -> float:
    """How much of a picture has a colour, `#rrggbb`: 0 to 1."""
    words = [paths.tool("convert"), str(file), "-fill", "black", "+opaque", colour, "-fill", "white", "-opaque", colour, "-format", "%[fx:mean]", "info:"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"{file}: {done.stderr}")
    return float(done.stdout)


def keep(file: Path, row: str) -> None:
    """For a person to look at."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, PICTURES / f"{row.replace('/', '-')}.png")
