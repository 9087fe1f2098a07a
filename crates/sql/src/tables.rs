//! Keyspaces as tables (`silica_keyspace`): what the virtual table in `shim/keyspace.c` reads and
//! writes.
//!
//! 1. A cursor sees one moment of its keyspace, from its first search until it is closed.
//! 2. What a transaction of SQL writes to a keyspace is a transaction of that keyspace, which
//!    begins with the first statement that writes there. From then on this connection reads the
//!    keyspace as it was at that moment, below its own writes.
//! 3. It commits before the database does: a conflict rolls both back. A crash, or an error of the
//!    database's own commit, between the two leaves the keyspace written and the database not.

use crate::failure::{Failure, Result, code};
use crate::keyspaces::{Keyspaces, is_database};
use silica::engine::transaction::{Savepoint, Transaction, TransactionOptions, Wait};
use silica::engine::{Engine, EngineExt, EntryIter, Ordered, Snapshot, SnapshotExt};
use silica::{Durability, EntryRef, KeyRange};
use silica_base::{Clock, SystemClock};
use std::cell::{Cell, RefCell};
use std::ops::Bound;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Entries that are fetched at once from an engine without an order.
const SCAN_ENTRIES: usize = 256;

/// How long a commit waits for an exclusive transaction of the keyspace.
const TURN_WAIT: Duration = Duration::from_secs(1);

/// The keyspaces of one connection, and what it writes to them at the moment.
pub(crate) struct Tables {
    keyspaces: Option<Arc<dyn Keyspaces>>,
    writing: RefCell<Vec<Rc<Writing>>>,
}

/// The part of a transaction that one keyspace has.
pub(crate) struct Writing {
    name: String,
    key_bytes_max: usize,
    value_bytes_max: usize,
    transaction: RefCell<Transaction>,
    /// Savepoints by their numbers, which grow.
    marks: RefCell<Vec<(i32, Savepoint)>>,
    is_committed: Cell<bool>,
}

/// A row that is written. What is not there stays as it was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewRow<'r> {
    pub(crate) key: &'r [u8],
    pub(crate) value: &'r [u8],
    /// Milliseconds; `Some(None)` for ever.
    pub(crate) ttl_ms: Option<Option<i64>>,
    pub(crate) bits: i64,
}

/// What happens if there is an entry with the key of a new row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfThere {
    Fails,
    Stays,
    IsReplaced,
}

fn no_keyspaces() -> Failure {
    let words = "this database is in no store with keyspaces; open one of Silica's";
    Failure::new(code::CANTOPEN, words)
}

impl Tables {
    pub(crate) fn of(keyspaces: Option<Arc<dyn Keyspaces>>) -> Self {
        Tables { keyspaces, writing: RefCell::default() }
    }

    fn all(&self) -> Result<&Arc<dyn Keyspaces>> {
        self.keyspaces.as_ref().ok_or_else(no_keyspaces)
    }

    /// True if the keys of a keyspace come in their order; so do those of one that will be made.
    pub(crate) fn is_ordered(&self, name: &str) -> Result<bool> {
        let engine = self.all()?.find(name, false)?;
        Ok(engine.is_none_or(|engine| engine.descriptor().capabilities.ordered))
    }

    fn written(&self, name: &str) -> Option<Rc<Writing>> {
        self.writing.borrow().iter().find(|writing| writing.name == name).map(Rc::clone)
    }

    /// What a cursor sees of `name` from now on; a keyspace that is missing is an error unless it
    /// `may_be_missing`.
    pub(crate) fn look(&self, name: &str, may_be_missing: bool) -> Result<View> {
        if let Some(writing) = self.written(name) {
            return Ok(View::Writing(writing));
        }
        let keyspaces = self.all()?;
        let Some(engine) = keyspaces.find(name, false)? else {
            if may_be_missing {
                return Ok(View::Missing);
            }
            let names = keyspaces.names()?.join(", ");
            let words = format!("there is no keyspace '{name}'; there are {names}");
            return Err(Failure::new(code::ERROR, words));
        };
        Ok(match Arc::clone(&engine).as_ordered() {
            Some(ordered) => View::Moment(Ordered::snapshot(ordered)?),
            None => View::Live(engine),
        })
    }

