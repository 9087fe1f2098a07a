//! The prompt, as a script and as a person at a terminal meet it.

use crate::support::{arg, said, scratch, silica};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn typed(store: &Path, lines: &str) -> Output {
    let mut child = silica(&["--path", arg(store)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[track_caller]
fn answers(store: &Path, lines: &str, expected: &str) {
    let output = typed(store, lines);
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{}", said(&output));
}

#[test]
fn writes_answer_and_verbs_work_in_any_case() {
    let store = scratch("prompt-verbs").join("store");
    answers(
        &store,
        "put a 1\nput b 2 --ttl 1h\ndel a a none\nPUT c 3\nget c\n",
        "OK\nOK\n1 removed\nOK\n3\n",
    );
    answers(&store, "ttl c\nexpire c 1h\npersist c\nttl c\n", "unlimited\nOK\nOK\nunlimited\n");
    answers(&store, "put 'a key' \"with \\\"quotes\\\"\"\nget 'a key'\n", "OK\nwith \"quotes\"\n");
    answers(&store, "get c --json\n", "{\"found\":true,\"key\":\"c\",\"value\":\"3\"}\n");
}

#[test]
fn commands_of_redis_work_as_in_redis_cli() {
    let store = scratch("prompt-redis").join("store");
    answers(
        &store,
        "SET k \"a\\x00b\\n\"\nset n 5\nincr n\nGET none\nMGET n none\nEXISTS k n none\nSTRLEN k\n",
        "OK\nOK\n6\n\n6\n\n2\n4\n",
    );
    answers(&store, "get k\n", "a\\x00b\\n\n");
    answers(
        &store,
        "SET s v EX 100\nTTL s\nDEL s s\nINCR k\n",
        "OK\n100\n1\nERR value is not an integer or out of range\n",
    );
    answers(&store, "multi\nincr n\nincr n\nexec\n", "OK\nQUEUED\nQUEUED\n7\n8\n");
    // Databases are keyspaces.
    answers(
        &store,
        "use other\nGET n\nSET n other\nuse default\nGET n\nselect 3\nSET n three\nkeyspaces\n",
        "\nOK\n8\nOK\nOK\ndb3\twip\ndefault\twip\nother\twip\n",
    );
    for (line, word) in [
        ("SUBSCRIBE c", "silica serve"),
        ("SHUTDOWN", "silica serve"),
        ("SELECT 99", "no such database"),
        ("SET \"a", "Invalid argument(s)"),
        ("scna k", "did you mean 'scan'?"),
        ("LRANG k 0 1", "no verb or command 'lrang'"),
    ] {
        let output = typed(&store, line);
        assert!(String::from_utf8_lossy(&output.stderr).contains(word), "{}", said(&output));
    }
    let hint = typed(&store, "scan 0\n");
    assert!(String::from_utf8_lossy(&hint.stderr).contains("capitals: SCAN"), "{}", said(&hint));
}

#[test]
fn verbs_of_the_command_line_work_on_the_open_store() {
    let directory = scratch("prompt-all");
    let store = directory.join("store");
    let lines = directory.join("lines");
    std::fs::write(&lines, "from\tfile\n").unwrap();
    let backup = directory.join("backup");
    let script = format!(
        "load {}\nget from\nkeyspace create cache --engine mica --set partitions=1\n\
         put k v --keyspace cache\nget k --keyspace cache\nuse cache\nget k\nuse default\n\
         migrate default --to silt\nget from\nkeyspace drop cache\nkeyspace list\n\
         backup {}\ncount --exact\nwhy\ntune\nhelp put\nhelp\n",
        arg(&lines),
        arg(&backup)
    );
    let output = typed(&store, &script);
    assert!(output.status.success(), "{}", said(&output));
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut rest = shown.as_str();
    for part in [
        "file\n",
        "created keyspace 'cache' with engine mica\nOK\nv\nv\n",
        "has engine silt now",
        "file\n",
        "dropped keyspace 'cache'",
        "default\tsilt\t",
        "backed up 1 keyspaces",
        "1\n",
        "predicted",
        "best: --engine",
        "Map a key to a value",
        "as in redis-cli",
    ] {
        let at =
            rest.find(part).unwrap_or_else(|| panic!("'{part}' is missing in: {}", said(&output)));
        rest = &rest[at + part.len()..];
    }
    for line in ["serve", "repair"] {
        let output = typed(&store, line);
        assert_eq!(output.status.code(), Some(4), "{}", said(&output));
        assert!(String::from_utf8_lossy(&output.stderr).contains("leave it"), "{}", said(&output));
    }
    let other = directory.join("other");
    answers(
        &store,
        &format!("put x y --path {}\nget x --path {}\n", arg(&other), arg(&other)),
        "OK\ny\n",
    );
    // Codes are those of the commands.
    assert_eq!(typed(&store, "get none\n").status.code(), Some(1));
    assert_eq!(typed(&store, "put a\\q b\nput z z\n").status.code(), Some(2));
    assert_eq!(typed(&store, "get z\n").status.code(), Some(1), "a script ends at an error");
}

#[test]
fn a_prompt_that_was_only_looked_at_leaves_no_store() {
    let store = scratch("prompt-look").join("store");
    answers(&store, "scan\nquit\n", "");
    assert!(!store.exists());
    answers(&store, "put a b\n", "OK\n");
    assert!(store.exists());
}

/// At a terminal: the keyspace is shown, TAB completes, and nothing is drawn over a raw value.
#[test]
fn a_person_at_a_terminal_is_shown_where_they_are() {
    let directory = scratch("prompt-tty");
    let store = directory.join("store");
    let script = directory.join("keys");
    std::fs::write(&script, TERMINAL).unwrap();
    let output = Command::new("python3")
        .arg(&script)
        .args([env!("CARGO_BIN_EXE_silica"), arg(&store)])
        .env("HOME", &directory)
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else {
        println!("skipped: python3, which has terminals of its own, is not installed");
        return;
    };
    assert!(output.status.success(), "{}", said(&output));
}

/// Types into a terminal of its own and waits for what is shown.
const TERMINAL: &str = r#"
import os, pty, re, select, sys, time

pid, terminal = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    os.execv(sys.argv[1], ["silica", "--path", sys.argv[2]])
shown = b""

def await_text(pattern):
    global shown
    end = time.time() + 60
    while True:
        plain = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", shown)
        plain = re.sub(rb"\r(?!\n)", b"", plain)
        found = re.search(pattern, plain, re.S)
        if found:
            shown = b""
            return plain
        ready, _, _ = select.select([terminal], [], [], max(0, end - time.time()))
        if not ready:
            sys.exit("no %r in %r" % (pattern, plain))
        shown += os.read(terminal, 4096)

def type_keys(keys):
    os.write(terminal, keys)

await_text(rb"silica:default> $")
type_keys(b"put user:ann blue\r")
await_text(rb"OK\r\nsilica:default> $")
type_keys(b"get user:a\t")
await_text(rb"get user:ann $")
type_keys(b"--raw\r")
await_text(rb"blue\r\nsilica:default> $")
type_keys(b"GET user:ann\r")
await_text(rb"\"blue\"\r\nsilica:default> $")
type_keys(b"INCR n\r")
await_text(rb"\(integer\) 1\r\nsilica:default> $")
type_keys(b"use other\r")
await_text(rb"silica:other> $")
type_keys(b"quit\r")
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"#;

#[test]
fn statements_of_sql_work_on_the_store_that_is_open() {
    let store = scratch("prompt-sql").join("store");
    answers(
        &store,
        "CREATE TABLE likes (\n  name TEXT,\n  color TEXT\n);\n\
         INSERT INTO likes VALUES ('k', 'blue')\nSET k v\nselect name, color FROM likes;\n\
         SELECT color, value FROM likes JOIN silica_keyspace('default') ON key = name\n",
        "OK\nk|blue\nblue|v\n",
    );
    // What Redis has keeps its meaning; a ; makes it a statement.
    answers(&store, "SELECT 3\nSELECT 3;\nSELECT 1 + 2\n", "OK\n3\n3\n");
    // Transactions go on from line to line.
    let transaction = "BEGIN\nDELETE FROM likes\nROLLBACK\nSELECT count(*) FROM likes\n";
    answers(&store, transaction, "1\n");
    // Keys of a database are not written as such.
    for line in ["use sql\nSET k v\n", "use sql\nput k v\n"] {
        let output = typed(&store, line);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("is a database of SQL"), "{}", said(&output));
    }
    // A keyspace that is a database is the one that is meant.
    answers(
        &store,
        "SILICA.SQL app \"CREATE TABLE t (a)\"\nuse app\n\
         INSERT INTO t VALUES (7)\nSELECT * FROM t\n",
        "0\n7\n",
    );
    let output = typed(&store, "SELEC 1\n");
    assert!(!output.status.success(), "{}", said(&output));
    let output = typed(&store, "SELECT missing FROM likes\n");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("no such column: missing"), "{}", said(&output));
}
