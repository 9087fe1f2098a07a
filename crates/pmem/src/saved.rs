//! What a repair saves, and what it has to tell of the rest.

use silica_base::Result;
use silica_engine::{EntryRef, Loss};

/// Takes the entries that are saved, deletes as `None`, in the order in which they happened.
pub(crate) type Sink<'s> = &'s mut dyn FnMut(&[u8], Option<EntryRef<'_>>) -> Result<()>;

/// What was saved, and what not.
#[derive(Debug, Default)]
pub(crate) struct Saved {
    /// What was damaged and what is lost, in words.
    pub(crate) findings: Vec<String>,
    /// Buckets or leaves that do not match their checksums.
    pub(crate) damaged_pieces: u64,
    /// Entries that are known to be lost.
    pub(crate) lost: u64,
    is_unknown: bool,
    /// Of an entry an older version may be back, or one that was deleted.
    pub(crate) may_be_older: bool,
}

impl Saved {
    /// Something is lost of which nobody knows how much it was.
    pub(crate) fn lose_unknown(&mut self, finding: String) {
        self.findings.push(finding);
        self.is_unknown = true;
    }

    /// Says what the counts are.
    pub(crate) fn tell(&mut self) {
        if self.damaged_pieces + self.lost > 0 {
            self.findings.push(format!(
                "{} buckets or leaves do not match their checksums; {} entries are lost at most",
                self.damaged_pieces, self.lost
            ));
        }
    }

    /// How much is lost.
    pub(crate) fn loss(&self) -> Loss {
        let loss = if self.is_unknown { Loss::Unknown } else { Loss::Nothing };
        loss.and(self.lost)
    }
}
