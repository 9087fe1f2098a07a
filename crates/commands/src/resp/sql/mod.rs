//! SQL over RESP: `SILICA.SQL`, `SILICA.SQL_RO` and `SILICA.SQL_GET`.
//!
//! 1. Each client has connections of its own to the databases that it names: transactions and
//!    temporary tables are the client's, and are gone when it leaves.
//! 2. Statements run on threads of their own. One that waits for another client's transaction
//!    leaves a thread free, on which that can end.
//! 3. A transaction that others wait for ends if its client is silent for twice as long as a
//!    statement may take.
//! 4. The rows of a statement are counted against the memory of clients before they are kept.

mod answer;
mod keyspaces;
mod session;

pub(crate) use session::{SqlHandle, SqlSession};

use crate::acl::User;
use crate::budget::Claim;
use crate::burst::Args;
use crate::exec::REPLY_BYTES_MAX;
use crate::resp::Keyspace;
use crate::service::Service;
use crate::session::Session;
use answer::Rows;
use session::Open;
use silica_proto::Reply;
use silica_sql::sql::{SqlError, Statement, ValueRef};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What a request may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SqlKind {
    /// Any statement.
    All,
    /// Statements that change nothing.
    Reads,
    /// It reads one row.
    Row,
}

/// What all statements share.
pub(crate) struct SqlLimits {
    ms_max: AtomicU64,
    workers: usize,
    /// Statements that wait for another one's transaction.
    waiting: AtomicUsize,
    is_stopping: AtomicBool,
    /// A statement has waited for somebody's transaction.
    has_waited: AtomicBool,
    /// All that clients have.
    sessions: Mutex<Vec<Weak<SqlSession>>>,
}

impl SqlLimits {
    pub(crate) fn new(ms_max: u64, workers: usize) -> Self {
        SqlLimits {
            ms_max: AtomicU64::new(ms_max),
            workers,
            waiting: AtomicUsize::new(0),
            is_stopping: AtomicBool::new(false),
            has_waited: AtomicBool::new(false),
            sessions: Mutex::default(),
        }
    }

    /// Milliseconds that a statement may take; 0 for any time.
    pub(crate) fn ms_max(&self) -> u64 {
        self.ms_max.load(Relaxed)
    }

    pub(crate) fn set_ms_max(&self, ms_max: u64) {
        self.ms_max.store(ms_max, Relaxed);
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<Weak<SqlSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a session until its client is gone.
    fn add(&self, session: &Arc<SqlSession>) {
        let mut sessions = self.sessions();
        if sessions.len() == sessions.capacity() {
            // Those of clients that are gone take memory as long as they stand here.
            sessions.retain(|session| session.strong_count() > 0);
        }
        sessions.push(Arc::downgrade(session));
    }

    /// Rolls back transactions that others wait for while their clients are silent, for twice as
    /// long as a statement may take: who waits has given up before. Called about once a second.
    pub(crate) fn end_idle(&self) {
        let ms_max = self.ms_max();
        if !self.has_waited.swap(false, Relaxed) || ms_max == 0 {
            return;
        }
        let mut sessions = self.sessions();
        sessions.retain(|session| session.strong_count() > 0);
        let all: Vec<_> = sessions.iter().filter_map(Weak::upgrade).collect();
        drop(sessions);
        all.iter().for_each(|session| session.end_idle(ms_max.saturating_mul(2)));
    }

    /// Ends all statements.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Relaxed);
    }
}

/// Who asks for a statement.
pub(crate) struct SqlCall {
    session: Arc<SqlSession>,
    user: Option<Arc<User>>,
}

/// Why a statement has no answer.
enum Refused {
    /// SQLite says so.
    Sql(SqlError),
    /// We do: a whole error.
    Text(String),
}

impl From<SqlError> for Refused {
    fn from(error: SqlError) -> Self {
        Refused::Sql(error)
    }
}

fn sql_error(words: impl std::fmt::Display) -> Refused {
    Refused::Text(format!("ERR SQL: {words}"))
}

