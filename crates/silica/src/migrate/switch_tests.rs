//! Engines behind a switch that note what is done with them.

use super::*;
use silica_engine::EngineExt;
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
