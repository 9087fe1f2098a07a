//! The list of positions under a model checker: every interleaving, and every value that the
//! memory model lets a load return.

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64};
    pub(crate) use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

    pub(crate) const LEVELS: usize = 2;

    pub(crate) struct Words(Vec<AtomicU32>);

    impl Words {
        pub(crate) fn zeroed(len: usize) -> Self {
            Words((0..len).map(|_| AtomicU32::new(0)).collect())
        }
    }

    impl std::ops::Deref for Words {
        type Target = [AtomicU32];

        fn deref(&self) -> &[AtomicU32] {
            &self.0
        }
    }
}

#[allow(dead_code, unreachable_pub, reason = "the model uses a part of it")]
#[path = "../src/memtable/entries.rs"]
mod entries;

#[allow(dead_code, unreachable_pub, reason = "the model uses a part of it")]
#[path = "../src/memtable/skip_list.rs"]
mod skip_list;

use entries::Entries;
use loom::sync::Arc;
use loom::thread;
use silica_parts::frame::Frame;
use skip_list::SkipList;

/// The keys of positions 1 and so on, from the first that is written to the last.
const KEYS: [&[u8]; 4] = [b"5", b"3", b"4", b"5"];

struct Written;

impl Entries for Written {
    fn entry(&self, position: u64) -> Frame<'_> {
        // Nothing is at position 0, which is what a node says that is not whole yet.
        Frame::put(KEYS[position as usize - 1], b"")
    }
}

fn insert(list: &SkipList, position: u64) {
    list.insert(KEYS[position as usize - 1], position, &Written).expect("there is room");
}

/// A list of the first position, to which others are added while `read` is at work.
fn model(read: fn(&SkipList)) {
    loom::model(move || {
        let list = Arc::new(SkipList::new(KEYS.len()));
        insert(&list, 1);
        let readers = list.clone();
        // The checker remembers one access to each word. The writer's own would hide the readers'
        // from it if these came first.
        let reader = thread::spawn(move || read(&readers));
        (2..=4).for_each(|position| insert(&list, position));
        reader.join().expect("it ends");
        assert_eq!(list.positions(), [2, 3, 4, 1]);
    });
}

#[test]
fn what_was_there_is_found_whatever_is_put_in_front() {
    model(|list| {
        let found = list.find(KEYS[0], 2, &Written).map(|found| found.position);
        assert_eq!(found, Some(1));
    });
}

#[test]
fn a_search_ends_at_or_behind_what_is_wanted() {
    model(|list| {
        let node = list.seek(b"4", u64::MAX, &Written).expect("there is a greater key");
        assert!([3, 4, 1].contains(&list.position(node)));
    });
}

#[test]
fn who_goes_forwards_meets_whole_nodes_in_order() {
    model(|list| {
        let positions = list.positions();
        let is_in_order = [2, 3, 4, 1].iter().filter(|at| positions.contains(at)).eq(&positions);
        assert!(is_in_order && positions.ends_with(&[1]), "{positions:?}");
    });
}
