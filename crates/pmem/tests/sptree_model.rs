//! The optimistic lock of SPTree under a model checker: every interleaving, and every value that
//! the memory model lets a load return.

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
}

#[allow(dead_code)] // Some of it is for waiting only.
#[path = "../src/sptree/lock.rs"]
mod lock;

/// What `lock.rs` finds as its module's sibling.
mod shrunk {
    use super::lock::{begin_read, end_read, is_retired, retire, try_lock, unlock};
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64;
    use loom::sync::atomic::Ordering::Relaxed;
    use loom::thread;

    /// A node with two words that change together.
    #[derive(Default)]
    struct Node {
        lock: AtomicU64,
        words: [AtomicU64; 2],
    }

    impl Node {
        fn write(&self, value: u64) -> bool {
            let Some(seen) = begin_read(&self.lock) else { return false };
            if !try_lock(&self.lock, seen) {
                return false;
            }
            self.words.iter().for_each(|word| word.store(value, Relaxed));
            unlock(&self.lock);
            true
        }

        fn read(&self) -> Option<[u64; 2]> {
            let seen = begin_read(&self.lock)?;
            let words = [self.words[0].load(Relaxed), self.words[1].load(Relaxed)];
            end_read(&self.lock, seen).then_some(words)
        }
    }

    #[test]
    fn a_reader_sees_both_words_of_a_write_or_none() {
        loom::model(|| {
            let node = Arc::new(Node::default());
            let writer = thread::spawn({
                let node = Arc::clone(&node);
                move || assert!(node.write(7))
            });
            if let Some([one, other]) = node.read() {
                assert_eq!(one, other, "a read of two moments");
            }
            writer.join().unwrap();
            assert_eq!(node.read(), Some([7, 7]));
        });
    }

    #[test]
    fn one_of_two_writers_of_a_version_gets_the_lock() {
        loom::model(|| {
            let node = Arc::new(Node::default());
            let other = thread::spawn({
                let node = Arc::clone(&node);
                move || node.write(1)
            });
            let mine = node.write(2);
            let its = other.join().unwrap();
            assert!(mine || its);
            let [one, other] = node.read().expect("nobody writes");
            assert_eq!(one, other);
        });
    }

    /// A chunk that names one of two nodes, which hold a key's value. A split moves the value from
    /// node 0 to node 1: it holds the node's lock, changes the chunk, and then the node.
    #[derive(Default)]
    struct Tree {
        chunk: AtomicU64,
        named: AtomicU64,
        nodes: [Node; 2],
    }

    impl Tree {
        fn split(&self) {
            let seen = begin_read(&self.nodes[0].lock).unwrap();
            assert!(try_lock(&self.nodes[0].lock, seen));
            self.nodes[1].words[0].store(5, Relaxed);
            let of_chunk = begin_read(&self.chunk).unwrap();
            assert!(try_lock(&self.chunk, of_chunk));
            self.named.store(1, Relaxed);
            unlock(&self.chunk);
            self.nodes[0].words[0].store(0, Relaxed);
            unlock(&self.nodes[0].lock);
        }

        /// `couples`: the chunk is looked at again after the node's version was taken.
        fn get(&self, couples: bool) -> Option<u64> {
            let of_chunk = begin_read(&self.chunk)?;
            let node = &self.nodes[self.named.load(Relaxed) as usize];
            if !couples && !end_read(&self.chunk, of_chunk) {
                return None;
            }
            let seen = begin_read(&node.lock)?;
            if couples && !end_read(&self.chunk, of_chunk) {
                return None;
            }
            let value = node.words[0].load(Relaxed);
            end_read(&node.lock, seen).then_some(value)
        }
    }

    fn split_against_get(couples: bool) {
        loom::model(move || {
            let tree = Arc::new(Tree::default());
            tree.nodes[0].words[0].store(5, Relaxed);
            let splitter = thread::spawn({
                let tree = Arc::clone(&tree);
                move || tree.split()
            });
            if let Some(value) = tree.get(couples) {
                assert_eq!(value, 5, "a live key is missed");
            }
            splitter.join().unwrap();
            assert_eq!(tree.get(couples), Some(5));
        });
    }

    #[test]
    fn a_key_that_a_split_moves_is_never_missed() {
        split_against_get(true);
    }

    #[test]
    #[should_panic(expected = "a live key is missed")]
    fn without_coupling_it_is() {
        split_against_get(false);
    }

    #[test]
    fn a_retired_lock_stays_locked() {
        loom::model(|| {
            let node = Node::default();
            let seen = begin_read(&node.lock).unwrap();
            assert!(try_lock(&node.lock, seen));
            assert!(!is_retired(&node.lock));
            retire(&node.lock);
            assert!(is_retired(&node.lock) && node.read().is_none() && !node.write(1));
        });
    }
}
