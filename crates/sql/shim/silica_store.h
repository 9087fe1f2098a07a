/*
** What the b-tree functions of SQLite ask of a Silica store: the only seam between the C part and
** the Rust part. The functions are in src/ffi.rs.
**
** - Functions that return `int` return a result code of SQLite: SQLITE_OK, SQLITE_DONE where said,
**   or an error. silica_sql_message() says the last error of a database in words, and
**   silica_sql_code() has its code.
** - A SilicaDb and its cursors are used by one thread at a time; different SilicaDb of one store
**   by different threads.
** - A pointer that a cursor hands out stays valid until that cursor is moved, written through,
**   restored or closed, or the transaction ends.
*/
#ifndef SILICA_STORE_H
#define SILICA_STORE_H

#include <stdint.h>

/* A database as one connection sees it, and a cursor over one of its trees. */
typedef struct SilicaDb SilicaDb;
typedef struct SilicaCursor SilicaCursor;

/* A value of an index key. Text is UTF-8. */
enum { SILICA_NULL = 0, SILICA_INTEGER = 1, SILICA_REAL = 2, SILICA_TEXT = 3, SILICA_BLOB = 4 };
typedef struct SilicaField SilicaField;
struct SilicaField {
  int32_t type;
  uint32_t size;        /* bytes of text or blob */
  union {
    int64_t integer;
    double real;
    const uint8_t *bytes;
  } value;
};

/* How a column of an index is compared. */
enum { SILICA_BINARY = 0, SILICA_NOCASE = 1, SILICA_RTRIM = 2 };
enum { SILICA_DESCENDING = 1, SILICA_NULLS_LAST = 2 /* the other end than where they are */ };
typedef struct SilicaColumn SilicaColumn;
struct SilicaColumn {
  uint8_t collation;
  uint8_t flags;
};

/* Says what the database at `path`, a full path, is: one of SQLite's own (SILICA_PLACE_STOCK), or
** one of ours, whose marker file and directory are there then. `choice` is "silica" or "sqlite", or
** NULL, for one that is new; with `must_be_stock` it is SQLite's, or an error. *directory and
** *message are texts for silica_sql_free_text(). */
enum { SILICA_PLACE_STOCK = 0, SILICA_PLACE_WRITABLE = 1, SILICA_PLACE_READ_ONLY = 2 };
int silica_sql_place(const char *path, int read_only, int may_create, const char *choice,
                     int must_be_stock, int *kind, char **directory, char **message);

/* Opens the store in `directory`. `options` is "name=value&name=value" or NULL (memory_bytes=N).
** On an error *message is a text for silica_sql_free_text(). */
enum { SILICA_CREATE = 1, SILICA_READ_ONLY = 2 };
int silica_sql_open(const char *directory, int flags, const char *options, SilicaDb **db,
                    char **message);
/* Opens a database in a store that the program has open, by the number of a ticket as text. */
int silica_sql_open_in_store(const char *ticket, SilicaDb **db, char **message);
void silica_sql_close(SilicaDb *db);
void silica_sql_free_text(char *text);
const char *silica_sql_message(SilicaDb *db);
/* The code of the last error, for functions that return something else; SQLITE_IOERR if none. */
int silica_sql_code(SilicaDb *db);

/* Begins a transaction, or makes one that reads one that writes. SQLITE_BUSY if another one
** writes, SQLITE_BUSY_SNAPSHOT if this one reads what is not the newest, SQLITE_READONLY.
** With `write` above 1 it has the turn to write in any case.
*/
int silica_sql_begin(SilicaDb *db, int write);
/* Lets transactions write beside others, or not any more, or asks if `on` is below 0. */
int silica_sql_concurrent(SilicaDb *db, int on, int *is_on);
/* Ends it; with `keep` it goes on as one that reads, of the newest. A commit whose sync fails is
** SQLITE_IOERR_FSYNC. */
int silica_sql_commit(SilicaDb *db, int synced, int keep);
int silica_sql_rollback(SilicaDb *db, int keep);
/* Savepoints are numbered from 0. */
int silica_sql_open_savepoints(SilicaDb *db, int count); /* sees to it that so many are open */
int silica_sql_release_savepoint(SilicaDb *db, int index);  /* closes it and later ones */
int silica_sql_roll_back_to(SilicaDb *db, int index);    /* closes later ones; -1: everything */

/* The numbers of the database's header, 0 to 14, and two that are not stored. Number 15 changes when
** a transaction sees commits of other connections, SILICA_CONTENT_VERSION with the connection's own
** commits, too. */
enum { SILICA_CONTENT_VERSION = 16 };
int silica_sql_get_meta(SilicaDb *db, int index, uint32_t *value);
int silica_sql_set_meta(SilicaDb *db, int index, uint32_t value);