    /// Begins to write to a keyspace, which is made if it is not there.
    pub(crate) fn begin(&self, name: &str) -> Result<()> {
        if self.written(name).is_some() {
            return Ok(());
        }
        let engine = match self.all()?.find(name, true)? {
            Some(engine) => engine,
            None => self.all()?.create(name)?,
        };
        if is_database(&*engine)? {
            let words = format!(
                "keyspace '{name}' is a SQL database, which only its own statements write; choose \
                 another keyspace"
            );
            return Err(Failure::new(code::READONLY, words));
        }
        let limits = engine.descriptor().limits;
        let kind = engine.descriptor().name;
        let ordered = engine.as_ordered().ok_or_else(|| {
            let words = format!(
                "keyspace '{name}' has engine {kind}, which has no transactions: SQL reads it, \
                 and does not write it"
            );
            Failure::new(code::READONLY, words)
        })?;
        let options = TransactionOptions { is_exclusive: false, wait: Wait::AtMost(TURN_WAIT) };
        let transaction = RefCell::new(Transaction::begin(ordered, options)?);
        self.writing.borrow_mut().push(Rc::new(Writing {
            name: name.to_string(),
            key_bytes_max: limits.key_bytes_max,
            value_bytes_max: limits.value_bytes_max,
            transaction,
            marks: RefCell::default(),
            is_committed: Cell::new(false),
        }));
        Ok(())
    }

    /// Bytes of memory that writes to keyspaces take until their commit.
    pub(crate) fn written_bytes(&self) -> usize {
        let bytes = |writing: &Rc<Writing>| {
            writing.transaction.try_borrow().map_or(0, |transaction| transaction.bytes())
        };
        self.writing.borrow().iter().map(bytes).sum()
    }

    fn of_begun(&self, name: &str) -> Result<Rc<Writing>> {
        self.written(name).ok_or_else(|| Failure::misuse("a write before the transaction began"))
    }

    /// Deletes a row, replaces one, or adds one: `old` is the key of the row that goes. True if
    /// the statement did what it says.
    pub(crate) fn write(
        &self,
        name: &str,
        old: Option<&[u8]>,
        new: Option<NewRow<'_>>,
        if_there: IfThere,
    ) -> Result<bool> {
        self.of_begun(name)?.write(old, new, if_there)
    }

    /// Commits what was written to a keyspace, if that has not happened.
    pub(crate) fn commit(&self, name: &str, is_synced: bool) -> Result<()> {
        let Some(writing) = self.written(name) else { return Ok(()) };
        if writing.is_committed.replace(true) {
            return Ok(());
        }
        let durability = if is_synced { Durability::Synced } else { Durability::Buffered };
        writing.transaction.borrow_mut().commit(durability).map_err(|error| {
            let failure = Failure::from(error.within(format_args!("keyspace '{name}'")));
            log::debug!("{failure}");
            failure
        })
    }

    /// The transaction is over; what was not committed is forgotten.
    pub(crate) fn end(&self, name: &str) {
        self.writing.borrow_mut().retain(|writing| writing.name != name);
    }

    /// Opens a savepoint of this number.
    pub(crate) fn open_savepoint(&self, name: &str, number: i32) {
        let Some(writing) = self.written(name) else { return };
        let mut marks = writing.marks.borrow_mut();
        if marks.last().is_none_or(|(last, _)| *last < number) {
            marks.push((number, writing.transaction.borrow_mut().savepoint()));
        }
    }

    /// Closes the savepoint of this number, and later ones.
    pub(crate) fn release_savepoint(&self, name: &str, number: i32) -> Result<()> {
        let Some(writing) = self.written(name) else { return Ok(()) };
        let mut marks = writing.marks.borrow_mut();
        let first = marks.partition_point(|(mark, _)| *mark < number);
        let Some((_, savepoint)) = marks.get(first).copied() else { return Ok(()) };
        marks.truncate(first);
        Ok(writing.transaction.borrow_mut().release(savepoint)?)
    }

