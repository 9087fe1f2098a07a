//! Stores of ours.

use crate::peer::{About, Class, Peer, Setting, Setup};
use silica::{DEFAULT_KEYSPACE, Durability, Keyspace, MetricsMap, OpenOptions, Result, Silica};
use silica_bench::{Abilities, Session, Target};

/// An engine below the boundary.
pub(crate) struct Ours {
    about: About,
    engine: &'static str,
    /// Options beside the memory, with the reason.
    options: &'static [(&'static str, &'static str, &'static str)],
}

/// Every engine of ours.
pub(crate) const PEERS: &[Ours] = &[
    Ours {
        about: About::embedded("silica:silt", "Silica, its store for small items on flash"),
        engine: "silt",
        options: &[],
    },
    Ours {
        about: About::embedded("silica:wip", "Silica, its store that keeps keys in order"),
        engine: "wip",
        options: &[],
    },
    Ours {
        about: About::memory("silica:mica", "Silica, its cache in memory"),
        engine: "mica",
        options: &[],
    },
    Ours {
        about: About::memory("silica:mica-store", "Silica, its store in memory"),
        engine: "mica",
        options: &[("eviction", "none", "it keeps all it is given, as tables do")],
    },
];

impl Peer for Ours {
    fn about(&self) -> &About {
        &self.about
    }

    fn is_ours(&self) -> bool {
        true
    }

    fn version(&self) -> Result<String> {
        Ok(env!("CARGO_PKG_VERSION").to_string())
    }

    fn settings(&self, setup: &Setup) -> Vec<Setting> {
        let mut settings = vec![Setting {
            name: "memory",
            value: setup.memory_bytes.to_string(),
            why: "the one number; everything else is the default",
        }];
        if self.class() == Class::Memory {
            settings.push(Setting {
                name: "entry_bytes_mean",
                value: entry_bytes(setup).to_string(),
                why: "key and value of this workload, which divides the memory",
            });
        }
        let option =
            |&(name, value, why): &(_, &str, _)| Setting { name, value: value.into(), why };
        settings.extend(self.options.iter().map(option));
        settings.extend(setup.set.iter().map(|(name, value)| Setting {
            name: "set",
            value: format!("{name}={value}"),
            why: "as the command line says",
        }));
        settings
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn Target>> {
        let mut options = OpenOptions::new().engine(self.engine).memory_bytes(setup.memory_bytes);
        if self.class() == Class::Memory {
            options = options.set("entry_bytes_mean", entry_bytes(setup).to_string());
        }
        for (name, value, _) in self.options {
            options = options.set(*name, *value);
        }
        for (name, value) in &setup.set {
            options = options.set(name, value);
        }
        let store = options.open(&setup.directory)?;
        let keyspace = store.keyspace(DEFAULT_KEYSPACE)?;
        Ok(Box::new(Store { keyspace, _store: store }))
    }
}

/// Bytes of a key and its value, on average.
fn entry_bytes(setup: &Setup) -> u64 {
    let plan = &setup.plan;
    let value = plan.workload.sizes.mean_bytes(plan.shape.value_bytes);
    plan.shape.key_bytes as u64 + value.ceil() as u64
}

/// An open store of ours; the keyspace goes before the store that owns its threads.
struct Store {
    keyspace: Keyspace,
    _store: Silica,
}

impl Target for Store {
    fn abilities(&self) -> Abilities {
        self.keyspace.abilities()
    }

    fn session(&self, durability: Durability) -> Result<Box<dyn Session + '_>> {
        self.keyspace.session(durability)
    }

    fn settle(&self) -> Result<()> {
        self.keyspace.settle()
    }

    fn sync(&self) -> Result<()> {
        self.keyspace.sync()
    }

    fn metrics(&self) -> Result<MetricsMap> {
        self.keyspace.metrics()
    }
}
