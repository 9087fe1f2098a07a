"""CPython's own tests of dbm and shelve, on `silica.dbm`."""

import dbm
import os
import pickle
import shelve
import tempfile
import unittest
from pathlib import Path

import silica.dbm

try:
    from test import mapping_tests, test_dbm, test_shelve
except ImportError:
    print("left out: this Python has no tests of its own (Debian: libpython3-testsuite)")
else:
    # Their classes for the modules of the standard library were made at the import.
    class SilicaDbm(test_dbm.AnyDBMTestCase, unittest.TestCase):
        module = silica.dbm

    for _protocol in (0, pickle.HIGHEST_PROTOCOL):
        _name = f"SilicaShelve{_protocol}"
        globals()[_name] = type(
            _name,
            (test_shelve.TestShelveFileBase, mapping_tests.BasicTestMappingProtocol),
            {"dbm_mod": silica.dbm, "_args": {"protocol": _protocol}},
        )

    Shelves = test_shelve.TestCase

silica.dbm.install()


class Ours(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "data")

    def test_shelve_makes_ours(self) -> None:
        with shelve.open(self.path) as shelf:
            shelf["ann"] = {"likes": "blue"}
        self.assertEqual(dbm.whichdb(self.path), "silica.dbm")
        with shelve.open(self.path, "r") as shelf:
            self.assertEqual(shelf["ann"], {"likes": "blue"})
        with dbm.open(self.path, "n") as database:
            self.assertEqual(list(database.keys()), [])

    def test_what_is_no_database_stays(self) -> None:
        Path(self.path).mkdir()
        (Path(self.path) / "letter").write_text("dear")
        self.assertRaises(silica.dbm.error, silica.dbm.open, self.path, "n")
        self.assertTrue((Path(self.path) / "letter").exists())
        self.assertRaises(silica.dbm.error, silica.dbm.open, self.path)
        self.assertRaises(ValueError, silica.dbm.open, self.path, "x")

    def test_a_reader_writes_nothing(self) -> None:
        with silica.dbm.open(self.path, "c") as database:
            database["a"] = "1"
            self.assertEqual(database.setdefault("b"), b"")
            database.sync()
        with silica.dbm.open(self.path, "r") as database:
            self.assertEqual(database[b"a"], b"1")
            for refused in (lambda: database.__setitem__("a", "2"), database.clear):
                self.assertRaises(silica.dbm.error, refused)
        for use in (lambda: database["a"], lambda: len(database), lambda: list(database)):
            self.assertRaises(silica.dbm.error, use)


if __name__ == "__main__":
    unittest.main()