/* Trees have numbers from 1, where 1 is always there. */
int silica_sql_create_tree(SilicaDb *db, int has_rowids, uint32_t *root);
int silica_sql_drop_tree(SilicaDb *db, uint32_t root);
int silica_sql_clear_tree(SilicaDb *db, uint32_t root, int64_t *entries /* or NULL */);
/* Removes every tree but 1, and what is in that, and sets the numbers of the header to 0. */
int silica_sql_clear(SilicaDb *db);
uint32_t silica_sql_last_root(SilicaDb *db);
uint64_t silica_sql_bytes(SilicaDb *db);
/* Memory that the writes of a transaction take until its commit. */
uint64_t silica_sql_written_bytes(SilicaDb *db);
int silica_sql_sync(SilicaDb *db);
int silica_sql_compact(SilicaDb *db);

/* Results of statements that are kept, by a key that says all that they depend on but the contents
** of the database. Bytes that key and rows may have together; 0 if none are kept. */
uint32_t silica_sql_result_bytes_max(SilicaDb *db);
/* 1 if there are rows that are what the statement would read now: then *size is how many bytes they
** are, and they are in `rows` if there is `room` for them. */
int silica_sql_result_find(SilicaDb *db, const uint8_t *key, uint32_t key_bytes, uint8_t *rows,
                           uint32_t room, uint32_t *size);
/* Begins to record what the connection reads, for one statement at a time: 1 if it does. The end
** keeps what that statement has found, if `keeps`. */
int silica_sql_result_begin(SilicaDb *db);
void silica_sql_result_end(SilicaDb *db, const uint8_t *key, uint32_t key_bytes,
                           const uint8_t *rows, uint32_t size, int keeps);

/* The entry that a cursor has come to: its rowid, 0 in an index, and its record; NULL where that is
** not at hand and silica_sql_cursor_record() has to be asked. */
typedef struct SilicaEntry SilicaEntry;
struct SilicaEntry {
  int64_t rowid;
  const uint8_t *record;
  uint32_t size;
};

/* How a cursor begins; the rest is Rust's. After many steps forwards it has `count` entries at once
** and is at entry `at` of them, after many steps back `count_back`; the other number is 0. Whoever
** counts `at` up, below that number, has stepped that way, without a call. Every call takes that
** into account. The entries stay until the next call with the cursor. */
struct SilicaCursor {
  const SilicaEntry *entries;
  uint32_t count;
  uint32_t count_back;
  uint32_t at;
};

/* `columns` is NULL for a tree of rows; else it has `count` columns, by which entries are
** distinct. The cursor begins nowhere. */
int silica_sql_cursor_open(SilicaDb *db, uint32_t root, const SilicaColumn *columns, int count,
                           SilicaCursor **cursor);
void silica_sql_cursor_close(SilicaCursor *cursor);

/* To an end; *is_empty is 1 where there is nothing. */
int silica_sql_cursor_first(SilicaCursor *cursor, int *is_empty, SilicaEntry *entry);
int silica_sql_cursor_last(SilicaCursor *cursor, int *is_empty, SilicaEntry *entry);
/* If transactions write beside others: a rowid for a new row of the cursor's tree, which goes nowhere
** then; else *is_given is 0. */
int silica_sql_cursor_new_rowid(SilicaCursor *cursor, int64_t *rowid, int *is_given);
/* One entry on or back, from where the cursor is, also if that entry is gone; SQLITE_DONE at the
** end, and from nowhere. */
int silica_sql_cursor_next(SilicaCursor *cursor, SilicaEntry *entry);
int silica_sql_cursor_previous(SilicaCursor *cursor, SilicaEntry *entry);
/* To a row or key: *where is 0 at it, below 0 at an entry before it, above 0 at one behind it;
** below 0 and nowhere in an empty tree. Which neighbour it is costs nothing before somebody asks
** for it. With fewer fields than columns every entry that begins so counts as equal if `equal` is
** 0, as behind it if `equal` is above 0, as before it if `equal` is below 0. */
int silica_sql_cursor_seek_row(SilicaCursor *cursor, int64_t rowid, int *where,
                               SilicaEntry *entry);
int silica_sql_cursor_seek_key(SilicaCursor *cursor, const SilicaField *fields, int count,
                               int equal, int *where, SilicaEntry *entry);
/* 1 where the cursor is at an entry, 0 where it is not, -1 on an error. */
int silica_sql_cursor_is_there(SilicaCursor *cursor);
/* What was there is looked for again, since the tree was written: *is_other is 1 where it is gone,
** and the cursor between its neighbours. */
int silica_sql_cursor_restore(SilicaCursor *cursor, int *is_other);
int64_t silica_sql_cursor_rowid(SilicaCursor *cursor);
/* The record here, whole; NULL on an error. */
const uint8_t *silica_sql_cursor_record(SilicaCursor *cursor, uint32_t *size);

/* Writes a row, `zeroes` zero bytes behind its record, or a key; whatever had the same rowid or
** key is replaced. The cursor is at it then. */
int silica_sql_cursor_put_row(SilicaCursor *cursor, int64_t rowid, const uint8_t *record,
                              uint32_t size, uint32_t zeroes);
int silica_sql_cursor_put_key(SilicaCursor *cursor, const SilicaField *fields, int count,
                              const uint8_t *record, uint32_t size);
