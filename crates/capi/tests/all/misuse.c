/* Every wrong argument that can be known is answered with a code and a text. */
#include <silica.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void expect(const char *what, silica_code code, silica_code wanted, silica_error **error,
                   const char *part)
{
    const char *text = silica_error_message(*error);
    int good = code == wanted && silica_error_code(*error) == wanted && strstr(text, part) != NULL;
    if (!good) {
        printf("%s: %s '%s'\n", what, silica_code_name(code), text);
        failures++;
    }
    silica_error_free(*error);
    *error = NULL;
}

static int stop(void *context, const void *key, size_t key_length, const void *value,
                size_t value_length)
{
    (void)key, (void)key_length, (void)value, (void)value_length;
    return ++*(int *)context == 2;
}

static void handles(silica_store *store, silica_keyspace *keyspace)
{
    silica_error *error;
    silica_snapshot *snapshot;
    silica_iterator *iterator;
    void *value;
    size_t length;

    expect("null store", silica_sync(NULL, &error), SILICA_CONFIG, &error, "store handle is NULL");
    expect("null keyspace", silica_put(NULL, "k", 1, "v", 1, &error), SILICA_CONFIG, &error,
           "keyspace handle is NULL");
    expect("a store as a keyspace",
           silica_get((const silica_keyspace *)store, "k", 1, &value, &length, &error),
           SILICA_CONFIG, &error, "of another type");
    expect("an odd pointer",
           silica_get((const silica_keyspace *)((const char *)keyspace + 1), "k", 1, &value, NULL,
                      &error),
           SILICA_CONFIG, &error, "no handle of this library");
    expect("no iterator", silica_iterator_next(NULL, &error), SILICA_CONFIG, &error, "iterator");
    expect("no batch", silica_write(keyspace, NULL, SILICA_USUAL, &error), SILICA_CONFIG, &error,
           "batch");
    expect("no place for the result", silica_get(keyspace, "k", 1, NULL, &length, &error),
           SILICA_CONFIG, &error, "result");
    expect("no place for a snapshot", silica_snapshot_new(keyspace, NULL, &error), SILICA_CONFIG,
           &error, "result");
    expect("a length without bytes", silica_put(keyspace, NULL, 3, "v", 1, &error), SILICA_CONFIG,
           &error, "key is NULL");
    expect("no buffer", silica_get_into(keyspace, "k", 1, NULL, 9, &length, &error),
           SILICA_CONFIG, &error, "buffer is NULL");
    /* Without a place for the error there is a code all the same. */
    if (silica_sync(NULL, NULL) != SILICA_CONFIG)
        failures++;
    /* Freeing nothing, and a handle of another type, does nothing. */
    silica_iterator_free(NULL);
    silica_batch_free(NULL);
    silica_keyspace_free(NULL);
    silica_snapshot_free((silica_snapshot *)keyspace);
    silica_transaction_rollback(NULL);
    silica_error_free(NULL);
    silica_free(NULL);
    expect("close nothing", silica_close(NULL, &error), SILICA_OK, &error, "");
    if (silica_iterator_valid(NULL) || silica_iterator_key(NULL, NULL) || silica_batch_count(NULL))
        failures++;
    expect("a snapshot", silica_snapshot_new(keyspace, &snapshot, &error), SILICA_OK, &error, "");
    expect("of all", silica_snapshot_iterate(snapshot, NULL, 0, NULL, 0, &iterator, &error),
           SILICA_OK, &error, "");
    if (silica_iterator_key(iterator, &length) != NULL || length != 0)
        failures++;
    silica_iterator_free(iterator);
    silica_snapshot_free(snapshot);
}

