"""Private sockets: only their own user reaches them, wherever the home is."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from enpire.errors import TransportProblem
from enpire.wire.private_socket import check_plain, is_private, make_private, private_address, refuse_taken, socket_path


def test_a_home_with_a_long_path_gets_a_socket_that_can_be_opened(tmp_path: Path) -> None:
    for home in (tmp_path, tmp_path / ("deep" * 25), tmp_path / ("deep" * 25) / ("deeper" * 20)):
        path = socket_path(private_address(home, "robot-server-65535"))
        assert path is not None
        assert len(os.fsencode(path)) + len("-relay-previews") <= 107
        assert path.parent.stat().st_mode & 0o777 == 0o700
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(str(path))
        path.unlink()


def test_the_same_long_home_has_the_same_address_and_another_home_another(tmp_path: Path) -> None:
    one, other = tmp_path / ("one" * 40), tmp_path / ("two" * 40)
    assert private_address(one, "fleet") == private_address(one, "fleet") != private_address(other, "fleet")


@pytest.mark.parametrize(
    "address",
    ["tcp://127.0.0.1:7000", "tcp://[::1]:7000", "ipc://@abstract", "ipc://relative/fleet", "ws://127.0.0.1:1"],
)
def test_what_other_processes_reach_is_not_plain(address: str) -> None:
    with pytest.raises(TransportProblem, match="needs keys|absolute path"):
        check_plain(address)
    assert is_private(address) == address.startswith("ipc")


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o777, 0o1777, 0o701])
def test_a_folder_that_others_can_enter_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(TransportProblem, match="chmod 700"):
        check_plain(f"ipc://{folder}/fleet")
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    with pytest.raises(TransportProblem, match="cannot hold a private socket"):
        check_plain(f"ipc://{link}/fleet")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_cannot_connect_and_cannot_own_the_folder(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)  # the way to the home is open
    path = socket_path(private_address(tmp_path, "fleet"))
    assert path is not None
    code = "import os, socket, sys; os.setuid(65534); socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
        with pytest.raises(TransportProblem, match="listens there already"):
            refuse_taken(f"ipc://{path}")
    assert "PermissionError" in done.stderr
    refuse_taken(f"ipc://{path}")  # its process has ended
    os.chown(path.parent, 65534, -1)
    with pytest.raises(TransportProblem, match="cannot hold a private socket"):
        make_private(path.parent)
