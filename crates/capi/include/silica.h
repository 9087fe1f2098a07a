#ifndef SILICA_H
#define SILICA_H

/*
 * Silica, a key-value store in a directory: the interface for C and C++.
 *
 * Made from the sources of silica-capi; do not change it here. The manual is docs/c.md.
 *
 * Every call that can fail returns a silica_code. It takes the address of a silica_error * last,
 * or NULL: on a failure the error is there, to be freed with silica_error_free; otherwise it is
 * set to NULL. Keys and values are bytes with a length; an empty one may be NULL.
 *
 * A handle is used by several threads at a time only if its type says so. Freeing or closing it is
 * its last use. Handles of one store may be freed in any order.
 */

#include <stddef.h>
#include <stdint.h>

/**
 * A write is as durable as the store was opened for.
 */
#define SILICA_USUAL 0

/**
 * A write survives the death of the process, not a power cut.
 */
#define SILICA_BUFFERED 1

/**
 * A write survives a power cut, too.
 */
#define SILICA_SYNCED 2

/**
 * What silica_ttl answers for an entry that does not expire.
 */
#define SILICA_UNLIMITED -1

/**
 * What silica_ttl answers for a key that is not there.
 */
#define SILICA_ABSENT -2

/**
 * What a call came to. Codes keep their numbers; new ones may be added.
 */
typedef enum {
    /**
     * It has happened.
     */
    SILICA_OK = 0,
    /**
     * The operating system or the device refused an operation.
     */
    SILICA_IO = 1,
    /**
     * Stored bytes are not what was written; the message names the file and the position.
     */
    SILICA_CORRUPTION = 2,
    /**
     * The device, or a limit set by the user, has no space left.
     */
    SILICA_FULL = 3,
    /**
     * A key, value or batch is over the engine's limit.
     */
    SILICA_TOO_LARGE = 4,
    /**
     * The engine or the format version cannot do this.
     */
    SILICA_UNSUPPORTED = 5,
    /**
     * A sync failed earlier; nothing more is accepted until the store is opened again.
     */
    SILICA_POISONED = 6,
    /**
     * The store was closed.
     */
    SILICA_CLOSED = 7,
    /**
     * An option, argument or handle is wrong; the message names the fix.
     */
    SILICA_CONFIG = 8,
    /**
     * Another process holds the store.
     */
    SILICA_LOCKED = 9,
    /**
     * A named thing does not exist.
     */
    SILICA_NOT_FOUND = 10,
    /**
     * A transaction met a write of somebody else; begin it anew.
     */
    SILICA_CONFLICT = 11,
    /**
     * The store was opened to be read only.
     */
    SILICA_READ_ONLY = 12,
    /**
     * Somebody else has the turn; the same call may work later.
     */
    SILICA_BUSY = 13,
    /**
     * What a reader of changes has not read yet is not kept any more.
     */
    SILICA_TOO_LATE = 14,
    /**
     * A fault of the library itself; please report it. The store may still be closed.
     */
    SILICA_INTERNAL = 15,
} silica_code;

/**
 * Writes that happen together. One thread at a time uses a handle.
 */
typedef struct silica_batch silica_batch;

/**
 * A cache in memory, without a directory. Any number of threads may use one handle at the
 * same time; closing it is the last use.
 */
typedef struct silica_cache silica_cache;

/**
 * An error of one call: its code and its text. It belongs to the thread that got it, which
 * frees it with silica_error_free.
 */
typedef struct silica_error silica_error;

/**
 * A place among the entries of a range, in the order of the keys' bytes. One thread at a time
 * uses a handle.
 */
typedef struct silica_iterator silica_iterator;

/**
 * A keyspace of an open store. Any number of threads may use one handle at the same time;
 * freeing it is the last use.
 */
typedef struct silica_keyspace silica_keyspace;

/**
 * A keyspace as it was at one moment. Any number of threads may use one handle at the same
 * time. What it needs stays stored until it is freed.
 */
typedef struct silica_snapshot silica_snapshot;

