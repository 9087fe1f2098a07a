//! Keyspaces that a closing store takes away from their Python objects.

use silica::{EntryRef, Error, ErrorKind, Keyspace, Result, Silica};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

/// A keyspace until its store is closed; opened when it is first used.
pub(crate) struct Cell {
    name: String,
    owner: Arc<Owner>,
    keyspace: RwLock<Option<Keyspace>>,
}

/// An open store, and the cells of its keyspaces.
pub(crate) struct Owner {
    store: RwLock<Option<Silica>>,
    cells: Mutex<Vec<Weak<Cell>>>,
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the store is closed; open it again")
}

impl Owner {
    pub(crate) fn new(store: Silica) -> Arc<Self> {
        Arc::new(Owner { store: RwLock::new(Some(store)), cells: Mutex::default() })
    }

    /// Calls `work` with the store. A closing waits for its end.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&Silica) -> Result<T>) -> Result<T> {
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner);
        work(store.as_ref().ok_or_else(closed)?)
    }

    /// A cell for the keyspace `name`.
    pub(crate) fn cell(self: &Arc<Self>, name: &str, keyspace: Option<Keyspace>) -> Arc<Cell> {
        let owner = Arc::clone(self);
        let keyspace = RwLock::new(keyspace);
        let cell = Arc::new(Cell { name: name.to_string(), owner, keyspace });
        let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        cells.retain(|cell| cell.strong_count() > 0);
        cells.push(Arc::downgrade(&cell));
        cell
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.store.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Closes the store after the calls that run, and gives back what its keyspaces hold.
    pub(crate) fn close(&self) -> Result<()> {
        let taken = self.store.write().unwrap_or_else(PoisonError::into_inner).take();
        let Some(store) = taken else { return Ok(()) };
        let cells = std::mem::take(&mut *self.cells.lock().unwrap_or_else(PoisonError::into_inner));
        for cell in cells.iter().filter_map(Weak::upgrade) {
            cell.keyspace.write().unwrap_or_else(PoisonError::into_inner).take();
        }
        store.close()
    }
}

impl Cell {
    /// What `read` makes of the value of `key`, and `None` inside if it is not there. `None` if
    /// the answer is not in memory, or somebody else has the cell: nothing is waited for.
    pub(crate) fn at_hand<T>(&self, key: &[u8], read: impl Fn(&[u8]) -> T) -> Option<Option<T>> {
        let open = self.keyspace.try_read().ok()?;
        let read = |entry: Option<EntryRef<'_>>| entry.map(|entry| read(entry.value));
        open.as_ref()?.get_at_hand(key, read).ok().flatten()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Calls `work` with the keyspace. A closing waits for its end.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&Keyspace) -> Result<T>) -> Result<T> {
        let open = self.keyspace.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(keyspace) = &*open {
            return work(keyspace);
        }
        drop(open);
        // The store is held meanwhile, so that it cannot close between the two.
        let keyspace = self.owner.with(|store| {
            let keyspace = store.keyspace(&self.name)?;
            let mut open = self.keyspace.write().unwrap_or_else(PoisonError::into_inner);
            Ok(open.get_or_insert(keyspace).clone())
        })?;
        work(&keyspace)
    }
}
