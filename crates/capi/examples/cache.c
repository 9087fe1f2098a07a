/* A cache in memory that several threads use. Usage: cache */
#include <pthread.h>
#include <silica.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ENTRIES = 1000 };

static void check(silica_code code, silica_error **error)
{
    if (code != SILICA_OK) {
        fprintf(stderr, "%s: %s\n", silica_code_name(code), silica_error_message(*error));
        silica_error_free(*error);
        exit(1);
    }
}

static void *fill(void *argument)
{
    const silica_cache *cache = (const silica_cache *)argument;
    silica_error *error;
    char key[32];
    int i;
    for (i = 0; i < ENTRIES; i++) {
        int length = snprintf(key, sizeof key, "key %d", i);
        check(silica_cache_put(cache, key, (size_t)length, "value", 5, 60000, &error), &error);
    }
    return NULL;
}

int main(void)
{
    const char *options[] = {"memory_bytes=16MiB", NULL};
    silica_cache *cache;
    silica_error *error;
    pthread_t threads[THREADS];
    uint64_t count;
    char buffer[8];
    char *metrics;
    size_t length;
    int i;

    check(silica_cache_open(options, &cache, &error), &error);
    for (i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, fill, cache) != 0)
            return 1;
    for (i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    check(silica_cache_count(cache, 1, &count, &error), &error);
    printf("%lu entries\n", (unsigned long)count);
    check(silica_cache_get_into(cache, "key 7", 5, buffer, sizeof buffer, &length, &error), &error);
    printf("key 7 has %.*s\n", (int)length, buffer);
    check(silica_cache_get_into(cache, "key x", 5, buffer, sizeof buffer, &length, &error), &error);
    printf("key x is %s\n", length == SIZE_MAX ? "absent" : "there");
    check(silica_cache_metrics(cache, &metrics, &error), &error);
    printf("puts are counted: %s\n", strstr(metrics, "puts: 4000\n") ? "yes" : "no");
    silica_free(metrics);
    check(silica_cache_close(cache, &error), &error);
    return 0;
}
