//! What the threads of a server share beside what commands share.

use crate::commits::Commits;
use crate::listeners::AcceptOptions;
use crate::loops::Loops;
use crate::pool::Pools;
use crate::tls::{self, Tls};
use crate::{Config, Mode};
use silica::Durability;
use silica_commands::Service;
use silica_proto::datagram::Partitions;
use std::sync::Arc;

/// What the threads of a server share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    /// What the commands share.
    pub(crate) service: Arc<Service>,
    pub(crate) loops: Arc<Loops>,
    pub(crate) pools: Pools,
    pub(crate) commits: Commits,
    pub(crate) tls: Option<Tls>,
}

impl Shared {
    /// A TLS session for a connection that is accepted with `options`, if they ask for one.
    pub(crate) fn tls_session(
        &self,
        options: AcceptOptions,
    ) -> std::io::Result<Option<Box<tls::Session>>> {
        let tls = self.tls.as_ref().filter(|_| options.tls);
        tls.map(|tls| tls.session().map(Box::new)).transpose()
    }

    /// True if bursts that have written wait for a sync that all loops share. With one loop there
    /// is nothing to share: its workers sync, which saves handing each burst to another thread
    /// (docs/benchmarks/scaling.md).
    pub(crate) fn shares_syncs(&self) -> bool {
        self.config.durability == Durability::Synced && self.config.loops > 1
    }

    /// How many bursts that write a loop may have under way.
    pub(crate) fn write_bursts_max(&self) -> usize {
        let workers = self.pools.workers_of_loop();
        match self.config.agreement {
            // What comes while the members agree about one grows into the next: several would be
            // small, and each costs threads that wake each other.
            Some(_) => 1,
            // Those that wait for a sync have no worker.
            None if self.shares_syncs() => 2 * workers,
            None => workers,
        }
    }

    /// True if the loops that own partitions serve datagrams themselves.
    pub(crate) fn loops_take_datagrams(&self) -> bool {
        let engine = self.service.databases.opened(0);
        let waits = engine.is_none_or(|engine| engine.descriptor().capabilities.may_wait);
        self.config.mode != Mode::Crcw && !waits
    }

    /// How others find out which loop owns a key of database 0, if one does.
    pub(crate) fn partitions(&self) -> Option<Partitions> {
        let sharded = self.service.databases.opened(0)?.as_sharded()?;
        let count = u16::try_from(sharded.shards()).ok().filter(|_| self.loops_take_datagrams())?;
        // The owner of a partition is its remainder, in the directory as here.
        sharded.seed().map(|seed| Partitions { count, seed })
    }
}
