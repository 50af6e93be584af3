"""`python3 -m python_package` (`make test-python`): installs the package and runs the rows with it, in the interpreter that has its libraries."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import paths, results, weft
from harness.processes import Failure

# What the rows import. The first line of what is missing is told by the interpreter.
NEEDED = ("pandas", "polars", "pyarrow", "matplotlib", "distributed", "pytest", "mypy", "nbclient", "ipykernel", "tomli_w", "hatchling")
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-build-isolation", "--no-deps")
# The rows are in another process.
INSIDE = "WEFT_PYTHON_PACKAGE"


def installed(folder: Path) -> str:
    """The package, built and installed into a folder, as pip does it."""
    python = paths.output_dir() / "venv" / "bin" / "python3"
    found = subprocess.run([str(python), "-c", f"import {', '.join(NEEDED)}"], capture_output=True, text=True) if python.exists() else None
    if found is None or found.returncode != 0:
        raise Failure(f"{found.stderr.strip().splitlines()[-1] if found else python}: run tools/setup test")
    # A build leaves files beside what it builds.
    source = folder / "source"
    shutil.copytree(paths.ROOT / "python", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
    site = folder / "site"
    done = subprocess.run([str(python), *PIP, "--target", str(site), str(source)], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"pip: {done.stdout}{done.stderr}")
    os.environ.update(PYTHONPATH=f"{site}:{paths.TESTS}", WEFT_BIN=weft.binary(), MPLBACKEND="agg", **{INSIDE: str(site)})
    # What libraries keep goes with the folder, and nobody's home is touched.
    os.environ.update(dict.fromkeys(("TMPDIR", "MPLCONFIGDIR", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR"), str(folder)))
    # Files of worlds are read by programs that are nobody.
    folder.chmod(0o755)
    return str(python)


def main() -> int:
    if INSIDE in os.environ:
        from . import rows

        return rows.main()
    with tempfile.TemporaryDirectory(prefix="weft-python-", dir="/var/tmp") as name:
        started = time.monotonic()
        try:
            python = installed(Path(name))
        except Failure as failure:
            recorder = results.Recorder()
            recorder.add(results.Row("install", results.FAILED, time.monotonic() - started, str(failure)))
            return recorder.finish()
        return subprocess.run([python, "-m", "python_package"]).returncode


if __name__ == "__main__":
    sys.exit(main())
