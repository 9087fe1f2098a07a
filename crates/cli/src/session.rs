//! An open store and the keyspace that the verbs work on.

use crate::args::{Global, Verb};
use silica::{Error, ErrorKind, Keyspace, OpenOptions, Result, Silica};
use std::path::{Path, PathBuf};

/// The store of a command line that names none.
const DIRECTORY_DEFAULT: &str = "silica-data";

impl Global {
    /// The store's directory.
    pub(crate) fn directory(&self) -> PathBuf {
        self.path.clone().unwrap_or_else(|| Path::new(DIRECTORY_DEFAULT).to_path_buf())
    }

    /// Options as the flags say.
    pub(crate) fn open_options(&self) -> OpenOptions {
        let mut options = OpenOptions::new().background_threads(self.background_threads);
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
}

/// An open store and one keyspace of it.
pub(crate) struct Session {
    pub(crate) store: Silica,
    /// `None` where the keyspace does not exist and nothing may create it.
    keyspace: Option<Keyspace>,
    name: String,
}

impl Session {
    /// Opens the store; with `create`, store and keyspace are made where they are missing.
    pub(crate) fn open(global: &Global, create: bool) -> Result<Self> {
        let store = global.open_options().create(create).open(global.directory())?;
        let mut session = Session { store, keyspace: None, name: global.keyspace.clone() };
        session.select(&global.keyspace, create)?;
        if let Some(keyspace) = &session.keyspace {
            global.check_engine(keyspace)?;
        }
        Ok(session)
    }

    /// Turns to another keyspace.
    pub(crate) fn select(&mut self, name: &str, create: bool) -> Result<()> {
        self.name = name.to_string();
        self.keyspace =
            if create { Some(self.store.keyspace(name)?) } else { self.store.existing(name)? };
        Ok(())
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
