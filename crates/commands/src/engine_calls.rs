//! What all that calls engines does alike: errors as replies, memory claimed for values.

use crate::budget::{Claim, SMALL_BYTES, out_of_memory};
use silica::engine::{Atomic, Engine, EntryRef, Error, ErrorKind, GetSink, Result};

/// The text of an engine's error as a reply.
pub fn error_text(error: &Error) -> String {
    let code = match error.kind() {
        ErrorKind::Full => "OOM",
        ErrorKind::Poisoned | ErrorKind::Corruption => "MISCONF",
        _ => "ERR",
    };
    format!("{code} {error}")
}

/// The atomic updates of `engine`.
pub(crate) fn atomic(engine: &dyn Engine) -> Result<&dyn Atomic> {
    engine.as_atomic().ok_or_else(|| {
        let name = engine.descriptor().name;
        let message = format!("engine '{name}' has no atomic updates, which this command needs");
        Error::new(ErrorKind::Unsupported, message)
    })
}

/// Adds up the bytes of values, without reading those that lie apart.
struct Sizes<'s>(&'s mut usize);

impl GetSink for Sizes<'_> {
    fn found(&mut self, _: usize, entry: EntryRef<'_>) {
        *self.0 += entry.value.len();
    }

    fn wants(&mut self, _: usize, bytes: usize) -> bool {
        *self.0 += bytes;
        false
    }
}

/// Claims memory for `copies` copies of the values that `keys` have, which an update of all of
/// them reads at once; or says why it may not.
pub(crate) fn claim_entries(
    engine: &dyn Engine,
    keys: &[&[u8]],
    copies: usize,
    claim: &Claim,
) -> Result<()> {
    let mut bytes = 0;
    engine.get_many(keys, &mut Sizes(&mut bytes))?;
    if bytes <= SMALL_BYTES {
        return Ok(());
    }
    claim.grow(copies * bytes).map_err(out_of_memory)
}
