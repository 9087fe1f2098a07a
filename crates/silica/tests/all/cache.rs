//! The cache without a directory.

use silica::{Cache, ErrorKind, OpenOptions, TimeToLive, Update};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn it_does_what_a_keyspace_does() {
    let cache = Cache::new(8 << 20).unwrap();
    cache.put("a", "1").unwrap();
    cache.put_with_ttl("b", "2", HOUR).unwrap();
    assert_eq!(cache.get_many(&["a", "c", "b"]).unwrap()[1], None);
    assert_eq!(cache.ttl("a").unwrap(), Some(TimeToLive::Unlimited));
    assert!(matches!(cache.ttl("b").unwrap(), Some(TimeToLive::Left(left)) if left <= HOUR));
    assert_eq!(cache.ttl("c").unwrap(), None);
    assert!(cache.expire("a", HOUR).unwrap() && !cache.expire("c", HOUR).unwrap());
    assert!(cache.persist("a").unwrap() && !cache.persist("a").unwrap());
    cache.update("a", |old| Update::put([old.unwrap().value, b"!"].concat())).unwrap();
    let length = cache.get_with("a", |entry| entry.map_or(0, |entry| entry.value.len()));
    assert_eq!(length.unwrap(), 2);
    let mut keys = cache.keys().unwrap();
    keys.sort();
    assert_eq!(keys, [b"a", b"b"]);
    assert_eq!(cache.count(true).unwrap().estimate, 2);
    assert_eq!(cache.metrics().get("puts"), 5.0);
    cache.delete("a").unwrap();
    assert_eq!(cache.get("a").unwrap(), None);
    cache.clear().unwrap();
    assert_eq!(cache.count(true).unwrap().estimate, 0);
    cache.close().unwrap();
}

#[test]
fn it_drops_entries_or_refuses_them() {
    let value = vec![7; 1000];
    let fill = |cache: &Cache| (0..40_000).try_for_each(|n| cache.put(format!("key {n}"), &value));
    let cache = Cache::new(8 << 20).unwrap();
    fill(&cache).unwrap();
    assert!(cache.metrics().get("evictions") > 0.0);
    let options = OpenOptions::new().memory_bytes(8 << 20).setting("eviction", "none").unwrap();
    let store = Cache::open(options).unwrap();
    assert_eq!(fill(&store).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(store.metrics().get("evictions"), 0.0);
}
