//! Counters that many threads add to: what is read is changed in one step, so no addition is lost.

use silica::{Durability, Keyspace, OpenOptions, Result, Update};

fn add(counters: &Keyspace, name: &str, amount: u64) -> Result<()> {
    counters.update(name, |old| {
        let old = old.and_then(|entry| entry.value.try_into().ok()).map_or(0, u64::from_le_bytes);
        Update::put((old + amount).to_le_bytes().to_vec())
    })
}

fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    // A count may lose its last moments in a power cut; so no addition waits for the device.
    let store = OpenOptions::new().durability(Durability::Buffered).open(directory.path())?;
    let counters = store.keyspace("counters")?;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| -> Result<()> {
                for n in 0..1000 {
                    add(&counters, if n % 10 == 0 { "clicks" } else { "views" }, 1)?;
                }
                Ok(())
            });
        }
    });
    let count = |name: &str| {
        let read = |entry: Option<silica::EntryRef<'_>>| {
            entry.and_then(|entry| entry.value.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        counters.get_with(name, read)
    };
    println!("{} views, {} clicks", count("views")?, count("clicks")?);
    assert_eq!((count("views")?, count("clicks")?), (3600, 400));
    store.close()
}