/**
 * An open store. Any number of threads may use one handle at the same time; closing it is the
 * last use.
 */
typedef struct silica_store silica_store;

/**
 * A transaction. One thread at a time uses a handle.
 */
typedef struct silica_transaction silica_transaction;

/**
 * What is called with each entry of a walk; an answer other than 0 ends it.
 */
typedef int (*silica_visit)(void *context,
                            const void *key,
                            size_t key_length,
                            const void *value,
                            size_t value_length);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the code of `error`; SILICA_OK for NULL.
 */
silica_code silica_error_code(const silica_error *error);

/**
 * Returns the text of `error`, which says what was being done and how to mend it. It is valid
 * until the error is freed; "" for NULL.
 */
const char *silica_error_message(const silica_error *error);

/**
 * Frees `error`; NULL is fine.
 */
void silica_error_free(silica_error *error);

/**
 * Returns the name of a code, such as "SILICA_FULL"; "?" for a number that is no code.
 */
const char *silica_code_name(int32_t code);

/**
 * Returns the version of the library, such as "0.1.0".
 */
const char *silica_version(void);

/**
 * Frees memory that a call of this library returned as a value or a text; NULL is fine.
 */
void silica_free(void *memory);

/**
 * Opens the store in the directory `path` and writes a handle to `*store`.
 *
 * `options` is an array of texts "name=value" that ends with NULL, or NULL for none:
 * memory_bytes, engine, durability (buffered, synced), create, read_only, background_threads,
 * background_bytes_per_second, log_path, workload, and every option of the engine
 * (docs/config.md). SILICA_LOCKED if another process has the store.
 */
silica_code silica_open(const char *path,
                        const char *const *options,
                        silica_store **store,
                        silica_error **error);

/**
 * Syncs and closes the store, and frees its handle whatever the answer; NULL is fine. Handles to
 * its keyspaces, snapshots and so on stay to be freed; their calls answer SILICA_CLOSED.
 */
silica_code silica_close(silica_store *store, silica_error **error);

/**
 * Makes every write that returned before the call survive a power cut.
 */
silica_code silica_sync(const silica_store *store, silica_error **error);

/**
 * Walks every keyspace and checks every invariant. Takes as long as reading everything.
 */
silica_code silica_verify(const silica_store *store, silica_error **error);

/**
 * Writes the names of all keyspaces and of their engines to `*text`: `name<TAB>engine` lines, to
 * be freed with silica_free.
 */
silica_code silica_keyspaces(const silica_store *store, char **text, silica_error **error);

/**
 * Opens the keyspace `name`, and creates it with the store's usual engine if it is missing. NULL
 * stands for the keyspace "default".
 */
silica_code silica_keyspace_open(const silica_store *store,
                                 const char *name,
                                 silica_keyspace **keyspace,
                                 silica_error **error);

/**
 * Opens the keyspace `name` if it is there; SILICA_NOT_FOUND if not.
 */
silica_code silica_keyspace_open_existing(const silica_store *store,
                                          const char *name,
                                          silica_keyspace **keyspace,
                                          silica_error **error);

/**
 * Creates the keyspace `name` with an engine and options "name=value" of it, in an array that
 * ends with NULL. SILICA_CONFIG if it exists.
 */
silica_code silica_keyspace_create(const silica_store *store,
                                   const char *name,
                                   const char *engine,
                                   const char *const *options,
                                   silica_keyspace **keyspace,
                                   silica_error **error);

/**
 * Removes the keyspace `name` and everything in it. Handles to it answer SILICA_CLOSED.
 */
silica_code silica_keyspace_drop(const silica_store *store, const char *name, silica_error **error);

/**
 * Writes a backup of the open store into the new or empty directory `path`, which is a store
 * then. With `previous`, the directory of an earlier backup, files that did not change are linked
 * from there; NULL for none. Reads and writes go on meanwhile.
 */
silica_code silica_backup(const silica_store *store,
                          const char *path,
                          const char *previous,
                          silica_error **error);

