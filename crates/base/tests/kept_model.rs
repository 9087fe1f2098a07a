//! Kept bytes under a model checker: every interleaving, and every value that the memory model lets
//! a load return.
//!
//! What pieces are made of is a stand-in: two pieces behind one lock. The checker is told of each
//! access to their bytes, and fails where two of them are not in order and one of them writes.

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, Ordering, fence};
}

#[allow(dead_code, unreachable_pub, reason = "the model uses a part of it")]
#[path = "../src/huge/kept.rs"]
mod kept;

mod pieces {
    use crate::sync::AtomicU32;
    use loom::cell::UnsafeCell;
    use loom::sync::{Mutex, MutexGuard};
    use std::ptr::NonNull;

    pub(crate) const GRAIN_BYTES: usize = 8;
    pub(crate) const CLASSES: usize = 1;
    const COUNT: usize = 2;

    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Place(usize);

    pub(crate) struct Pieces {
        free: Vec<usize>,
        owners: [AtomicU32; COUNT],
        memory: [u64; COUNT],
    }

    loom::lazy_static! {
        static ref PIECES: Mutex<Pieces> = Mutex::new(Pieces {
            free: (0..COUNT).collect(),
            owners: std::array::from_fn(|_| AtomicU32::new(0)),
            memory: [0; COUNT],
        });
        /// Stand for the bytes of the pieces.
        static ref ACCESSES: [UnsafeCell<()>; COUNT] =
            std::array::from_fn(|_| UnsafeCell::new(()));
    }

    pub(crate) fn pieces() -> MutexGuard<'static, Pieces> {
        PIECES.lock().expect("no panic while held")
    }

    /// Tells of a read of the piece whose bytes these are.
    pub(crate) fn note_read(bytes: &[u8]) {
        let at = {
            let memory = pieces().memory.as_ptr() as usize;
            (bytes.as_ptr() as usize - memory) / GRAIN_BYTES
        };
        ACCESSES[at].with(|_| ());
    }

    impl Pieces {
        pub(crate) fn of(&mut self, Place(at): Place) -> (NonNull<u8>, &AtomicU32) {
            (NonNull::from(&mut self.memory[at]).cast(), &self.owners[at])
        }

        /// The first free piece, whose taker writes it.
        pub(crate) fn take(&mut self, class: usize) -> Option<Place> {
            assert_eq!(class, 0, "the only one");
            let at = self.free.pop()?;
            ACCESSES[at].with_mut(|_| ());
            Some(Place(at))
        }

        /// The bytes go back to the system, which is a write.
        pub(super) fn set_room(&mut self, _: usize, _: usize) {}

        pub(crate) fn give_back(&mut self, Place(at): Place) {
            ACCESSES[at].with_mut(|_| ());
            assert!(!self.free.contains(&at), "it is given back once");
            self.free.push(at);
        }

        pub(crate) fn free(&self) -> usize {
            self.free.len()
        }
    }
}

use kept::KeptBytes;
use loom::thread;
use pieces::{note_read, pieces};
use silica_base::AlignedBuf;

fn read(kept: &KeptBytes) -> u8 {
    note_read(kept);
    kept[0]
}

#[test]
fn a_piece_is_free_when_all_of_its_owners_have_read_it() {
    loom::model(|| {
        let first = KeptBytes::new(&[1; 8]);
        let second = first.clone();
        let reader = thread::spawn(move || assert_eq!(read(&second), 1));
        assert_eq!(read(&first), 1);
        drop(first);
        reader.join().expect("it ends");
        assert_eq!(pieces().free(), 2);
    });
}

#[test]
fn who_takes_a_piece_again_finds_no_reader_of_what_was_there() {
    loom::model(|| {
        let first = KeptBytes::new(&[1; 8]);
        let other = KeptBytes::new(&[3; 8]);
        let second = first.clone();
        let reader = thread::spawn(move || {
            let third = second.clone();
            drop(second);
            assert_eq!(read(&third), 1);
        });
        drop(first);
        // The piece that was given back, or none is left.
        if pieces().free() > 0 {
            let next = KeptBytes::new(&[2; 8]);
            assert_eq!((read(&next), read(&other)), (2, 3));
        }
        reader.join().expect("it ends");
        drop(other);
        assert_eq!(pieces().free(), 2);
    });
}
