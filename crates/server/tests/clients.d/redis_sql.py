"""SQL with redis-py on a server of an empty store, whose port is the only argument."""

import sys

import redis

r = redis.Redis(port=int(sys.argv[1]), decode_responses=True, socket_timeout=20)


def sql(statement, *arguments):
    return r.execute_command("SILICA.SQL", "shop", statement, *arguments)


assert sql("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, price REAL)") == 0
with r.pipeline(transaction=False) as pipe:
    for n in range(100):
        insert = "INSERT INTO items (name, price) VALUES (?1, ?2)"
        pipe.execute_command("SILICA.SQL", "shop", insert, f"item {n}", n / 4)
    assert pipe.execute() == [1] * 100
rows = sql("SELECT name, price FROM items WHERE price >= ?1 ORDER BY id", 24.5)
assert rows == [["item 98", "24.5"], ["item 99", "24.75"]], rows

# Statements of one client share a transaction; another one sees it when it is committed.
other = redis.Redis(port=int(sys.argv[1]), decode_responses=True, socket_timeout=20)
count = "SELECT count(*) FROM items"
with r.client() as one:
    one.execute_command("SILICA.SQL", "shop", "BEGIN")
    one.execute_command("SILICA.SQL", "shop", "DELETE FROM items WHERE id > 50")
    assert other.execute_command("SILICA.SQL_RO", "shop", count) == [[100]]
    one.execute_command("SILICA.SQL", "shop", "COMMIT")
assert other.execute_command("SILICA.SQL_RO", "shop", count) == [[50]]

# Keys and tables in one statement.
r.set("stock:1", "7")
join = (
    "SELECT name, CAST(value AS INTEGER) FROM items"
    " JOIN silica_keyspace('default') ON key = 'stock:' || id"
)
assert sql(join) == [["item 0", 7]]
assert r.execute_command("SILICA.SQL_GET", "shop", "items/1") == (
    '{"id":1,"name":"item 0","price":0.0}'
)
try:
    sql("SELECT nothing_like_it FROM items")
    raise AssertionError("it was answered")
except redis.ResponseError as error:
    assert str(error) == "SQL: no such column: nothing_like_it", error
print("fine")
