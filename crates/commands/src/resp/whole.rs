//! Commands on the store as a whole.

use super::types::reclaim::pages_in;
use super::{Keyspace, NOT_INTEGER, SYNTAX, error_text, info as sections};
use crate::budget::Claim;
use crate::burst::Args;
use crate::database_set::metric_of;
use crate::glob::Pattern;
use crate::service::Service;
use silica::engine::{
    Admin, Count, EngineExt, EntryIter, EntryRef, Error, ErrorKind, KeyRange, Near, Ordered,
    Result, Scan, Snapshot,
};
use silica_base::shared_len;
use silica_proto::{Reply, append_u64, parse_i64};
use silica_types::{Kind, PREFIX, is_inner, is_marked};
use std::ops::Bound;
use std::sync::Arc;

/// Entries that one SCAN visits at most, whatever COUNT says.
const SCAN_COUNT_MAX: usize = 10_000;
/// Entries that a walk visits in one engine call.
const STEP: usize = 1024;
/// Bytes of keys after which SCAN returns early, and which KEYS may return.
const SCAN_BYTES_MAX: usize = 1 << 20;
const KEYS_BYTES_MAX: usize = 64 << 20;
/// Bytes of keys that are claimed at once.
const KEYS_STEP_BYTES: usize = 256 << 10;

impl Keyspace<'_> {
    /// True if an entry has not expired: a replica's engine still has what its primary may keep.
    fn is_live(&self, entry: EntryRef<'_>) -> bool {
        entry.expires_unix_ms == 0
            || !self.service.databases.holds_expired()
            || entry.expires_unix_ms > self.service.unix_ms()
    }

    /// True if `key` is there and has not expired.
    fn has_live(&self, key: &[u8]) -> Result<bool> {
        match self.service.databases.holds_expired() {
            true => self.engine.get_with(key, |entry| entry.is_some_and(|e| self.is_live(e))),
            false => Ok(true),
        }
    }

    fn scan(&self) -> Result<&dyn Scan> {
        self.engine.as_scan().ok_or_else(|| self.lacks("iteration"))
    }

    /// The view of an engine that keeps its keys in order.
    fn ordered(&self) -> Option<Arc<dyn Ordered>> {
        Arc::clone(self.whole?).as_ordered()
    }

    fn admin(&self) -> Result<&dyn Admin> {
        self.engine.as_admin().ok_or_else(|| self.lacks("whole-store operations"))
    }

    fn lacks(&self, what: &str) -> Error {
        let name = self.engine.descriptor().name;
        let message = format!("engine '{name}' has no {what}, which this command needs");
        Error::new(ErrorKind::Unsupported, message)
    }
}

/// Keys one after another in one allocation.
#[derive(Default)]
struct Keys {
    bytes: Vec<u8>,
    ranges: Vec<(usize, usize)>,
    claimed: usize,
}

impl Keys {
    fn push(&mut self, key: &[u8]) {
        self.ranges.push((self.bytes.len(), self.bytes.len() + key.len()));
        self.bytes.extend_from_slice(key);
    }

    fn held_bytes(&self) -> usize {
        self.bytes.len() + self.ranges.len() * size_of::<(usize, usize)>()
    }

    /// Claims memory for what was found, and for the reply of it; false where there is none.
    fn claim(&mut self, claim: &Claim) -> bool {
        let needed = 2 * self.held_bytes();
        if needed <= self.claimed {
            return true;
        }
        let step = (needed - self.claimed).max(2 * KEYS_STEP_BYTES);
        self.claimed += step;
        claim.grow(step).is_ok()
    }

    /// Sorts and drops what was visited twice.
    fn dedup(&mut self) {
        let bytes = &self.bytes;
        self.ranges.sort_unstable_by_key(|(start, end)| &bytes[*start..*end]);
        self.ranges.dedup_by_key(|(start, end)| &bytes[*start..*end]);
    }

    fn write(&self, reply: &mut Reply<'_>) {
        reply.array(self.ranges.len());
        self.ranges.iter().for_each(|(start, end)| reply.bulk(&self.bytes[*start..*end]));
    }
}

struct ScanOptions {
    cursor: u64,
    count: usize,
    pattern: Option<Pattern>,
    /// The type that is wanted; `Some(None)` is strings, the empty list of them nothing.
    kind: Wanted,
}

