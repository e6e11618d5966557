"""All attacks of the cheat suite, by their numbers in docs/honesty.md."""

from __future__ import annotations

from enpire.honesty import of_code, of_records, of_success

CHEATS = tuple(sorted((*of_code.CHEATS, *of_success.CHEATS, *of_records.CHEATS), key=lambda one: one.number))
