//! A client's connections to databases.

use super::keyspaces::ClientKeyspaces;
use super::{Refused, SqlLimits, sql_error};
use crate::acl::User;
use crate::budget::{Claim, Share};
use crate::resp::{Keyspace, error_text};
use crate::service::Service;
use silica::engine::Durability;
use silica_base::{Clock, SystemClock};
use silica_sql::sql::{Sql, Untrusted};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Databases that a client has connections to at the same time.
const OPEN_MAX: usize = 8;

/// Memory of a connection: its lookaside buffers, its schema and a prepared statement.
const CONNECTION_BYTES: usize = 192 << 10;

/// Milliseconds that a statement goes on when its client has closed its side: who sends a request
/// and closes gets a quick answer all the same.
const LEFT_MS: u64 = 1000;

/// Why a transaction is rolled back that writes too much.
const OUT_OF_MEMORY: &str = "what the transaction has written does not fit into the clients' \
                             memory, so it was rolled back; commit more often, or raise \
                             --client-memory";

/// How long a statement waits between two looks whether another client's transaction is over.
const BUSY_PAUSES_US: [u64; 8] = [50, 100, 200, 500, 1000, 2000, 5000, 10_000];

/// A connection to a database.
pub(super) struct Open {
    name: String,
    pub(super) sql: Sql,
}

/// When statements of a client end.
struct Watch {
    limits: Arc<SqlLimits>,
    clock: SystemClock,
    /// Milliseconds of the clock; 0 if none runs.
    began_ms: AtomicU64,
    /// The client has closed its side; it is gone.
    has_left: AtomicBool,
    is_gone: AtomicBool,
    /// Bytes that transactions in other databases of the client have written.
    others_written: AtomicU64,
    /// Memory of what transactions have written and not committed.
    written: Share,
    /// There was none for more.
    is_out_of_memory: AtomicBool,
}

impl Watch {
    /// True if the statement that runs has run for too long, or nobody waits for it.
    fn is_over(&self) -> bool {
        if self.is_gone.load(Relaxed) || self.limits.is_stopping.load(Relaxed) {
            return true;
        }
        let ms_max = self.limits.ms_max();
        let ms = self.clock.monotonic_ns() / 1_000_000 - self.began_ms.load(Relaxed);
        (ms_max > 0 && ms >= ms_max) || (self.has_left.load(Relaxed) && ms >= LEFT_MS)
    }

    /// Counts what the transaction that is under way has written; false if there is no memory.
    fn count_written(&self, bytes: u64) -> bool {
        let (bytes, counted) = (usize::try_from(bytes).unwrap_or(usize::MAX), self.written.bytes());
        let fits = match bytes.checked_sub(counted) {
            Some(more) => more == 0 || self.written.grow(more).is_ok(),
            None => {
                self.written.shrink(counted - bytes);
                true
            }
        };
        if !fits {
            self.is_out_of_memory.store(true, Relaxed);
        }
        fits
    }

    /// Waits a little for another client's transaction; false if that makes no sense.
    fn waits(&self, times: u32) -> bool {
        // One thread stays free: on it the transaction ends that the others wait for.
        let before = self.limits.waiting.fetch_add(1, Relaxed);
        self.limits.has_waited.store(true, Relaxed);
        let may_wait = before + 1 < self.limits.workers && !self.is_over();
        if may_wait {
            let pause = BUSY_PAUSES_US[(times as usize).min(BUSY_PAUSES_US.len() - 1)];
            thread::sleep(Duration::from_micros(pause));
        }
        self.limits.waiting.fetch_sub(1, Relaxed);
        may_wait
    }
}

struct Inner {
    open: Vec<Open>,
    claim: Claim,
    /// When the last statement ended, in milliseconds of the clock.
    idle_since_ms: u64,
    /// A transaction was rolled back, and the client was not told.
    was_ended: bool,
}

/// See the module's documentation.
pub(crate) struct SqlSession {
    inner: Mutex<Inner>,
    watch: Arc<Watch>,
    keyspaces: Arc<ClientKeyspaces>,
    /// Keys of numbered databases were written, and nobody was told.
    has_written: AtomicBool,
}

/// What a client holds of its connections; dropped, they close as soon as no statement runs.
pub(crate) struct SqlHandle(Arc<SqlSession>);

impl SqlHandle {
    pub(super) fn new(service: &Service) -> Self {
        let watch = Watch {
            limits: Arc::clone(&service.sql),
            clock: SystemClock::default(),
            began_ms: AtomicU64::new(0),
            has_left: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            others_written: AtomicU64::new(0),
            written: Share::new(&service.budget),
            is_out_of_memory: AtomicBool::new(false),
        };
        let session = Arc::new(SqlSession {
            inner: Mutex::new(Inner {
                open: Vec::new(),
                claim: Claim::new(&service.budget),
                idle_since_ms: 0,
                was_ended: false,
            }),
            watch: Arc::new(watch),
            keyspaces: Arc::new(ClientKeyspaces::of(&service.databases)),
            has_written: AtomicBool::new(false),
        });
        service.sql.add(&session);
        SqlHandle(session)
    }

    pub(super) fn session(&self) -> Arc<SqlSession> {
        Arc::clone(&self.0)
    }

    /// The client has closed its side.
    pub(crate) fn leave(&self) {
        self.0.watch.has_left.store(true, Relaxed);
    }
}

impl Drop for SqlHandle {
    fn drop(&mut self) {
        self.0.watch.is_gone.store(true, Relaxed);
    }
}

