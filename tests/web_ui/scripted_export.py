"""An export that is there at once; test_export.py makes a real one, whose process loads LeRobot."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from web_ui.reports import ExportForm, exported_name


def packed_at_once(home: Path, campaign_id: str, order_ids: Sequence[str], form: ExportForm) -> TemporaryDirectory[str]:
    """An export without episodes."""
    del home, campaign_id, order_ids
    folder = TemporaryDirectory()
    with zipfile.ZipFile(Path(folder.name) / exported_name(form), "w"):
        return folder