/**
 * Brings the backup in the directory `path` up to date. Until it is, the old one is as it was.
 */
silica_code silica_backup_update(const silica_store *store, const char *path, silica_error **error);

/**
 * Copies the backup in `backup` to the new or empty directory `path`, and checks the copy.
 */
silica_code silica_restore(const char *backup, const char *path, silica_error **error);

/**
 * Frees a handle to a keyspace; NULL is fine. The keyspace stays open in its store.
 */
void silica_keyspace_free(silica_keyspace *keyspace);

/**
 * Looks `key` up. If it is there, `*value` is a copy of its value, to be freed with silica_free,
 * and `*value_length` its length; a zero byte stands behind it. If it is not, `*value` is NULL.
 * `value_length` may be NULL.
 */
silica_code silica_get(const silica_keyspace *keyspace,
                       const void *key,
                       size_t key_length,
                       void **value,
                       size_t *value_length,
                       silica_error **error);

/**
 * Looks `key` up and copies its value into `buffer`, as far as `room` bytes go. `*value_length`
 * is the whole length, which may be over `room`, or SIZE_MAX if `key` is not there. Nothing is
 * allocated.
 */
silica_code silica_get_into(const silica_keyspace *keyspace,
                            const void *key,
                            size_t key_length,
                            void *buffer,
                            size_t room,
                            size_t *value_length,
                            silica_error **error);

/**
 * Maps `key` to `value`, as durable as the store was opened for.
 */
silica_code silica_put(const silica_keyspace *keyspace,
                       const void *key,
                       size_t key_length,
                       const void *value,
                       size_t value_length,
                       silica_error **error);

/**
 * Removes `key`; a missing one is no error.
 */
silica_code silica_delete(const silica_keyspace *keyspace,
                          const void *key,
                          size_t key_length,
                          silica_error **error);

/**
 * Removes all keys from `lower` on and before `upper` in one step; a NULL bound stands for no
 * bound. SILICA_UNSUPPORTED if the engine keeps no order.
 */
silica_code silica_delete_range(const silica_keyspace *keyspace,
                                const void *lower,
                                size_t lower_length,
                                const void *upper,
                                size_t upper_length,
                                silica_error **error);

/**
 * Writes the number of entries to `*count`: an estimate, unless `exact` is not 0, which may walk
 * the keyspace.
 */
silica_code silica_count(const silica_keyspace *keyspace,
                         int exact,
                         uint64_t *count,
                         silica_error **error);

/**
 * Removes every entry, durably and in one step.
 */
silica_code silica_clear(const silica_keyspace *keyspace, silica_error **error);

/**
 * Visits entries of any engine, in the engine's own order, from `*cursor` on (0 is the start),
 * about `limit` of them, and writes where to go on to `*cursor`; UINT64_MAX is the end. An entry
 * that is there during a whole walk is visited at least once. `visit` must not call the library.
 */
silica_code silica_scan(const silica_keyspace *keyspace,
                        uint64_t *cursor,
                        size_t limit,
                        silica_visit visit,
                        void *context,
                        silica_error **error);

/**
 * Writes all metrics to `*text`: lines of "name: value", to be freed with silica_free.
 * docs/metrics.md says what they mean.
 */
silica_code silica_metrics(const silica_keyspace *keyspace, char **text, silica_error **error);

/**
 * Writes what the keyspace consists of to `*text`, for people: lines of "name: value", to be
 * freed with silica_free.
 */
silica_code silica_inspect(const silica_keyspace *keyspace, char **text, silica_error **error);

/**
 * Maps `key` to `value` for `ttl_ms` milliseconds. A later put ends the time to live.
 */
silica_code silica_put_with_ttl(const silica_keyspace *keyspace,
                                const void *key,
                                size_t key_length,
                                const void *value,
                                size_t value_length,
                                int64_t ttl_ms,
                                silica_error **error);

/**
 * Writes how many milliseconds `key` lives from now on to `*ttl_ms`, or SILICA_UNLIMITED, or
 * SILICA_ABSENT.
 */
