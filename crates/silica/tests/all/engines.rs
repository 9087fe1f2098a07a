//! Keyspaces with different engines in one store: what they are stays, and memory is divided.

use silica::{ErrorKind, OpenOptions, Result};
use std::path::PathBuf;
use std::sync::Arc;

/// A directory that goes when the test ends.
struct Temp(PathBuf);

impl Temp {
    fn new(name: &str) -> Self {
        Temp(std::env::temp_dir().join(format!("silica-engines-{name}-{}", std::process::id())))
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn options() -> OpenOptions {
    OpenOptions::new().memory_bytes(64 << 20)
}

fn with_cache(bytes: &str) -> OpenOptions {
    options().declare("hot", "mica", &[("memory_bytes", bytes), ("eviction", "lru")])
}

#[test]
fn what_a_keyspace_was_declared_to_be_it_stays() -> Result<()> {
    let temp = Temp::new("stays");
    let store = with_cache("16MiB").engine("silt").set("partitions", "4").open(&temp.0)?;
    store.keyspace("hot")?.put("a", "1")?;
    store.keyspace("cold")?.put("a", "2")?;
    assert_eq!(store.keyspace("cold")?.metrics()?.get("partitions"), 4.0);
    store.close()?;

    let store = options().open(&temp.0)?;
    let (hot, cold) = (store.keyspace("hot")?, store.keyspace("cold")?);
    assert_eq!(hot.engine().descriptor().name, "mica");
    assert_eq!(hot.get("a")?, None, "it is in memory");
    assert_eq!(cold.get("a")?, Some(b"2".to_vec()));
    let inspected = hot.inspect()?;
    assert!(inspected.contains(&format!("memory_bytes: {}\n", 16 << 20)), "{inspected}");
    assert_eq!(store.memory_reserved()?, 16 << 20);
    drop((hot, cold));
    store.close()?;

    let store = with_cache("8MiB").open(&temp.0)?;
    let inspected = store.keyspace("hot")?.inspect()?;
    assert!(inspected.contains(&format!("memory_bytes: {}\n", 8 << 20)), "{inspected}");
    store.close()?;
    let store = options().declare("cold", "mica", &[]).open(&temp.0)?;
    let refused = store.keyspace("cold").map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config);
    assert!(refused.to_string().contains("'cold' has engine silt, not mica"), "{refused}");
    Ok(())
}

#[test]
fn wrong_declarations_are_refused_before_anything_is_created() {
    let temp = Temp::new("wrong");
    for (options, words) in [
        (options().declare("a", "nothing", &[]), "no engine 'nothing'"),
        (options().declare("a", "mica", &[("sorted_filter_bits", "1")]), "keyspace 'a'"),
        (with_cache("65MiB"), "the whole is 67108864 bytes"),
    ] {
        let refused = options.open(&temp.0).map(drop).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
        assert!(!temp.0.exists());
    }
}

#[test]
fn a_keyspace_in_memory_keeps_the_share_that_it_took() -> Result<()> {
    let temp = Temp::new("share");
    let store = options().open(&temp.0)?;
    store.keyspace("cold")?.put("a", "1")?;
    let hot = store.create_keyspace("hot", "mica", &[])?;
    let inspected = hot.inspect()?;
    assert!(inspected.contains(&format!("memory_bytes: {}\n", 32 << 20)), "{inspected}");
    // The third shares with the first what the second has left.
    store.keyspace("third")?.put("a", "1")?;
    assert_eq!(store.memory_reserved()?, 32 << 20);
    drop(hot);
    store.close()?;
    let again = options().keyspace_memory("hot", 4 << 20).open(&temp.0)?;
    assert_eq!(again.memory_reserved()?, 4 << 20);
    let inspected = again.keyspace("hot")?.inspect()?;
    assert!(inspected.contains(&format!("memory_bytes: {}\n", 4 << 20)), "{inspected}");
    again.close()?;
    let full = with_cache("64MiB").open(&temp.0)?;
    let refused = full.keyspace("fourth").map(drop).unwrap_err().to_string();
    assert!(refused.contains("leave nothing for 'fourth'"), "{refused}");
    Ok(())
}

#[test]
fn a_backup_holds_a_keyspace_in_memory_empty() -> Result<()> {
    let temp = Temp::new("backup");
    let (here, there) = (temp.0.join("here"), temp.0.join("there"));
    std::fs::create_dir_all(&temp.0).unwrap();
    let store = with_cache("16MiB").open(here)?;
    store.keyspace("hot")?.put("a", "1")?;
    store.keyspace("cold")?.put("a", "2")?;
    assert_eq!(store.backup(&there)?.keyspaces, 2);
    let copy = options().open(&there)?;
    assert_eq!(copy.keyspace("cold")?.get("a")?, Some(b"2".to_vec()));
    let hot = copy.keyspace("hot")?;
    assert_eq!(hot.engine().descriptor().name, "mica");
    assert_eq!(hot.get("a")?, None);
    copy.verify()
}

#[test]
fn what_is_in_memory_stays_where_others_still_have_the_store_that_is_closed() -> Result<()> {
    let temp = Temp::new("shared");
    let warm = || options().declare("hot", "mica", &[("warm_restart", "on")]);
    let store = Arc::new(warm().open(&temp.0)?);
    store.keyspace("hot")?.put("a", "1")?;
    let other = Arc::clone(&store);
    store.shut()?;
    let refused = other.keyspace("hot").map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
    // A process may end before the other is gone: the image is there.
    let entries = std::fs::read_dir(&temp.0).unwrap();
    let images = entries.filter(|entry| entry.as_ref().unwrap().path().join("image").is_file());
    assert_eq!(images.count(), 1);
    other.shut()?;
    drop((store, other));
    let again = warm().open(&temp.0)?;
    assert_eq!(again.keyspace("hot")?.get("a")?, Some(b"1".to_vec()));
    again.close()
}
