/* Iterators both ways, a snapshot, a backup. Usage: ranges DIRECTORY */
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

static void show(silica_iterator *at)
{
    size_t key_length, value_length;
    const char *key = (const char *)silica_iterator_key(at, &key_length);
    const char *value = (const char *)silica_iterator_value(at, &value_length);
    printf("%.*s is %.*s\n", (int)key_length, key, (int)value_length, value);
}

int main(int argc, char **argv)
{
    static const char *planets[][2] = {
        {"venus", "0.72 au"}, {"mercury", "0.39 au"}, {"mars", "1.52 au"}, {"earth", "1 au"}};
    silica_store *store;
    silica_keyspace *sky;
    silica_iterator *at;
    silica_snapshot *before;
    silica_error *error;
    void *value;
    char path[4096];
    size_t i;

    if (argc != 2) {
        fprintf(stderr, "usage: ranges DIRECTORY\n");
        return 2;
    }
    snprintf(path, sizeof path, "%s/store", argv[1]);
    check(silica_open(path, NULL, &store, &error), &error);
    check(silica_keyspace_open(store, NULL, &sky, &error), &error);
    for (i = 0; i < 4; i++)
        check(silica_put(sky, planets[i][0], strlen(planets[i][0]), planets[i][1],
                         strlen(planets[i][1]), &error), &error);

    /* Those that begin with m, forwards. */
    check(silica_iterate_prefix(sky, "m", 1, &at, &error), &error);
    for (check(silica_iterator_first(at, &error), &error); silica_iterator_valid(at);
         check(silica_iterator_next(at, &error), &error))
        show(at);
    silica_iterator_free(at);

    /* From n on, backwards from the end. */
    check(silica_iterate(sky, "n", 1, NULL, 0, &at, &error), &error);
    for (check(silica_iterator_last(at, &error), &error); silica_iterator_valid(at);
         check(silica_iterator_prev(at, &error), &error))
        show(at);
    silica_iterator_free(at);

    /* A snapshot stays as it is, and a backup is a store. */
    check(silica_snapshot_new(sky, &before, &error), &error);
    snprintf(path, sizeof path, "%s/backup", argv[1]);
    check(silica_backup(store, path, NULL, &error), &error);
    check(silica_delete_range(sky, "m", 1, "n", 1, &error), &error);
    check(silica_get(sky, "mars", 4, &value, NULL, &error), &error);
    printf("mars is %s\n", value ? "there" : "gone");
    check(silica_snapshot_get(before, "mars", 4, &value, NULL, &error), &error);
    printf("mars was %s\n", value ? (const char *)value : "gone");
    silica_free(value);
    silica_snapshot_free(before);
    silica_keyspace_free(sky);
    check(silica_close(store, &error), &error);

    check(silica_open(path, NULL, &store, &error), &error);
    check(silica_keyspace_open(store, NULL, &sky, &error), &error);
    check(silica_get(sky, "mars", 4, &value, NULL, &error), &error);
    printf("mars of the backup is %s\n", value ? (const char *)value : "gone");
    silica_free(value);
    silica_keyspace_free(sky);
    check(silica_close(store, &error), &error);
    return 0;
}
