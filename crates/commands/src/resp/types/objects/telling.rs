//! What replicas are told of commands on objects.

use super::{Objects, Value};
use crate::burst::Args;
use crate::exec::tell_objects;
use crate::table::find_called;
use silica::engine::Result;
use silica_types::is_inner;

/// What is known of a command before it runs, for what replicas are told of it.
pub(crate) struct Telling {
    /// Keys that are not there; replicas may still have them, as expired ones.
    absent: Vec<Vec<u8>>,
    /// Changes before it.
    changed: usize,
}

impl Objects<'_> {
    /// A command begins of which replicas are told; `None` if it is not known.
    pub(crate) fn begin_telling(&mut self, args: Args<'_>) -> Result<Option<Telling>> {
        let Some(command) = find_called(args) else { return Ok(None) };
        let keys: Vec<&[u8]> = command.keys(args).filter(|key| !is_inner(key)).collect();
        self.fetch(&keys)?;
        let is_absent = |key: &&&[u8]| {
            let slot = self.slots.find(key).map(|place| &self.slots.all()[place]);
            slot.is_none_or(|slot| matches!(slot.value, Value::Nothing))
        };
        let absent = keys.iter().filter(is_absent).map(|key| key.to_vec()).collect();
        (self.said, self.is_told) = (None, true);
        Ok(Some(Telling { absent, changed: self.changed.len() }))
    }

    /// The command has ended without an error.
    pub(crate) fn end_telling(&mut self, args: Args<'_>, telling: Telling) {
        let said = self.said.take();
        self.is_told = false;
        let slots = self.slots.all();
        let mut changed: Vec<&[u8]> =
            self.changed[telling.changed..].iter().map(|(_, place)| &*slots[*place].key).collect();
        let (Some(first), Some(command)) = (changed.first().copied(), find_called(args)) else {
            return;
        };
        let (db, effects) = (self.db as u8, &mut self.effects);
        telling.absent.iter().for_each(|key| effects.push(Some(db), &[b"DEL", key]));
        match said {
            Some(mut said) => effects.append(&mut said),
            None => tell_objects(db, command, args, first, effects),
        }
        // A replica may have hidden, as expired, what was changed here just before.
        changed.sort_unstable();
        changed.dedup();
        for key in changed {
            let at = self.slots.find(key).map_or(0, |place| slots[place].expires_unix_ms());
            if at != 0 {
                effects.push(Some(db), &[b"PEXPIREAT", key, at.to_string().as_bytes()]);
                self.times.push((key.into(), at));
            }
        }
    }

    /// Replicas are told this command instead of the running one, behind what it has said before.
    pub(crate) fn tell(&mut self, args: &[&[u8]]) {
        if self.is_told {
            self.said.get_or_insert_default().push(Some(self.db as u8), args);
        }
    }

    /// Replicas are told nothing of the running command but what it says.
    pub(crate) fn tell_nothing(&mut self) {
        if self.is_told {
            self.said.get_or_insert_default();
        }
    }
}