/// `SQLITE_INTERRUPT`.
const INTERRUPTED: i32 = 9;

impl SqlCall {
    /// A statement of the client of `session`.
    pub(crate) fn of(service: &Service, session: &mut Session) -> Self {
        let new = || SqlHandle::new(service);
        let handle = session.sql.get_or_insert_with(new);
        SqlCall { session: handle.session(), user: session.user.clone() }
    }

    /// True if keys of numbered databases were written since the last call.
    pub(crate) fn has_written_keys(&self) -> bool {
        self.session.take_written()
    }

    /// Runs a request and answers it.
    pub(crate) fn run(
        &self,
        kind: SqlKind,
        keys: &Keyspace<'_>,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) {
        let start = reply.buffered();
        let answered = self.answer(kind, keys, args, reply);
        let Err(refused) = answered else { return };
        reply.raw().truncate(start);
        match refused {
            Refused::Text(text) => reply.error(&text),
            Refused::Sql(error) if error.code & 0xff == INTERRUPTED => {
                reply.error(&self.session.why_ended());
            }
            Refused::Sql(error) => reply.error(&format!("ERR SQL: {}", error.message)),
        }
    }

    fn answer(
        &self,
        kind: SqlKind,
        keys: &Keyspace<'_>,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Refused> {
        let name = text(args.get(1), "the name of a database")?;
        self.session.with(keys, name, kind == SqlKind::All, self.user.as_deref(), |open| match kind
        {
            SqlKind::Row => row(open, text(args.get(2), "a row")?, reply),
            _ => statement(open, kind, keys.claim, args, reply),
        })
    }
}

fn text<'a>(bytes: &'a [u8], what: &str) -> Result<&'a str, Refused> {
    std::str::from_utf8(bytes).map_err(|_| sql_error(format_args!("{what} is UTF-8")))
}

/// Answers with one row of a table as JSON.
fn row(open: &mut Open, key: &str, reply: &mut Reply<'_>) -> Result<(), Refused> {
    match open.sql.row_as_json(key)? {
        Some(json) => reply.bulk(json.as_bytes()),
        None => reply.null(),
    }
    Ok(())
}

fn statement(
    open: &mut Open,
    kind: SqlKind,
    claim: &Claim,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Refused> {
    let sql = text(args.get(2), "a statement")?;
    let before = open.sql.total_changes();
    let (first, used) = open.sql.prepare_first(sql)?;
    let Some(mut statement) = first else { return Err(sql_error("there is no statement in this")) };
    if open.sql.prepare_first(&sql[used..])?.0.is_some() {
        return Err(sql_error("one statement at a time; send the next by a request of its own"));
    }
    if kind == SqlKind::Reads && !statement.is_read_only() {
        return Err(sql_error("SILICA.SQL_RO runs what changes nothing; use SILICA.SQL"));
    }
    bind(&mut statement, args)?;
    let columns = statement.columns();
    if columns.is_empty() {
        while statement.step()? {}
        drop(statement);
        let has_changed = open.sql.total_changes() != before;
        reply.integer(if has_changed { open.sql.changes() } else { 0 });
        return Ok(());
    }
    let mut rows = Rows::begin(reply, claim, columns, REPLY_BYTES_MAX);
    while statement.step()? {
        rows.add(&statement).map_err(Refused::Text)?;
    }
    rows.end();
    Ok(())
}

/// Gives parameters the arguments behind the statement: text if they are UTF-8, else blobs.
fn bind(statement: &mut Statement<'_>, args: Args<'_>) -> Result<(), Refused> {
    let (given, wanted) = (args.from(3).len(), statement.parameters());
    if given > wanted {
        return Err(sql_error(format_args!(
            "{given} arguments for a statement that has {wanted} parameters"
        )));
    }
    for (at, bytes) in args.from(3).enumerate() {
        let value = match std::str::from_utf8(bytes) {
            Ok(_) => ValueRef::Text(bytes),
            Err(_) => ValueRef::Blob(bytes),
        };
        statement.bind_one(at + 1, value)?;
    }
    Ok(())
}
