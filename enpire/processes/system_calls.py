"""The filter of system calls of a sandbox: what an agent's process never needs, and what leads out of a sandbox.

The filter is a program for the kernel (seccomp, `man 2 seccomp`). It refuses calls by number, some by an argument, and
allows every other call. A refused call fails with an error code, so a program that can do without it continues.
"""

from __future__ import annotations

import errno
import platform
import struct
from dataclasses import dataclass

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
"""Offsets in `struct seccomp_data`: number of the call, architecture, lower halves of the first two arguments."""
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_NEW_USER = 0x10000000
"""CLONE_NEWUSER: a new user namespace, in which a process has all capabilities."""
TERMINAL = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: type into a terminal."""
FAMILIES = (1, 2, 10, 16)
"""Sockets that are allowed: Unix, IPv4, IPv6, netlink. Others, such as vsock, reach out of a network namespace."""
COMMON = (425, 426, 427, 428, 429, 430, 431, 432, 433, 438, 442, 447)
"""Numbers that are equal on all machines: io_uring, mounts by descriptor, pidfd_getfd, mount_setattr, memfd_secret."""
_CLONE3 = 435
"""Its flags lie in memory, which a filter cannot read. The C library uses clone where clone3 is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """Numbers of one kind of machine."""

    audit: int
    """Its number in `struct seccomp_data`."""
    clone: int
    ioctl: int
    socket: int
    refused: tuple[int, ...]
    """ptrace, process_vm_readv, process_vm_writev, keyctl, add_key, request_key, bpf, perf_event_open, userfaultfd,
    mount, umount2, pivot_root, chroot, setns, unshare, kexec_load, kexec_file_load, init_module, finit_module,
    delete_module, open_by_handle_at, name_to_handle_at, acct, swapon, swapoff, reboot, syslog, quotactl, kcmp,
    memfd_create, shmget: memory that no limit of a process counts; sched_setaffinity: rooms may be held to
    one core."""


_MACHINES = {
    "x86_64": _Machine(
        audit=0xC000003E, clone=56, ioctl=16, socket=41,
        refused=(
            101, 310, 311, 250, 248, 249, 321, 298, 323, 165, 166, 155, 161, 308, 272, 246, 320, 175, 313, 176, 304,
            303, 163, 167, 168, 169, 103, 179, 312, 319, 29, 203,
        ),
    ),
    "aarch64": _Machine(
        audit=0xC00000B7, clone=220, ioctl=29, socket=198,
        refused=(
            117, 270, 271, 219, 217, 218, 280, 241, 282, 40, 39, 41, 51, 268, 97, 104, 294, 105, 273, 106, 265, 264, 89,
            224, 225, 142, 116, 60, 272, 279, 194, 122,
        ),
    ),
}  # fmt: skip


def filter_program(machine: str = "") -> bytes:
    """The filter for this machine, as bubblewrap takes it; empty for a kind of machine that is not known here."""
    numbers = _MACHINES.get(machine or platform.machine())
    if numbers is None:
        return b""
    fail, missing, no_family = (_FAIL | code for code in (errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT))
    steps = [_step(_LOAD, _ARCHITECTURE), _step(_EQUAL, numbers.audit, 1, 0), _step(_RETURN, fail)]
    steps += [_step(_LOAD, _NUMBER), *_refuse(_AT_LEAST, 0x40000000, fail)]  # the calls of x32
    for number in (*numbers.refused, *COMMON):
        steps += _refuse(_EQUAL, number, fail)
    steps += _refuse(_EQUAL, _CLONE3, missing)
    steps += _with_argument(numbers.clone, _FIRST, _refuse(_ANY_BIT, _NEW_USER, fail))
    steps += _with_argument(numbers.ioctl, _SECOND, [step for call in TERMINAL for step in _refuse(_EQUAL, call, fail)])
    known = [step for family in FAMILIES for step in _refuse(_EQUAL, family, _ALLOW)]
    steps += _with_argument(numbers.socket, _FIRST, [*known, _step(_RETURN, no_family)])
    return b"".join([*steps, _step(_RETURN, _ALLOW)])


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """One instruction: `struct sock_filter`."""
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refuse(test: int, value: int, answer: int) -> list[bytes]:
    """Return `answer` if the loaded number passes the test."""
    return [_step(test, value, 0, 1), _step(_RETURN, answer)]


def _with_argument(call: int, offset: int, steps: list[bytes]) -> list[bytes]:
    """The steps for one call, which test an argument. The number of the call is loaded again after them."""
    return [_step(_EQUAL, call, 0, len(steps) + 2), _step(_LOAD, offset), *steps, _step(_LOAD, _NUMBER)]
