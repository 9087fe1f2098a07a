//! Calls that are futures.

use silica::aio::Pool;
use silica::{Durability, ErrorKind, KeyRange, OpenOptions, Update, WriteBatch};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Wakes a thread.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future without asking it again before it says so.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut context, mut future) = (Context::from_waker(&waker), pin!(future));
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
        std::thread::park();
    }
}

/// Waits for all of them at the same time.
fn join<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    block_on(std::future::poll_fn(|context| {
        for (future, done) in all.iter_mut().filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                *done = Some(output);
            }
        }
        if all.iter().all(|(_, done)| done.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    }));
    all.into_iter().filter_map(|(_, done)| done).collect()
}

fn pool() -> Pool {
    Pool::new(2).expect("two threads")
}

#[test]
fn a_thousand_writes_wait_on_two_threads_and_share_syncs() {
    let directory = tempfile::tempdir().unwrap();
    // It counts them.
    let store = OpenOptions::new().engine("silt").open(directory.path()).unwrap();
    let keyspace = store.keyspace("k").unwrap();
    let futures = pool().keyspace(&keyspace);
    let syncs = || keyspace.metrics().unwrap().get("device_syncs");
    let before = syncs();
    let number = |n: u32| n.to_be_bytes();
    for done in join((0..1000).map(|n| futures.put(number(n), format!("value {n}")))) {
        done.unwrap();
    }
    let syncs = syncs() - before;
    assert!((1.0..500.0).contains(&syncs), "{syncs} syncs for 1000 writes");
    let found = join((0..1000).map(|n| futures.get(number(n))));
    for (n, value) in found.into_iter().enumerate() {
        assert_eq!(value.unwrap(), Some(format!("value {n}").into_bytes()));
    }
    let keys: Vec<_> = (998..1002).map(number).collect();
    let many = block_on(futures.get_many(&keys)).unwrap();
    assert_eq!(many.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false, false]);
}

#[test]
fn gets_that_memory_cannot_answer_are_answered_from_the_device() {
    let directory = tempfile::tempdir().unwrap();
    // Silt reads the device for each key that is in a store of its own.
    let options = || OpenOptions::new().engine("silt").memory_bytes(16 << 20);
    let store = options().open(directory.path()).unwrap();
    let keyspace = store.keyspace("k").unwrap();
    let mut batch = WriteBatch::new();
    let keys: Vec<String> = (0..20_000).map(|n| format!("key {n}")).collect();
    for key in &keys {
        batch.put(key.as_bytes(), key.as_bytes());
    }
    keyspace.write(&batch).unwrap();
    keyspace.settle().unwrap();
    let waits = |key: &String| keyspace.get_at_hand(key, |_| ()).unwrap().is_none();
    assert!(keys.iter().any(waits), "nothing is only on the device");
    let futures = pool().keyspace(&keyspace);
    for found in keys.chunks(500).flat_map(|keys| join(keys.iter().map(|key| futures.get(key)))) {
        assert!(found.unwrap().is_some());
    }
    assert_eq!(block_on(futures.get("key 20000")).unwrap(), None);
}

#[test]
fn pages_of_a_range_come_in_order_and_a_dropped_future_takes_none() {
    let directory = tempfile::tempdir().unwrap();
    let store = OpenOptions::new().engine("wip").open(directory.path()).unwrap();
    let futures = pool().keyspace(&store.keyspace("k").unwrap());
    let keys: Vec<String> = (0..1000).map(|n| format!("a/{n:04}")).collect();
    let mut batch = WriteBatch::new();
    for key in &keys {
        batch.put(key.as_bytes(), b"v");
    }
    batch.put(b"b", b"v");
    block_on(futures.write_with(&batch, Durability::Buffered)).unwrap();
    let mut range = block_on(futures.range(KeyRange::prefix(b"a/"))).unwrap();
    let mut found = Vec::new();
    loop {
        // Dropped while the page is on its way.
        {
            let mut context = Context::from_waker(Waker::noop());
            let mut next = Box::pin(range.next());
            if let Poll::Ready(Some(entry)) = next.as_mut().poll(&mut context) {
                found.push(String::from_utf8(entry.unwrap().0).unwrap());
            }
        }
        match block_on(range.next()) {
            Some(entry) => found.push(String::from_utf8(entry.unwrap().0).unwrap()),
            None => break,
        }
    }
    assert_eq!(found, keys);
    assert!(block_on(range.next()).is_none());
}

