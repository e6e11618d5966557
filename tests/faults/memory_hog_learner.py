"""A learner that allocates all memory in its first run and little in its second: `python -m ... FOLDER`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

CHUNK_BYTES = 8 << 20


def main(folder: Path) -> None:
    """Wait for `go`, then allocate until killed; the second run has a version at once."""
    while not (folder / "go").exists():
        time.sleep(0.02)
    if (folder / "allocated").exists():
        (folder / "result.json").write_text(json.dumps({"metrics": {"loss": 0.5}}))
        return
    (folder / "allocated").touch()
    allocated: list[bytearray] = []
    while True:
        allocated.append(bytearray(b"x") * CHUNK_BYTES)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