/* Deletes what is here; the cursor is between its neighbours then. */
int silica_sql_cursor_delete(SilicaCursor *cursor);
int silica_sql_cursor_count(SilicaCursor *cursor, int64_t *entries);

/*
** Keyspaces as tables (keyspace.c). Names are UTF-8. A transaction of a keyspace begins with its
** first write; SILICA_KEYSPACE_COMMIT is done before the database commits, and _END behind that, or
** instead.
*/
typedef struct SilicaRows SilicaRows;
enum {
  SILICA_KEYSPACE_BEGIN = 0, SILICA_KEYSPACE_COMMIT = 1, SILICA_KEYSPACE_COMMIT_SYNCED = 2,
  SILICA_KEYSPACE_END = 3, SILICA_KEYSPACE_SAVEPOINT = 4, SILICA_KEYSPACE_RELEASE = 5,
  SILICA_KEYSPACE_ROLL_BACK_TO = 6
};
int silica_sql_keyspace_do(SilicaDb *db, const char *name, int what, int number);

/* A new row. Its ttl is `ttl_ms`, or what it was, or none. */
enum { SILICA_TTL_GIVEN = 0, SILICA_TTL_KEPT = 1, SILICA_TTL_NONE = 2 };
typedef struct SilicaRow SilicaRow;
struct SilicaRow {
  const uint8_t *key, *value;
  uint32_t key_size, value_size;
  int64_t ttl_ms;
  int64_t bits;
  uint8_t ttl;
};
/* Deletes the row with the key `old`, if that is not NULL, and writes `row`, if that is not NULL.
** A row with another one's key is an error, or stays, or is replaced. */
enum { SILICA_FAILS = 0, SILICA_STAYS = 1, SILICA_IS_REPLACED = 2 };
int silica_sql_keyspace_write(SilicaDb *db, const char *name, const uint8_t *old,
                              uint32_t old_size, const SilicaRow *row, int if_there);

/* 1 if the keys of a keyspace come in their order. */
int silica_sql_keyspace_is_ordered(SilicaDb *db, const char *name);

int silica_sql_rows_open(SilicaDb *db, SilicaRows **rows);
void silica_sql_rows_close(SilicaRows *rows);
/* Goes to the first entry, or the last, that may satisfy all constraints: `=`, `>`, `G` (at least),
** `<`, `L` (at most), `l` (LIKE) and `g` (GLOB) on the key. */
typedef struct SilicaConstraint SilicaConstraint;
struct SilicaConstraint {
  const uint8_t *bytes;
  uint32_t size;
  uint8_t kind;
};
enum { SILICA_ANY_ORDER = 0, SILICA_KEYS_ASCENDING = 1, SILICA_KEYS_DESCENDING = 2 };
int silica_sql_rows_search(SilicaRows *rows, const char *name, int may_be_missing,
                           const SilicaConstraint *constraints, int count, int order);
int silica_sql_rows_step(SilicaRows *rows);
/* The entry here, or SQLITE_DONE; `ttl_ms` is -1 if it does not expire. Its bytes stay until the
** cursor is moved or closed. */
typedef struct SilicaPair SilicaPair;
struct SilicaPair {
  const uint8_t *key, *value;
  uint32_t key_size, value_size;
  int64_t ttl_ms;
  int64_t bits;
};
int silica_sql_rows_here(SilicaRows *rows, SilicaPair *entry /* or NULL */);

/*
** Objects as tables (objects.c): the elements of a hash, a list, a set, a sorted set or a stream, in
** the order of their fields, positions, members, scores or ids.
*/
typedef struct SilicaElements SilicaElements;
/* The kinds are those of docs/formats/types.md. */
enum {
  SILICA_KIND_HASH = 1, SILICA_KIND_LIST = 2, SILICA_KIND_SET = 3, SILICA_KIND_ZSET = 4,
  SILICA_KIND_STREAM = 5
};
int silica_sql_elements_open(SilicaDb *db, int kind, SilicaElements **elements);
void silica_sql_elements_close(SilicaElements *elements);
/* What is looked for: the elements of `key`, all or those whose first column is `only` (or the
** position), in the keyspace `name`, or in database `number` if `name` is NULL. */
typedef struct SilicaSought SilicaSought;
struct SilicaSought {
  const char *name;
  const uint8_t *key, *only;
  uint32_t key_size, only_size;
  int64_t number, position;
};
/* Goes to the first element. A key of another kind is an error, one that is missing has none. */
int silica_sql_elements_search(SilicaElements *elements, const SilicaSought *sought);
int silica_sql_elements_step(SilicaElements *elements);
/* The element here, or SQLITE_DONE; `ttl_ms` is -1 if it does not expire. `name` is a field or a
** member, `id` the text of a stream's id. Its bytes stay until the cursor is moved or closed. */
typedef struct SilicaElement SilicaElement;
struct SilicaElement {
  const uint8_t *id, *name, *value;
  uint32_t id_size, name_size, value_size;
  int64_t position, ttl_ms;
  double score;
};
int silica_sql_elements_here(SilicaElements *elements, SilicaElement *element /* or NULL */);

#endif
