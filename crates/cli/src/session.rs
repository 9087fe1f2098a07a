//! An open store and the keyspace that the verbs work on.

use crate::args::Verb;
use crate::forgetful;
use silica::{DEFAULT_ENGINE, Error, ErrorKind, Keyspace, Result};
use silica_console::{Global, Opened};

impl Verb {
    /// True where it makes sense on a store that is not there yet.
    pub(crate) fn creates(&self) -> bool {
        matches!(self, Verb::Put { .. })
    }

    /// True where it writes nothing.
    pub(crate) fn only_reads(&self) -> bool {
        use Verb::{Backup, Count, Get, Inspect, Scan, Stats, Ttl, Verify};
        matches!(
            self,
            Backup { .. }
                | Count { .. }
                | Get { .. }
                | Inspect { .. }
                | Scan { .. }
                | Stats { .. }
                | Ttl { .. }
                | Verify { .. }
        )
    }
}

/// Refuses to write keys where a database of SQL is: its statements alone write it.
pub(crate) fn refuse_database(keyspace: &Keyspace) -> Result<()> {
    if !silica_sql::is_database(&**keyspace.engine())? {
        return Ok(());
    }
    let message = format!(
        "keyspace '{}' is a database of SQL, whose keys only statements write; type them at the \
         prompt (`silica`), or choose another --keyspace",
        keyspace.name()
    );
    Err(Error::new(ErrorKind::Config, message))
}

/// An open store and one keyspace of it.
pub(crate) struct Session {
    pub(crate) store: Opened,
    /// `None` where the keyspace does not exist and nothing may create it.
    keyspace: Option<Keyspace>,
    name: String,
}

impl Session {
    /// Opens the store for a verb. A store that cannot be written to, and need not be, is read as
    /// it is.
    pub(crate) fn open_for(global: &Global, verb: &Verb) -> Result<Self> {
        if verb.creates() {
            return Session::open_to_write(global);
        }
        let directory = global.directory();
        let is_read = verb.only_reads() && directory.is_dir() && !silica::is_writable(&directory);
        if is_read && !global.read_only {
            log::warn!("{} cannot be written to; it is only read", directory.display());
        }
        let read_only = global.read_only || is_read;
        Session::open(&Global { read_only, ..global.clone() }, false)
    }

    /// Opens the store for one command that writes, makes store and keyspace where they are
    /// missing, and refuses a keyspace that would forget what is written when the command ends.
    pub(crate) fn open_to_write(global: &Global) -> Result<Self> {
        forgetful::check_new(global)?;
        let session = Session::open(global, true)?;
        session.keyspace.as_ref().map_or(Ok(()), refuse_database)?;
        let forgetful = session.keyspace.as_ref().filter(|keyspace| !keyspace.is_kept_at_close());
        match forgetful.map(|keyspace| keyspace.engine().descriptor().name) {
            // A prompt has said so.
            Some(engine) if !global.forget_at_exit && !global.is_at_hand() => {
                Err(forgetful::refusal(&session.name, engine))
            }
            _ => Ok(session),
        }
    }

    /// Opens the store; with `create`, store and keyspace are made where they are missing.
    pub(crate) fn open(global: &Global, create: bool) -> Result<Self> {
        let store = global.open(create)?;
        let name = global.keyspace.clone();
        let keyspace = match store.existing(&name)? {
            // A prompt's store was opened without what this line says of new keyspaces.
            None if create
                && store.is_at_hand()
                && (global.engine.is_some() || !global.set.is_empty()) =>
            {
                let engine = global.engine.as_deref().unwrap_or(DEFAULT_ENGINE);
                Some(store.create_keyspace(&name, engine, &global.pairs())?)
            }
            None if create => Some(store.keyspace(&name)?),
            found => found,
        };
        if let Some(keyspace) = &keyspace {
            global.check_engine(keyspace)?;
        }
        Ok(Session { store, keyspace, name })
    }

    /// The keyspace; the error lists those there are.
    pub(crate) fn keyspace(&self) -> Result<&Keyspace> {
        self.keyspace.as_ref().ok_or_else(|| {
            let names: Vec<_> =
                self.store.keyspaces().unwrap_or_default().into_iter().map(|k| k.name).collect();
            let there = match names.as_slice() {
                [] => "the store is empty; fill it with `silica put` or `silica load`".to_string(),
                names => format!("there are {}; choose one with --keyspace", names.join(", ")),
            };
            let message = format!("no keyspace '{}': {there}", self.name);
            Error::new(ErrorKind::NotFound, message)
        })
    }

    pub(crate) fn close(self) -> Result<()> {
        drop(self.keyspace);
        self.store.close()
    }
}
