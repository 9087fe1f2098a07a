/* Opens a store, puts, gets and deletes. Usage: basics DIRECTORY */
#include <silica.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program with the text of an error, if there is one. */
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
    const char *options[] = {"memory_bytes=64MiB", "durability=buffered", NULL};
    silica_store *store;
    silica_keyspace *users;
    silica_error *error;
    void *value;
    size_t length;
    char buffer[16];

    if (argc != 2) {
        fprintf(stderr, "usage: basics DIRECTORY\n");
        return 2;
    }
    check(silica_open(argv[1], options, &store, &error), &error);
    check(silica_keyspace_open(store, "users", &users, &error), &error);
    check(silica_put(users, "ann", 3, "blue", 4, &error), &error);

    /* A copy of our own, which ends with a zero byte. */
    check(silica_get(users, "ann", 3, &value, &length, &error), &error);
    printf("ann likes %s (%lu bytes)\n", (const char *)value, (unsigned long)length);
    silica_free(value);

    /* A copy in a buffer, without an allocation. */
    check(silica_get_into(users, "ann", 3, buffer, sizeof buffer, &length, &error), &error);
    printf("ann likes %.*s\n", (int)length, buffer);

    check(silica_delete(users, "ann", 3, &error), &error);
    check(silica_get(users, "ann", 3, &value, NULL, &error), &error);
    printf("ann is %s\n", value == NULL ? "gone" : "there");

    silica_keyspace_free(users);
    check(silica_close(store, &error), &error);
    return 0;
}
