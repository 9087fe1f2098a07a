//! Iteration in the order of partitions and main buckets.
//!
//! A cursor is the number of a main bucket among those of all partitions. A key's main bucket
//! never changes while the cache is open, and a chain is visited as a whole.

use crate::chunks::Reading;
use crate::item::{Copied, Form, Scratch};
use crate::large::Held;
use crate::mica::Mica;
use silica_base::Result;
use silica_engine::{Copies, EntryRef, Scan};

impl Scan for Mica {
    fn scan(
        &self,
        cursor: u64,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], EntryRef<'_>),
    ) -> Result<Option<u64>> {
        let per_partition = self.partitions[0].index().main() as u64;
        let end = per_partition * self.partitions.len() as u64;
        let (mut visited, mut now) = (0, None);
        let (mut chain, mut scratch) = (Vec::new(), Scratch::new());
        for at in cursor..end {
            if visited >= limit.max(1) {
                return Ok(Some(at));
            }
            let partition = &self.partitions[(at / per_partition) as usize];
            let main = (at % per_partition) as usize;
            partition.index().prefetch(main + 8);
            partition.read_chain(main, &mut chain, &mut scratch);
            let number = (at / per_partition) as usize;
            for (key, value, copied) in &chain {
                if self.has_expired(copied, &mut now) {
                    continue;
                }
                let (expires_unix_ms, user_bits) = (copied.expires_unix_ms, copied.user_bits);
                if copied.form == Form::Whole {
                    visited += 1;
                    visit(key, EntryRef { value, expires_unix_ms, user_bits });
                    continue;
                }
                let mut copies = Copies::default();
                let place = (number, &key[..]);
                let read = self.scan_list(place, value, *copied, (&mut scratch, &mut copies))?;
                if let Some(copied) = read
                    && !self.has_expired(&copied, &mut now)
                {
                    visited += 1;
                    visit(key, scratch.entry(copied));
                    scratch.trim();
                }
            }
        }
        self.check_poison()?;
        Ok(None)
    }

    fn cursor_of(&self, key: &[u8]) -> u64 {
        let probe = self.probe(key);
        let per_partition = self.partitions[0].index().main() as u64;
        u64::from(probe.partition) * per_partition + u64::from(probe.bucket)
    }
}

impl Mica {
    /// Reads the large value of a key, whose list is `value`, into `scratch`.
    #[cold]
    fn scan_list(
        &self,
        place: (usize, &[u8]),
        value: &[u8],
        copied: Copied,
        (scratch, copies): (&mut Scratch, &mut Copies),
    ) -> Result<Option<Copied>> {
        scratch.room(value.len()).copy_from_slice(value);
        let mut claimed = Ok(());
        let mut wants = |bytes| {
            copies.clear();
            claimed = copies.claim(bytes);
            claimed.is_ok()
        };
        let mut reading =
            Reading { held: Held::NONE, wants: &mut wants, used: &mut |_, _, _, _| {} };
        let read = self.read_list(place, copied, scratch, &mut reading);
        claimed.map(|()| read)
    }
}
