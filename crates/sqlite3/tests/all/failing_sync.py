"""A sync that fails, on the library that LD_PRELOAD names: the commit is an error, and so is every
later write until the database is opened again, as what the device has is not known."""

import os
import sqlite3
import sys

path, switch = os.path.join(sys.argv[1], "app.db"), os.environ["FAILING_SYNC"]
assert sqlite3.sqlite_version == "3.54.1"
connection = sqlite3.connect(path, isolation_level=None)
connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
connection.execute("INSERT INTO t VALUES (1)")


def refused(statement):
    try:
        connection.execute(statement)
    except sqlite3.OperationalError as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        return error.sqlite_errorname
    return None


open(switch, "w").close()
assert refused("INSERT INTO t VALUES (2)") == "SQLITE_IOERR_FSYNC"
os.remove(switch)
for statement in ("INSERT INTO t VALUES (3)", "DELETE FROM t", "CREATE TABLE u (x)"):
    error = refused(statement)
    assert error and error.startswith("SQLITE_IOERR"), (statement, error)
connection.close()
connection = sqlite3.connect(path, isolation_level=None)
rows = [row[0] for row in connection.execute("SELECT a FROM t ORDER BY a")]
assert rows in ([1], [1, 2]), rows
assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
connection.execute("INSERT INTO t VALUES (4)")
print("failing sync: passed")
