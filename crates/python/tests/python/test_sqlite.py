"""Python's sqlite3 on Silica's storage: each test in a process, which has one library of SQLite."""

import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path


class Sqlite(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name)

    def run_in_process(self, program: str) -> str:
        command = [sys.executable, "-B", "-W", "error", "-c", textwrap.dedent(program)]
        done = subprocess.run(command, cwd=self.path, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_what_db_api_says(self) -> None:
        self.run_in_process(
            """
            from silica import sqlite
            assert (sqlite.apilevel, sqlite.paramstyle) == ("2.0", "qmark")
            db = sqlite.connect("app.db")
            cursor = db.cursor()
            cursor.execute("CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT UNIQUE, seen BLOB)")
            cursor.executemany("INSERT INTO users (name, seen) VALUES (?, ?)",
                               [("ann", b"1"), ("bob", None)])
            assert cursor.rowcount == 2
            db.commit()
            cursor.execute("INSERT INTO users (name) VALUES (:name)", {"name": "cid"})
            assert cursor.lastrowid == 3
            db.rollback()
            cursor.execute("SELECT name, seen FROM users ORDER BY name")
            assert [column[0] for column in cursor.description] == ["name", "seen"]
            assert cursor.fetchone() == ("ann", b"1")
            assert cursor.fetchmany(5) == [("bob", None)] and cursor.fetchall() == []
            try:
                db.execute("INSERT INTO users (name) VALUES ('ann')")
            except sqlite.IntegrityError:
                pass
            else:
                raise AssertionError("a name that is there twice")
            db.row_factory = sqlite.Row
            with db:
                db.execute("UPDATE users SET name = 'eve' WHERE name = 'bob'")
            assert db.execute("SELECT * FROM users WHERE id = 2").fetchone()["name"] == "eve"
            db.close()
            """
        )
        # The next process finds it, in Silica's storage.
        self.assertTrue((self.path / "app.db-silica").is_dir())
        said = self.run_in_process(
            """
            import silica.sqlite
            import sqlite3
            assert sqlite3.connect is silica.sqlite.connect
            db = sqlite3.connect("app.db")
            print(db.execute("SELECT count(*) FROM users").fetchone()[0])
            db.close()
            """
        )
        self.assertEqual(said, "2\n")

    def test_a_process_that_has_another_library_is_told(self) -> None:
        said = self.run_in_process(
            """
            import sqlite3
            try:
                import silica.sqlite
            except ImportError as error:
                print(error)
            """
        )
        self.assertIn("import silica.sqlite before sqlite3", said)

    def test_a_library_that_is_missing_is_named(self) -> None:
        said = self.run_in_process(
            """
            import os
            os.environ["SILICA_SQLITE_LIBRARY"] = "/nowhere/libsqlite3.so.0"
            try:
                import silica.sqlite
            except ImportError as error:
                print(error)
            """
        )
        self.assertIn("/nowhere/libsqlite3.so.0", said)


if __name__ == "__main__":
    unittest.main()
