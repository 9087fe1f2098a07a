"""Stores for asyncio."""

import asyncio
import tempfile
import unittest

import silica
from silica import aio


class Async(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = directory.name
        options = {"durability": "buffered", "memory_bytes": "16MiB"}
        self.store = await aio.open(directory.name, **options)
        self.addAsyncCleanup(self.store.close)

    async def test_calls(self) -> None:
        store = self.store
        await asyncio.gather(*(store.put(b"%04d" % n, b"v") for n in range(1000)))
        self.assertEqual(await store.count(True), 1000)
        self.assertEqual(await store.get("0007"), b"v")
        self.assertEqual(await store.get("x", 5), 5)
        self.assertEqual(await store.get_many(["0001", "x"]), [b"v", None])
        entries = [key async for key in store.range("0100", "0500", keys=True)]
        self.assertEqual(entries, [b"%04d" % n for n in range(100, 500)])
        await store.delete("0007")
        await store.delete_range("0008", None)
        self.assertEqual(await store.count(True), 7)
        await store.put_many({"a": "1"}, ttl=100, durability="synced")
        await store.put("b", "1", durability="synced")
        await store.delete("b", durability="synced")
        self.assertTrue(await store.ttl("a") <= 100 and await store.expire("a", 5))
        users = await store.keyspace("users")
        await users.put("ann", "blue")
        await users.sync()
        await store.clear()
        self.assertEqual(await users.get("ann"), b"blue")

    async def test_transactions(self) -> None:
        await self.store.put("count", "0")

        def add(transaction: silica.Transaction) -> None:
            transaction["count"] = str(int(transaction["count"]) + 1)

        await asyncio.gather(*(self.store.transact(add, tries=1000) for _ in range(100)))
        self.assertEqual(await self.store.get("count"), b"100")

    async def test_the_loop_goes_on(self) -> None:
        first = self.store.inner.transaction(exclusive=True)
        second = asyncio.create_task(
            self.store.run(lambda: self.store.inner.transaction(exclusive=True).rollback())
        )
        await asyncio.sleep(0.05)
        self.assertFalse(second.done())
        first.rollback()
        await second

    async def test_with(self) -> None:
        await self.store.close()
        async with await aio.open(self.path) as store:
            await store.put("a", "1")
        self.assertTrue(store.inner.closed)


if __name__ == "__main__":
    unittest.main()
