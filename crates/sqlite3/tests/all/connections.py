"""What connections to one database do to each other, on the library that LD_PRELOAD names; each
part on SQLite's storage first, whose answers ours has to give.
"""

import os
import sqlite3
import sys


def everything(connection):
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")
    names = [name for (name,) in tables.fetchall()]
    rows = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in names}
    return rows, connection.execute("PRAGMA integrity_check").fetchall()


def a_backup_has_what_others_created(connect):
    """The source knows the schema of before."""
    source, other, target = connect("source"), connect("source"), connect("target")
    source.execute("CREATE TABLE one (x UNIQUE)")
    source.execute("INSERT INTO one VALUES ('a')")
    source.execute("SELECT * FROM one").fetchall()
    other.execute("CREATE TABLE two (y UNIQUE)")
    other.execute("INSERT INTO two VALUES ('b')")
    source.backup(target)
    return everything(target)


def a_backup_of_nothing_leaves_nothing(connect):
    target = connect("target")
    target.execute("CREATE TABLE one (x)")
    sqlite3.connect(":memory:").backup(target)
    return everything(target)


def a_connection_closes_after_its_virtual_table_merged(connect):
    """A build with assertions says so if memory is left."""
    connection = connect("words")
    connection.execute("CREATE VIRTUAL TABLE words USING fts4()")
    for _ in range(40):
        connection.execute("INSERT INTO words (content) VALUES ('one')")
    found = connection.execute("SELECT count(*) FROM words WHERE words MATCH 'one'").fetchall()
    connection.close()
    return found


def a_trigger_does_not_take_the_row_of_its_statement(connect):
    connection = connect("pinned")
    connection.executescript(
        """PRAGMA recursive_triggers = true;
        CREATE TABLE t (a UNIQUE, b UNIQUE);
        CREATE TRIGGER gone AFTER DELETE ON t BEGIN DELETE FROM t; END;
        INSERT INTO t VALUES (1, NULL), (0, NULL);"""
    )
    try:
        connection.execute("UPDATE OR REPLACE t SET b = 1")
        return "done"
    except sqlite3.IntegrityError as error:
        return str(error), everything(connection)


for part in [
    a_backup_has_what_others_created,
    a_backup_of_nothing_leaves_nothing,
    a_connection_closes_after_its_virtual_table_merged,
    a_trigger_does_not_take_the_row_of_its_statement,
]:
    answers = []
    for storage in ["sqlite", "silica"]:
        os.environ["SILICA_SQL_STORAGE"] = storage
        directory = os.path.join(sys.argv[1], f"{part.__name__}-{storage}")
        os.mkdir(directory)

        def connect(name):
            return sqlite3.connect(os.path.join(directory, name), isolation_level=None)

        answers.append(part(connect))
        stores = [name for name in os.listdir(directory) if name.endswith("-silica")]
        assert bool(stores) == (storage == "silica"), stores
    assert answers[0] == answers[1], (part.__name__, answers)
print("connections: passed")
