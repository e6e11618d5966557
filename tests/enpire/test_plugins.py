"""Plug-ins of installed packages are found under the name of their group today and under its former name."""

from __future__ import annotations

from pathlib import Path

import pytest

from enpire import plugins


def test_a_plug_in_of_a_renamed_group_is_still_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = tmp_path / "mqtt-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mqtt\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[enpire.faces]\nmqtt = mqtt_bridge:open_bridge\n")
    (tmp_path / "mqtt_bridge.py").write_text("def open_bridge(station, options):\n    return station\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "mqtt" in plugins.names("bridges")
    assert plugins.make("bridges", "mqtt", "cell", {}) == "cell"


def test_a_renamed_group_still_reads_its_former_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = tmp_path / "old-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: old\nVersion: 1.0\n")
    former = "\n".join(f"[enpire.{group}]\nold_part = old_parts:make" for group in ("films", "doors"))
    (about / "entry_points.txt").write_text(former)
    monkeypatch.syspath_prepend(tmp_path)
    for group in ("replay_images", "listeners"):
        assert "old_part" in plugins.names(group)
