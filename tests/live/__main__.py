"""`make test-live`: see the package. ONLY= chooses rows whose names hold one of its words."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from harness import paths
from harness.environment import run_main
from load.rows import Rows

from . import files, multipath, real_time, snapshots, tools, virtual_worlds, wrapped

NEEDS_ROOT = "it attaches to a veth pair beside the host's kernel, which a normal user's namespace does not keep quiet; runs as root"


def main() -> int:
    rows = Rows()
    wanted = [word for word in os.environ.get("ONLY", "").split(",") if word]

    def run(name: str, body, needs_root: str = "") -> None:
        if not wanted or any(word in name for word in wanted):
            rows.run(name, body, needs_root)

    # A node has a /tmp of its own: what its programs are to find lies elsewhere.
    with tempfile.TemporaryDirectory(prefix="weft-live-", dir="/var/tmp") as directory:
        for name, body in {**virtual_worlds.ROWS, **snapshots.ROWS, **multipath.ROWS, **wrapped.ROWS, **tools.ROWS}.items():
            folder = Path(directory, name.replace("/", "-").replace(" ", "-"))
            folder.mkdir()
            run(name, lambda body=body, folder=folder: body(folder))
    run("apply/any of 20 graphs to any other", files.applied)
    run("import fins/boots", files.fins_row, NEEDS_ROOT)
    run("real time/changed", real_time.row, NEEDS_ROOT)
    return rows.recorder.finish()


if __name__ == "__main__":
    if paths.weft_binary() is None:
        print(f"no weft at {paths.target_dir() / 'release' / 'weft'}: run make build, or set WEFT_BIN")
        sys.exit(1)
    sys.exit(run_main(main))
