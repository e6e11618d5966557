"""The folder of a language model: its tools, its limits, and what they refuse."""

from __future__ import annotations

from typing import cast

import pytest

from agent_loop.agents.code_folder import CodeFolder, with_file_tools
from agent_loop.tools import anthropic_schemas
from enpire.errors import EnpireError
from enpire.service.code import MOST_BYTES, MOST_FILES


def test_files_are_written_read_edited_listed_and_deleted() -> None:
    folder = CodeFolder()
    tools = folder.tools()
    tools["write_file"](path="skills/grasp.py", text="reach = 1\nlift = 2\n")
    tools["edit_file"](path="skills/grasp.py", old="lift = 2", new="lift = 3")
    assert tools["read_file"](path="skills/grasp.py")["text"] == "reach = 1\nlift = 3\n"
    assert tools["list_files"]()["files"] == {"skills/grasp.py": 2}
    tools["delete_file"](path="skills/grasp.py")
    assert folder.files == {}


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../up.py", "a/../b.py", ".git/config", "a/b/c/d.py", "a\nb", "", "a//b"]
)
def test_a_path_outside_the_folder_is_refused(path: str) -> None:
    folder = CodeFolder()
    with pytest.raises(EnpireError, match="is no path in your folder"):
        folder.tools()["write_file"](path=path, text="x")
    assert folder.files == {}


def test_the_folder_has_limits() -> None:
    folder = CodeFolder()
    write = folder.tools()["write_file"]
    with pytest.raises(EnpireError, match="delete or shorten one"):
        write(path="big.py", text="x" * (MOST_BYTES + 1))
    for number in range(MOST_FILES):
        write(path=f"f{number}", text="")
    with pytest.raises(EnpireError, match=f"at most {MOST_FILES} files"):
        write(path="more", text="")
    write(path="f0", text="a file may be replaced")


@pytest.mark.parametrize(("old", "times"), [("one", 2), ("three", 0), ("", 0)])
def test_an_edit_needs_a_text_that_is_there_once(old: str, times: int) -> None:
    folder = CodeFolder({"a.py": "one one two"})
    with pytest.raises(EnpireError, match=f"`old` is {times} times in a.py"):
        folder.tools()["edit_file"](path="a.py", old=old, new="x")
    with pytest.raises(EnpireError, match="no file 'b.py' in your folder; there are: a.py"):
        folder.tools()["edit_file"](path="b.py", old="one", new="x")
    with pytest.raises(EnpireError, match="'pth'"):
        folder.tools()["read_file"](pth="a.py")
    assert folder.files == {"a.py": "one one two"}


def test_adopted_files_replace_those_of_the_folder() -> None:
    folder = CodeFolder({"old.py": "x"})
    adopt = folder.loading(lambda **sent: {"commit": sent["experiment_id"], "files": {"a.py": "1", "b.py": "2"}})
    assert adopt(experiment_id="E1") == {"commit": "E1", "files": ["a.py", "b.py"]}
    assert folder.files == {"a.py": "1", "b.py": "2"}
    assert folder.loading(lambda: {"changes": {}})() == {"changes": {}}
    assert folder.files == {"a.py": "1", "b.py": "2"}, "an experiment without code leaves the folder as it is"


def test_submit_code_takes_the_files_of_the_folder() -> None:
    listed = {str(one["name"]): one for one in with_file_tools(anthropic_schemas())}
    schema = cast("dict[str, dict[str, object]]", listed["submit_code"]["input_schema"])
    assert list(schema["properties"]) == ["hypothesis_id", "parent_experiment"]
    assert schema["required"] == ["hypothesis_id"]
    assert {"list_files", "read_file", "write_file", "edit_file", "delete_file"} < listed.keys()


def test_a_skill_is_added_to_the_folder_and_replaces_no_other_file() -> None:
    folder = CodeFolder({"learner.py": "x"})
    take = folder.taking(lambda **sent: {"path": "skills/grasp.py", "text": "reach = 1\n", "commit": "c"})
    assert take(skill="abcdef") == {"path": "skills/grasp.py", "lines": 1, "commit": "c"}
    assert take(skill="abcdef")["lines"] == 1, "the same again changes nothing"
    assert folder.files == {"learner.py": "x", "skills/grasp.py": "reach = 1\n"}
    folder.files["skills/grasp.py"] = "reach = 2\n"
    with pytest.raises(EnpireError, match="has another skills/grasp.py; rename it"):
        take(skill="abcdef")
