"""Keyspaces are mappings."""

import collections.abc
import math
import time
import unittest
from array import array

import silica
from support import StoreTest


class Mapping(StoreTest):
    def test_what_a_dict_does(self) -> None:
        model: dict[bytes, bytes] = {}
        for mapping in (self.store, model):
            mapping[b"ann"] = b"blue"
            mapping[b"bob"] = b"red"
            mapping.update({b"cid": b"green"})
            mapping.update([(b"dan", b"white"), (b"eve", b"black")])
            self.assertEqual(mapping[b"ann"], b"blue")
            self.assertEqual(mapping.get(b"zoe"), None)
            self.assertEqual(mapping.get(b"zoe", 7), 7)
            self.assertRaises(KeyError, lambda m=mapping: m[b"zoe"])
            self.assertIn(b"bob", mapping)
            self.assertNotIn(b"zoe", mapping)
            del mapping[b"bob"]
            with self.assertRaises(KeyError) as caught:
                del mapping[b"bob"]
            self.assertEqual(caught.exception.args, (b"bob",))
            self.assertEqual(mapping.pop(b"cid"), b"green")
            self.assertEqual(mapping.pop(b"cid", None), None)
            self.assertRaises(KeyError, mapping.pop, b"cid")
            self.assertEqual(mapping.setdefault(b"ann", b"other"), b"blue")
            self.assertEqual(mapping.setdefault(b"fay", b"grey"), b"grey")
            self.assertEqual(len(mapping), 4)
            self.assertTrue(mapping)
        self.assertEqual(self.store, model)
        self.assertNotEqual(self.store, {b"ann": b"blue"})
        self.assertEqual(dict(self.store), model)
        self.assertEqual(list(self.store), sorted(model))
        self.assertEqual(list(self.store.keys()), sorted(model))
        self.assertEqual(list(self.store.items()), sorted(model.items()))
        self.assertEqual(list(self.store.values()), [model[key] for key in sorted(model)])
        self.assertEqual(list(reversed(self.store.keys())), sorted(model, reverse=True))
        self.assertIn((b"ann", b"blue"), self.store.items())
        self.assertEqual(self.store.keys() & {b"ann", b"zoe"}, {b"ann"})
        self.assertEqual(self.store.popitem()[0], b"ann")
        self.store.clear()
        self.assertFalse(self.store)
        self.assertEqual(len(self.store), 0)
        self.assertRaises(KeyError, self.store.popitem)

    def test_it_is_registered(self) -> None:
        self.assertIsInstance(self.store, collections.abc.MutableMapping)
        self.assertIsInstance(self.store.snapshot(), collections.abc.Mapping)

    def test_bytes_of_all_kinds(self) -> None:
        kinds = [b"k", "k", bytearray(b"k"), memoryview(b"k"), array("B", b"k")]
        for number, key in enumerate(kinds):
            self.store[key] = str(number)
            self.assertEqual(self.store[b"k"], str(number).encode())
        self.store["gr\u00fcn"] = memoryview(b"0123456789")[::2]
        self.assertEqual(self.store["gr\u00fcn".encode()], b"02468")
        self.store[b""] = b""
        self.assertEqual(self.store[b""], b"")
        self.assertIs(type(self.store[b"k"]), bytes)
        for wrong in (1, None, 1.5, ["k"]):
            with self.assertRaises(TypeError) as caught:
                self.store[wrong] = b"v"
            self.assertIn("bytes, str or a buffer", str(caught.exception))

    def test_many_entries_come_in_pieces(self) -> None:
        model = {b"%06d" % n: b"v%d" % n for n in range(5000)}
        self.store.update(model)
        self.assertEqual(list(self.store.items()), sorted(model.items()))
        walk = self.store.range("002", "003")
        self.assertEqual(len(list(walk)), 1000)
        self.assertEqual(list(walk), [])
        backwards = self.store.range(prefix="0040", reverse=True, keys=True)
        self.assertEqual(list(backwards), [b"%06d" % n for n in range(4099, 3999, -1)])
        self.assertRaises(ValueError, self.store.range, "a", prefix="b")
        self.store.delete_range("001", None)
        self.assertEqual(len(self.store), 1000)
        self.assertEqual(self.store.get_many(["000007", "x"]), [b"v7", None])
        large = {b"large%d" % n: bytes(300_000) for n in range(20)}
        self.store.update(large)
        self.assertEqual(dict(self.store.range(prefix="large")), large)

    def test_times_to_live(self) -> None:
        self.store.put("a", "1", ttl=100)
        self.assertTrue(99 < self.store.ttl("a") <= 100)
        self.assertTrue(self.store.persist("a"))
        self.assertEqual(self.store.ttl("a"), math.inf)
        self.assertFalse(self.store.persist("a"))
        self.assertTrue(self.store.expire("a", 0.01))
        time.sleep(0.03)
        self.assertNotIn("a", self.store)
        self.assertRaises(KeyError, self.store.ttl, "a")
        self.assertFalse(self.store.expire("a", 5))
        for wrong in (-1, math.nan, math.inf):
            self.assertRaises(ValueError, self.store.put, "a", "1", ttl=wrong)
        self.assertRaises(silica.ConfigError, self.store.put, "a", "1", ttl=0)
        self.store.put_many({"b": "2"}, ttl=100)
        self.assertLess(self.store.ttl("b"), 101)

    def test_durability_is_a_word(self) -> None:
        self.store.put("a", "1", durability="synced")
        self.store.delete("a", durability="buffered")
        self.store.put_many({"b": "1", "c": "2"}, durability="synced")
        with self.store.batch(durability="synced") as batch:
            batch["d"] = "3"
            del batch["b"]
        transaction = self.store.transaction()
        transaction["e"] = "4"
        transaction.commit(durability="synced")
        self.assertEqual(dict(self.store), {b"c": b"2", b"d": b"3", b"e": b"4"})
        self.assertRaises(ValueError, self.store.put_many, {}, durability="maybe")
        self.assertRaises(ValueError, self.store.batch, durability="maybe")
        self.assertRaises(ValueError, self.store.put, "a", "1", durability="maybe")

    def test_hashed_keyspaces(self) -> None:
        cache = self.store.create_keyspace("hot", "mica", memory_bytes="4MiB")
        cache.update({b"%d" % n: b"v" for n in range(1000)})
        self.assertEqual(sorted(cache), sorted(b"%d" % n for n in range(1000)))
        self.assertEqual(cache.engine, "mica")
        for refused in (cache.snapshot, cache.transaction, cache.range):
            with self.assertRaises(silica.UnsupportedError) as caught:
                refused()
            self.assertIn("keeps no order", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
