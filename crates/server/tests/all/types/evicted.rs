//! Objects of a cache that has evicted some of their pages.

use crate::support::{Client, config};
use silica::OpenOptions;
use silica_proto::Value;
use silica_server::{Databases, Server};
use std::sync::Arc;

/// Lists that together are several times as large as the cache: each is there as a whole, or gone.
#[test]
fn an_object_is_evicted_as_a_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let memory = [("memory_bytes", "8MiB")];
    let options = OpenOptions::new().memory_bytes(64 << 20).declare("default", "mica", &memory);
    let store = Arc::new(options.open(directory.path().join("store")).expect("a store"));
    let server = Server::start(config(), store as Arc<dyn Databases>).expect("a server");
    let mut client = Client::connect(&server);
    let value = "v".repeat(100);
    let (lists, len) = (60, 4000);
    for list in 0..lists {
        for _ in 0..len / 100 {
            let values = format!(" {list}-{value}").repeat(100);
            let answer = client.ask(&format!("RPUSH list:{list}{values}"));
            assert!(answer.starts_with(':'), "{answer}");
        }
    }
    let (mut whole, mut gone) = (0, 0);
    for list in 0..lists {
        let key = format!("list:{list}");
        match client.call(&[b"LRANGE", key.as_bytes(), b"0", b"-1"]) {
            Value::Array(values) if values.is_empty() => {
                assert_eq!(client.ask(&format!("EXISTS {key}")), ":0", "it was looked at");
                assert_eq!(client.ask(&format!("RPUSH {key} x")), ":1", "it begins anew");
                gone += 1;
            }
            Value::Array(values) => {
                let want = Value::Bulk(format!("{list}-{value}").into_bytes());
                assert!(values.iter().all(|value| *value == want), "{key}");
                // It may have begun anew while it was pushed to.
                assert!(values.len() <= len && values.len().is_multiple_of(100), "{key}");
                whole += usize::from(values.len() == len);
            }
            other => panic!("{key}: {other:?}"),
        }
    }
    assert!(gone > lists / 2 && whole > 0, "{gone} are gone and {whole} whole");
    server.stop();
}