impl ScanOptions {
    fn wants(&self, key: &[u8]) -> bool {
        !is_inner(key) && self.pattern.as_ref().is_none_or(|pattern| pattern.matches(key))
    }

    fn wants_entry(&self, key: &[u8], user_bits: u32) -> bool {
        let is_wanted = match self.kind {
            Wanted::Any => true,
            Wanted::Strings => !is_marked(user_bits),
            Wanted::Objects(kind) => Kind::of_user_bits(user_bits) == Some(kind),
            Wanted::Nothing => false,
        };
        is_wanted && self.wants(key)
    }
}

/// The type of the keys that SCAN is asked for.
#[derive(Clone, Copy)]
enum Wanted {
    Any,
    Strings,
    Objects(Kind),
    /// There is no such type.
    Nothing,
}

impl Wanted {
    /// By the name of the type.
    fn named(name: &[u8]) -> Self {
        let is = |kind: &Kind| name.eq_ignore_ascii_case(kind.name().as_bytes());
        match Kind::ALL.into_iter().find(is) {
            Some(kind) => Wanted::Objects(kind),
            None if name.eq_ignore_ascii_case(b"string") => Wanted::Strings,
            None => Wanted::Nothing,
        }
    }
}

fn scan_options(args: Args<'_>) -> Result<ScanOptions, &'static str> {
    let cursor = std::str::from_utf8(args.get(1)).ok().and_then(|text| text.parse().ok());
    let cursor = cursor.ok_or("ERR invalid cursor")?;
    let mut options = ScanOptions { cursor, count: 10, pattern: None, kind: Wanted::Any };
    let mut index = 2;
    while index < args.len() {
        if index + 1 == args.len() {
            return Err(SYNTAX);
        }
        let value = args.get(index + 1);
        if args.is(index, "count") {
            let count = parse_i64(value).ok_or(NOT_INTEGER)?;
            options.count = usize::try_from(count).ok().filter(|n| *n > 0).ok_or(SYNTAX)?;
        } else if args.is(index, "match") {
            options.pattern = Some(Pattern::new(value));
        } else if args.is(index, "type") {
            options.kind = Wanted::named(value);
        } else {
            return Err(SYNTAX);
        }
        index += 2;
    }
    Ok(options)
}

pub(crate) fn scan(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let options = match scan_options(args) {
        Ok(options) => options,
        Err(text) => {
            reply.error(text);
            return Ok(());
        }
    };
    let mut found = Keys::default();
    let next = match keys.ordered() {
        Some(ordered) => scan_in_order(keys, ordered.snapshot()?, &options, &mut found)?,
        None => scan_positions(keys, &options, &mut found)?,
    };
    reply.array(2);
    let mut digits = Vec::with_capacity(20);
    append_u64(&mut digits, next);
    reply.bulk(&digits);
    found.write(reply);
    Ok(())
}

/// Scans in the engine's own order; the next cursor.
fn scan_positions(keys: &Keyspace<'_>, options: &ScanOptions, found: &mut Keys) -> Result<u64> {
    let engine = keys.scan()?;
    let mut left = options.count.min(SCAN_COUNT_MAX);
    let mut next = Some(options.cursor);
    while let Some(cursor) = next
        && left > 0
        && found.held_bytes() < SCAN_BYTES_MAX
    {
        let step = left.min(STEP);
        left -= step;
        next = engine.scan(cursor, step, &mut |key, entry| {
            let is_wanted = options.wants_entry(key, entry.user_bits) && keys.is_live(entry);
            if is_wanted && keys.may_tell(key) {
                found.push(key);
            }
        })?;
    }
    Ok(next.unwrap_or(0))
}

/// Scans in the order of the keys, those that the pattern's beginning leaves; the next cursor.
fn scan_in_order(
    keys: &Keyspace<'_>,
    snapshot: Arc<dyn Snapshot>,
    options: &ScanOptions,
    found: &mut Keys,
) -> Result<u64> {
    let mut range = range_of(options.pattern.as_ref());
    let cursors = &keys.service.cursors;
    match cursors.lower(options.cursor) {
        Bound::Included(key) | Bound::Excluded(key) if range.is_above(&key) => return Ok(0),
        Bound::Included(key) | Bound::Excluded(key) if range.is_below(&key) => {}
        Bound::Unbounded => {}
        lower => range.lower = lower,
    }
    let mut iterator = snapshot.iterate(&range)?;
    let mut left = options.count.min(SCAN_COUNT_MAX);
    let mut is_there = iterator.seek_to_first()?;
    while is_there {
        if is_inner(iterator.key()) {
            // Pages of objects lie together.
            is_there = iterator.seek(&PAGES_END)?;
            continue;
        }
        let is_wanted = match options.kind {
            Wanted::Any => options.wants(iterator.key()),
            _ => options.wants_entry(iterator.key(), iterator.entry().user_bits),
        };
        let is_wanted = is_wanted && keys.is_live(iterator.entry());
        if is_wanted && keys.may_tell(iterator.key()) {
            found.push(iterator.key());
        }
        left -= 1;
        if left == 0 || found.held_bytes() >= SCAN_BYTES_MAX {
            let last = iterator.key().to_vec();
            return Ok(if iterator.next()? { cursors.after(keys.db, &last) } else { 0 });
        }
        is_there = iterator.next()?;
    }
    Ok(0)
}

/// The keys that may match `pattern`.
fn range_of(pattern: Option<&Pattern>) -> KeyRange {
    KeyRange::prefix(&pattern.map(Pattern::beginning).unwrap_or_default())
}

pub(crate) fn keys(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let pattern = &Pattern::new(args.get(1));
    let mut found = Keys::default();
    let is_whole = match keys.ordered() {
        Some(ordered) => keys_in_order(keys, ordered, pattern, &mut found)?,
        None => keys_by_position(keys, pattern, &mut found)?,
    };
    if is_whole {
        found.write(reply);
    } else {
        reply.error(
            "OOM KEYS would return more than 64 MiB, or than half of the clients' memory that is \
             free; use SCAN, or raise --client-memory",
        );
    }
    Ok(())
}

/// Finds what matches `pattern`; false where it is too much.
fn keys_by_position(keys: &Keyspace<'_>, pattern: &Pattern, found: &mut Keys) -> Result<bool> {
    let engine = keys.scan()?;
    let mut next = Some(0);
    while let Some(cursor) = next {
        keys.service.refuse_when_stopping()?;
        next = engine.scan(cursor, STEP, &mut |key, entry| {
            let is_wanted = !is_inner(key) && pattern.matches(key) && keys.is_live(entry);
            if is_wanted && keys.may_tell(key) {
                found.push(key);
            }
        })?;
        if found.held_bytes() > KEYS_BYTES_MAX {
            found.dedup();
        }
        if found.held_bytes() > KEYS_BYTES_MAX || !found.claim(keys.claim) {
            return Ok(false);
        }
    }
    found.dedup();
    Ok(true)
}

/// Keys that match, if the engine has keys in order.
fn keys_in_order(
    keys: &Keyspace<'_>,
    ordered: Arc<dyn Ordered>,
    pattern: &Pattern,
    found: &mut Keys,
) -> Result<bool> {
    let mut iterator = ordered.snapshot()?.iterate(&range_of(Some(pattern)))?;
    let mut is_there = iterator.seek_to_first()?;
    for visited in 0.. {
        if is_there && is_inner(iterator.key()) {
            is_there = iterator.seek(&PAGES_END)?;
        }
        if !is_there {
            break;
        }
        if visited % STEP == 0 {
            keys.service.refuse_when_stopping()?;
        }
        let is_wanted = pattern.matches(iterator.key()) && keys.is_live(iterator.entry());
        if is_wanted && keys.may_tell(iterator.key()) {
            found.push(iterator.key());
        }
        if found.held_bytes() > KEYS_BYTES_MAX || !found.claim(keys.claim) {
            return Ok(false);
        }
        is_there = iterator.next()?;
    }
    Ok(true)
}

/// The first key behind those of pages.
pub(super) const PAGES_END: [u8; 4] = [PREFIX[0], PREFIX[1], PREFIX[2], PREFIX[3] + 1];

/// Times that RANDOMKEY tries to find a key that its client may be told.
const RANDOM_TRIES: usize = 64;

pub(crate) fn randomkey(keys: &Keyspace<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let ordered = keys.ordered();
    for _ in 0..RANDOM_TRIES {
        let found = match &ordered {
            Some(ordered) => random_in_order(keys.service, ordered)?,
            None => random_by_position(keys.service, keys.scan()?)?,
        };
        let Some(key) = found else { break };
        if !is_inner(&key) && keys.may_tell(&key) && keys.has_live(&key)? {
            reply.bulk(&key);
            return Ok(());
        }
    }
    // Nearly all entries are pages.
    let found = match &ordered {
        Some(ordered) => first_in_order(ordered)?,
        None => first_by_position(keys.scan()?)?,
    };
    match found.filter(|key| keys.may_tell(key)) {
        Some(key) => reply.bulk(&key),
        None => reply.null(),
    }
    Ok(())
}

/// The first key of a user.
fn first_in_order(ordered: &Arc<dyn Ordered>) -> Result<Option<Vec<u8>>> {
    let mut iterator = Arc::clone(ordered).snapshot()?.iterate(&KeyRange::ALL)?;
    let mut is_there = iterator.seek_to_first()?;
    if is_there && is_inner(iterator.key()) {
        is_there = iterator.seek(&PAGES_END)?;
    }
    Ok(is_there.then(|| iterator.key().to_vec()))
}

fn first_by_position(engine: &dyn Scan) -> Result<Option<Vec<u8>>> {
    let (mut next, mut found) = (Some(0), None);
    while let Some(cursor) = next
        && found.is_none()
    {
        next = engine.scan(cursor, STEP, &mut |key, _| {
            if found.is_none() && !is_inner(key) {
                found = Some(key.to_vec());
            }
        })?;
    }
    Ok(found)
}

/// A key of a store that is visited in an order of its own, from a random place on.
fn random_by_position(service: &Service, engine: &dyn Scan) -> Result<Option<Vec<u8>>> {
    let mut found = Keys::default();
    // From a random place to the end, and where nothing is there from the start.
    for start in [service.random() >> 1, 0] {
        let mut next = Some(start);
        while let Some(cursor) = next
            && found.ranges.is_empty()
        {
            next = engine.scan(cursor, 8, &mut |key, _| found.push(key))?;
        }
    }
    let len = found.ranges.len() as u64;
    let chosen = service.random().checked_rem(len).map(|at| found.ranges[at as usize]);
    Ok(chosen.map(|(start, end)| found.bytes[start..end].to_vec()))
}

/// A key of a store in order, each about as likely as another.
fn random_in_order(service: &Service, ordered: &Arc<dyn Ordered>) -> Result<Option<Vec<u8>>> {
    let mut iterator = Arc::clone(ordered).snapshot()?.iterate(&KeyRange::ALL)?;
    let mut is_there = match ordered.near(service.random()) {
        None => seek_random(&mut *iterator, service.random())?,
        Some(Near { key, among }) => {
            let mut is_there = iterator.seek(&key)? || iterator.seek_to_first()?;
            for _ in 0..service.random() % among.max(1) {
                // Behind the last comes the first.
                is_there = is_there && (iterator.next()? || iterator.seek_to_first()?);
            }
            is_there
        }
    };
    is_there = is_there || iterator.seek_to_first()?;
    Ok(is_there.then(|| iterator.key().to_vec()))
}

/// To an entry somewhere between the first and the last; false where there is none.
fn seek_random(iterator: &mut dyn EntryIter, random: u64) -> Result<bool> {
    if !iterator.seek_to_last()? {
        return Ok(false);
    }
    let last = iterator.key().to_vec();
    if !iterator.seek_to_first()? {
        return Ok(false);
    }
    let first = iterator.key();
    let alike = shared_len(first, &last);
    let number = |key: &[u8]| {
        let mut bytes = [0; 8];
        key[alike..].iter().take(8).zip(&mut bytes).for_each(|(from, to)| *to = *from);
        u64::from_be_bytes(bytes)
    };
    let (low, high) = (number(first), number(&last));
    // The whole range of 64 bits has one number more than fits.
    let place = low + (high - low).checked_add(1).map_or(random, |count| random % count);
    let key = [&last[..alike], &place.to_be_bytes()].concat();
    Ok(iterator.seek(&key)? || iterator.seek_to_last()?)
}

/// Stores of up to so many entries are counted one by one: 5 ms at a microsecond each.
const COUNTED_ENTRIES_MAX: u64 = 5_000;

/// Versions that are gone through, most of them older ones of a few keys, or of keys that are
/// deleted: they are passed over within the engine.
const VERSIONS_WALKED_MAX: u64 = 100_000;

/// Bytes of an index in memory that may be gone through for that.
const WALK_BYTES_MAX: u64 = 8 << 20;

/// The number of keys, as exactly as it can be told within milliseconds.
pub(crate) fn size(keys: &Keyspace<'_>) -> Result<Count> {
    let admin = keys.admin()?;
    // Asked for first: dead pages that are removed meanwhile are then no keys of the estimate.
    let pages = pages_in(keys, admin.estimate()?.estimate, COUNTED_ENTRIES_MAX)?;
    let Count { low, estimate, high } = admin.estimate()?;
    // Few entries may lie in a large index.
    let index_bytes = || metric_of(keys.engine, "index_bytes").unwrap_or(0);
    let can_walk = |entries| entries <= COUNTED_ENTRIES_MAX && index_bytes() <= WALK_BYTES_MAX;
    if pages > 0 {
        return match keys.ordered() {
            Some(ordered) => size_beside_pages(&ordered),
            None if can_walk(high) => by_position(keys.scan()?),
            None => {
                let less = |count: u64| count.saturating_sub(pages);
                Ok(Count { low: less(low), estimate: less(estimate), high: less(high) })
            }
        };
    }
    let found = Count { low, estimate, high };
    match keys.ordered() {
        _ if low == high => Ok(found),
        Some(ordered) if high <= VERSIONS_WALKED_MAX && low <= COUNTED_ENTRIES_MAX => {
            Ok(in_order(&ordered, &[KeyRange::ALL])?.map_or(found, exactly))
        }
        _ if can_walk(high) => admin.count(true),
        _ => Ok(found),
    }
}

fn exactly(count: u64) -> Count {
    Count { low: count, estimate: count, high: count }
}

/// The number of keys before and behind the pages of objects, which may be many more.
fn size_beside_pages(ordered: &Arc<dyn Ordered>) -> Result<Count> {
    let before = KeyRange { upper: Bound::Excluded(PREFIX.to_vec()), ..KeyRange::ALL };
    let behind = KeyRange { lower: Bound::Included(PAGES_END.to_vec()), ..KeyRange::ALL };
    let entries = [&before, &behind].map(|range| ordered.range_size(range).entries);
    let estimate = entries.iter().sum();
    let count = match estimate > VERSIONS_WALKED_MAX {
        true => None,
        false => in_order(ordered, &[before, behind])?,
    };
    Ok(count.map_or(Count { low: 0, estimate, high: u64::MAX }, exactly))
}

/// The number of keys of a few versions in `ranges`, gone through; `None` if they are many.
fn in_order(ordered: &Arc<dyn Ordered>, ranges: &[KeyRange]) -> Result<Option<u64>> {
    let (snapshot, mut count) = (Arc::clone(ordered).snapshot()?, 0);
    for range in ranges {
        let mut iterator = Arc::clone(&snapshot).iterate(range)?;
        let mut is_there = iterator.seek_to_first()?;
        while is_there && count <= COUNTED_ENTRIES_MAX {
            (count, is_there) = (count + 1, iterator.next()?);
        }
    }
    Ok((count <= COUNTED_ENTRIES_MAX).then_some(count))
}

/// The number of keys of an engine without an order, gone through.
fn by_position(scan: &dyn Scan) -> Result<Count> {
    let (mut next, mut count) = (Some(0), 0);
    while let Some(cursor) = next {
        next = scan.scan(cursor, STEP, &mut |key, _| count += u64::from(!is_inner(key)))?;
    }
    Ok(exactly(count))
}

/// True if a user's key is there.
pub(crate) fn any_key(keys: &Keyspace<'_>) -> Result<bool> {
    let found = match keys.ordered() {
        Some(ordered) => first_in_order(&ordered)?,
        None => first_by_position(keys.scan()?)?,
    };
    Ok(found.is_some())
}

/// Calls `visit` with each key of a user: all of one moment if the engine has snapshots.
pub(crate) fn each_key(keys: &Keyspace<'_>, visit: &mut dyn FnMut(&[u8])) -> Result<()> {
    if let Some(ordered) = keys.ordered() {
        let mut iterator = ordered.snapshot()?.iterate(&KeyRange::ALL)?;
        let mut is_there = iterator.seek_to_first()?;
        for visited in 1_usize.. {
            if is_there && is_inner(iterator.key()) {
                is_there = iterator.seek(&PAGES_END)?;
            }
            if !is_there {
                break;
            }
            if visited.is_multiple_of(STEP) {
                keys.service.refuse_when_stopping()?;
            }
            visit(iterator.key());
            is_there = iterator.next()?;
        }
        return Ok(());
    }
    let (scan, mut next) = (keys.scan()?, Some(0));
    while let Some(cursor) = next {
        keys.service.refuse_when_stopping()?;
        next = scan.scan(cursor, STEP, &mut |key, _| {
            if !is_inner(key) {
                visit(key);
            }
        })?;
    }
    Ok(())
}

pub(crate) fn dbsize(keys: &Keyspace<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    reply.integer(size(keys)?.estimate as i64);
    Ok(())
}

/// True where the arguments of a FLUSH are fine: nothing, SYNC or ASYNC.
fn flush_args(args: Args<'_>) -> bool {
    args.len() == 1 || (args.len() == 2 && (args.is(1, "sync") || args.is(1, "async")))
}

pub(crate) fn flushdb(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    if !flush_args(args) {
        reply.error(SYNTAX);
        return Ok(());
    }
    keys.admin()?.clear()?;
    keys.service.dead_pages.note_cleared(keys.db);
    reply.ok();
    Ok(())
}

pub(crate) fn flushall(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    if !flush_args(args) {
        reply.error(SYNTAX);
        return Ok(());
    }
    clear_all(keys)?;
    reply.ok();
    Ok(())
}

/// Empties all databases. The caller is alone with them.
pub(crate) fn clear_all(keys: &Keyspace<'_>) -> Result<()> {
    let databases = &keys.service.databases;
    // The first one last: a cache is empty at once when nothing but that is left in it.
    for db in (0..databases.count()).rev().filter(|db| databases.may_hold(*db)) {
        Keyspace { engine: databases.engine(db)?, db, ..*keys }.admin()?.clear()?;
        keys.service.dead_pages.note_cleared(db);
    }
    Ok(())
}

/// A word of SILICA.MIGRATE: the database may forget everything when the server ends.
const FORGET_AT_EXIT_WORD: &str = "forget-at-exit";

/// SILICA.MIGRATE with a name, which might be that of a database of SQL.
const NO_NUMBER: &str = "ERR SILICA.MIGRATE moves a database of keys, by its number; other \
                         keyspaces, SQL databases among them, are moved by 'silica migrate NAME \
                         --to ENGINE' while no server has the store";

/// Begins a migration, or says how far one is.
pub(crate) fn migrate(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let databases = &keys.service.databases;
    let Some(index) = parse_i64(args.get(1)) else {
        reply.error(NO_NUMBER);
        return Ok(());
    };
    let index = u32::try_from(index).ok();
    let Some(index) = index.filter(|index| (*index as usize) < databases.count()) else {
        reply.error("ERR DB index is out of range");
        return Ok(());
    };
    if args.len() == 2 {
        let state = databases.migrations.state(index).unwrap_or_else(|| "none".to_string());
        reply.bulk(state.as_bytes());
        return Ok(());
    }
    let words: Vec<String> =
        args.from(2).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let (engine, mut options) = (&words[0], words[1..].to_vec());
    // FORGET-AT-EXIT stands alone, options in pairs.
    let is_forget = |word: &String| word.eq_ignore_ascii_case(FORGET_AT_EXIT_WORD);
    if let Some(at) = options.iter().step_by(2).position(is_forget) {
        options.splice(2 * at..=2 * at, [silica::FORGET_AT_EXIT.into(), "on".into()]);
    }
    if options.len() % 2 != 0 {
        reply.error(SYNTAX);
        return Ok(());
    }
    let options = options.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    databases.migrate(index, engine.clone(), options)?;
    reply.ok();
    Ok(())
}

pub(crate) fn info(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    match sections::text(keys, args) {
        Ok(text) => reply.verbatim(text.as_bytes()),
        Err(error) => reply.error(&error_text(&error)),
    }
    Ok(())
}
