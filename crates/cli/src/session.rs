//! An open store and the keyspace that the verbs work on.

use crate::args::{Global, Verb};
use crate::forgetful;
use silica::{DEFAULT_ENGINE, Error, ErrorKind, Keyspace, OpenOptions, Result, Silica};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The store of a command line that names none.
const DIRECTORY_DEFAULT: &str = "silica-data";

impl Global {
    /// The store's directory.
    pub(crate) fn directory(&self) -> PathBuf {
        self.path.clone().unwrap_or_else(|| Path::new(DIRECTORY_DEFAULT).to_path_buf())
    }

    /// Options as the flags say.
    pub(crate) fn open_options(&self) -> OpenOptions {
        let mut options = OpenOptions::new()
            .background_threads(self.background_threads)
            .read_only(self.read_only);
        if let Some(bytes) = self.memory {
            options = options.memory_bytes(bytes);
        }
        for (name, bytes) in &self.keyspace_memory {
            options = options.keyspace_memory(name, *bytes);
        }
        if let Some(engine) = &self.engine {
            options = options.engine(engine);
        }
        if let Some(words) = &self.describe {
            options = options.workload(words);
        }
        if let Some(bytes) = self.background_rate {
            options = options.background_bytes_per_second(bytes);
        }
        if let Some(path) = &self.log_path {
            options = options.log_path(path);
        }
        self.set.iter().fold(options, |options, (name, value)| options.set(name, value))
    }
}

/// A store that a command works on: opened for it, or a prompt's.
pub(crate) struct Opened {
    store: Arc<Silica>,
    is_at_hand: bool,
}

impl Deref for Opened {
    type Target = Silica;

    fn deref(&self) -> &Silica {
        &self.store
    }
}

impl Opened {
    /// The store itself, for a prompt that goes on with it.
    pub(crate) fn share(&self) -> Arc<Silica> {
        Arc::clone(&self.store)
    }

    /// Closes the store, unless the prompt goes on with it.
    pub(crate) fn close(self) -> Result<()> {
        if self.is_at_hand { Ok(()) } else { self.store.shut() }
    }
}

impl Global {
    /// The store; with `create` it is made where there is none.
    pub(crate) fn open(&self, create: bool) -> Result<Opened> {
        self.open_at(&self.directory(), create)
    }

    /// The store in the directory `path`.
    pub(crate) fn open_at(&self, path: &Path, create: bool) -> Result<Opened> {
        let at_hand = self.at_hand.as_ref().filter(|store| is_same(store.path(), path));
        if let Some(store) = at_hand {
            return Ok(Opened { store: Arc::clone(store), is_at_hand: true });
        }
        let store = Arc::new(self.open_options().create(create).open(path)?);
        Ok(Opened { store, is_at_hand: false })
    }

    /// True where the command's store is the one that a prompt has open.
    pub(crate) fn is_at_hand(&self) -> bool {
        self.at_hand.as_ref().is_some_and(|store| is_same(store.path(), &self.directory()))
    }

    /// What `--set` says, as pairs.
    pub(crate) fn pairs(&self) -> Vec<(&str, &str)> {
        self.set.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }
}

/// True where both paths lead to one directory.
fn is_same(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

impl Global {
    /// Refuses a keyspace that exists with another engine than the one asked for.
    pub(crate) fn check_engine(&self, keyspace: &Keyspace) -> Result<()> {
        let has = keyspace.engine().descriptor().name;
        match &self.engine {
            Some(engine) if engine != has && engine != silica::AUTO => {
                let message = format!(
                    "keyspace '{}' has engine {has}, not {engine}; leave --engine out, or choose \
                     another keyspace or --path",
                    keyspace.name()
                );
                Err(Error::new(ErrorKind::Config, message))
            }
            _ => Ok(()),
        }
    }
}

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
                && store.is_at_hand
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
