"""A module as those of Python's `dbm` package are, over a store in a directory.

    import shelve, silica.dbm

    silica.dbm.install()            # dbm.open and shelve.open make stores of this kind from now on
    with shelve.open("data") as shelf:
        shelf["ann"] = {"likes": "blue"}

Writes survive the process as soon as they return, and a power cut from `sync` or `close` on.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, MutableMapping
from types import TracebackType
from typing import Any

from . import ClosedError, Error, NotFoundError, ReadOnlyError
from . import open as _open_store

__all__ = ["error", "install", "open", "whichdb"]

# The file that every store has in its directory.
_CATALOG = "silica"


class error(OSError):  # noqa: N801 - the name that users of dbm know
    pass


def _bytes(what: Any) -> bytes:
    if isinstance(what, str):
        return what.encode()
    if isinstance(what, (bytes, bytearray)):
        return bytes(what)
    raise TypeError(f"keys and values are bytes or str, not {type(what).__name__}")


class _Database(MutableMapping):  # type: ignore[type-arg]
    """An open database: a mutable mapping of bytes to bytes."""

    def __init__(self, path: str, flag: str) -> None:
        try:
            self._store = _open_store(
                path, durability="buffered", create=flag != "w", read_only=flag == "r"
            )
        except NotFoundError as cause:
            raise error(2, f"no database; flag 'c' creates one: {cause}") from cause
        except Error as cause:
            raise error(str(cause)) from cause
        self._may_write = flag != "r"

    def _check(self) -> None:
        if self._store.closed:
            raise error("DBM object has already been closed")

    def _check_write(self) -> None:
        self._check()
        if not self._may_write:
            raise error("The database is opened for reading only")

    def __getitem__(self, key: Any) -> bytes:
        self._check()
        try:
            return self._store[_bytes(key)]
        except NotFoundError:
            raise KeyError(key) from None

    def __setitem__(self, key: Any, value: Any) -> None:
        self._check_write()
        try:
            self._store[_bytes(key)] = _bytes(value)
        except (ClosedError, ReadOnlyError) as cause:
            raise error(str(cause)) from cause

    def __delitem__(self, key: Any) -> None:
        self._check_write()
        del self._store[_bytes(key)]

    def __contains__(self, key: Any) -> bool:
        self._check()
        return _bytes(key) in self._store

    def __iter__(self) -> Iterator[bytes]:
        self._check()
        return iter(self._store)

    def __len__(self) -> int:
        self._check()
        return len(self._store)

    def keys(self) -> list[bytes]:  # type: ignore[override]
        self._check()
        return list(self._store)

    def setdefault(self, key: Any, default: Any = b"") -> bytes:
        if key in self:
            return self[key]
        self[key] = default
        return _bytes(default)

    def clear(self) -> None:
        self._check_write()
        self._store.clear()

    def reorganize(self) -> None:
        """Does nothing: space comes back in the background."""
        self._check_write()

    def sync(self) -> None:
        if not self._store.closed and self._may_write:
            self._store.sync()

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> _Database:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _is_store(path: str) -> bool:
    return os.path.isfile(os.path.join(path, _CATALOG))


def _remove(path: str) -> None:
    """Removes the database at `path`, and no directory of another kind."""
    if _is_store(path):
        shutil.rmtree(path)
    elif os.path.isfile(path):
        os.unlink(path)
    elif os.path.isdir(path) and os.listdir(path):
        raise error(f"{path} is a directory and no database; give another name")


def open(file: Any, flag: str = "r", mode: int = 0o666) -> _Database:
    """Opens a database: 'r' to read, 'w' to write, 'c' to make it if missing, 'n' a new one."""
    if flag not in ("r", "w", "c", "n"):
        raise ValueError("Flag must be one of 'r', 'w', 'c', or 'n'")
    path = os.fsdecode(file)
    if flag == "n":
        _remove(path)
    is_new = not os.path.isdir(path)
    if flag in "cn" and is_new:
        umask = os.umask(0)
        os.umask(umask)
        # A directory is entered by those who may read it.
        entered = mode | (mode & 0o444) >> 2
        os.makedirs(path, stat.S_IMODE(entered) & ~umask)
    elif flag in "rw" and not _is_store(path):
        raise error(2, f"{path} is no database; flag 'c' creates one")
    return _Database(path, flag)


def whichdb(file: Any) -> str | None:
    """As `dbm.whichdb`, which does not know of this module."""
    path = os.fsdecode(file)
    if _is_store(path):
        return __name__
    whichdb = _whichdb_of_python
    return whichdb(path) if whichdb else None


_whichdb_of_python: Any = None


def install() -> None:
    """Makes `dbm.open`, and so `shelve.open`, create databases of this kind and find them."""
    import dbm
    import sys

    global _whichdb_of_python
    if _whichdb_of_python is not None:
        return
    _whichdb_of_python = dbm.whichdb
    setattr(dbm, "whichdb", whichdb)
    names: list[str] = dbm._names  # type: ignore[attr-defined]
    names.insert(0, __name__)
    dbm._modules[__name__] = sys.modules[__name__]  # type: ignore[attr-defined]
    dbm._defaultmod = sys.modules[__name__]  # type: ignore[attr-defined]
    dbm.error = (*dbm.error, error)  # type: ignore[assignment]
