//! Engines behind a switch that note what is done with them.

use super::*;
use silica_engine::{EngineExt, Expected, Op, OpKind, Update};
use silica_testkit::Reference;
use std::sync::atomic::AtomicUsize;

/// Is replaced, and has no files any more, while it is maintained.
struct Going {
    like: Reference,
    switch: OnceLock<Arc<Switch>>,
}

impl Engine for Going {
    fn descriptor(&self) -> &Descriptor {
        self.like.descriptor()
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        self.like.get_many(keys, sink)
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.like.write(batch, durability)
    }

    fn sync(&self) -> Result<()> {
        self.like.sync()
    }

    fn maintain(&self, _: Budget) -> Result<Progress> {
        if let Some(switch) = self.switch.get() {
            switch.turn(Route::Plain(Arc::new(Reference::new())));
        }
        Err(Error::new(ErrorKind::NotFound, "cannot create a table: no such directory"))
    }

    fn metrics(&self, _: &mut dyn MetricVisitor) {}

    fn verify(&self) -> Result<()> {
        Ok(())
    }
}

/// Notes how many hold it while it is asked.
struct Asked {
    like: Reference,
    itself: OnceLock<Weak<Asked>>,
    holders: AtomicUsize,
}

impl Asked {
    fn note(&self) {
        let holders = self.itself.get().map_or(0, Weak::strong_count);
        self.holders.fetch_max(holders, Ordering::Relaxed);
    }
}

impl Engine for Asked {
    fn descriptor(&self) -> &Descriptor {
        self.like.descriptor()
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        self.note();
        self.like.get_many(keys, sink)
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.note();
        self.like.write(batch, durability)
    }

    fn sync(&self) -> Result<()> {
        self.like.sync()
    }

    fn maintain(&self, budget: Budget) -> Result<Progress> {
        self.note();
        self.like.maintain(budget)
    }

    fn metrics(&self, _: &mut dyn MetricVisitor) {}

