/* Moves money between accounts while others do, too. Usage: transactions DIRECTORY */
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

static int balance(silica_transaction *transaction, const char *name)
{
    silica_error *error;
    void *value;
    int amount;
    check(silica_transaction_get_for_update(transaction, name, strlen(name), &value, NULL, &error),
          &error);
    amount = value ? atoi((const char *)value) : 0;
    silica_free(value);
    return amount;
}

static void set(silica_transaction *transaction, const char *name, int amount)
{
    silica_error *error;
    char text[16];
    int length = snprintf(text, sizeof text, "%d", amount);
    check(silica_transaction_put(transaction, name, strlen(name), text, (size_t)length, 0, &error),
          &error);
}

int main(int argc, char **argv)
{
    silica_store *store;
    silica_keyspace *accounts;
    silica_transaction *transaction;
    silica_error *error = NULL;
    silica_code code;
    uint64_t mark;
    void *value;
    int tries = 0;

    if (argc != 2) {
        fprintf(stderr, "usage: transactions DIRECTORY\n");
        return 2;
    }
    check(silica_open(argv[1], NULL, &store, &error), &error);
    check(silica_keyspace_open(store, "accounts", &accounts, &error), &error);
    check(silica_put(accounts, "ann", 3, "70", 2, &error), &error);

    do {
        tries++;
        check(silica_transaction_begin(accounts, 0, -1, &transaction, &error), &error);
        set(transaction, "ann", balance(transaction, "ann") - 10);
        set(transaction, "bob", balance(transaction, "bob") + 10);
        check(silica_transaction_savepoint(transaction, &mark, &error), &error);
        set(transaction, "cid", 1000000);
        check(silica_transaction_roll_back_to(transaction, mark, &error), &error);
        /* Somebody else takes something from ann, but only once. */
        if (tries == 1)
            check(silica_put(accounts, "ann", 3, "60", 2, &error), &error);
        code = silica_transaction_commit(transaction, SILICA_USUAL, &error);
        if (code == SILICA_CONFLICT) {
            printf("conflict\n");
            silica_error_free(error);
            error = NULL;
        } else {
            check(code, &error);
        }
    } while (code == SILICA_CONFLICT);

    check(silica_get(accounts, "ann", 3, &value, NULL, &error), &error);
    printf("ann has %s after %d tries\n", (const char *)value, tries);
    silica_free(value);
    check(silica_get(accounts, "cid", 3, &value, NULL, &error), &error);
    printf("cid has %s\n", value ? (const char *)value : "nothing");
    silica_free(value);
    silica_keyspace_free(accounts);
    check(silica_close(store, &error), &error);
    return 0;
}
