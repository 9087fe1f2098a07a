//! Two keyspaces that take each other's names.

use super::{Silica, State};
use crate::migrate::target_of;
use log::info;
use silica_engine::{Engine, Error, ErrorKind, Result};
use std::sync::{Arc, TryLockError};

impl Silica {
    /// Lets two keyspaces have each other's names, from the next use of the names on, and after a
    /// restart: one catalog takes the other's place, so a crash leaves both names as they were or
    /// both swapped. Where one of them is missing, the other is renamed; if both are, nothing
    /// happens. Handles that are open stay with their keyspaces, and tell the new names.
    ///
    /// Takes one write of the catalog, whatever the keyspaces hold.
    ///
    /// # Errors
    /// `Config` for an impossible name, and while a backup is made or one of the two changes its
    /// engine; `Io`, `Full` if the catalog cannot be written: then nothing has changed.
    pub fn swap_keyspaces(&self, one: &str, other: &str) -> Result<()> {
        self.refuse_if_read_only()?;
        super::check_name(one)?;
        super::check_name(other)?;
        let _backups = match self.backups.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(busy("a backup or a migration runs")),
        };
        let mut state = self.lock()?;
        let mut catalog = state.catalog.clone();
        let swapped = |name: &str| match name {
            name if name == one => other.to_string(),
            _ => one.to_string(),
        };
        let is_of = |name: &str| name == one || name == other;
        for record in catalog.keyspaces.iter_mut().filter(|record| is_of(&record.name)) {
            if target_of(record).is_some() {
                return Err(busy(&format!("keyspace '{}' changes its engine", record.name)));
            }
            record.name = swapped(&record.name);
        }
        if one == other || catalog == state.catalog {
            return Ok(());
        }
        silica_base::compact_sort_by(&mut catalog.keyspaces, |a, b| a.name.cmp(&b.name));
        catalog.save(&self.device)?;
        info!("keyspaces '{one}' and '{other}' have each other's names now");
        state.catalog = catalog;
        self.rename_open(&mut state, (one, other));
        Ok(())
    }

    /// Lets what is open know its new names.
    fn rename_open(&self, state: &mut State, (one, other): (&str, &str)) {
        let notes = [(one, state.notes.remove(other)), (other, state.notes.remove(one))];
        for (name, note) in notes {
            note.into_iter().for_each(|note| drop(state.notes.insert(name.to_string(), note)));
        }
        let renamed: Vec<_> = state
            .open
            .iter()
            .filter_map(|keyspace| match keyspace.name() {
                name if name == one => Some((keyspace, other)),
                name if name == other => Some((keyspace, one)),
                _ => None,
            })
            .collect();
        [one, other].iter().for_each(|name| self.scheduler.remove(name));
        for (keyspace, name) in renamed {
            keyspace.rename(name);
            self.scheduler.add(name, Arc::clone(keyspace.switch()) as Arc<dyn Engine>);
        }
        self.share_memory(state);
    }
}

fn busy(what: &str) -> Error {
    let message = format!("{what}; swap when that is over");
    Error::new(ErrorKind::Config, message)
}
