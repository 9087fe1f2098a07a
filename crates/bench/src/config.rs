//! A run of one workload on a store of ours.

use crate::plan::Plan;
use crate::sql::SqlOptions;
use silica::{OpenOptions, Result};
use std::path::PathBuf;

/// What to run, and where.
#[derive(Clone)]
pub struct Config {
    /// What to do with the store.
    pub plan: Plan,
    /// The store's directory; `None` means a temporary one.
    pub path: Option<PathBuf>,
    /// Reopen the store and drop the page cache before the measured part.
    pub cold: bool,
    /// Wait for background work between filling and measuring.
    pub settle: bool,
    /// Under SQL, in a table of a database, instead of in a keyspace.
    pub sql: Option<SqlOptions>,
    /// How to open the store: engine, memory, options, background threads.
    pub open: OpenOptions,
}

impl Config {
    /// A run of the workload `name` with the defaults of [`Plan::new`], settled before it is
    /// measured.
    pub fn new(name: &str) -> Result<Self> {
        let plan = Plan::new(name)?;
        Ok(Config {
            plan,
            path: None,
            cold: false,
            settle: true,
            sql: None,
            open: OpenOptions::new(),
        })
    }
}
