"""Tasks that agents wrote, in the page: who may approve them, what was seen, and what their texts can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from enpire.cli import app
from enpire.code_candidates import authored_tasks
from enpire.code_candidates.authored_tasks import find_task, propose
from enpire.errors import UsageError
from enpire.parts import TASKS
from enpire.requests.agent_requests import Sender
from enpire.steps.begin import approval_of
from tests.enpire.code_candidates.authored_task import FILES, REACH, proposed, scored
from tests.web_ui.conftest import Site

PATH = "/api/v1/tasks/authored"


def lines(site: Site) -> list[dict[str, Any]]:
    return site.client.get(PATH).json()


def test_an_admin_approves_the_code_that_was_shown_and_withdraws_it(site: Site) -> None:
    made = proposed(site.home)
    client, path = site.enter("admin"), f"{PATH}/{made.task_id}"
    [line] = lines(site)
    assert (line["id"], line["state"], line["author"], line["score"]) == (made.task_id, "proposed", "anthropic", None)
    assert "have no score" in line["refused"]
    scored(site.home, made)
    [line] = lines(site)
    assert (line["state"], line["refused"], line["score"]["passed"]) == ("scored", "", 58)
    shown = client.get(f"{path}/files").json()
    assert shown["digest"] == line["digest"] == made.digest
    assert {one["path"]: one["text"] for one in shown["files"]} == FILES
    answer = {"seen": shown["digest"], "reason": "It is a point."}
    approved = client.post(f"{path}/approve", json=answer)
    assert approved.status_code == 200, approved.text
    assert (approved.json()["state"], approved.json()["by"]) == ("approved", "admin-0")
    name = approved.json()["name"]
    assert TASKS.make(name).spec.name == "reach"
    assert approval_of(name, site.home)["by"] == "admin-0", "the first event of a campaign of it says so"
    listed = CliRunner().invoke(app, ["task", "authored", "--home", str(site.home)]).output
    assert "approved" in listed
    assert "approved the task" in client.get("/api/v1/users/audit").json()[0]["deed"]
    withdrawn = client.post(f"{path}/withdraw", json=answer).json()
    assert (withdrawn["state"], withdrawn["approved"], withdrawn["reason"]) == ("withdrawn", "", "It is a point.")
    with pytest.raises(UsageError, match="was withdrawn by admin-0: It is a point"):
        TASKS.make(name)
    again = client.post(f"{path}/withdraw", json=answer)
    assert (again.status_code, "has no approval" in again.json()["detail"]) == (400, True)


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_others_read_the_code_and_decide_nothing(site: Site, role: Any) -> None:
    made = proposed(site.home)
    scored(site.home, made)
    client = site.enter(role)
    assert client.get(f"{PATH}/{made.task_id}/files").status_code == 200
    for act in ("approve", "withdraw"):
        answer = client.post(f"{PATH}/{made.task_id}/{act}", json={"seen": made.digest, "reason": "so"})
        assert (answer.status_code, "requires the role admin" in answer.json()["detail"]) == (403, True)
    assert find_task(site.home, made.task_id).state == "scored"


def test_another_site_approves_nothing(site: Site) -> None:
    made = proposed(site.home)
    scored(site.home, made)
    answer = site.enter("admin").post(
        f"{PATH}/{made.task_id}/approve", json={"seen": made.digest, "reason": "so"},
        headers={"origin": "http://elsewhere.example"},
    )  # fmt: skip
    assert answer.status_code == 403
    assert find_task(site.home, made.task_id).state == "scored"


def test_files_that_changed_after_they_were_seen_are_not_approved(site: Site) -> None:
    made = proposed(site.home)
    task = find_task(site.home, made.task_id)
    (task.folder / "files" / "task.py").write_text(REACH.replace("0.03", "3.0"))
    other = lines_of(site, made.task_id)["digest"]
    assert other != made.digest
    scored(site.home, replace(made, digest=other))
    client, path = site.client, f"{PATH}/{made.task_id}"
    refused = client.post(f"{path}/approve", json={"seen": made.digest, "reason": "so"})
    assert refused.status_code == 409
    assert refused.json()["detail"].endswith("changed after you saw them; read them again.")
    assert find_task(site.home, made.task_id).state == "scored"
    assert client.post(f"{path}/approve", json={"seen": other, "reason": "so"}).status_code == 200
    refused = client.post(f"{path}/withdraw", json={"seen": made.digest, "reason": "so"})
    assert (refused.status_code, "approved after you saw it" in refused.json()["detail"]) == (409, True)
    assert find_task(site.home, made.task_id).state == "approved"
    (task.folder / "files" / "task.py").write_text(REACH)
    line = lines_of(site, made.task_id)
    assert (line["state"], line["digest"], line["approved"]) == ("approved", made.digest, other)
    assert "have no score" in line["refused"]


def lines_of(site: Site, task_id: str) -> Mapping[str, Any]:
    site.enter("admin")
    return next(one for one in lines(site) if one["id"] == task_id)


def test_nothing_is_approved_without_a_score_or_with_a_broken_rule(site: Site) -> None:
    made = proposed(site.home)
    client, answer = site.enter("admin"), {"seen": made.digest, "reason": "so"}
    refused = client.post(f"{PATH}/{made.task_id}/approve", json=answer)
    assert (refused.status_code, "have no score" in refused.json()["detail"]) == (400, True)
    scored(site.home, made, "idleness fails")
    assert lines(site)[0]["score"]["failed"] == ["idleness fails"]
    refused = client.post(f"{PATH}/{made.task_id}/approve", json=answer)
    assert (refused.status_code, "breaks a rule" in refused.json()["detail"]) == (400, True)
    for wrong in ({"seen": made.digest, "reason": " "}, {"seen": "", "reason": "so"}, {"reason": "so"}):
        assert client.post(f"{PATH}/{made.task_id}/approve", json=wrong).status_code == 422
    assert client.post(f"{PATH}/nobody/approve", json=answer).status_code == 404


def test_a_damaged_record_is_listed_with_its_reason_and_refused(site: Site) -> None:
    made, other = proposed(site.home), proposed(site.home, {"task.py": "x = 1\n"})
    scored(site.home, made)
    (find_task(site.home, made.task_id).folder / "approvals.jsonl").write_text("forged\n")
    line = lines_of(site, made.task_id)
    assert (line["state"], "approvals.jsonl is damaged" in line["refused"]) == ("damaged", True)
    assert {one["id"] for one in lines(site)} == {made.task_id, other.task_id}
    for act in ("approve", "withdraw"):
        answer = site.client.post(f"{PATH}/{made.task_id}/{act}", json={"seen": made.digest, "reason": "so"})
        assert (answer.status_code, "is damaged" in answer.json()["detail"]) == (409, True)
    (find_task(site.home, other.task_id).folder / "files" / "link.json").symlink_to("/etc/passwd")
    line = lines_of(site, other.task_id)
    assert (line["digest"], "is a link" in line["refused"]) == ("", True)
    answer = site.client.get(f"{PATH}/{other.task_id}/files")
    assert (answer.status_code, "root:" in answer.text) == (400, False)


def test_what_a_reader_would_not_see_is_replaced_and_not_approved(site: Site) -> None:
    sender = Sender(campaign_id="C1", author="anthropic", lane="one")
    made = propose(site.home, FILES, "<script>alert(1)</script>", sender)
    task = find_task(site.home, made.task_id)
    text = REACH + "# \u202e\x1b[2J\n"
    (task.folder / "files" / "task.py").write_text(text)
    proposal = (task.folder / "proposal.json").read_text().replace("anthropic", "a\\u202eb")
    (task.folder / "proposal.json").write_text(proposal)
    digest = authored_tasks.digest_of({**FILES, "task.py": text})
    scored(site.home, replace(made, digest=digest))
    line = lines_of(site, made.task_id)
    assert (line["about"], line["author"], line["digest"]) == ("<script>alert(1)</script>", "a\ufffdb", digest)
    assert "U+202E, which is not shown to readers" in line["refused"]
    answer = site.client.get(f"{PATH}/{made.task_id}/files")
    assert answer.headers["content-type"] == "application/json"
    shown = next(one["text"] for one in answer.json()["files"] if one["path"] == "task.py")
    assert shown == REACH + "# \ufffd\ufffd[2J\n"
    answer = site.client.post(f"{PATH}/{made.task_id}/approve", json={"seen": digest, "reason": "so"})
    assert (answer.status_code, "U+202E" in answer.json()["detail"]) == (400, True)