    /// Takes back what was written since the savepoint of this number, which stays.
    pub(crate) fn roll_back_to(&self, name: &str, number: i32) -> Result<()> {
        let Some(writing) = self.written(name) else { return Ok(()) };
        let mut marks = writing.marks.borrow_mut();
        let first = marks.partition_point(|(mark, _)| *mark < number);
        let Some((_, savepoint)) = marks.get(first).copied() else { return Ok(()) };
        marks.truncate(first + 1);
        Ok(writing.transaction.borrow_mut().roll_back_to(savepoint)?)
    }
}

impl Writing {
    fn write(
        &self,
        old: Option<&[u8]>,
        new: Option<NewRow<'_>>,
        if_there: IfThere,
    ) -> Result<bool> {
        let mut transaction = self.transaction.borrow_mut();
        let mut kept_expiry = 0;
        if let Some(key) = old {
            transaction.get_for_update(key, |entry| {
                kept_expiry = entry.map_or(0, |entry| entry.expires_unix_ms);
            })?;
        }
        let Some(new) = new else {
            old.into_iter().for_each(|key| transaction.delete(key));
            return Ok(true);
        };
        self.check(&new)?;
        let entry = EntryRef {
            value: new.value,
            expires_unix_ms: new.ttl_ms.map_or(Ok(kept_expiry), expiry)?,
            user_bits: u32::try_from(new.bits).map_err(|_| bits_out_of_range(new.bits))?,
        };
        if old != Some(new.key) && if_there != IfThere::IsReplaced {
            let is_there = transaction.get_for_update(new.key, |entry| entry.is_some())?;
            match (is_there, if_there) {
                (true, IfThere::Stays) => return Ok(false),
                (true, _) => {
                    let words = format!("UNIQUE constraint failed: {}.key", self.name);
                    return Err(Failure::new(code::CONSTRAINT_PRIMARYKEY, words));
                }
                _ => {}
            }
        }
        if let Some(key) = old.filter(|key| *key != new.key) {
            transaction.delete(key);
        }
        transaction.put(new.key, entry);
        Ok(true)
    }

    fn check(&self, new: &NewRow<'_>) -> Result<()> {
        let too_large = |what: &str, bytes: usize, most: usize| {
            let words = format!("a {what} of {bytes} bytes is over the limit of {most}");
            Err(Failure::new(code::TOOBIG, words))
        };
        if new.key.len() > self.key_bytes_max {
            return too_large("key", new.key.len(), self.key_bytes_max);
        }
        if new.value.len() > self.value_bytes_max {
            return too_large("value", new.value.len(), self.value_bytes_max);
        }
        Ok(())
    }
}

/// When an entry expires that lives for so long.
fn expiry(ttl_ms: Option<i64>) -> Result<u64> {
    let Some(ttl_ms) = ttl_ms else { return Ok(0) };
    match u64::try_from(ttl_ms) {
        Ok(ms) if ms > 0 => Ok(SystemClock::default().unix_ms().saturating_add(ms)),
        _ => {
            let words = format!("ttl is in milliseconds, above 0, or NULL for ever; not {ttl_ms}");
            Err(Failure::new(code::CONSTRAINT_CHECK, words))
        }
    }
}

fn bits_out_of_range(bits: i64) -> Failure {
    let words = format!("bits are a number from 0 to 4294967295, not {bits}");
    Failure::new(code::CONSTRAINT_CHECK, words)
}

/// A condition on the key that a search takes with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Constraint<'c> {
    pub(crate) kind: u8,
    pub(crate) bytes: &'c [u8],
}

/// What a search goes through: a key, or a range of them; `None` for nothing.
#[derive(Debug, PartialEq)]
enum Search {
    Key(Vec<u8>),
    Range(KeyRange),
}

/// What is in front of the first of `wild` in a pattern.
fn beginning<'p>(pattern: &'p [u8], wild: &[u8]) -> &'p [u8] {
    let end = pattern.iter().position(|byte| wild.contains(byte)).unwrap_or(pattern.len());
    &pattern[..end]
}

