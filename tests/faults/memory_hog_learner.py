"""A learner that takes all the memory there is, and when it is begun again, little: `python -m ... FOLDER`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

CHUNK_BYTES = 8 << 20


def main(folder: Path) -> None:
    """Wait for `go`, then eat until killed; the second time there is a version at once."""
    while not (folder / "go").exists():
        time.sleep(0.02)
    if (folder / "ate").exists():
        (folder / "result.json").write_text(json.dumps({"metrics": {"loss": 0.5}}))
        return
    (folder / "ate").touch()
    eaten: list[bytearray] = []
    while True:
        eaten.append(bytearray(b"x") * CHUNK_BYTES)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
