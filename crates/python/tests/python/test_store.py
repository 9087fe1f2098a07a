"""Stores, snapshots, transactions, batches, caches."""

import gc
import subprocess
import sys
import threading
import unittest
from pathlib import Path

import silica
from support import StoreTest


class Store(StoreTest):
    def test_keyspaces(self) -> None:
        users = self.store.keyspace("users")
        users["ann"] = "blue"
        self.assertNotIn("ann", self.store)
        self.store.create_keyspace("few", "silt", partitions=16, memory_bytes="4MiB")
        self.assertEqual(self.store.keyspaces(), {"few": "silt", "users": "wip", "default": "wip"})
        with self.assertRaises(silica.ConfigError) as caught:
            self.store.create_keyspace("users", "silt")
        self.assertIn("exists already", str(caught.exception))
        self.store.drop_keyspace("users")
        self.assertRaises(silica.ClosedError, users.get, "ann")
        self.assertRaises(silica.NotFoundError, self.store.drop_keyspace, "users")

    def test_closing(self) -> None:
        users = self.store.keyspace("users")
        users["ann"] = "blue"
        walk = iter(users)
        self.assertRaises(silica.LockedError, silica.open, self.store.path)
        self.store.close()
        self.store.close()
        self.assertTrue(self.store.closed)
        for use in (lambda: users["ann"], lambda: self.store["k"], self.store.keyspaces):
            self.assertRaises(silica.ClosedError, use)
        self.assertRaises(silica.ClosedError, next, walk)
        del walk
        gc.collect()
        # The handles are still there, and the directory is free.
        with silica.open(self.store.path, read_only=True) as again:
            self.assertEqual(again.keyspace("users")["ann"], b"blue")
            self.assertRaises(silica.ReadOnlyError, again.keyspace("users").put, "a", "b")

    def test_wrong_options_are_named(self) -> None:
        with self.assertRaises(silica.ConfigError) as caught:
            silica.open(self.directory / "other", filter_bitz=3)
        self.assertIn("did you mean 'filter_bits'?", str(caught.exception))
        self.assertRaises(silica.NotFoundError, silica.open, self.directory / "none", create=False)

    def test_snapshots(self) -> None:
        self.store.update({"a": "1", "b": "2"})
        with self.store.snapshot() as before:
            self.store["a"] = "3"
            del self.store["b"]
            self.assertEqual(before["a"], b"1")
            self.assertEqual(dict(before), {b"a": b"1", b"b": b"2"})
            self.assertEqual(list(before.items()), [(b"a", b"1"), (b"b", b"2")])
            self.assertEqual(before.get_many(["b", "c"]), [b"2", None])
            self.assertEqual(list(before.range("b", keys=True)), [b"b"])
            self.assertEqual((len(before), "c" in before), (2, False))
            self.assertRaises(KeyError, lambda: before["c"])
        self.assertRaises(silica.ClosedError, before.get, "a")

    def test_transactions(self) -> None:
        self.store["ann"] = "70"
        with self.store.transaction() as transaction:
            transaction["ann"] = "60"
            transaction.put("bob", "10", ttl=100)
            mark = transaction.savepoint()
            transaction["cid"] = "1"
            self.assertEqual(list(transaction), [b"ann", b"bob", b"cid"])
            transaction.rollback_to(mark)
            self.assertNotIn("cid", transaction)
            self.assertNotIn("bob", self.store)
            self.assertRaises(KeyError, transaction.__delitem__, "cid")
        self.assertEqual(dict(self.store), {b"ann": b"60", b"bob": b"10"})
        self.assertRaises(silica.ClosedError, transaction.get, "ann")
        with self.assertRaises(ZeroDivisionError), self.store.transaction() as transaction:
            transaction["ann"] = "0"
            raise ZeroDivisionError
        self.assertEqual(self.store["ann"], b"60")
        with self.assertRaises(silica.ConflictError), self.store.transaction() as transaction:
            transaction["ann"]
            self.store["ann"] = "61"
            transaction["bob"] = "0"
        with self.store.transaction(exclusive=True) as transaction:
            self.assertRaises(
                silica.BusyError, self.store.transaction, exclusive=True, wait=0
            )
            transaction.delete_range("a", "b")
            transaction.commit()
        self.assertNotIn("ann", self.store)

    def test_a_conflict_begins_anew(self) -> None:
        self.store["count"] = "0"

        def add(transaction: silica.Transaction) -> int:
            count = int(transaction["count"]) + 1
            transaction["count"] = str(count)
            return count

        def many() -> None:
            for _ in range(50):
                self.store.transact(add, tries=1000)

        threads = [threading.Thread(target=many) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.store["count"], b"200")

    def test_batches(self) -> None:
        self.store.update({"x": "1", "y": "1", "z": "1"})
        with self.store.batch() as batch:
            batch["a"] = "1"
            batch.put("b", "2", ttl=100)
            del batch["z"]
            batch.delete_range("x", "y")
            self.assertEqual(len(batch), 4)
            self.assertNotIn("a", self.store)
        self.assertEqual(list(self.store), [b"a", b"b", b"y"])
        with self.assertRaises(ZeroDivisionError), self.store.batch() as batch:
            batch["c"] = "1"
            raise ZeroDivisionError
        self.assertNotIn("c", self.store)

    def test_backups(self) -> None:
        self.store.update({b"%d" % n: b"v" for n in range(1000)})
        first, second = self.directory / "first", self.directory / "second"
        self.assertEqual(self.store.backup(first)["keyspaces"], 1)
        self.store.backup(second, previous=first)
        self.store.clear()
        self.store.update_backup(second)
        silica.restore(first, self.directory / "restored")
        for path, entries in ((first, 1000), (second, 0), (self.directory / "restored", 1000)):
            with silica.open(path) as store:
                self.assertEqual(len(store), entries)
                store.verify()

    def test_figures(self) -> None:
        self.store["a"] = "1"
        self.assertEqual(self.store.metrics()["puts"], 1)
        self.assertIn(": ", self.store.inspect())
        self.assertEqual(self.store.count(), 1)

    def test_others_run_while_one_waits(self) -> None:
        """An exclusive transaction that waits does not hold the interpreter."""
        first = self.store.transaction(exclusive=True)
        begun = threading.Event()

        def wait() -> None:
            with self.store.transaction(exclusive=True) as second:
                begun.set()
                second["b"] = "2"

        thread = threading.Thread(target=wait)
        thread.start()
        self.assertFalse(begun.wait(0.05))
        first["a"] = "1"
        first.commit()
        thread.join()
        self.assertEqual(dict(self.store), {b"a": b"1", b"b": b"2"})

    def test_closing_waits_for_calls(self) -> None:
        stop = threading.Event()
        failures = []

        def work(number: int) -> None:
            try:
                while not stop.is_set():
                    self.store.put(b"%d" % number, b"v")
                    list(self.store.items())
            except silica.ClosedError:
                pass
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        self.store.close()
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


