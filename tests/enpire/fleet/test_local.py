"""The stations that a campaign starts itself load the kinds of versions that the lab configured."""

from __future__ import annotations

from pathlib import Path

import yaml

from enpire.campaign.campaign import read_campaign
from enpire.fleet.local import files_to_start
from enpire.home import Home
from tests.chaos.point_lab import write_campaign

ADDRESS = "tcp://127.0.0.1:7000"


def test_stations_may_load_what_the_campaign_names_and_what_its_learners_modules_make(tmp_path: Path) -> None:
    path = write_campaign(tmp_path)
    content = yaml.safe_load(path.read_text())
    content["stations"]["policy_kinds"] = ["my_lab.policy:load"]
    path.write_text(yaml.safe_dump(content))
    files = files_to_start(read_campaign(path), Home(tmp_path), ADDRESS)
    assert {file.policy_kinds for file in files} == {("my_lab.policy:load", "tests.chaos.point_lab:load")}
    shipped = files_to_start(read_campaign("pin_insertion"), Home(tmp_path), ADDRESS)
    assert {file.policy_kinds for file in shipped} == {()}