#[test]
fn transactions_run_again_after_a_conflict() {
    let directory = tempfile::tempdir().unwrap();
    let store = OpenOptions::new().engine("wip").open(directory.path()).unwrap();
    let futures = Pool::new(4).unwrap().keyspace(&store.keyspace("k").unwrap());
    let runs = Arc::new(AtomicU64::new(0));
    let adds = (0..40).map(|_| {
        let runs = Arc::clone(&runs);
        futures.transact(move |transaction| {
            runs.fetch_add(1, Ordering::Relaxed);
            let old = transaction.get_for_update("sum")?.map_or(0, |sum| sum.len());
            // Long enough for others to come in between.
            std::thread::sleep(Duration::from_millis(1));
            transaction.put("sum", vec![b'x'; old + 1]);
            Ok(old)
        })
    });
    let mut olds: Vec<usize> = join(adds).into_iter().map(Result::unwrap).collect();
    olds.sort_unstable();
    assert_eq!(olds, (0..40).collect::<Vec<_>>(), "no addition is lost");
    assert!(runs.load(Ordering::Relaxed) > 40, "nobody was in anybody's way");
    let update = |_: Option<silica::EntryRef<'_>>| Update::put(b"new".to_vec());
    block_on(futures.update("sum", update)).unwrap();
    assert_eq!(block_on(futures.get("sum")).unwrap().as_deref(), Some(&b"new"[..]));
    let refused = block_on(futures.transact(|transaction| {
        transaction.put("sum", "never");
        Err::<(), _>(silica::Error::new(ErrorKind::Config, "no"))
    }));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(block_on(futures.get("sum")).unwrap().as_deref(), Some(&b"new"[..]));
}

#[test]
fn a_panic_fails_its_call_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let store = silica::open(directory.path()).unwrap();
    let pool = Pool::new(1).unwrap();
    let futures = pool.keyspace(&store.keyspace("k").unwrap());
    let panicked = block_on(pool.run(|| -> silica::Result<()> { panic!("a bug of the program") }));
    assert_eq!(panicked.unwrap_err().kind(), ErrorKind::Closed);
    block_on(futures.put("a", "1")).unwrap();
    assert_eq!(block_on(futures.get("a")).unwrap().as_deref(), Some(&b"1"[..]));
    let too_long = block_on(futures.put(vec![b'k'; 1 << 17], "v")).unwrap_err();
    assert_eq!(
        too_long.kind(),
        futures.waiting().put(vec![b'k'; 1 << 17], "v").unwrap_err().kind()
    );
}

#[test]
fn writes_that_wait_when_the_pool_goes_are_done() {
    let directory = tempfile::tempdir().unwrap();
    let store = silica::open(directory.path()).unwrap();
    let keyspace = store.keyspace("k").unwrap();
    let (pool, began) = (Pool::new(1).unwrap(), Arc::new(AtomicU64::new(0)));
    let futures = pool.keyspace(&keyspace);
    let mut context = Context::from_waker(Waker::noop());
    let flag = Arc::clone(&began);
    let mut busy = Box::pin(pool.run(move || {
        flag.store(1, Ordering::Release);
        std::thread::sleep(Duration::from_millis(50));
        Ok(())
    }));
    assert!(busy.as_mut().poll(&mut context).is_pending());
    while began.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    {
        let mut waits = Box::pin(futures.put("a", "1"));
        assert!(waits.as_mut().poll(&mut context).is_pending());
    }
    drop(busy);
    drop((futures, pool));
    let is_there = || keyspace.get("a").unwrap().is_some();
    let found = (0..2000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        is_there()
    });
    assert!(found, "a write that had reached the pool is lost");
}