impl Search {
    /// All keys that `constraints` let pass, and perhaps more: SQLite looks once more.
    fn of(constraints: &[Constraint<'_>]) -> Option<Self> {
        let mut range = KeyRange::ALL;
        let mut key: Option<&[u8]> = None;
        for Constraint { kind, bytes } in constraints {
            let own = |bytes: &[u8]| bytes.to_vec();
            match kind {
                b'=' if key.is_some_and(|other| other != *bytes) => return None,
                b'=' => key = Some(bytes),
                b'>' => raise(&mut range, Bound::Excluded(own(bytes))),
                b'G' => raise(&mut range, Bound::Included(own(bytes))),
                b'<' => lower(&mut range, Bound::Excluded(own(bytes))),
                b'L' => lower(&mut range, Bound::Included(own(bytes))),
                b'g' => within(&mut range, KeyRange::prefix(beginning(bytes, b"*?["))),
                // The letters of LIKE are of either case, and upper case comes first.
                b'l' => {
                    let begin = beginning(bytes, b"%_");
                    let first = KeyRange::prefix(&begin.to_ascii_uppercase());
                    let last = KeyRange::prefix(&begin.to_ascii_lowercase());
                    within(&mut range, KeyRange { lower: first.lower, upper: last.upper });
                }
                _ => {}
            }
        }
        match key {
            Some(key) => range.contains(key).then(|| Search::Key(key.to_vec())),
            None => (!is_empty(&range)).then_some(Search::Range(range)),
        }
    }
}

/// The key of a bound, and whether that is beyond the bound.
fn place(bound: &Bound<Vec<u8>>) -> Option<(&[u8], bool)> {
    match bound {
        Bound::Included(key) => Some((key, false)),
        Bound::Excluded(key) => Some((key, true)),
        Bound::Unbounded => None,
    }
}

fn raise(range: &mut KeyRange, bound: Bound<Vec<u8>>) {
    if place(&bound) > place(&range.lower) {
        range.lower = bound;
    }
}

fn lower(range: &mut KeyRange, bound: Bound<Vec<u8>>) {
    // Of two bounds with one key the one without it is lower.
    let order = |bound: &Bound<Vec<u8>>| place(bound).map(|(key, open)| (key.to_vec(), !open));
    if range.upper == Bound::Unbounded || order(&bound) < order(&range.upper) {
        range.upper = bound;
    }
}

fn within(range: &mut KeyRange, other: KeyRange) {
    if other.lower != Bound::Unbounded {
        raise(range, other.lower);
    }
    if other.upper != Bound::Unbounded {
        lower(range, other.upper);
    }
}

fn is_empty(range: &KeyRange) -> bool {
    match (place(&range.lower), place(&range.upper)) {
        (Some((low, low_open)), Some((high, high_open))) => {
            low > high || (low == high && (low_open || high_open))
        }
        _ => false,
    }
}

/// The order that a statement counts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Any,
    Ascending,
    Descending,
}

/// What a cursor sees of its keyspace.
pub(crate) enum View {
    /// There is no such keyspace.
    Missing,
    Moment(Arc<dyn Snapshot>),
    Writing(Rc<Writing>),
    /// The engine has no moments.
    Live(Arc<dyn Engine>),
}

