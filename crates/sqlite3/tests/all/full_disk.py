"""A disk of 24 MB that gets full amid transactions, on the library that LD_PRELOAD names.

Each transaction that is refused is gone, all others are there, and deletes make room again.
"""

import os
import sqlite3
import sys

path = os.path.join(sys.argv[1], "app.db")
# Three fifths of the disk, in batches of 100 KB.
ROOM = 144
connection = sqlite3.connect(f"file:{path}?memory_bytes=1MiB", uri=True, isolation_level=None)
assert sqlite3.sqlite_version == "3.54.1" and connection.execute("SELECT 1").fetchone()
connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, batch INTEGER, b BLOB)")
connection.execute("CREATE INDEX i ON t (batch)")


def fill(batch):
    """Adds 50 rows of 2 KB in one transaction; the name of the error if it is refused."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        for _ in range(50):
            connection.execute("INSERT INTO t (batch, b) VALUES (?, randomblob(2000))", (batch,))
        connection.execute("COMMIT")
        return None
    except sqlite3.OperationalError as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        return error.sqlite_errorname


def batches():
    rows = connection.execute("SELECT batch, count(*) FROM t GROUP BY batch").fetchall()
    assert all(count == 50 for _, count in rows), rows
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return {batch for batch, _ in rows}


there, refused = set(), 0
for batch in range(400):
    error = fill(batch)
    if error is None:
        there.add(batch)
    else:
        assert error == "SQLITE_FULL", error
        refused += 1
        if refused == 20:
            break
assert refused == 20 and len(there) > ROOM, (refused, len(there))
assert batches() == there
connection.execute("DELETE FROM t WHERE batch % 4 <> 0")
connection.execute("VACUUM")
there = {batch for batch in there if batch % 4 == 0}
assert batches() == there
made_room = sum(fill(batch) is None for batch in range(1000, 1020))
assert made_room == 20, made_room
connection.close()
connection = sqlite3.connect(f"file:{path}?memory_bytes=1MiB", uri=True, isolation_level=None)
assert batches() == there | set(range(1000, 1020))
# All rows go in one step; the space of a table is there for the next rows at once.
room = []
for round in range(3):
    connection.execute("DELETE FROM t")
    room.append(next(n for n in range(400) if fill(n) is not None))
assert min(room) > ROOM, room
connection.execute("DELETE FROM t")
print(f"full disk: passed, {len(there)} batches, after deletes {room}")
