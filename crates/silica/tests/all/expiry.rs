//! Times to live through the library, on every engine.

use silica::{Durability, ErrorKind, Keyspace, OpenOptions, Result, Silica, TimeToLive, Update};
use silica_engine::EntryRef;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ENGINES: [&str; 3] = ["wip", "silt", "mica"];
const HOUR: Duration = Duration::from_secs(3600);

/// A store that goes when the test ends.
struct Temp(PathBuf);

impl Temp {
    fn new(name: &str) -> Self {
        Temp(std::env::temp_dir().join(format!("silica-expiry-{name}-{}", std::process::id())))
    }

    fn store(&self) -> Silica {
        OpenOptions::new()
            .memory_bytes(64 << 20)
            .durability(Durability::Buffered)
            .open(&self.0)
            .unwrap()
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn each_engine(name: &str, test: impl Fn(&str, &Keyspace) -> Result<()>) {
    let temp = Temp::new(name);
    let store = temp.store();
    for engine in ENGINES {
        let keyspace = store.create_keyspace(engine, engine, &[]).unwrap();
        test(engine, &keyspace).unwrap_or_else(|e| panic!("{engine}: {e}"));
    }
}

/// Time left is between an hour and what the call that set it may have taken.
#[track_caller]
fn has_an_hour(ttl: Option<TimeToLive>, set: Instant) {
    let Some(TimeToLive::Left(left)) = ttl else { panic!("{ttl:?}") };
    assert!(left <= HOUR, "{left:?}");
    assert!(left + set.elapsed() + Duration::from_millis(2) >= HOUR, "{left:?}");
}

#[test]
fn a_time_to_live_is_set_told_and_taken_away() {
    each_engine("life", |_, keyspace| {
        assert_eq!(keyspace.ttl("k")?, None);
        assert!(!keyspace.expire("k", HOUR)? && !keyspace.persist("k")?);
        assert_eq!(keyspace.get("k")?, None, "nothing was made");
        keyspace.put("k", "v")?;
        assert_eq!(keyspace.ttl("k")?, Some(TimeToLive::Unlimited));
        assert!(!keyspace.persist("k")?, "it has none");
        let set = Instant::now();
        assert!(keyspace.expire("k", HOUR)?);
        has_an_hour(keyspace.ttl("k")?, set);
        assert_eq!(keyspace.get("k")?.as_deref(), Some(&b"v"[..]));
        assert!(keyspace.persist("k")?);
        assert_eq!(keyspace.ttl("k")?, Some(TimeToLive::Unlimited));
        let set = Instant::now();
        keyspace.put_with_ttl("k", "w", HOUR)?;
        has_an_hour(keyspace.ttl("k")?, set);
        keyspace.put("k", "x")?;
        assert_eq!(keyspace.ttl("k")?, Some(TimeToLive::Unlimited), "a put ends it");
        assert!(keyspace.expire("k", Duration::ZERO)?);
        assert_eq!((keyspace.get("k")?, keyspace.ttl("k")?), (None, None));
        Ok(())
    });
}

#[test]
fn what_is_over_is_gone() {
    each_engine("over", |_, keyspace| {
        let short = Duration::from_millis(30);
        keyspace.put_with_ttl("put", "v", short)?;
        keyspace.put("expired", "v")?;
        assert!(keyspace.expire("expired", Duration::from_micros(1))?);
        let begun = Instant::now();
        for key in ["put", "expired"] {
            while keyspace.get(key)?.is_some() {
                assert!(begun.elapsed() < Duration::from_secs(20), "{key} stays");
                std::thread::yield_now();
            }
            assert_eq!(keyspace.ttl(key)?, None);
            assert!(!keyspace.expire(key, HOUR)?, "it does not come back");
            assert_eq!(keyspace.get(key)?, None);
        }
        Ok(())
    });
}

#[test]
fn impossible_times_are_refused() {
    each_engine("refused", |_, keyspace| {
        let nothing = keyspace.put_with_ttl("k", "v", Duration::ZERO).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::Config);
        assert!(nothing.to_string().contains("delete it"), "{nothing}");
        keyspace.put("k", "v")?;
        for refused in [
            keyspace.put_with_ttl("k", "w", Duration::MAX),
            keyspace.expire("k", Duration::MAX).map(drop),
        ] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Config);
            assert!(refused.to_string().contains("use at most"), "{refused}");
        }
        assert_eq!(keyspace.ttl("k")?, Some(TimeToLive::Unlimited), "nothing changed");
        assert_eq!(keyspace.get("k")?.as_deref(), Some(&b"v"[..]));
        let longest = Duration::from_millis(i64::MAX as u64 / 2);
        keyspace.put_with_ttl("k", "w", longest)?;
        assert!(keyspace.ttl("k")? > Some(TimeToLive::Left(longest / 2)));
        Ok(())
    });
}

/// No increment is lost though the time to live of the counter changes all the time.
#[test]
fn expire_loses_no_write_beside_it() {
    each_engine("beside", |engine, keyspace| {
        let rounds = silica_base::test_size(300, 3_000, 30_000);
        let number = |entry: Option<EntryRef<'_>>| {
            entry.map_or(0, |e| u64::from_le_bytes(e.value.try_into().expect("eight bytes")))
        };
        let done = AtomicBool::new(false);
        keyspace.put("n", 0u64.to_le_bytes())?;
        std::thread::scope(|scope| {
            let changer = scope.spawn(|| -> Result<u64> {
                let mut changes = 0;
                while !done.load(Ordering::Relaxed) || changes < 2 {
                    assert!(keyspace.expire("n", HOUR)?);
                    assert!(keyspace.persist("n")?);
                    changes += 2;
                }
                Ok(changes)
            });
            for _ in 0..rounds {
                // The counter keeps whatever expiry it has, as INCR does.
                keyspace.update("n", |old| Update::Put {
                    value: (number(old) + 1).to_le_bytes().to_vec(),
                    expires_unix_ms: old.map_or(0, |e| e.expires_unix_ms),
                    user_bits: 0,
                })?;
            }
            done.store(true, Ordering::Relaxed);
            changer.join().expect("the changer ends").map(drop)
        })?;
        let value = keyspace.get("n")?.expect("it is there");
        assert_eq!(u64::from_le_bytes(value.try_into().unwrap()), rounds, "{engine}");
        assert_eq!(keyspace.ttl("n")?, Some(TimeToLive::Unlimited));
        Ok(())
    });
}

#[test]
fn a_time_to_live_outlives_the_process() -> Result<()> {
    let temp = Temp::new("reopened");
    let store = temp.store();
    let set = Instant::now();
    for engine in ["wip", "silt"] {
        let keyspace = store.create_keyspace(engine, engine, &[])?;
        keyspace.put_with_ttl("put", "v", HOUR)?;
        keyspace.put("expired", "v")?;
        keyspace.expire("expired", HOUR)?;
        keyspace.put_with_ttl("kept", "v", HOUR)?;
        keyspace.persist("kept")?;
    }
    store.close()?;
    let store = temp.store();
    for engine in ["wip", "silt"] {
        let keyspace = store.keyspace(engine)?;
        has_an_hour(keyspace.ttl("put")?, set);
        has_an_hour(keyspace.ttl("expired")?, set);
        assert_eq!(keyspace.ttl("kept")?, Some(TimeToLive::Unlimited));
        let keyspace_of_another = store.keyspace("other")?;
        assert_eq!(keyspace_of_another.ttl("put")?, None);
    }
    store.close()
}
