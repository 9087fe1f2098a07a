//! Keys are in the order of their bytes, so a key that begins with what belongs together makes
//! ranges: here readings of sensors by time.

use silica::{KeyRange, Result};

/// `sensor/time`, the time with as many digits as every other, so that 10 comes after 9.
fn key(sensor: &str, time: u64) -> String {
    format!("{sensor}/{time:010}")
}

fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = silica::open(directory.path())?;
    let readings = store.keyspace("readings")?;
    for time in 0..50 {
        readings.put(key("attic", time), format!("{}", 20 + time % 7))?;
        readings.put(key("cellar", time), format!("{}", 8 + time % 3))?;
    }

    // All of one sensor: a prefix.
    let cellar = readings.range(KeyRange::prefix(b"cellar/"))?;
    println!("the cellar has {} readings", cellar.count());

    // From a time on, and before another one.
    let some: Vec<_> =
        readings.range(key("attic", 10)..key("attic", 13))?.collect::<Result<_>>()?;
    assert_eq!(some.len(), 3);

    // The newest three: ranges go backwards, too.
    let attic = readings.range(KeyRange::prefix(b"attic/"))?;
    for entry in attic.rev().take(3) {
        let (key, value) = entry?;
        println!("{}: {} degrees", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
    }

    // A page at a time, for a program that ends in between: the next one begins after the last key.
    let (mut pages, mut from) = (0, key("attic", 0));
    loop {
        let page: Vec<_> = readings.range(from.as_str()..)?.take(20).collect::<Result<_>>()?;
        let Some((last, _)) = page.last() else { break };
        // The smallest key that is larger.
        from = format!("{}\0", String::from_utf8_lossy(last));
        pages += 1;
    }
    assert_eq!(pages, 5);

    // A snapshot stays as it is, whatever is written meanwhile.
    let before = readings.snapshot()?;
    readings.delete_range(KeyRange::prefix(b"attic/"))?;
    assert_eq!(readings.range(..)?.count(), 50);
    assert_eq!(before.range(..)?.count(), 100);
    println!("the attic is gone, and a snapshot still has it");
    drop(before);
    store.close()
}
