//! Which cores the server and its clients run on.

use crate::peer::Setup;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::OnceLock;

/// The cores of a run: the last one is the server's, the others are the clients'.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pinning {
    all: CpuSet,
    /// Nothing where all cores are for all.
    parts: Option<Parts>,
}

#[derive(Debug, Clone, Copy)]
struct Parts {
    server: CpuSet,
    clients: CpuSet,
}

impl Pinning {
    /// By the cores that this process had when it was first asked: its threads may be pinned since.
    pub(super) fn of_machine() -> Self {
        static ALL: OnceLock<CpuSet> = OnceLock::new();
        Self::of(*ALL.get_or_init(|| sched_getaffinity(None).unwrap_or_default()))
    }

    /// A server with threads of its own number shares all cores with its clients.
    pub(super) fn of_setup(setup: &Setup) -> Self {
        let machine = Self::of_machine();
        match setup.server_threads {
            None => machine,
            Some(_) => Pinning { parts: None, ..machine },
        }
    }

    /// Servers that are several processes share all cores with their clients.
    pub(super) fn shared() -> Self {
        Pinning { parts: None, ..Self::of_machine() }
    }

    fn of(all: CpuSet) -> Self {
        let last = (0..CpuSet::MAX_CPU).rev().find(|&core| all.is_set(core));
        let parts = last.filter(|_| all.count() > 1).map(|last| {
            let (mut server, mut clients) = (CpuSet::new(), all);
            server.set(last);
            clients.unset(last);
            Parts { server, clients }
        });
        Pinning { all, parts }
    }

    /// The server's cores; nothing where it shares the only one.
    pub(super) fn server(&self) -> Option<CpuSet> {
        self.parts.map(|parts| parts.server)
    }

    /// Keeps the calling thread off the server's core while the result lives. Where the system
    /// does not let it, threads run where they did.
    pub(super) fn pin_client(&self) -> Pinned {
        if let Some(parts) = &self.parts {
            let _ = sched_setaffinity(None, &parts.clients);
        }
        Pinned { all: self.parts.map(|_| self.all) }
    }

    /// What the report says.
    pub(super) fn text(&self) -> String {
        match self.parts {
            None if self.all.count() > 1 => "not pinned".to_string(),
            None => "not pinned: there is one core for server and clients".to_string(),
            Some(parts) => {
                let of = |set: CpuSet| {
                    let cores = (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core));
                    cores.map(|core| core.to_string()).collect::<Vec<_>>().join(",")
                };
                format!("server on core {}, clients on {}", of(parts.server), of(parts.clients))
            }
        }
    }
}

/// A thread that may run on all cores again when this goes.
pub(crate) struct Pinned {
    all: Option<CpuSet>,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(all) = &self.all {
            let _ = sched_setaffinity(None, all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(cores: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        cores.iter().for_each(|&core| set.set(core));
        set
    }

    #[test]
    fn the_server_has_the_last_core_alone() {
        let pinning = Pinning::of(set(&[1, 2, 5]));
        assert_eq!(pinning.text(), "server on core 5, clients on 1,2");
        let one = Pinning::of(set(&[3]));
        assert!(one.server().is_none() && one.text().contains("not pinned"));
    }

    #[test]
    fn clients_may_run_everywhere_when_they_are_through() {
        let pinning = Pinning::of_machine();
        let pinned = pinning.pin_client();
        if let Some(parts) = pinning.parts {
            assert_eq!(sched_getaffinity(None).unwrap(), parts.clients);
        }
        drop(pinned);
        assert_eq!(sched_getaffinity(None).unwrap(), pinning.all);
    }
}