static void arguments(silica_store *store, silica_keyspace *keyspace)
{
    const char *bad[] = {"memory_bytes", NULL};
    const char *strange[] = {"filter_bitz=3", NULL};
    const char *mica[] = {"memory_bytes=8MiB", NULL};
    silica_keyspace *other = NULL;
    silica_transaction *transaction;
    silica_iterator *iterator;
    silica_batch *batch = silica_batch_new();
    silica_store *second;
    silica_error *error;
    uint64_t cursor = 0;
    void *value;
    size_t length;
    int visits = 0;
    char *text;

    expect("an option without a value", silica_open("x", bad, &second, &error), SILICA_CONFIG,
           &error, "name=value");
    expect("a strange option", silica_open("x", strange, &second, &error), SILICA_CONFIG, &error,
           "did you mean 'filter_bits'?");
    expect("no path", silica_open(NULL, NULL, &second, &error), SILICA_CONFIG, &error, "path");
    expect("no UTF-8", silica_keyspace_open(store, "\xff", &other, &error), SILICA_CONFIG, &error,
           "UTF-8");
    expect("none there", silica_keyspace_open_existing(store, "none", &other, &error),
           SILICA_NOT_FOUND, &error, "none");
    expect("no engine", silica_keyspace_create(store, "h", "micaa", mica, &other, &error),
           SILICA_CONFIG, &error, "did you mean 'mica'?");
    expect("hashed", silica_keyspace_create(store, "h", "mica", mica, &other, &error), SILICA_OK,
           &error, "");
    expect("no order", silica_iterate(other, NULL, 0, NULL, 0, &iterator, &error),
           SILICA_UNSUPPORTED, &error, "no order");
    expect("durability", silica_write(keyspace, batch, 7, &error), SILICA_CONFIG, &error, "7");
    expect("a ttl below 0", silica_put_with_ttl(keyspace, "k", 1, "v", 1, -5, &error),
           SILICA_CONFIG, &error, "time to live");
    silica_batch_free(batch);

    expect("empty", silica_put(other, NULL, 0, NULL, 0, &error), SILICA_OK, &error, "");
    expect("empty", silica_get(other, NULL, 0, &value, &length, &error), SILICA_OK, &error, "");
    if (value == NULL || length != 0 || *(char *)value != 0)
        failures++;
    silica_free(value);
    expect("b", silica_put(other, "b", 1, "long value", 10, &error), SILICA_OK, &error, "");
    expect("c", silica_put(other, "c", 1, "1", 1, &error), SILICA_OK, &error, "");
    {
        char buffer[5] = "....";
        expect("part", silica_get_into(other, "b", 1, buffer, 4, &length, &error), SILICA_OK,
               &error, "");
        if (length != 10 || memcmp(buffer, "long", 5) != 0)
            failures++;
    }
    expect("a walk", silica_scan(other, &cursor, 100, stop, &visits, &error), SILICA_OK, &error,
           "");
    if (visits != 2 || cursor != UINT64_MAX)
        failures++;
    expect("no visitor", silica_scan(other, &cursor, 1, NULL, NULL, &error), SILICA_CONFIG, &error,
           "NULL");
    expect("listed", silica_keyspaces(store, &text, &error), SILICA_OK, &error, "");
    if (strstr(text, "h\tmica\n") == NULL)
        failures++;
    silica_free(text);
    expect("dropped", silica_keyspace_drop(store, "h", &error), SILICA_OK, &error, "");
    expect("gone", silica_put(other, "b", 1, "v", 1, &error), SILICA_CLOSED, &error, "dropped");
    silica_keyspace_free(other);
    expect("begin", silica_transaction_begin(keyspace, 1, 0, &transaction, &error), SILICA_OK,
           &error, "");
    expect("no mark", silica_transaction_roll_back_to(transaction, 3, &error), SILICA_NOT_FOUND,
           &error, "savepoint 3");
    silica_transaction_rollback(transaction);
}

int main(int argc, char **argv)
{
    silica_store *store, *second;
    silica_keyspace *keyspace;
    silica_error *error;

    if (argc != 2)
        return 2;
    expect("open", silica_open(argv[1], NULL, &store, &error), SILICA_OK, &error, "");
    expect("twice", silica_open(argv[1], NULL, &second, &error), SILICA_LOCKED, &error, "");
    expect("k", silica_keyspace_open(store, "k", &keyspace, &error), SILICA_OK, &error, "");
    handles(store, keyspace);
    arguments(store, keyspace);
    expect("verify", silica_verify(store, &error), SILICA_OK, &error, "");
    expect("close", silica_close(store, &error), SILICA_OK, &error, "");
    expect("closed", silica_put(keyspace, "k", 1, "v", 1, &error), SILICA_CLOSED, &error, "closed");
    silica_keyspace_free(keyspace);
    if (strcmp(silica_code_name(99), "?") != 0 || strlen(silica_version()) == 0)
        failures++;
    printf("%d failures\n", failures);
    return failures != 0;
}
