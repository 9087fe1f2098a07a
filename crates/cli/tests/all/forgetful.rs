//! Commands that write do not write to what forgets when they end.

use crate::support::{Reply, Server, arg, said, scratch, silica, silica_ok};

fn refused(args: &[&str], words: &[&str]) {
    let output = silica(args).output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
    words.iter().for_each(|word| assert!(text.contains(word), "{args:?}: {word}: {text}"));
}

#[test]
fn a_command_does_not_write_to_a_keyspace_that_forgets() {
    let dir = scratch("forgetful");
    let (store, records) = (dir.join("store"), dir.join("records"));
    let at = arg(&store);
    std::fs::write(&records, "a\t1\nb\t2\n").unwrap();
    let fix = ["warm_restart=on", "--forget-at-exit"];
    refused(&["put", "a", "1", "--engine", "mica", "--path", at], &fix);
    refused(&["load", arg(&records), "--engine", "mica", "--path", at], &fix);
    assert!(!store.exists(), "a command that is refused leaves no store");

    // Nor to one that exists; what reads it may.
    let create = ["keyspace", "create", "default", "--engine", "mica", "--path", at];
    let created = silica(&create).output().unwrap();
    assert!(said(&created).contains("each process that opens it finds it empty"));
    refused(&["put", "a", "1", "--path", at], &fix);
    refused(&["load", arg(&records), "--path", at], &fix);
    silica_ok(&["count", "--path", at]);
    silica_ok(&["put", "a", "1", "--path", at, "--forget-at-exit"]);

    let warm = dir.join("warm");
    let at = ["--path", arg(&warm)];
    let engine = ["--engine", "mica", "--set", "warm_restart=on"];
    silica_ok(&[&["load", arg(&records)], &engine[..], &at].concat());
    assert_eq!(silica_ok(&[&["get", "b"], &at[..]].concat()), "2\n");
    let backup = dir.join("backup");
    let told = silica_ok(&[&["backup", arg(&backup)], &at[..]].concat());
    assert!(told.contains("1 of the keyspaces are in memory: they are empty in it"), "{told}");
}

#[test]
fn a_migration_into_memory_is_refused_unless_it_keeps_an_image() {
    let dir = scratch("forgetful-migrate");
    let store = dir.join("store");
    let at = ["--path", arg(&store)];
    silica_ok(&[&["put", "a", "1"], &at[..]].concat());
    let migrate = [&["migrate", "default", "--to", "mica"], &at[..]].concat();
    refused(&migrate, &["warm_restart=on", "--forget-at-exit"]);
    assert_eq!(silica_ok(&[&["get", "a"], &at[..]].concat()), "1\n");
    silica_ok(&[&migrate[..], &["--set", "warm_restart=on"]].concat());
    assert_eq!(silica_ok(&[&["get", "a"], &at[..]].concat()), "1\n");
    silica_ok(&[&["migrate", "default", "--to", "wip"], &at[..]].concat());
    silica_ok(&[&migrate[..], &["--forget-at-exit"]].concat());
    assert_eq!(silica_ok(&[&["count", "--exact"], &at[..]].concat()), "0\n");
}

#[test]
fn a_server_does_not_migrate_into_what_forgets() {
    let dir = scratch("forgetful-served");
    let store = dir.join("store");
    let server = Server::start(&store, &[]);
    let mut client = server.client();
    let mut ask = |line: &str| {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        match client.ask(&words).unwrap() {
            Reply::Bytes(Some(text)) => String::from_utf8(text).unwrap(),
            other => format!("{other:?}"),
        }
    };
    ask("SET a 1");
    let refused = ask("SILICA.MIGRATE 0 mica");
    assert!(refused.contains("warm_restart=on") && refused.contains("forget"), "{refused}");
    assert!(ask("SILICA.MIGRATE 0 mica warm_restart").contains("syntax"));
    assert!(ask("SILICA.MIGRATE 0 mica memory_bytes 8MiB FORGET-AT-EXIT").contains("OK"));
    while !ask("SILICA.MIGRATE 0").contains("done 1 entries") {
        assert!(!ask("SILICA.MIGRATE 0").contains("failed"));
    }
    server.stop();
}
