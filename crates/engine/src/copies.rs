//! Memory for the copies that engines make of large values.
//!
//! Most engines show a value where it lies. One that stores it in pieces puts it together first,
//! and only the caller knows how much memory may be taken for that. So whoever calls engines on
//! behalf of others says it for its thread ([`limit_copies`]), and an engine claims what it is
//! about to copy ([`Copies`]). A sink that gets values has its own say
//! ([`GetSink::wants`](crate::GetSink::wants)), and what it wanted is not claimed once more.

use silica_base::Result;
use std::cell::RefCell;
use std::sync::Arc;

/// Memory that copies may take.
pub trait CopyRoom: Send + Sync {
    /// Takes `bytes` bytes.
    ///
    /// # Errors
    /// Fails if there are not so many, in words for whoever asked for the value.
    fn claim(&self, bytes: usize) -> Result<()>;

    /// Gives back `bytes` bytes that were taken.
    fn give_back(&self, bytes: usize);
}

thread_local! {
    static ROOM: RefCell<Option<Arc<dyn CopyRoom>>> = const { RefCell::new(None) };
}

/// From now on engines that this thread calls take the memory for their copies from `room`. Nothing
/// limits threads that have not called this.
pub fn limit_copies(room: &Arc<dyn CopyRoom>) {
    ROOM.with_borrow_mut(|of_thread| {
        if of_thread.as_ref().is_none_or(|before| !Arc::ptr_eq(before, room)) {
            *of_thread = Some(Arc::clone(room));
        }
    });
}

/// Copies that are alive: their memory is given back with this.
#[derive(Default)]
pub struct Copies {
    room: Option<Arc<dyn CopyRoom>>,
    bytes: usize,
}

impl Copies {
    /// Claims `bytes` more, before they are allocated.
    ///
    /// # Errors
    /// Fails if the thread may not take so many.
    pub fn claim(&mut self, bytes: usize) -> Result<()> {
        if self.room.is_none() {
            self.room = ROOM.with_borrow(Clone::clone);
        }
        if let Some(room) = &self.room {
            room.claim(bytes)?;
            self.bytes += bytes;
        }
        Ok(())
    }

    /// Gives everything back.
    pub fn clear(&mut self) {
        if let Some(room) = &self.room {
            room.give_back(std::mem::take(&mut self.bytes));
        }
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::{Error, ErrorKind};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    struct Few(AtomicUsize);

    impl CopyRoom for Few {
        fn claim(&self, bytes: usize) -> Result<()> {
            let take = |left: usize| left.checked_sub(bytes);
            let taken = self.0.fetch_update(Relaxed, Relaxed, take);
            taken.map(|_| ()).map_err(|_| Error::new(ErrorKind::Full, "few"))
        }

        fn give_back(&self, bytes: usize) {
            self.0.fetch_add(bytes, Relaxed);
        }
    }

    #[test]
    fn a_thread_takes_what_its_room_has() {
        let few = Arc::new(Few(AtomicUsize::new(10)));
        let of_thread = Arc::clone(&few);
        let thread = std::thread::spawn(move || {
            limit_copies(&(of_thread.clone() as Arc<dyn CopyRoom>));
            let (mut first, mut second) = (Copies::default(), Copies::default());
            first.claim(6).unwrap();
            assert_eq!(second.claim(6).unwrap_err().kind(), ErrorKind::Full);
            first.clear();
            second.claim(6).unwrap();
            first.claim(4).unwrap();
            assert_eq!(of_thread.0.load(Relaxed), 0);
        });
        thread.join().unwrap();
        assert_eq!(few.0.load(Relaxed), 10);
        // This thread has no limit.
        Copies::default().claim(1 << 40).unwrap();
    }
}
