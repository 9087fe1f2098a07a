//! docs/protocols/resp.md lists the commands as the server tells them.

use crate::support::{Client, start};
use silica_proto::Value;
use std::collections::BTreeMap;
use std::path::Path;

const PAGE: &str = "docs/protocols/resp.md";
/// Where the list begins, after the line that says how it is written, and ends.
const BEGIN: &str = "<!-- commands:";
const END: &str = "<!-- end -->";
/// Set, the page is written instead of compared.
const WRITE: &str = "SILICA_WRITE_PAGES";
/// Groups in the order of the page.
const GROUPS: [&str; 16] = [
    "string",
    "hash",
    "list",
    "set",
    "sorted-set",
    "stream",
    "geo",
    "hyperloglog",
    "generic",
    "bitmap",
    "transactions",
    "scripting",
    "pubsub",
    "connection",
    "server",
    "cluster",
];

fn text(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The entries of `COMMAND DOCS`, subcommands after their container: name, group and summary.
fn entries(docs: &Value, into: &mut Vec<(String, String, String)>) {
    let Value::Map(commands) = docs else { panic!("a map") };
    for (name, about) in commands {
        let Value::Map(about) = about else { panic!("a map") };
        let about: BTreeMap<String, &Value> = about.iter().map(|(k, v)| (text(k), v)).collect();
        into.push((text(name), text(about["group"]), text(about["summary"])));
        if let Some(subcommands) = about.get("subcommands") {
            entries(subcommands, into);
        }
    }
}

#[test]
fn the_page_lists_what_the_server_tells() {
    let server = start();
    let mut client = Client::connect(&server);
    client.ask("HELLO 3");
    let mut all = Vec::new();
    entries(&client.call(&[b"COMMAND", b"DOCS"]), &mut all);
    server.stop();
    assert!(all.iter().all(|(_, group, _)| GROUPS.contains(&group.as_str())), "{all:?}");
    let mut list = String::new();
    for group in GROUPS {
        list += &format!("\n**{group}**\n\n| command | what it does |\n|---|---|\n");
        for (name, _, summary) in all.iter().filter(|(_, other, _)| other == group) {
            let name = name.to_uppercase().replace('|', " ");
            list += &format!("| `{name}` | {summary} |\n");
        }
    }
    list.push('\n');
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    let page = std::fs::read_to_string(&path).unwrap();
    let begin = page.find(BEGIN).expect("a mark where the list begins");
    let begin = begin + page[begin..].find('\n').unwrap() + 1;
    let end = page.find(END).expect("a mark where it ends");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, format!("{}{list}{}", &page[..begin], &page[end..])).unwrap();
        return;
    }
    assert!(page[begin..end] == list, "{PAGE} is not current: run this test with {WRITE}=1");
}