class Cache(unittest.TestCase):
    def test_what_it_does(self) -> None:
        cache = silica.Cache("8MiB")
        cache["a"] = "1"
        cache.put("b", "2", ttl=100)
        cache.update({"c": "3"})
        cache.put_many([("d", "4")], ttl=100)
        self.assertEqual(cache.get_many(["a", "x", "c"]), [b"1", None, b"3"])
        self.assertEqual((cache["a"], cache.get("x"), cache.get("x", 5)), (b"1", None, 5))
        self.assertTrue(cache.ttl("b") <= 100 and cache.persist("b") and cache.expire("a", 5))
        self.assertEqual(sorted(cache), [b"a", b"b", b"c", b"d"])
        del cache["a"]
        self.assertRaises(KeyError, cache.__delitem__, "a")
        cache.delete("a")
        self.assertEqual((len(cache), "a" in cache), (3, False))
        self.assertGreater(cache.metrics()["puts"], 0)
        cache.clear()
        self.assertEqual(len(cache), 0)

    def test_it_keeps_within_its_memory(self) -> None:
        cache = silica.Cache(8 << 20)
        for number in range(40):
            cache.put_many({b"%d" % (number * 1000 + n): bytes(1000) for n in range(1000)})
        self.assertGreater(cache.metrics()["evictions"], 0)
        with self.assertRaises(silica.ConfigError):
            silica.Cache(1)


class CommandLine(StoreTest):
    def test_the_wheel_brings_it_along(self) -> None:
        self.store["ann"] = "blue"
        self.store.close()
        program = Path(sys.executable).with_name("silica")
        arguments = [program, "get", "ann", "--path", self.store.path]
        said = subprocess.run(arguments, capture_output=True, text=True, check=True)
        self.assertEqual(said.stdout, "blue\n")


class Typing(unittest.TestCase):
    def test_the_stubs_are_those_of_the_extension(self) -> None:
        stubs = (Path(silica.__file__).parent / "_silica.pyi").read_text()
        for name in silica.__all__:
            self.assertIn(name, stubs)
            found = getattr(silica, name)
            methods = vars(found) if isinstance(found, type) else {}
            for method in methods:
                if not method.startswith("_"):
                    self.assertRegex(stubs, rf"def {method}\(", f"{name}.{method}")
        self.assertTrue((Path(silica.__file__).parent / "py.typed").exists())


if __name__ == "__main__":
    unittest.main()
