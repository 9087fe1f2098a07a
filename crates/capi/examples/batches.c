/* Writes that happen together, and entries that expire. Usage: batches DIRECTORY */
#include <silica.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(silica_code code, silica_error **error)
{
    if (code != SILICA_OK) {
        fprintf(stderr, "%s: %s\n", silica_code_name(code), silica_error_message(*error));
        silica_error_free(*error);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    silica_store *store;
    silica_keyspace *sessions;
    silica_batch *batch;
    silica_error *error;
    uint64_t count;
    int64_t ttl_ms;
    int had_limit;

    if (argc != 2) {
        fprintf(stderr, "usage: batches DIRECTORY\n");
        return 2;
    }
    check(silica_open(argv[1], NULL, &store, &error), &error);
    check(silica_keyspace_open(store, "sessions", &sessions, &error), &error);

    batch = silica_batch_new();
    check(silica_batch_put(batch, "ann", 3, "token 1", 7, &error), &error);
    check(silica_batch_put_with_ttl(batch, "bob", 3, "token 2", 7, 60000, &error), &error);
    check(silica_batch_delete(batch, "cid", 3, &error), &error);
    printf("%lu operations\n", (unsigned long)silica_batch_count(batch));
    check(silica_write(sessions, batch, SILICA_SYNCED, &error), &error);
    silica_batch_free(batch);

    check(silica_count(sessions, 1, &count, &error), &error);
    printf("%lu sessions\n", (unsigned long)count);
    check(silica_ttl(sessions, "bob", 3, &ttl_ms, &error), &error);
    printf("bob's ends within a minute: %s\n", ttl_ms > 0 && ttl_ms <= 60000 ? "yes" : "no");
    check(silica_persist(sessions, "bob", 3, &had_limit, &error), &error);
    check(silica_ttl(sessions, "bob", 3, &ttl_ms, &error), &error);
    printf("bob's had a limit: %d, and has none now: %d\n", had_limit, ttl_ms == SILICA_UNLIMITED);
    check(silica_ttl(sessions, "cid", 3, &ttl_ms, &error), &error);
    printf("cid is absent: %d\n", ttl_ms == SILICA_ABSENT);

    silica_keyspace_free(sessions);
    check(silica_close(store, &error), &error);
    return 0;
}
