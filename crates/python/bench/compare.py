"""Silica beside the modules lmdb and rocksdict: gets and puts of 100 bytes, equal durability.

    pip install lmdb rocksdict
    python compare.py [ENTRIES] [DIRECTORY]

Every store has the same keys in the same random order. Times are the best of several rounds in
which the stores take turns. `buffered` is without a sync of any store; `synced` waits for the
device at each put; `batch` is 1,000 puts in one step, without a sync.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import lmdb
import rocksdict
import silica

ROUNDS = 5
SYNCED_PUTS_MAX = 200
BATCH = 1000
VALUE = bytes(range(100))


class Silica:
    def __init__(self, path: Path, synced: bool) -> None:
        self.store = silica.open(path, durability="synced" if synced else "buffered")

    def gets(self, keys: list[bytes]) -> None:
        get = self.store.get
        for key in keys:
            get(key)

    def puts(self, keys: list[bytes]) -> None:
        store = self.store
        for key in keys:
            store[key] = VALUE

    def batches(self, keys: list[bytes]) -> None:
        for at in range(0, len(keys), BATCH):
            self.store.put_many([(key, VALUE) for key in keys[at : at + BATCH]])

    def walk(self) -> int:
        return sum(1 for _ in self.store.items())

    def close(self) -> None:
        self.store.close()


class Lmdb:
    def __init__(self, path: Path, synced: bool) -> None:
        self.store = lmdb.open(str(path), map_size=8 << 30, sync=synced, metasync=synced)

    def gets(self, keys: list[bytes]) -> None:
        with self.store.begin() as transaction:
            get = transaction.get
            for key in keys:
                get(key)

    def puts(self, keys: list[bytes]) -> None:
        for key in keys:
            with self.store.begin(write=True) as transaction:
                transaction.put(key, VALUE)

    def batches(self, keys: list[bytes]) -> None:
        for at in range(0, len(keys), BATCH):
            with self.store.begin(write=True) as transaction:
                for key in keys[at : at + BATCH]:
                    transaction.put(key, VALUE)

    def walk(self) -> int:
        with self.store.begin() as transaction:
            return sum(1 for _ in transaction.cursor())

    def close(self) -> None:
        self.store.close()


class Rocksdict:
    def __init__(self, path: Path, synced: bool) -> None:
        self.store = rocksdict.Rdict(str(path), rocksdict.Options(raw_mode=True))
        options = rocksdict.WriteOptions()
        options.sync = synced
        self.store.set_write_options(options)

    def gets(self, keys: list[bytes]) -> None:
        get = self.store.get
        for key in keys:
            get(key)

    def puts(self, keys: list[bytes]) -> None:
        store = self.store
        for key in keys:
            store[key] = VALUE

    def batches(self, keys: list[bytes]) -> None:
        for at in range(0, len(keys), BATCH):
            batch = rocksdict.WriteBatch(raw_mode=True)
            for key in keys[at : at + BATCH]:
                batch.put(key, VALUE)
            self.store.write(batch)

    def walk(self) -> int:
        return sum(1 for _ in self.store.items())

    def close(self) -> None:
        self.store.close()


STORES = {"silica": Silica, "lmdb": Lmdb, "rocksdict": Rocksdict}


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def measure(entries: int, directory: Path) -> dict[str, dict[str, float]]:
    """Entries a second of each work, by store."""
    shuffled = random.Random(7)
    keys = [b"key %012d" % n for n in range(entries)]
    shuffled.shuffle(keys)
    synced_keys = keys[: min(SYNCED_PUTS_MAX, max(1, entries // 100))]
    best: dict[str, dict[str, float]] = {}

    def note(work: str, store: str, count: int, took: float) -> None:
        rates = best.setdefault(work, {})
        rates[store] = max(rates.get(store, 0.0), count / took)

    for _ in range(ROUNDS):
        for name, kind in STORES.items():
            for synced in (True, False):
                shutil.rmtree(directory, ignore_errors=True)
                directory.mkdir(parents=True)
                store = kind(directory / "store", synced)
                if synced:
                    took = seconds(lambda: store.puts(synced_keys))
                    note("puts, synced", name, len(synced_keys), took)
                    store.close()
                    continue
                note("puts, buffered", name, entries, seconds(lambda: store.puts(keys)))
                shuffled.shuffle(keys)
                note("gets, cached", name, entries, seconds(lambda: store.gets(keys)))
                note("walk", name, entries, seconds(store.walk))
                assert store.walk() == entries
                note("puts, batch", name, entries, seconds(lambda: store.batches(keys)))
                store.close()
    return best


def main() -> None:
    entries = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as directory:
        best = measure(entries, Path(directory) / "run")
    print(f"entries a second, {entries} entries of 16 + 100 bytes, best of {ROUNDS} rounds")
    print(f"| {'':15} | " + " | ".join(f"{name:>10}" for name in STORES) + " |")
    for work, rates in best.items():
        print(f"| {work:15} | " + " | ".join(f"{rates[name]:>10,.0f}" for name in STORES) + " |")


if __name__ == "__main__":
    main()
