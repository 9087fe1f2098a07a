//! Keyspaces with different engines in one store, whose memory is one number.

use silica::{OpenOptions, Result};

fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = OpenOptions::new().memory_bytes(128 << 20).open(directory.path())?;
    // In order, with compressed tables.
    let events = store.create_keyspace("events", "wip", &[("compression", "lz4")])?;
    // Small entries by the tens of millions, found with one read of the device each.
    let prints = store.create_keyspace("fingerprints", "silt", &[])?;
    // In memory: what is there when the store is closed is there when it is opened.
    let hot = store.create_keyspace("hot", "mica", &[("warm_restart", "on")])?;

    for n in 0..1000u64 {
        events.put(format!("event {n:06}"), "something has happened ".repeat(4))?;
        prints.put(n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes(), n.to_le_bytes())?;
        hot.put(format!("page {n}"), "a page")?;
    }
    for info in store.keyspaces()? {
        let keyspace = store.keyspace(&info.name)?;
        let entries = keyspace.count(true)?.estimate;
        println!("{}: engine {}, {entries} entries", info.name, info.engine);
        assert_eq!(entries, 1000);
    }
    // Every engine counts what it does.
    let written = events.metrics()?.get("user_bytes_written");
    println!("{written} bytes of events were written by this program");
    assert!(written > 90_000.0);

    // What only an engine with an order can do, others refuse in words.
    let refused = prints.range(..).err().map(|error| error.to_string());
    println!("a range of fingerprints: {}", refused.as_deref().unwrap_or("?"));
    assert!(refused.is_some());
    drop((events, prints, hot));
    store.close()
}
