"""Silica, a key-value store in a directory.

    import silica

    with silica.open("data") as store:
        store["ann"] = b"blue"
        users = store.keyspace("users")
        users.put("bob", b"red", ttl=60)
        for key, value in users.range(prefix="b"):
            print(key, value)

Keys and values are bytes. A str is taken for its UTF-8 bytes; what comes back is always bytes.
"""

from __future__ import annotations

import sysconfig
from collections.abc import (
    Callable,
    ItemsView,
    Iterator,
    KeysView,
    Mapping,
    MutableMapping,
    ValuesView,
)
from itertools import islice
from typing import Any, TypeVar

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise ImportError(
        "silica's wheels are for Python with its global lock; run it with the usual interpreter "
        "(python3 instead of python3t)"
    )

from ._silica import (
    Batch,
    BusyError,
    Cache,
    ClosedError,
    ConfigError,
    ConflictError,
    CorruptionError,
    Error,
    FullError,
    IoError,
    Keyspace,
    LockedError,
    NotFoundError,
    PoisonedError,
    ReadOnlyError,
    Snapshot,
    Store,
    TooLargeError,
    Transaction,
    UnsupportedError,
    Walk,
    __version__,
    open,
    restore,
)

__all__ = [
    "Batch",
    "BusyError",
    "Cache",
    "ClosedError",
    "ConfigError",
    "ConflictError",
    "CorruptionError",
    "Error",
    "FullError",
    "IoError",
    "Keyspace",
    "LockedError",
    "NotFoundError",
    "PoisonedError",
    "ReadOnlyError",
    "Snapshot",
    "Store",
    "TooLargeError",
    "Transaction",
    "UnsupportedError",
    "Walk",
    "__version__",
    "open",
    "restore",
]

# Entries of one batch of `update`.
_UPDATE_ENTRIES = 1024

_T = TypeVar("_T")


class _Keys(KeysView[bytes]):
    _mapping: Any

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._mapping)

    def __reversed__(self) -> Iterator[bytes]:
        keys: Iterator[bytes] = self._mapping.range(reverse=True, keys=True)
        return keys


class _Values(ValuesView[bytes]):
    _mapping: Any

    def __iter__(self) -> Iterator[bytes]:
        values: Iterator[bytes] = self._mapping._walk("values")
        return values


class _Items(ItemsView[bytes, bytes]):
    _mapping: Any

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        items: Iterator[tuple[bytes, bytes]] = self._mapping._walk("items")
        return items

    def __reversed__(self) -> Iterator[tuple[bytes, bytes]]:
        items: Iterator[tuple[bytes, bytes]] = self._mapping.range(reverse=True)
        return items


def _update(self: Any, entries: Any = (), /, **more: Any) -> None:
    """Puts all entries, in batches of 1024; each batch is one step."""
    for source in (entries, more):
        pairs = iter(source.items() if hasattr(source, "items") else source)
        while batch := list(islice(pairs, _UPDATE_ENTRIES)):
            self.put_many(batch)


def _equal(self: Any, other: object) -> Any:
    if self is other:
        return True
    if not isinstance(other, Mapping):
        return NotImplemented
    if len(self) != len(other):
        return False
    return all(key in other and other[key] == value for key, value in self.items())


def _transact(self: Keyspace, work: Callable[[Transaction], _T], *, tries: int = 10) -> _T:
    """Calls `work` with a transaction and commits it; begins anew after a conflict."""
    for _ in range(tries - 1):
        try:
            with self.transaction() as transaction:
                return work(transaction)
        except ConflictError:
            pass
    with self.transaction() as transaction:
        return work(transaction)


def _add_mapping_methods() -> None:
    """Gives the classes of the extension what `collections.abc` makes of their methods."""
    for class_ in (Keyspace, Snapshot):
        setattr(class_, "keys", lambda self: _Keys(self))
        setattr(class_, "values", lambda self: _Values(self))
        setattr(class_, "items", lambda self: _Items(self))
        setattr(class_, "__eq__", _equal)
        setattr(class_, "__hash__", None)
    setattr(Keyspace, "popitem", MutableMapping.popitem)
    setattr(Keyspace, "transact", _transact)
    setattr(Keyspace, "update", _update)
    setattr(Cache, "update", _update)
    MutableMapping.register(Keyspace)
    Mapping.register(Snapshot)


_add_mapping_methods()
