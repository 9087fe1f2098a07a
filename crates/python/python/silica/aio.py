"""Stores for asyncio: each call runs in a thread, and the event loop goes on meanwhile.

    from silica import aio

    async with await aio.open("data") as store:
        await store.put("ann", b"blue")
        async for key, value in store.range(prefix="a"):
            print(key, value)

A get of what is in memory takes a microsecond, and a thread more than that: where all of a store
is cached, call `silica` itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any, TypeVar

import silica

__all__ = ["Keyspace", "Store", "open"]

# Threads of a store: as many calls wait for the device at a time.
_THREADS = 16
# Entries that an iterator brings over at a time.
_ENTRIES = 256

_T = TypeVar("_T")


class Keyspace:
    """A keyspace whose calls are awaited. `inner` is the one that blocks."""

    def __init__(self, inner: silica.Keyspace, executor: ThreadPoolExecutor) -> None:
        self.inner = inner
        self._executor = executor

    async def run(self, work: Callable[..., _T], *arguments: Any, **named: Any) -> _T:
        """Calls `work` in one of the store's threads."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, partial(work, *arguments, **named))

    async def get(self, key: Any, default: Any = None) -> Any:
        return await self.run(self.inner.get, key, default)

    async def get_many(self, keys: Iterable[Any]) -> list[bytes | None]:
        return await self.run(self.inner.get_many, list(keys))

    async def put(self, key: Any, value: Any, **options: Any) -> None:
        await self.run(self.inner.put, key, value, **options)

    async def put_many(self, entries: Any, **options: Any) -> None:
        await self.run(self.inner.put_many, entries, **options)

    async def delete(self, key: Any, **options: Any) -> None:
        await self.run(self.inner.delete, key, **options)

    async def delete_range(self, start: Any = None, stop: Any = None) -> None:
        await self.run(self.inner.delete_range, start, stop)

    async def ttl(self, key: Any) -> float:
        return await self.run(self.inner.ttl, key)

    async def expire(self, key: Any, ttl: float) -> bool:
        return await self.run(self.inner.expire, key, ttl)

    async def count(self, exact: bool = False) -> int:
        return await self.run(self.inner.count, exact)

    async def clear(self) -> None:
        await self.run(self.inner.clear)

    async def sync(self) -> None:
        await self.run(self.inner.sync)

    async def transact(self, work: Callable[[silica.Transaction], _T], *, tries: int = 10) -> _T:
        """As `silica.Keyspace.transact`; `work` runs in a thread and must not await."""
        return await self.run(self.inner.transact, work, tries=tries)

    async def range(
        self, start: Any = None, stop: Any = None, **options: Any
    ) -> AsyncIterator[Any]:
        walk = await self.run(self.inner.range, start, stop, **options)
        while entries := await self.run(lambda: list(islice(walk, _ENTRIES))):
            for entry in entries:
                yield entry


class Store(Keyspace):
    """An open store, which is its keyspace `default` as well."""

    inner: silica.Store

    async def keyspace(self, name: str) -> Keyspace:
        return Keyspace(await self.run(self.inner.keyspace, name), self._executor)

    async def backup(self, path: Any, **options: Any) -> dict[str, int]:
        return await self.run(self.inner.backup, path, **options)

    async def close(self) -> None:
        if not self.inner.closed:
            await self.run(self.inner.close)
            self._executor.shutdown(wait=False)

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


async def open(path: Any, *, threads: int = _THREADS, **options: Any) -> Store:
    """As `silica.open`; `threads` calls may wait at a time."""
    executor = ThreadPoolExecutor(threads, thread_name_prefix="silica")
    opened = partial(silica.open, path, **options)
    try:
        inner = await asyncio.get_running_loop().run_in_executor(executor, opened)
    except BaseException:
        executor.shutdown(wait=False)
        raise
    return Store(inner, executor)
