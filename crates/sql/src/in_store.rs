//! Databases in keyspaces of a store that the program has open, and how SQLite opens them.

use crate::database::Database;
use crate::failure::{Failure, Result, code};
use crate::keyspaces::{Keyspaces, is_database};
use crate::layout::{HEADER_KEY, is_own_key};
use crate::registry::open_ones;
use silica::engine::SnapshotExt;
use silica::{DEFAULT_ENGINE, ErrorKind, KeyRange, Keyspace, Silica};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Databases in stores that programs have open, by the address of their engine: while one is
/// here, no other engine has that address.
static SHARED: Mutex<BTreeMap<usize, Weak<Database>>> = Mutex::new(BTreeMap::new());

/// The database in the keyspace `name` of `store`, which is made if it is not there.
///
/// # Errors
/// `CANTOPEN` if the keyspace holds keys of something else, or its engine keeps no order.
pub(crate) fn database_in(store: &Silica, name: &str) -> Result<Arc<Database>> {
    // Whoever closes a database has this lock, too.
    let _open = open_ones();
    let keyspace = match store.existing(name)? {
        Some(keyspace) => keyspace,
        None => match store.create_keyspace(name, DEFAULT_ENGINE, &[]) {
            // Somebody else has made it meanwhile.
            Err(error) if error.kind() == ErrorKind::Config => store.keyspace(name)?,
            made => made?,
        },
    };
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.retain(|_, database| database.strong_count() > 0);
    let address = Arc::as_ptr(keyspace.engine()).addr();
    if let Some(database) = shared.get(&address).and_then(Weak::upgrade) {
        return Ok(database);
    }
    refuse_other_keys(&keyspace)?;
    let database = Database::on(Arc::clone(keyspace.engine()))?;
    shared.insert(address, Arc::downgrade(&database));
    Ok(database)
}

/// Refuses a keyspace that holds something else than a database.
fn refuse_other_keys(keyspace: &Keyspace) -> Result<()> {
    if is_database(&**keyspace.engine())? {
        return Ok(());
    }
    let engine = Arc::clone(keyspace.engine());
    let name = engine.descriptor().name;
    let Some(ordered) = engine.as_ordered() else {
        let words = format!(
            "keyspace '{}' has engine {name}, which keeps no order, and SQL needs one; choose \
             another name",
            keyspace.name()
        );
        return Err(Failure::new(code::CANTOPEN, words));
    };
    let snapshot = ordered.snapshot()?;
    let mut entries = Arc::clone(&snapshot).iterate(&KeyRange::ALL)?;
    let is_first_ours = !entries.seek_to_first()? || is_own_key(entries.key());
    let is_ours = is_first_ours && (!entries.seek_to_last()? || is_own_key(entries.key()));
    let has_header = snapshot.get_with(HEADER_KEY, |entry| entry.is_some())?;
    if is_ours && !has_header {
        return Ok(());
    }
    let words = format!(
        "keyspace '{}' holds keys that are no SQL database; choose another name",
        keyspace.name()
    );
    Err(Failure::new(code::CANTOPEN, words))
}

/// What a connection is opened with that is not at a path: it takes it once.
pub(crate) struct Ticket {
    pub(crate) database: Arc<Database>,
    pub(crate) keyspaces: Arc<dyn Keyspaces>,
}

static TICKETS: Mutex<BTreeMap<u64, Ticket>> = Mutex::new(BTreeMap::new());

/// Keeps a ticket for [`take_ticket`]; its number.
pub(crate) fn give_ticket(ticket: Ticket) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    TICKETS.lock().unwrap_or_else(PoisonError::into_inner).insert(number, ticket);
    number
}

/// The ticket of this number, if nobody has taken it.
pub(crate) fn take_ticket(number: u64) -> Option<Ticket> {
    TICKETS.lock().unwrap_or_else(PoisonError::into_inner).remove(&number)
}