impl View {
    /// What `read` makes of the entry of `key`.
    pub(crate) fn get<T>(
        &self,
        key: &[u8],
        read: impl FnOnce(Option<EntryRef<'_>>) -> T,
    ) -> Result<T> {
        Ok(match self {
            View::Missing => read(None),
            View::Moment(moment) => moment.get_with(key, read)?,
            View::Writing(writing) => writing.transaction.borrow().get(key, read)?,
            View::Live(engine) => engine.get_with(key, read)?,
        })
    }

    /// An iterator over a range; `None` if there is no such keyspace.
    ///
    /// # Errors
    /// Fails if its engine has no order.
    pub(crate) fn iterate(&self, range: &KeyRange) -> silica::Result<Option<Box<dyn EntryIter>>> {
        let iterator: Box<dyn EntryIter> = match self {
            View::Missing => return Ok(None),
            View::Moment(moment) => Arc::clone(moment).iterate(range)?,
            View::Writing(writing) => Box::new(writing.transaction.borrow().cursor(range)?),
            View::Live(engine) => {
                let name = engine.descriptor().name;
                let text = format!(
                    "engine {name} has no order, and the elements of this sorted set are entries \
                     in order: change it once, and it is as engine {name} keeps it"
                );
                return Err(silica::Error::new(silica::ErrorKind::Unsupported, text));
            }
        };
        Ok(Some(iterator))
    }

    /// Waits for writes of which a part may have been seen, if others write what this sees.
    pub(crate) fn settle(&self) {
        if let View::Live(engine) = self
            && let Some(atomic) = engine.as_atomic()
        {
            atomic.settle();
        }
    }

    /// The time in Unix milliseconds at which it is looked at.
    pub(crate) fn unix_ms(&self) -> u64 {
        match self {
            View::Moment(moment) => moment.unix_ms(),
            _ => SystemClock::default().unix_ms(),
        }
    }
}

/// An entry that was copied.
struct Copied {
    key: Vec<u8>,
    value: Vec<u8>,
    expires_unix_ms: u64,
    user_bits: u32,
}

impl Copied {
    fn new(key: &[u8], entry: EntryRef<'_>) -> Self {
        let EntryRef { value, expires_unix_ms, user_bits } = entry;
        Copied { key: key.to_vec(), value: value.to_vec(), expires_unix_ms, user_bits }
    }

    fn entry(&self) -> EntryRef<'_> {
        let Copied { value, expires_unix_ms, user_bits, .. } = self;
        EntryRef { value, expires_unix_ms: *expires_unix_ms, user_bits: *user_bits }
    }
}

enum At {
    Nowhere,
    Iterator(Box<dyn EntryIter>),
    /// The last of these, and where those behind them begin.
    Copied {
        entries: Vec<Copied>,
        next: Option<u64>,
        range: KeyRange,
    },
}

/// A cursor over a keyspace.
pub(crate) struct Rows {
    tables: Rc<Tables>,
    view: Option<(String, View)>,
    at: At,
    is_descending: bool,
}

impl Rows {
    pub(crate) fn new(tables: Rc<Tables>) -> Self {
        Rows { tables, view: None, at: At::Nowhere, is_descending: false }
    }