silica_code silica_ttl(const silica_keyspace *keyspace,
                       const void *key,
                       size_t key_length,
                       int64_t *ttl_ms,
                       silica_error **error);

/**
 * Lets `key` live for `ttl_ms` milliseconds from now on, and writes whether it is there to
 * `*is_there`, which may be NULL. With 0 the key is removed.
 */
silica_code silica_expire(const silica_keyspace *keyspace,
                          const void *key,
                          size_t key_length,
                          int64_t ttl_ms,
                          int *is_there,
                          silica_error **error);

/**
 * Lets `key` live without a limit, and writes whether it had one to `*had_limit`, which may be
 * NULL.
 */
silica_code silica_persist(const silica_keyspace *keyspace,
                           const void *key,
                           size_t key_length,
                           int *had_limit,
                           silica_error **error);

/**
 * Returns an empty batch, to be freed with silica_batch_free.
 */
silica_batch *silica_batch_new(void);

/**
 * Frees a batch; NULL is fine.
 */
void silica_batch_free(silica_batch *batch);

/**
 * Adds a put. Key and value are copied.
 */
silica_code silica_batch_put(silica_batch *batch,
                             const void *key,
                             size_t key_length,
                             const void *value,
                             size_t value_length,
                             silica_error **error);

/**
 * Adds a put of an entry that expires `ttl_ms` milliseconds after this call.
 */
silica_code silica_batch_put_with_ttl(silica_batch *batch,
                                      const void *key,
                                      size_t key_length,
                                      const void *value,
                                      size_t value_length,
                                      int64_t ttl_ms,
                                      silica_error **error);

/**
 * Adds a delete.
 */
silica_code silica_batch_delete(silica_batch *batch,
                                const void *key,
                                size_t key_length,
                                silica_error **error);

/**
 * Adds a delete of all keys from `lower` on and before `upper`; a NULL bound stands for no bound.
 */
silica_code silica_batch_delete_range(silica_batch *batch,
                                      const void *lower,
                                      size_t lower_length,
                                      const void *upper,
                                      size_t upper_length,
                                      silica_error **error);

/**
 * Forgets the operations and keeps the memory.
 */
void silica_batch_clear(silica_batch *batch);

/**
 * Returns the number of operations; 0 for NULL.
 */
size_t silica_batch_count(const silica_batch *batch);

/**
 * Applies `batch` to a keyspace in one step: all of it or, after a crash, nothing. `durability`
 * is SILICA_USUAL, SILICA_BUFFERED or SILICA_SYNCED. The batch stays as it is.
 */
silica_code silica_write(const silica_keyspace *keyspace,
                         const silica_batch *batch,
                         int durability,
                         silica_error **error);

/**
 * Opens an iterator over the keys from `lower` on and before `upper`, as they are now; a NULL
 * bound stands for no bound. It is nowhere at first. SILICA_UNSUPPORTED if the engine keeps no
 * order.
 */
silica_code silica_iterate(const silica_keyspace *keyspace,
                           const void *lower,
                           size_t lower_length,
                           const void *upper,
                           size_t upper_length,
                           silica_iterator **iterator,
                           silica_error **error);

/**
 * Opens an iterator over the keys that begin with `prefix`, as they are now.
 */
silica_code silica_iterate_prefix(const silica_keyspace *keyspace,
                                  const void *prefix,
                                  size_t prefix_length,
                                  silica_iterator **iterator,
                                  silica_error **error);

/**
 * Opens an iterator over the entries of a snapshot, as silica_iterate does.
 */
silica_code silica_snapshot_iterate(const silica_snapshot *snapshot,
                                    const void *lower,
                                    size_t lower_length,
                                    const void *upper,
                                    size_t upper_length,
                                    silica_iterator **iterator,
                                    silica_error **error);

/**
 * Frees an iterator; NULL is fine.
 */
void silica_iterator_free(silica_iterator *iterator);

/**
 * Goes to the first entry. silica_iterator_valid says whether there is one.
 */
silica_code silica_iterator_first(silica_iterator *iterator, silica_error **error);

