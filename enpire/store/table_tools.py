"""sqlite_utils, imported when it is needed, and without pandas."""

from __future__ import annotations

import sqlite3
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlite_utils import Database


def database(connection: sqlite3.Connection) -> Database:
    """The tables of a connection.

    sqlite_utils imports pandas wherever it is installed, for a column type that no table here has. That import takes
    longer than everything else that a page imports. None in `sys.modules` is how Python says that a module is missing.
    """
    if "pandas" in sys.modules or "sqlite_utils" in sys.modules:
        from sqlite_utils import Database
    else:
        sys.modules["pandas"] = None  # pyright: ignore[reportArgumentType]
        try:
            from sqlite_utils import Database
        finally:
            del sys.modules["pandas"]
    return Database(connection, execute_plugins=False)