    fn verify(&self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn gets_and_writes_hold_the_engine_without_counting_themselves() {
    let (like, holders) = (Reference::new(), AtomicUsize::new(0));
    let asked = Arc::new(Asked { like, itself: OnceLock::new(), holders });
    assert!(asked.itself.set(Arc::downgrade(&asked)).is_ok());
    let weak = Arc::downgrade(&asked);
    let switch = Switch::new(asked);
    // More calls than any window of the sketch has.
    for n in 0..10_000u32 {
        switch.put(&n.to_be_bytes(), b"value", Durability::Buffered).expect("a put");
        assert!(switch.get(&n.to_be_bytes()).expect("a get").is_some());
    }
    let asked = weak.upgrade().expect("the switch has it");
    assert_eq!(asked.holders.swap(0, Ordering::Relaxed), 1, "a call holds the engine by a count");
    drop(asked);
    switch.maintain(Budget::of(1)).expect("upkeep");
    let asked = weak.upgrade().expect("the switch has it");
    assert_eq!(asked.holders.load(Ordering::Relaxed), 2, "what waits holds it by a count");
}

#[test]
fn an_engine_that_is_replaced_while_it_is_maintained_fails_nobody() {
    let going = Arc::new(Going { like: Reference::new(), switch: OnceLock::new() });
    let switch = Arc::new(Switch::new(Arc::clone(&going) as Arc<dyn Engine>));
    let error = switch.maintain(Budget::of(1)).expect_err("it is not replaced");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(going.switch.set(Arc::clone(&switch)).is_ok());
    // Its successor is to be looked at.
    assert!(switch.maintain(Budget::of(1)).expect("it was replaced").more);
    assert!(!switch.maintain(Budget::of(1)).expect("the other one").more);
}

/// Counts what is asked of its atomic view.
struct Viewed {
    like: Reference,
    is_in_order: bool,
    writes: AtomicUsize,
    settles: AtomicUsize,
}

impl Viewed {
    fn new(is_in_order: bool) -> Arc<Self> {
        let (writes, settles) = Default::default();
        Arc::new(Viewed { like: Reference::new(), is_in_order, writes, settles })
    }

    fn asked(&self) -> (usize, usize) {
        (self.writes.swap(0, Ordering::Relaxed), self.settles.swap(0, Ordering::Relaxed))
    }
}

impl Engine for Viewed {
    fn descriptor(&self) -> &Descriptor {
        self.like.descriptor()
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        self.like.get_many(keys, sink)
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.like.write(batch, durability)
    }

    fn sync(&self) -> Result<()> {
        self.like.sync()
    }

    fn maintain(&self, budget: Budget) -> Result<Progress> {
        self.like.maintain(budget)
    }

    fn metrics(&self, _: &mut dyn MetricVisitor) {}

    fn verify(&self) -> Result<()> {
        Ok(())
    }

    fn as_atomic(&self) -> Option<&dyn Atomic> {
        Some(self)
    }
}

impl Atomic for Viewed {
    fn update(
        &self,
        key: &[u8],
        durability: Durability,
        decide: &mut dyn FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()> {
        self.like.update(key, durability, decide)
    }

    fn update_all(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        self.like.update_all(keys, durability, decide)
    }

    fn write_expecting(
        &self,
        expected: &[Expected<'_>],
        ops: &[Op<'_>],
        durability: Durability,
    ) -> Result<bool> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.like.write_expecting(expected, ops, durability)
    }

    fn order_epoch(&self) -> Option<u64> {
        self.is_in_order.then_some(0)
    }

    fn settle(&self) {
        self.settles.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes a key that must not be there, and looks at it: both are one call of an engine each.
fn write_and_look(switch: &Switch, key: &[u8]) {
    let put = Op { key, kind: OpKind::Put(EntryRef::new(b"value")) };
    let expecting = |entry, ops: &[Op<'_>]| {
        let done = switch.write_expecting(&[Expected { key, entry }], ops, Durability::Buffered);
        done.expect("a write that expects an entry")
    };
    assert!(expecting(None, &[put]));
    assert!(!expecting(None, &[put]), "it is there");
    assert!(expecting(Some(EntryRef::new(b"value")), &[]));
    switch.settle();
}

#[test]
fn what_an_engine_publishes_in_order_is_known_through_migrations() {
    let [source, target, last] = [true, true, false].map(Viewed::new);
    let route = |engine: &Arc<Viewed>| Arc::clone(engine) as Arc<dyn Engine>;
    let switch = Switch::new(route(&source));
    let first = switch.order_epoch();
    assert!(first.is_some());
    write_and_look(&switch, b"plain");
    assert_eq!(source.asked(), (3, 1));
    let dual = Arc::new(Dual::new(route(&source), route(&target), None));
    switch.turn(Route::Both(Arc::clone(&dual)));
    // Whoever reads asks the first engine, which publishes what is written to both.
    assert_eq!(switch.order_epoch(), first);
    write_and_look(&switch, b"both");
    assert_eq!((source.asked(), target.asked()), ((3, 1), (0, 0)));
    assert_eq!(target.like.get(b"both").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(target.like.get(b"plain").unwrap(), None);
    dual.end();
    switch.turn(Route::Plain(route(&target)));
    let second = switch.order_epoch();
    assert!(second.is_some() && second != first);
    write_and_look(&switch, b"target");
    assert_eq!((source.asked(), target.asked()), ((0, 0), (3, 1)));
    switch.turn(Route::Plain(route(&last)));
    assert_eq!(switch.order_epoch(), None);
    // There and back: what was read in between may have come in another order.
    switch.turn(Route::Plain(route(&source)));
    assert!(switch.order_epoch().is_some_and(|epoch| Some(epoch) != first));
}

#[test]
fn a_store_that_is_only_read_compares_entries() {
    let engine = Viewed::new(true);
    let switch = Switch::new(Arc::clone(&engine) as Arc<dyn Engine>).read_only(true);
    let expected = [Expected { key: b"key", entry: None }];
    assert!(switch.write_expecting(&expected, &[], Durability::Buffered).unwrap());
    let delete = Op { key: b"key", kind: OpKind::Delete };
    let error = switch.write_expecting(&expected, &[delete], Durability::Buffered).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
}
