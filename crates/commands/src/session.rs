//! What a connection has chosen.

use crate::acl::{Acl, User};
use crate::clients::DEFAULT_USER;
use crate::resp::sql::SqlHandle;
use crate::tracking::Mode;
use crate::transaction::Queue;
use crate::watch::Watches;
use silica_proto::Version;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the client wants replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Replies {
    #[default]
    On,
    Off,
    /// Not to the next request.
    SkipNext,
}

/// State of one connection that its requests change.
#[derive(Default)]
pub struct Session {
    pub(crate) db: u8,
    /// The dialect of replies.
    pub version: Version,
    /// The password was given, or there is none.
    pub let_in: bool,
    /// Who it is; `None` before the first request.
    pub(crate) user: Option<Arc<User>>,
    /// The change of users that was the last when it was looked up.
    pub(crate) acl_version: u64,
    pub(crate) replies: Replies,
    /// The connection ends when its replies are out.
    pub quit: bool,
    /// The database to go on with if a transaction has run, which the flag says.
    pub(crate) selecting: Option<(Arc<AtomicBool>, u8)>,
    /// The requests since MULTI.
    pub(crate) queue: Option<Box<Queue>>,
    /// The keys since WATCH.
    pub(crate) watches: Option<Arc<Watches>>,
    /// Whether the server notes what it reads, and how it chooses.
    pub(crate) tracks: Option<Mode>,
    /// It is shown the requests of all clients.
    pub(crate) monitors: bool,
    /// The last request was CLIENT CACHING.
    pub(crate) caching: bool,
    /// Its requests are the stream of our primary: they are executed on a read-only replica, are
    /// not told on as effects, and nobody asks whether they are permitted.
    pub(crate) is_primary: bool,
    /// The last request was ASKING.
    pub(crate) asking: bool,
    /// In a cluster: it also reads from replicas.
    pub(crate) read_only: bool,
    /// Its connections to databases of SQL.
    pub(crate) sql: Option<SqlHandle>,
}

impl Session {
    /// A fresh session; where no password is set everybody is let in.
    pub fn new(let_in: bool) -> Self {
        Session { let_in, ..Session::default() }
    }

    /// Its user as it is now; a user that is gone ends the connection.
    pub fn user(&mut self, acl: &Acl) -> Option<&User> {
        let version = acl.version();
        if self.acl_version != version {
            let name = self.user.as_ref().map_or(DEFAULT_USER, |user| &user.name);
            let user = acl.get(name);
            self.quit |= user.is_none();
            (self.user, self.acl_version) = (user, version);
        }
        self.user.as_deref()
    }

    /// True if the server notes which keys the next request reads.
    pub(crate) fn is_tracked(&self) -> bool {
        match self.tracks {
            None | Some(Mode::Broadcast) => false,
            Some(Mode::Reads) => true,
            Some(Mode::OptIn) => self.caching,
            Some(Mode::OptOut) => !self.caching,
        }
    }

    /// Goes on with the database that a transaction has chosen, if that has run. The transaction
    /// has ended.
    pub(crate) fn settle(&mut self) {
        if let Some((has_run, db)) = self.selecting.take()
            && has_run.load(Ordering::Acquire)
        {
            self.db = db;
        }
    }

    /// The client has closed its side: a statement of SQL that goes on for long ends.
    pub fn leave(&self) {
        if let Some(sql) = &self.sql {
            sql.leave();
        }
    }

    /// Its requests are the stream of our primary from now on, beginning with `database`.
    pub fn follow_primary(&mut self, database: u8) {
        (self.is_primary, self.let_in, self.db) = (true, true, database);
    }

    /// The database that its next request is for.
    pub fn database(&self) -> u8 {
        self.db
    }

    /// True between MULTI and EXEC.
    pub fn is_in_transaction(&self) -> bool {
        self.queue.is_some()
    }

    /// Memory of the requests since MULTI.
    pub fn queued_bytes(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.held_bytes())
    }

    /// Lets the client in as `user`.
    pub(crate) fn enter(&mut self, user: Arc<User>) {
        self.let_in = true;
        self.user = Some(user);
    }
}
