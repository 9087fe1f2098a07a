//! Times to live on the command line, for every engine that outlives a command.

use crate::support::{arg, said, scratch, silica};
use std::process::Output;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn keys_get_a_time_to_live_lose_it_and_go() {
    for engine in ["wip", "silt"] {
        let store = scratch(&format!("expiry-{engine}")).join("store");
        let run = |args: &[&str]| -> Output {
            let more = ["--path", arg(&store), "--engine", engine];
            silica(&[args, &more].concat()).output().unwrap()
        };
        let ok = |args: &[&str]| {
            let output = run(args);
            assert!(output.status.success(), "{args:?}: {}", said(&output));
            text(&output.stdout)
        };
        let left = |key: &str| {
            let json: serde_json::Value =
                serde_json::from_str(&ok(&["ttl", key, "--json"])).unwrap();
            json["ttl_ms"].as_u64()
        };
        ok(&["put", "k", "v", "--ttl", "1h"]);
        let ms = left("k").expect("it has a limit");
        assert!((3_000_000..=3_600_000).contains(&ms), "{ms}");
        assert!(ok(&["ttl", "k"]).contains('m'), "minutes are told");
        ok(&["persist", "k"]);
        assert_eq!((left("k"), ok(&["ttl", "k"])), (None, "unlimited\n".to_string()));
        ok(&["expire", "k", "100"]);
        assert!(left("k").expect("seconds where there is no unit") <= 100_000);
        assert_eq!(ok(&["get", "k"]), "v\n");
        ok(&["expire", "k", "1ms"]);
        std::thread::sleep(std::time::Duration::from_millis(2));
        for args in [&["get", "k"][..], &["ttl", "k"], &["expire", "k", "5s"], &["persist", "k"]] {
            let output = run(args);
            assert_eq!(output.status.code(), Some(1), "{args:?}: {}", said(&output));
            assert!(text(&output.stderr).contains("no key k"), "{}", said(&output));
        }
        for args in [
            &["put", "k", "v", "--ttl", "soon"][..],
            &["put", "k", "v", "--ttl", "0"],
            &["expire", "k", "-1s"],
            &["put", "k", "v", "--ttl", "999999999999999999"],
        ] {
            let output = run(args);
            assert_eq!(output.status.code(), Some(2), "{args:?}: {}", said(&output));
        }
    }
}