impl SqlSession {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take_written(&self) -> bool {
        self.has_written.swap(false, Relaxed)
    }

    /// The error for a statement that was ended.
    pub(super) fn why_ended(&self) -> String {
        if self.watch.is_out_of_memory.load(Relaxed) {
            return format!("OOM SQL: {OUT_OF_MEMORY}");
        }
        if self.watch.limits.is_stopping.load(Relaxed) {
            return "ERR SQL: the server is being stopped".to_string();
        }
        let ms_max = self.watch.limits.ms_max();
        format!("ERR SQL: the statement took {ms_max} ms; CONFIG SET sql-time-limit allows more")
    }

    /// Calls `work` with the connection to the database `name`, which is made if it `may_create`,
    /// for a statement of `user`.
    pub(super) fn with(
        &self,
        keys: &Keyspace<'_>,
        name: &str,
        may_create: bool,
        user: Option<&User>,
        work: impl FnOnce(&mut Open) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let watch = &self.watch;
        watch.began_ms.store(watch.clock.monotonic_ns() / 1_000_000, Relaxed);
        let has_all_keys = user.is_some_and(User::has_all_keys);
        self.keyspaces.has_all_keys.store(has_all_keys, Relaxed);
        let mut inner = self.inner();
        if std::mem::take(&mut inner.was_ended) {
            return Err(sql_error(format_args!(
                "the transaction was rolled back, since others waited for it and this client was \
                 silent for twice sql-time-limit ({} ms); begin it anew",
                watch.limits.ms_max()
            )));
        }
        let at = match inner.open.iter().position(|open| open.name == name) {
            Some(at) => at,
            None => {
                inner.make_room()?;
                let open = self.open(keys.service, name, may_create)?;
                inner.open.push(open);
                inner.open.len() - 1
            }
        };
        let others: u64 = inner.written_bytes_but(at);
        watch.others_written.store(others, Relaxed);
        watch.is_out_of_memory.store(false, Relaxed);
        let mut done = work(&mut inner.open[at]);
        let sql = &mut inner.open[at].sql;
        if !watch.count_written(others + sql.written_bytes()) {
            sql.run("ROLLBACK")?;
            watch.count_written(others);
            done = Err(Refused::Text(format!("OOM SQL: {OUT_OF_MEMORY}")));
        }
        if !inner.open[at].sql.is_in_transaction()
            && self.keyspaces.has_written.swap(false, Relaxed)
        {
            self.has_written.store(true, Relaxed);
        }
        inner.idle_since_ms = watch.clock.monotonic_ns() / 1_000_000;
        done
    }

    /// Rolls transactions back if no statement was sent for so long.
    pub(super) fn end_idle(&self, ms_max: u64) {
        // Whoever has it is in the midst of a statement.
        let Ok(mut inner) = self.inner.try_lock() else { return };
        let now_ms = self.watch.clock.monotonic_ns() / 1_000_000;
        if now_ms - inner.idle_since_ms < ms_max {
            return;
        }
        let Inner { open, was_ended, .. } = &mut *inner;
        for Open { name, sql } in open.iter_mut().filter(|open| open.sql.is_in_transaction()) {
            if let Err(error) = sql.run("ROLLBACK") {
                log::warn!("rolling back a transaction of database {name}: {error}");
            }
            *was_ended = true;
        }
        self.watch.count_written(0);
    }

    fn open(&self, service: &Service, name: &str, may_create: bool) -> Result<Open, Refused> {
        let found = service.databases.sql(name, may_create);
        let database = found.map_err(|error| Refused::Text(error_text(&error)))?;
        let missing =
            || sql_error(format_args!("there is no database '{name}'; SILICA.SQL makes it"));
        let database = database.ok_or_else(missing)?;
        let keyspaces = Arc::clone(&self.keyspaces) as Arc<dyn silica_sql::Keyspaces>;
        let mut sql = Sql::to(&database, keyspaces, name)?;
        if service.options.durability == Durability::Buffered {
            sql.run("PRAGMA synchronous = NORMAL")?;
        }
        let over = Arc::clone(&self.watch);
        sql.set_progress(move |written| {
            let others = over.others_written.load(Relaxed);
            !over.count_written(others + written) || over.is_over()
        });
        let waits = Arc::clone(&self.watch);
        sql.set_busy(move |times| waits.waits(times));
        let value_bytes_max = service.budget.value_bytes_max();
        sql.distrust(Untrusted { value_bytes_max });
        Ok(Open { name: name.to_string(), sql })
    }
}

impl Inner {
    /// Bytes that transactions have written in all databases but one.
    fn written_bytes_but(&self, at: usize) -> u64 {
        let others = self.open.iter().enumerate().filter(|(other, _)| *other != at);
        others.map(|(_, open)| open.sql.written_bytes()).sum()
    }

    /// Sees to it that there is room for one more connection: the oldest without a transaction
    /// goes.
    fn make_room(&mut self) -> Result<(), Refused> {
        if self.open.len() < OPEN_MAX {
            return self.claim.keep(CONNECTION_BYTES).map_err(Refused::Text);
        }
        let idle = self.open.iter().position(|open| !open.sql.is_in_transaction());
        let Some(at) = idle else {
            return Err(sql_error(format_args!(
                "this client has transactions in {OPEN_MAX} databases, which is the limit"
            )));
        };
        self.open.remove(at);
        Ok(())
    }
}
