"""CPython's own tests of its module sqlite3, on the library that LD_PRELOAD names.

They run twice: as they are, and with each database in memory put into a file, so that it is a
Silica database. What cannot hold then is listed with its reason; a test of the list that passes is
an error, too, so that the list stays true.
"""

import importlib
import itertools
import os
import shutil
import sqlite3
import sys
import tempfile
import unittest

MODULES = ["dbapi", "factory", "hooks", "regression", "transactions", "types", "userfunctions",
           "dump", "backup"]

# With its reason, if there is one again.
CANNOT_HOLD = set()


def in_files(directory):
    """Lets databases in memory be files of `directory`."""
    stock_connect, stock_class = sqlite3.connect, sqlite3.Connection
    numbers = itertools.count()

    def path(database):
        if database == ":memory:":
            return os.path.join(directory, f"{next(numbers)}.db")
        return database

    def connect(database=":memory:", *arguments, **named):
        return stock_connect(path(database), *arguments, **named)

    sqlite3.connect = sqlite3.dbapi2.connect = connect


def run(cannot_hold):
    """Runs all tests; the names of those that fail without being expected to, or the reverse."""
    suite = unittest.TestSuite()
    for name in MODULES:
        module = importlib.import_module(f"test.test_sqlite3.test_{name}")
        suite.addTests(unittest.defaultTestLoader.loadTestsFromModule(module))
    result = unittest.TextTestRunner(verbosity=0).run(suite)
    failed = {".".join(test.id().split(".")[-2:])
              for test, _ in result.failures + result.errors if hasattr(test, "id")}
    print(f"{result.testsRun} run, {len(failed)} failed, {len(result.skipped)} skipped, "
          f"SQLite {sqlite3.sqlite_version}")
    return failed ^ cannot_hold


def main():
    scratch = tempfile.mkdtemp()
    os.chdir(scratch)
    if sys.argv[1] == "in_files":
        in_files(scratch)
        wrong = run(CANNOT_HOLD)
    else:
        wrong = run(set())
    for name in sorted(wrong):
        print(f"not as expected: {name}")
    os.chdir("/")
    shutil.rmtree(scratch, ignore_errors=True)
    sys.exit(bool(wrong))


main()
