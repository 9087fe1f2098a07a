//! What an engine needs from the world besides its device.

use silica_base::{Clock, HashSeed, SystemClock};
use std::sync::Arc;

/// Clock and seed, handed to an engine when it is opened, so that one seed replays a run.
#[derive(Clone)]
pub struct Environment {
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// The hash seed of a store that is created now; an existing store keeps the one it has
    /// written down.
    pub seed: HashSeed,
}

impl Environment {
    /// The machine's clock and `seed`.
    pub fn new(seed: HashSeed) -> Self {
        Environment { clock: Arc::new(SystemClock::default()), seed }
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Environment")
    }
}
