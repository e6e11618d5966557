"""Six STS3215 servos of an SO-101 arm behind a serial port: Feetech's protocol 0, byte for byte, without a thread.

`FeetechPort` takes the place of `serial.Serial`, so LeRobot's driver, bus and Feetech's own SDK run unchanged above it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PING, READ, WRITE, SYNC_READ, SYNC_WRITE = 1, 2, 3, 0x82, 0x83
MODEL, OFFSET, LOWEST, HIGHEST, TORQUE, GOAL, PRESENT = 3, 31, 9, 11, 40, 42, 56
STS3215 = 777


class Servo:
    """The registers of one servo; it moves when its position is read, at most `speed` ticks at a time."""

    speed = 200

    def __init__(self, number: int, lowest: int, highest: int) -> None:
        self.registers = bytearray(256)
        self.wall: tuple[int, int] = (0, 4095)
        """Where something holds the joint, in ticks."""
        self.set(0, 3)  # firmware 3.10, the same in all
        self.registers[1] = 10
        self.registers[5] = number
        self.set(MODEL, STS3215)
        self.set(LOWEST, lowest)
        self.set(HIGHEST, highest)
        self.set(PRESENT, (lowest + highest) // 2)
        self.set(GOAL, (lowest + highest) // 2)

    def set(self, address: int, value: int) -> None:
        self.registers[address : address + 2] = value.to_bytes(2, "little")

    def get(self, address: int) -> int:
        return int.from_bytes(self.registers[address : address + 2], "little")

    def move(self) -> None:
        if self.registers[TORQUE]:
            here, goal = self.get(PRESENT), self.get(GOAL)
            there = here + max(-self.speed, min(self.speed, goal - here))
            self.set(PRESENT, max(self.wall[0], min(self.wall[1], there)))


class FeetechPort:
    """A serial port to the servos in `servos` (id -> servo); `unplugged` loses every answer."""

    servos: dict[int, Servo] = {}  # noqa: RUF012 - one arm at a time
    unplugged = False

    def __init__(self, port: str, **settings: Any) -> None:
        self.port, self._answers = port, bytearray()
        self.is_open = True

    @property
    def in_waiting(self) -> int:
        return len(self._answers)

    def read(self, size: int) -> bytes:
        found = bytes(self._answers[:size])
        del self._answers[:size]
        return found

    def write(self, packet: Any) -> int:
        sent = bytes(packet)
        assert sent[:2] == b"\xff\xff"
        assert sent[-1] == ~sum(sent[2:-1]) & 0xFF, "the checksum"
        number, instruction, values = sent[2], sent[4], sent[5:-1]
        if not self.unplugged:
            self._do(number, instruction, values)
        return len(sent)

    def flush(self) -> None: ...

    def reset_input_buffer(self) -> None:
        self._answers.clear()

    def close(self) -> None:
        self.is_open = False

    def _do(self, number: int, instruction: int, values: bytes) -> None:
        match instruction:
            case 1:
                self._answer(number, b"")
            case 2:
                self._read(number, values[0], values[1])
            case 3:
                self.servos[number].registers[values[0] : values[0] + len(values) - 1] = values[1:]
                self._answer(number, b"")
            case 0x82:
                for one in values[2:]:
                    self._read(one, values[0], values[1])
            case 0x83:
                width = values[1]
                for begin in range(2, len(values), width + 1):
                    one, data = values[begin], values[begin + 1 : begin + 1 + width]
                    self.servos[one].registers[values[0] : values[0] + width] = data
            case _:
                raise AssertionError(f"instruction {instruction}")

    def _read(self, number: int, address: int, size: int) -> None:
        servo = self.servos.get(number)
        if servo is not None:
            if address == PRESENT:
                servo.move()
            self._answer(number, bytes(servo.registers[address : address + size]))

    def _answer(self, number: int, data: bytes) -> None:
        if number in self.servos:
            body = bytes([number, len(data) + 2, 0]) + data
            self._answers += b"\xff\xff" + body + bytes([~sum(body) & 0xFF])


def write_calibration(path: Path, ranges: Mapping[str, tuple[int, int]]) -> None:
    """Write LeRobot's calibration of servos numbered from 1: joint -> lowest and highest position in ticks."""
    content = {
        joint: {"id": number, "drive_mode": 0, "homing_offset": 0, "range_min": lowest, "range_max": highest}
        for number, (joint, (lowest, highest)) in enumerate(ranges.items(), start=1)
    }
    path.write_text(json.dumps(content))
