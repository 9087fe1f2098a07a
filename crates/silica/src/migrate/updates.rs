//! The atomic view of a switch.

use super::journal::Touch;
use super::switch::{Switch, lacks};
use crate::sketch::Change;
use silica_engine::{Atomic, Durability, Engine, EntryRef, Expected, Op, Result, Update};
use std::sync::Arc;

pub(super) fn atomic(engine: &Arc<dyn Engine>) -> Result<&dyn Atomic> {
    engine.as_atomic().ok_or_else(|| lacks(engine, "update atomically"))
}

impl Atomic for Switch {
    fn update(
        &self,
        key: &[u8],
        durability: Durability,
        decide: &mut dyn FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()> {
        self.watched(&[key], durability, |note| {
            let decide = std::cell::RefCell::new(|entry: Option<EntryRef<'_>>| {
                let update = decide(entry);
                note(0, entry, &update);
                update
            });
            self.write_to(
                Touch::Keys(&[key]),
                |engine| atomic(engine)?.update(key, durability, &mut *decide.borrow_mut()),
                |dual| {
                    let mut decide = decide.borrow_mut();
                    let decide = &mut |_: usize, entry: Option<EntryRef<'_>>| decide(entry);
                    dual.update_many(&[key], durability, decide).done()
                },
            )
        })
    }

    fn update_many(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
    ) -> Result<usize> {
        self.watched(keys, durability, |note| {
            let decide = std::cell::RefCell::new(|at: usize, entry: Option<EntryRef<'_>>| {
                let update = decide(at, entry);
                note(at, entry, &update);
                update
            });
            self.write_to(
                Touch::Keys(keys),
                |engine| atomic(engine)?.update_many(keys, durability, &mut *decide.borrow_mut()),
                |dual| dual.update_many(keys, durability, &mut *decide.borrow_mut()),
            )
        })
    }

    fn update_all(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        self.watched(keys, durability, |note| {
            let decide = std::cell::RefCell::new(|entries: &[Option<EntryRef<'_>>]| {
                let updates = decide(entries);
                let each = entries.iter().zip(&updates).enumerate();
                each.for_each(|(at, (entry, update))| note(at, *entry, update));
                updates
            });
            self.write_to(
                Touch::Keys(keys),
                |engine| atomic(engine)?.update_all(keys, durability, &mut *decide.borrow_mut()),
                |dual| dual.update_all(keys, durability, &mut *decide.borrow_mut()),
            )
        })
    }

    /// Noted and sketched as a batch: who expects entries has read them before.
    fn write_expecting(
        &self,
        expected: &[Expected<'_>],
        ops: &[Op<'_>],
        durability: Durability,
    ) -> Result<bool> {
        if ops.is_empty() {
            // What is read is read from the engine that has everything.
            return self.with_whole(|engine| engine.write_expecting(expected, ops, durability))?;
        }
        let look = self.live().look();
        let is_done = self.write_to(
            Touch::Ops(ops),
            |engine| atomic(engine)?.write_expecting(expected, ops, durability),
            |dual| dual.write_expecting(expected, ops, durability),
        )?;
        if is_done && look.any() {
            self.live().wrote(look, &ops.iter().copied().collect(), durability);
        }
        Ok(is_done)
    }

    /// During a migration, too: readers ask the engine that has everything, and writes happen there
    /// as they would without the other one.
    fn order_epoch(&self) -> Option<u64> {
        self.with_epoch(|engine, epoch| engine.as_atomic()?.order_epoch().map(|_| epoch))
    }

    fn settle(&self) {
        // An engine without this view has nothing that a reader could see in part.
        let _ = self.with_whole(|engine| engine.settle());
    }
}

impl Switch {
    fn with_whole<T>(&self, ask: impl FnOnce(&dyn Atomic) -> T) -> Result<T> {
        self.on_route(|route| atomic(route.whole()).map(ask))
    }

    /// Updates keys by `update`, which notes what it decides for each of them.
    fn watched<T>(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        update: impl FnOnce(&mut dyn FnMut(usize, Option<EntryRef<'_>>, &Update)) -> Result<T>,
    ) -> Result<T> {
        let look = self.live().look();
        if !look.any() {
            return update(&mut |_, _, _| ());
        }
        let mut changes = vec![None; keys.len()];
        let done = update(&mut |at, entry, update| {
            if let Some(change) = changes.get_mut(at) {
                *change = Some(Change::of(entry, update));
            }
        })?;
        self.live().updated(look, keys, &changes, durability);
        Ok(done)
    }
}
