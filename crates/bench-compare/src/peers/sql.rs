//! Tables under SQL: on our storage, and on SQLite's own in the same build. So parser, planner and
//! machine are equal, and the storage is what differs.

use crate::peer::{About, Peer, Setting, Setup};
use silica::Result;
use silica_bench::{SqlOptions, SqlStore, Target};

/// A table.
pub(crate) struct Table {
    about: About,
    storage: &'static str,
    is_prepared: bool,
}

/// Every one.
pub(crate) const PEERS: &[Table] = &[
    Table {
        about: About::sql("silica:sql", "Silica, SQL on its ordered store, statements anew"),
        storage: "silica",
        is_prepared: false,
    },
    Table {
        about: About::sql("sqlite:sql", "SQLite's own storage, statements anew"),
        storage: "sqlite",
        is_prepared: false,
    },
    Table {
        about: About::sql(
            "silica:sql-prepared",
            "Silica, SQL on its ordered store, statements once",
        )
        .variant(),
        storage: "silica",
        is_prepared: true,
    },
    Table {
        about: About::sql("sqlite:sql-prepared", "SQLite's own storage, statements once").variant(),
        storage: "sqlite",
        is_prepared: true,
    },
];

impl Peer for Table {
    fn about(&self) -> &About {
        &self.about
    }

    fn is_ours(&self) -> bool {
        self.storage == "silica"
    }

    fn version(&self) -> Result<String> {
        Ok(match self.is_ours() {
            true => env!("CARGO_PKG_VERSION").to_string(),
            false => SqlStore::sqlite_version(),
        })
    }

    fn settings(&self, setup: &Setup) -> Vec<Setting> {
        let memory = match self.is_ours() {
            true => "memory_bytes",
            false => "cache_size",
        };
        vec![
            Setting {
                name: memory,
                value: setup.memory_bytes.to_string(),
                why: "the one number; SQLite's cache may be as large",
            },
            Setting {
                name: "journal_mode",
                value: "WAL".to_string(),
                why: "one sync for a commit, and readers that do not wait",
            },
            Setting {
                name: "synchronous",
                value: "NORMAL for buffered writes, FULL for synced ones".to_string(),
                why: "the same promise on both",
            },
            Setting {
                name: "table",
                value: "WITHOUT ROWID, BLOB key and value".to_string(),
                why: "one tree with the rows in it, in place of an index and a table",
            },
        ]
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn Target>> {
        let options = SqlOptions {
            storage: self.storage,
            memory_bytes: setup.memory_bytes,
            results_bytes: None,
            is_prepared: self.is_prepared,
        };
        Ok(Box::new(SqlStore::open(&setup.directory, options)?))
    }
}