    /// To the first entry that `constraints` let pass.
    pub(crate) fn search(
        &mut self,
        name: &str,
        may_be_missing: bool,
        constraints: &[Constraint<'_>],
        order: Order,
    ) -> Result<()> {
        self.at = At::Nowhere;
        self.is_descending = order == Order::Descending;
        if self.view.as_ref().is_none_or(|(known, _)| known != name) {
            self.view = Some((name.to_string(), self.tables.look(name, may_be_missing)?));
        }
        let Some((_, view)) = &self.view else { return Ok(()) };
        if matches!(view, View::Live(_)) && order != Order::Any {
            let words = format!("keyspace '{name}' has another engine now; prepare this anew");
            return Err(Failure::new(code::ERROR, words));
        }
        let Some(search) = Search::of(constraints) else { return Ok(()) };
        match search {
            Search::Key(key) => {
                let copy = |entry: Option<EntryRef<'_>>| entry.map(|e| Copied::new(&key, e));
                let entries = view.get(&key, copy)?.into_iter().collect();
                self.at = At::Copied { entries, next: None, range: KeyRange::ALL };
            }
            Search::Range(range) => {
                let mut iterator: Box<dyn EntryIter> = match view {
                    View::Missing => return Ok(()),
                    View::Moment(moment) => Arc::clone(moment).iterate(&range)?,
                    View::Writing(writing) => {
                        Box::new(writing.transaction.borrow().cursor(&range)?)
                    }
                    View::Live(_) => {
                        self.at = At::Copied { entries: Vec::new(), next: Some(0), range };
                        return self.fetch();
                    }
                };
                let is_there = match self.is_descending {
                    true => iterator.seek_to_last()?,
                    false => iterator.seek_to_first()?,
                };
                if is_there {
                    self.at = At::Iterator(iterator);
                }
            }
        }
        Ok(())
    }

    /// The next entries of an engine without an order, if none is left.
    fn fetch(&mut self) -> Result<()> {
        let Some((_, View::Live(engine))) = &self.view else { return Ok(()) };
        let At::Copied { entries, next, range } = &mut self.at else { return Ok(()) };
        let name = engine.descriptor().name;
        while entries.is_empty()
            && let Some(cursor) = *next
        {
            let scan = engine.as_scan().ok_or_else(|| {
                let words = format!("engine {name} finds keys, and does not list them");
                Failure::new(code::ERROR, words)
            })?;
            *next = scan.scan(cursor, SCAN_ENTRIES, &mut |key, entry| {
                if range.contains(key) {
                    entries.push(Copied::new(key, entry));
                }
            })?;
        }
        Ok(())
    }

    /// To the next entry.
    pub(crate) fn step(&mut self) -> Result<()> {
        match &mut self.at {
            At::Nowhere => {}
            At::Iterator(iterator) => {
                let moved = if self.is_descending { iterator.prev() } else { iterator.next() };
                if !moved? {
                    self.at = At::Nowhere;
                }
            }
            At::Copied { entries, .. } => {
                entries.pop();
                return self.fetch();
            }
        }
        Ok(())
    }

    /// The key and the entry here; `None` at the end.
    pub(crate) fn here(&self) -> Option<(&[u8], EntryRef<'_>)> {
        match &self.at {
            At::Nowhere => None,
            At::Iterator(iterator) => Some((iterator.key(), iterator.entry())),
            At::Copied { entries, .. } => entries.last().map(|e| (&e.key[..], e.entry())),
        }
    }
}

/// Milliseconds until an entry expires; `None` if it does not.
pub(crate) fn ttl_ms(entry: EntryRef<'_>) -> Option<i64> {
    let left = || entry.expires_unix_ms.saturating_sub(SystemClock::default().unix_ms());
    (entry.expires_unix_ms > 0).then(|| i64::try_from(left()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(constraints: &[(u8, &[u8])]) -> Option<Search> {
        let constraints: Vec<_> =
            constraints.iter().map(|(kind, bytes)| Constraint { kind: *kind, bytes }).collect();
        Search::of(&constraints)
    }

    fn passes(constraints: &[(u8, &[u8])], key: &[u8]) -> bool {
        match search(constraints) {
            None => false,
            Some(Search::Key(only)) => only == key,
            Some(Search::Range(range)) => range.contains(key),
        }
    }

    #[test]
    fn constraints_become_a_key_or_a_range() {
        assert_eq!(search(&[(b'=', b"a")]), Some(Search::Key(b"a".to_vec())));
        assert_eq!(search(&[(b'=', b"a"), (b'=', b"b")]), None);
        assert_eq!(search(&[(b'=', b"a"), (b'>', b"a")]), None);
        assert_eq!(search(&[(b'>', b"b"), (b'<', b"a")]), None);
        assert_eq!(search(&[(b'>', b"a"), (b'L', b"a")]), None);
        let between: &[(u8, &[u8])] = &[(b'G', b"b"), (b'>', b"b"), (b'<', b"d"), (b'L', b"d")];
        for (key, expected) in [("b", false), ("b\0", true), ("c", true), ("d", false)] {
            assert_eq!(passes(between, key.as_bytes()), expected, "{key}");
        }
    }

    #[test]
    fn patterns_leave_what_may_match() {
        assert!(passes(&[(b'g', b"user:*")], b"user:1") && !passes(&[(b'g', b"u*")], b"v"));
        assert!(!passes(&[(b'g', b"user:*")], b"USER:1"));
        for key in ["USER:1", "user:1", "User:\u{ff}"] {
            assert!(passes(&[(b'l', b"uSer:%")], key.as_bytes()), "{key}");
        }
        assert!(!passes(&[(b'l', b"1%")], b"2") && passes(&[(b'l', b"%1")], b"2"));
    }
}
