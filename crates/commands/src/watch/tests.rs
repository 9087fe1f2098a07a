use super::*;
use crate::budget::Budget;
use silica::engine::{Durability, Engine, EngineExt};
use silica_testkit::Reference;
use std::sync::Barrier;

fn watchers() -> Arc<[Arc<Watchers>]> {
    [Arc::new(Watchers::new())].into()
}

fn new_watches(all: &Arc<[Arc<Watchers>]>) -> Watches {
    Watches::new(Arc::clone(all), HashSeed([7; 16]), &Budget::new(1 << 20))
}

/// True if nobody has changed what is watched.
fn hold(watches: &Watches, engine: &dyn Engine, own: u64) -> bool {
    let keys = [&b"a"[..], b"b"];
    let values = engine.get_all(&keys).unwrap();
    let entry = |key: &[u8]| {
        let place = keys.iter().position(|other| *other == key).unwrap();
        values[place].as_deref().map(silica::engine::EntryRef::new)
    };
    watches.hold(&watches.list(), own, |_, key| entry(key))
}

#[test]
fn writes_are_seen_if_they_leave_what_was_there() {
    let all = watchers();
    let inner: Arc<dyn Engine> = Arc::new(Reference::new());
    let place = crate::places::DatabasePlace::new(&Arc::default(), 0);
    let engine = Watched::wrap(&PlaceWatchers::new(&all, place), Arc::clone(&inner));
    let put = |key: &[u8], value: &[u8]| engine.put(key, value, Durability::Buffered).unwrap();
    put(b"a", b"1");
    let (first, second) = (new_watches(&all), new_watches(&all));
    for watches in [&first, &second] {
        watches.add(&*engine, 0, &[b"a", b"a"]).unwrap();
    }
    second.add(&*engine, 0, &[b"a", b"b"]).unwrap();
    assert_eq!(all[0].count(), 3);
    put(b"c", b"1");
    assert!(hold(&first, &*engine, 0) && hold(&second, &*engine, 0));
    put(b"b", b"1");
    engine.delete(b"b", Durability::Buffered).unwrap();
    assert!(hold(&first, &*engine, 0) && !hold(&second, &*engine, 0));
    put(b"a", b"1");
    assert!(!hold(&first, &*engine, 0));
    assert!(hold(&first, &*engine, 1), "its own write");
    // What nobody writes is compared.
    let third = new_watches(&all);
    third.add(&*engine, 0, &[b"a"]).unwrap();
    inner.delete(b"a", Durability::Buffered).unwrap();
    assert!(!hold(&third, &*engine, 0));
    assert!(third.held_bytes() > 0);
    drop((first, second, third));
    assert_eq!(all[0].count(), 0);
    assert!(all[0].parts.iter().all(|part| part.lock().is_empty()));
}

/// Two writes that were under way when the client began to watch: they marked nobody, and what
/// they leave is what was there.
#[test]
fn writes_that_were_under_way_are_seen() {
    let (all, engine) = (watchers(), Reference::new());
    let (begun, go) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        let write = || {
            all[0].write([&b"a"[..]].into_iter(), |is_active| {
                assert!(!is_active);
                begun.wait();
                go.wait();
            });
        };
        let thread = scope.spawn(write);
        begun.wait();
        let watches = new_watches(&all);
        watches.add(&engine, 0, &[b"a"]).unwrap();
        assert!(!hold(&watches, &engine, 0), "it is not known whether it has happened");
        go.wait();
        thread.join().unwrap();
        assert!(!hold(&watches, &engine, 0), "it may have happened since");
        let later = new_watches(&all);
        later.add(&engine, 0, &[b"a"]).unwrap();
        assert!(hold(&later, &engine, 0));
    });
}
