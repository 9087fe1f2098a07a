"""SQL databases in Silica's storage, by Python's own `sqlite3`, which is a DB-API 2.0 module.

    from silica import sqlite

    with sqlite.connect("app.db") as db:
        db.execute("CREATE TABLE users (name PRIMARY KEY, likes)")

All names are those of `sqlite3`; only the library of SQLite below it is another one, that of this
package. A process has one such library, so import this before anything imports `sqlite3`; from
then on that module is the same.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

# The library, also for programs that load it by themselves (LD_PRELOAD).
LIBRARY = Path(
    os.environ.get("SILICA_SQLITE_LIBRARY") or Path(__file__).with_name("libsqlite3.so.0")
)


def _load() -> None:
    # Python's extension binds to the first library that the whole process sees.
    if "_sqlite3" not in sys.modules:
        try:
            ctypes.CDLL(os.fspath(LIBRARY), mode=os.RTLD_GLOBAL | os.RTLD_NOW)
        except OSError as error:
            raise ImportError(f"the library of SQLite with Silica's storage: {error}") from None


def _must_be_ours() -> None:
    import sqlite3

    look = "SELECT count(*) FROM pragma_module_list WHERE name = 'silica_keyspace'"
    connection = sqlite3.connect(":memory:")
    try:
        (count,) = connection.execute(look).fetchone()
    finally:
        connection.close()
    if not count:
        raise ImportError(
            f"sqlite3 has another library here ({sqlite3.sqlite_version}): import silica.sqlite"
            " before sqlite3, or start the program by `silica sql run`; a Python that has SQLite"
            " built in cannot use another one"
        )


_load()
_must_be_ours()

from sqlite3 import *  # noqa: E402, F403
