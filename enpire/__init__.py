"""A robot policy improves itself in a closed loop. Start reading at `enpire.loop`."""

__version__ = "0.1.0"
