//! A copy that follows a store: first all that is there, then what changes.

use silica::engine::OpKind;
use silica::{OpenOptions, Result, WriteBatch};
use std::collections::BTreeMap;
use std::sync::Arc;

type Copy = BTreeMap<Vec<u8>, Vec<u8>>;

fn follow(copy: &mut Copy, batch: &WriteBatch<'_>) {
    for op in batch.ops() {
        match op.kind {
            OpKind::Put(entry) => drop(copy.insert(op.key.to_vec(), entry.value.to_vec())),
            OpKind::Delete => drop(copy.remove(op.key)),
            OpKind::DeleteRange(upper) => {
                copy.retain(|key, _| {
                    key.as_slice() < op.key || upper.is_some_and(|upper| key.as_slice() >= upper)
                });
            }
        }
    }
}

fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    // So many bytes of changes are kept for those who follow.
    let options = OpenOptions::new().set("changes_bytes_max", "1MiB");
    let store = options.open(directory.path())?;
    let orders = store.keyspace("orders")?;
    orders.put("order 1", "tea")?;

    // A snapshot, and the point at which the changes go on from it.
    let changes = orders.changes()?;
    let (snapshot, mut point) = Arc::clone(&changes).begin()?;
    let mut copy = Copy::new();
    let mut iter = snapshot.iterate(&silica::KeyRange::ALL)?;
    let mut is_there = iter.seek_to_first()?;
    while is_there {
        copy.insert(iter.key().to_vec(), iter.entry().value.to_vec());
        is_there = iter.next()?;
    }
    drop(iter);

    orders.put("order 2", "coffee")?;
    orders.put("order 1", "tea with milk")?;
    orders.delete("order 2")?;
    orders.put("order 3", "water")?;
    // What it has not seen yet, whole batches in the order of their commits.
    point = changes.read(point, 1 << 20, &mut |_, batch| follow(&mut copy, batch))?;

    for (key, value) in &copy {
        println!("{}: {}", String::from_utf8_lossy(key), String::from_utf8_lossy(value));
    }
    let now: Copy = orders.range(..)?.collect::<Result<_>>()?;
    assert_eq!(copy, now);
    assert_eq!(point, changes.now());
    drop(changes);
    store.close()
}
