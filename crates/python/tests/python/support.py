"""What the tests share."""

import tempfile
import unittest
from pathlib import Path
from typing import Any

import silica


class StoreTest(unittest.TestCase):
    """A test with a store, which is there as `self.store`."""

    options: dict[str, Any] = {"memory_bytes": "16MiB", "durability": "buffered"}

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.store = silica.open(self.directory / "store", **self.options)
        self.addCleanup(self.store.close)
