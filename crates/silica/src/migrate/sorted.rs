//! Answers that are held for a moment, so that they can be put in the order of their keys or thrown
//! away as a whole.

use silica_engine::{Engine, EntryRef, GetSink, Result};
use std::ops::Range;

/// Bytes of values that are held at once. No caller counts them, so they are few: clients of a
/// server make many threads read at the same time.
const BYTES_MAX: usize = 128 << 10;

/// An answer: of which key, where its value lies, and what else the entry has.
struct Held {
    index: usize,
    /// `None` if there was no room for the value.
    value: Option<Range<usize>>,
    expires_unix_ms: u64,
    user_bits: u32,
}

/// Answers that are held.
#[derive(Default)]
pub(super) struct Sorted {
    held: Vec<Held>,
    bytes: Vec<u8>,
    is_short: bool,
}

impl Sorted {
    /// Hands what `ask` reports of `keys` to `sink`, in the order of the keys. Values that there is
    /// no room for are read once more, one by one, when their turn comes: `engine` asks `sink`
    /// before it reads one that is large.
    #[cold]
    pub(super) fn pass(
        engine: &dyn Engine,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        ask: impl FnOnce(&dyn Engine, &mut dyn GetSink) -> Result<()>,
    ) -> Result<()> {
        let mut sorted = Sorted::default();
        ask(engine, &mut sorted)?;
        silica_base::compact_sort_by_key(&mut sorted.held, |held| held.index);
        // An engine may ask about a value more than once, at each of the blocks that it may lie in.
        sorted.held.dedup_by_key(|held| held.index);
        for held in &sorted.held {
            match sorted.entry(held) {
                Some(entry) => sink.found(held.index, entry),
                None => {
                    let mut alone = Alone { sink: &mut *sink, index: held.index };
                    engine.get_many(&[keys[held.index]], &mut alone)?;
                }
            }
        }
        Ok(())
    }

    /// True if there was no room for some value.
    pub(super) fn is_short(&self) -> bool {
        self.is_short
    }

    /// Reports the answers that are held.
    pub(super) fn report(&self, sink: &mut dyn GetSink) {
        for held in &self.held {
            self.entry(held).into_iter().for_each(|entry| sink.found(held.index, entry));
        }
    }

    fn entry(&self, held: &Held) -> Option<EntryRef<'_>> {
        let value = &self.bytes[held.value.clone()?];
        let (expires_unix_ms, user_bits) = (held.expires_unix_ms, held.user_bits);
        Some(EntryRef { value, expires_unix_ms, user_bits })
    }

    fn has_room(&self, bytes: usize) -> bool {
        bytes <= BYTES_MAX - self.bytes.len()
    }

    fn note_short(&mut self, index: usize) {
        self.is_short = true;
        self.held.push(Held { index, value: None, expires_unix_ms: 0, user_bits: 0 });
    }
}

impl GetSink for Sorted {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        if !self.has_room(entry.value.len()) {
            return self.note_short(index);
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(entry.value);
        let value = Some(start..self.bytes.len());
        let EntryRef { expires_unix_ms, user_bits, .. } = entry;
        self.held.push(Held { index, value, expires_unix_ms, user_bits });
    }

    fn wants(&mut self, index: usize, bytes: usize) -> bool {
        let wants = self.has_room(bytes);
        if !wants {
            self.note_short(index);
        }
        wants
    }
}

/// Reports about one key as about that of `index`.
struct Alone<'s> {
    sink: &'s mut dyn GetSink,
    index: usize,
}

impl GetSink for Alone<'_> {
    fn found(&mut self, _: usize, entry: EntryRef<'_>) {
        self.sink.found(self.index, entry);
    }

    fn wants(&mut self, _: usize, bytes: usize) -> bool {
        self.sink.wants(self.index, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_engine::{Durability, EngineExt};
    use silica_testkit::Reference;

    /// Keeps what it is told, and wants no large values.
    #[derive(Default)]
    struct Told(Vec<(usize, usize)>, Vec<(usize, usize)>);

    impl GetSink for Told {
        fn found(&mut self, index: usize, entry: EntryRef<'_>) {
            self.0.push((index, entry.value.len()));
        }

        fn wants(&mut self, index: usize, bytes: usize) -> bool {
            self.1.push((index, bytes));
            false
        }
    }

    #[test]
    fn what_is_held_is_bounded_and_nothing_is_lost() {
        let engine = Reference::new();
        let keys: Vec<[u8; 8]> = (0..40_u64).map(u64::to_be_bytes).collect();
        let len = |n: usize| if n.is_multiple_of(3) { 1 << 20 } else { 10_000 };
        for (n, key) in keys.iter().enumerate() {
            engine.put(key, &vec![7; len(n)], Durability::Buffered).unwrap();
        }
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 8]>::as_slice).collect();
        let mut told = Told::default();
        Sorted::pass(&engine, &keys, &mut told, |_, sorted| {
            // In the worst order, and two of the values of a large block's.
            for index in (0..keys.len()).rev() {
                assert!(len(index) <= 10_000 || !sorted.wants(index, len(index)));
                sorted.found(index, EntryRef::new(&vec![7; len(index)]));
            }
            Ok(())
        })
        .unwrap();
        let all: Vec<(usize, usize)> = (0..keys.len()).map(|n| (n, len(n))).collect();
        assert_eq!(told.0, all, "each once, and in the order of the keys");
        let mut sorted = Sorted::default();
        for index in 0..1000 {
            sorted.found(index, EntryRef::new(&[7; 10_000]));
        }
        assert!(sorted.is_short() && sorted.bytes.len() <= BYTES_MAX);
        sorted.report(&mut told);
        assert_eq!(told.0.len(), keys.len() + BYTES_MAX / 10_000);
    }

    #[test]
    fn a_value_that_is_read_alone_must_be_wanted() {
        let mut told = Told::default();
        let mut alone = Alone { sink: &mut told, index: 3 };
        assert!(!alone.wants(0, 1 << 20));
        assert_eq!(told.1, [(3, 1 << 20)]);
    }
}
