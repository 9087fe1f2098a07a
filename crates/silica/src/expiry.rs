//! Entries that go by themselves: times to live of single keys.

use crate::Keyspace;
use silica_base::{Clock, SystemClock};
use silica_engine::{Engine, EntryRef, Error, ErrorKind, GetSink, Result, Update, WriteBatch};
use std::time::Duration;

/// Longest time to live: 292 million years, which a client's signed milliseconds hold, too.
const TTL_MS_MAX: u64 = i64::MAX as u64 / 2;

/// How long an entry lives from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimeToLive {
    /// It goes when this is over.
    Left(Duration),
    /// It does not expire.
    Unlimited,
}

/// Keeps the expiry of the one entry that is looked up.
struct ExpiryOf(Option<u64>);

impl GetSink for ExpiryOf {
    fn found(&mut self, _index: usize, entry: EntryRef<'_>) {
        self.0 = Some(entry.expires_unix_ms);
    }
}

/// The clock by which engines let entries expire.
fn now_unix_ms() -> u64 {
    SystemClock::default().unix_ms()
}

/// The entry of a value that lives for `ttl` from now on.
///
/// # Errors
/// Those of [`expires_after`].
pub(crate) fn entry_for(value: &[u8], ttl: Duration) -> Result<EntryRef<'_>> {
    Ok(EntryRef { expires_unix_ms: expires_after(ttl)?, ..EntryRef::new(value) })
}

/// The moment, in milliseconds since the Unix epoch, at which an entry expires that lives for `ttl`
/// from now on: what [`EntryRef::expires_unix_ms`] takes. Parts of a millisecond count as a whole
/// one, so nothing expires early.
///
/// ```
/// use silica::{EntryRef, WriteBatch, expires_after};
/// use std::time::Duration;
///
/// let expires_unix_ms = expires_after(Duration::from_secs(60))?;
/// let mut batch = WriteBatch::new();
/// batch.put_entry(b"ann", EntryRef { expires_unix_ms, ..EntryRef::new(b"token") });
/// # Ok::<(), silica::Error>(())
/// ```
///
/// # Errors
/// `Config` if `ttl` is zero or longer than 292 million years.
pub fn expires_after(ttl: Duration) -> Result<u64> {
    if ttl.is_zero() {
        let message = "a time to live must be longer than nothing; to remove a key, delete it";
        return Err(Error::new(ErrorKind::Config, message));
    }
    let ms = ttl.as_nanos().div_ceil(1_000_000);
    let ms = u64::try_from(ms).ok().filter(|ms| *ms <= TTL_MS_MAX);
    ms.map(|ms| now_unix_ms() + ms).ok_or_else(|| {
        let message = format!(
            "a time to live of {} s is too long; use at most {} s, or none",
            ttl.as_secs(),
            TTL_MS_MAX / 1000
        );
        Error::new(ErrorKind::Config, message)
    })
}

/// Expiry. All engines keep it with the entry, to the millisecond of the machine's clock: an entry
/// whose time is over is not there for any call, and its space comes back in the background.
impl Keyspace {
    /// Maps `key` to `value` for `ttl`, as durable as the store was opened for. A later
    /// [`put`](Keyspace::put) of the key ends the time to live.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("silica-doc-ttl-{}", std::process::id()));
    /// # let store = silica::open(&path)?;
    /// use silica::TimeToLive;
    /// use std::time::Duration;
    ///
    /// let sessions = store.keyspace("sessions")?;
    /// sessions.put_with_ttl("ann", "token", Duration::from_secs(30))?;
    /// assert!(sessions.ttl("ann")? > Some(TimeToLive::Left(Duration::from_secs(29))));
    /// assert!(sessions.persist("ann")?);
    /// assert_eq!(sessions.ttl("ann")?, Some(TimeToLive::Unlimited));
    /// assert!(!sessions.expire("bob", Duration::from_secs(30))?, "there is no bob");
    /// # drop((sessions, store));
    /// # std::fs::remove_dir_all(&path).ok();
    /// # Ok::<(), silica::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Config` if `ttl` is zero or longer than 292 million years, and what
    /// [`write`](Keyspace::write) fails with.
    pub fn put_with_ttl(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let entry = entry_for(value.as_ref(), ttl)?;
        let mut batch = WriteBatch::new();
        batch.put_entry(key.as_ref(), entry);
        self.write(&batch)
    }

    /// How long `key` lives from now on; `None` if it is not there.
    pub fn ttl(&self, key: impl AsRef<[u8]>) -> Result<Option<TimeToLive>> {
        ttl_of(self.live()?, key.as_ref())
    }

    /// Lets `key` live for `ttl` from now on, whatever its time to live was, and returns whether it
    /// is there. Value and user bits stay. Nothing comes between: it is one step with respect to
    /// every other write. With no time to live the key is removed.
    ///
    /// # Errors
    /// `Config` if `ttl` is longer than 292 million years, `Unsupported` if the engine cannot
    /// update atomically, and what [`update`](Keyspace::update) fails with.
    pub fn expire(&self, key: impl AsRef<[u8]>, ttl: Duration) -> Result<bool> {
        expire_by(ttl, |decide| self.update(key, decide))
    }

    /// Lets `key` live without a limit, and returns whether it had one. It is one step with
    /// respect to every other write.
    ///
    /// # Errors
    /// `Unsupported` if the engine cannot update atomically, and what
    /// [`update`](Keyspace::update) fails with.
    pub fn persist(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        persist_by(|decide| self.update(key, decide))
    }
}

/// How long `key` lives from now on; `None` if `engine` does not have it.
pub(crate) fn ttl_of(engine: &dyn Engine, key: &[u8]) -> Result<Option<TimeToLive>> {
    let mut found = ExpiryOf(None);
    engine.get_many(&[key], &mut found)?;
    Ok(match found.0 {
        None => None,
        Some(0) => Some(TimeToLive::Unlimited),
        // What expired between the lookup and now is gone, too.
        Some(moment) => match moment.saturating_sub(now_unix_ms()) {
            0 => None,
            ms => Some(TimeToLive::Left(Duration::from_millis(ms))),
        },
    })
}

/// What decides the fate of an entry, as an atomic update calls it.
pub(crate) type Decide<'d> = &'d mut dyn FnMut(Option<EntryRef<'_>>) -> Update;

/// Makes `update` let its key live for `ttl`, and returns whether the key is there.
pub(crate) fn expire_by(
    ttl: Duration,
    update: impl FnOnce(Decide<'_>) -> Result<()>,
) -> Result<bool> {
    let moment = if ttl.is_zero() { None } else { Some(expires_after(ttl)?) };
    let mut is_there = false;
    update(&mut |entry| {
        is_there = entry.is_some();
        match (entry, moment) {
            (None, _) => Update::Keep,
            (Some(_), None) => Update::Delete,
            (Some(entry), Some(moment)) => expiring(entry, moment),
        }
    })?;
    Ok(is_there)
}

/// Makes `update` let its key live without a limit, and returns whether it had one.
pub(crate) fn persist_by(update: impl FnOnce(Decide<'_>) -> Result<()>) -> Result<bool> {
    let mut had_limit = false;
    update(&mut |entry| {
        let limited = entry.filter(|entry| entry.expires_unix_ms != 0);
        had_limit = limited.is_some();
        limited.map_or(Update::Keep, |entry| expiring(entry, 0))
    })?;
    Ok(had_limit)
}

/// `entry` with another expiry.
fn expiring(entry: EntryRef<'_>, expires_unix_ms: u64) -> Update {
    Update::Put { value: entry.value.to_vec(), expires_unix_ms, user_bits: entry.user_bits }
}
