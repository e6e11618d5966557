"""The numbers of a campaign in other trackers."""

from __future__ import annotations

from enpire.sinks.sink import PROJECT, SINKS, Following, follow

__all__ = ["PROJECT", "SINKS", "Following", "follow"]