/**
 * Goes to the last entry.
 */
silica_code silica_iterator_last(silica_iterator *iterator, silica_error **error);

/**
 * Goes to the first entry at or after `key`.
 */
silica_code silica_iterator_seek(silica_iterator *iterator,
                                 const void *key,
                                 size_t key_length,
                                 silica_error **error);

/**
 * Goes to the last entry at or before `key`.
 */
silica_code silica_iterator_seek_for_prev(silica_iterator *iterator,
                                          const void *key,
                                          size_t key_length,
                                          silica_error **error);

/**
 * Goes to the entry after this one; from nowhere it stays nowhere.
 */
silica_code silica_iterator_next(silica_iterator *iterator, silica_error **error);

/**
 * Goes to the entry before this one; from nowhere it stays nowhere.
 */
silica_code silica_iterator_prev(silica_iterator *iterator, silica_error **error);

/**
 * Returns 1 if it is at an entry, 0 if not.
 */
int silica_iterator_valid(const silica_iterator *iterator);

/**
 * Returns the key here, and its length in `*length`. It is valid until the iterator moves or is
 * freed, and no zero byte ends it. NULL if it is at no entry.
 */
const void *silica_iterator_key(const silica_iterator *iterator, size_t *length);

/**
 * Returns the value here, as silica_iterator_key returns the key.
 */
const void *silica_iterator_value(const silica_iterator *iterator, size_t *length);

/**
 * Keeps the keyspace as it is now. SILICA_UNSUPPORTED if the engine keeps no order.
 */
silica_code silica_snapshot_new(const silica_keyspace *keyspace,
                                silica_snapshot **snapshot,
                                silica_error **error);

/**
 * Frees a snapshot; NULL is fine.
 */
void silica_snapshot_free(silica_snapshot *snapshot);

/**
 * As silica_get, for the value that `key` had.
 */
silica_code silica_snapshot_get(const silica_snapshot *snapshot,
                                const void *key,
                                size_t key_length,
                                void **value,
                                size_t *value_length,
                                silica_error **error);

/**
 * As silica_get_into, for the value that `key` had.
 */
silica_code silica_snapshot_get_into(const silica_snapshot *snapshot,
                                     const void *key,
                                     size_t key_length,
                                     void *buffer,
                                     size_t room,
                                     size_t *value_length,
                                     silica_error **error);

/**
 * Begins a transaction: it reads the keyspace as it is now, and nobody sees its writes before
 * they are committed. If `exclusive` is not 0, no other one commits while it is open; for another
 * exclusive one it waits `wait_ms` milliseconds, for ever if negative (SILICA_BUSY then).
 * SILICA_UNSUPPORTED if the engine keeps no order.
 */
silica_code silica_transaction_begin(const silica_keyspace *keyspace,
                                     int exclusive,
                                     int64_t wait_ms,
                                     silica_transaction **transaction,
                                     silica_error **error);

/**
 * Writes everything in one step and frees the handle, whatever the answer. `durability` is
 * SILICA_USUAL, SILICA_BUFFERED or SILICA_SYNCED. SILICA_CONFLICT, and nothing has happened, if
 * somebody else wrote what was written or read for an update here: begin it anew.
 */
silica_code silica_transaction_commit(silica_transaction *transaction,
                                      int durability,
                                      silica_error **error);

/**
 * Forgets everything and frees the handle; NULL is fine.
 */
void silica_transaction_rollback(silica_transaction *transaction);

/**
 * As silica_get, with the writes made here. Others may change the key before the commit.
 */
silica_code silica_transaction_get(const silica_transaction *transaction,
                                   const void *key,
                                   size_t key_length,
                                   void **value,
                                   size_t *value_length,
                                   silica_error **error);

/**
 * As silica_transaction_get. The commit fails if somebody else writes the key before it.
 */
silica_code silica_transaction_get_for_update(silica_transaction *transaction,
                                              const void *key,
                                              size_t key_length,
                                              void **value,
                                              size_t *value_length,
                                              silica_error **error);

/**
 * Maps `key` to `value`, for `ttl_ms` milliseconds from now on, or without a limit if that is 0.
 */
silica_code silica_transaction_put(silica_transaction *transaction,
                                   const void *key,
                                   size_t key_length,
                                   const void *value,
                                   size_t value_length,
                                   int64_t ttl_ms,
                                   silica_error **error);

/**
 * Removes `key`.
 */
silica_code silica_transaction_delete(silica_transaction *transaction,
                                      const void *key,
                                      size_t key_length,
                                      silica_error **error);

/**
 * Removes all keys from `lower` on and before `upper`; a NULL bound stands for no bound.
 */
silica_code silica_transaction_delete_range(silica_transaction *transaction,
                                            const void *lower,
                                            size_t lower_length,
                                            const void *upper,
                                            size_t upper_length,
                                            silica_error **error);

/**
 * Opens an iterator as silica_iterate does, which sees the writes made here, later ones too. It
 * may outlive the transaction.
 */
silica_code silica_transaction_iterate(const silica_transaction *transaction,
                                       const void *lower,
                                       size_t lower_length,
                                       const void *upper,
                                       size_t upper_length,
                                       silica_iterator **iterator,
                                       silica_error **error);

/**
 * Marks the state of the writes and writes the mark's number to `*savepoint`. Savepoints nest.
 */
silica_code silica_transaction_savepoint(silica_transaction *transaction,
                                         uint64_t *savepoint,
                                         silica_error **error);

/**
 * Takes back the writes since `savepoint`, which stays; later savepoints go.
 */
silica_code silica_transaction_roll_back_to(silica_transaction *transaction,
                                            uint64_t savepoint,
                                            silica_error **error);

/**
 * Forgets `savepoint` and later ones, and keeps the writes.
 */
silica_code silica_transaction_release(silica_transaction *transaction,
                                       uint64_t savepoint,
                                       silica_error **error);

/**
 * Opens a cache. `options` are as those of silica_open: memory_bytes, image, background_threads,
 * and those of the engine mica.
 */
silica_code silica_cache_open(const char *const *options,
                              silica_cache **cache,
                              silica_error **error);

/**
 * Leaves the image, if there is to be one, and frees the handle whatever the answer; NULL is
 * fine.
 */
silica_code silica_cache_close(silica_cache *cache, silica_error **error);

/**
 * As silica_get.
 */
silica_code silica_cache_get(const silica_cache *cache,
                             const void *key,
                             size_t key_length,
                             void **value,
                             size_t *value_length,
                             silica_error **error);

/**
 * As silica_get_into.
 */
silica_code silica_cache_get_into(const silica_cache *cache,
                                  const void *key,
                                  size_t key_length,
                                  void *buffer,
                                  size_t room,
                                  size_t *value_length,
                                  silica_error **error);

/**
 * Maps `key` to `value`, for `ttl_ms` milliseconds or, if that is 0, without a limit.
 */
silica_code silica_cache_put(const silica_cache *cache,
                             const void *key,
                             size_t key_length,
                             const void *value,
                             size_t value_length,
                             int64_t ttl_ms,
                             silica_error **error);

/**
 * Removes `key`; a missing one is no error.
 */
silica_code silica_cache_delete(const silica_cache *cache,
                                const void *key,
                                size_t key_length,
                                silica_error **error);

/**
 * As silica_ttl.
 */
silica_code silica_cache_ttl(const silica_cache *cache,
                             const void *key,
                             size_t key_length,
                             int64_t *ttl_ms,
                             silica_error **error);

/**
 * As silica_count.
 */
silica_code silica_cache_count(const silica_cache *cache,
                               int exact,
                               uint64_t *count,
                               silica_error **error);

/**
 * Removes every entry.
 */
silica_code silica_cache_clear(const silica_cache *cache, silica_error **error);

/**
 * As silica_metrics.
 */
silica_code silica_cache_metrics(const silica_cache *cache, char **text, silica_error **error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SILICA_H */
