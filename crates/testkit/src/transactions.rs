//! Snapshot isolation, checked by histories: transactions of several threads move money between
//! keys while snapshots are summed, and what every committed transaction read and wrote has to have
//! an order in which one after the other would have read and written the same.

#![allow(clippy::disallowed_methods)] // Threads that prove an engine right are not its own.

use super::harness::Harness;
use silica_base::Prng;
use silica_engine::{
    Budget, Durability, Engine, EngineExt, EntryRef, GetSink, KeyRange, Ordered, Reads, WriteBatch,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const ACCOUNTS: u64 = 12;
/// In each account at first.
const MONEY: u64 = 1_000;
/// Keys beside the accounts, which make the store flush, compact and split.
const OTHERS: u64 = 5_000;

/// Who wrote an account last, and what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Account {
    writer: u64,
    money: u64,
}

impl Account {
    fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.writer.to_le_bytes());
        bytes[8..].copy_from_slice(&self.money.to_le_bytes());
        bytes
    }

    fn from(value: &[u8]) -> Self {
        let number = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().expect("8 bytes"));
        Account { writer: number(0), money: number(8) }
    }
}

/// A committed transaction: of each account that it read, who had written it, and what it wrote.
#[derive(Debug, Clone, Default)]
struct Committed {
    reads: BTreeMap<u64, u64>,
    writes: BTreeSet<u64>,
}

/// Committed transactions by their numbers; 0 is what was there at first.
type History = BTreeMap<u64, Committed>;

/// Accounts lie between the other keys.
fn account_key(account: u64) -> Vec<u8> {
    [&(account * OTHERS / ACCOUNTS).to_be_bytes()[..], b"account"].concat()
}

/// Lets `threads` threads make `each` transactions, and checks the history of those that
/// committed, and the sum of all accounts in every snapshot.
///
/// # Panics
///
/// Where a snapshot is of no single moment, an update is lost, or no order explains the history.
pub fn transactions<H: Harness>(harness: &mut H, seed: u64, threads: u64, each: u64)
where
    H::Engine: 'static,
{
    harness.wipe();
    let engine = Arc::new(harness.open().expect("an empty store opens"));
    for account in 0..ACCOUNTS {
        let first = Account { writer: 0, money: MONEY }.bytes();
        engine.put(&account_key(account), &first, Durability::Buffered).expect("a put");
    }
    let is_done = AtomicBool::new(false);
    let history = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..threads)
            .map(|thread| {
                let engine = Arc::clone(&engine);
                scope.spawn(move || transact(&engine, seed * threads + thread, each))
            })
            .collect();
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                engine.maintain(Budget::of(64 << 10)).expect("maintenance");
            }
        });
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                check_sums(&engine);
            }
        });
        let joined = writers.into_iter().map(|writer| writer.join());
        let joined: Vec<_> = joined.collect();
        is_done.store(true, Ordering::Relaxed);
        joined.into_iter().flat_map(|history| history.expect("no panic")).collect::<History>()
    });
    check_sums(&engine);
    engine.verify().expect("a sound store");
    assert!(history.len() as u64 > threads * each / 4, "only {} commits", history.len());
    if let Err(wrong) = check(&history) {
        panic!("transactions(harness, {seed}, {threads}, {each}) fails: {wrong}");
    }
}

fn ordered<E: Engine + 'static>(engine: &Arc<E>) -> Arc<dyn Ordered> {
    Arc::clone(engine).as_ordered().expect("the engine keeps an order")
}

/// All accounts together have what they had, forwards and backwards.
fn check_sums<E: Engine + 'static>(engine: &Arc<E>) {
    let snapshot = ordered(engine).snapshot().expect("a snapshot");
    let mut iter = snapshot.iterate(&KeyRange::ALL).expect("an iterator");
    for is_forward in [true, false] {
        let go = if is_forward { iter.seek_to_first() } else { iter.seek_to_last() };
        let (mut is_there, mut sum, mut count) = (go.expect("a seek"), 0, 0);
        while is_there {
            if iter.key().ends_with(b"account") {
                sum += Account::from(iter.entry().value).money;
                count += 1;
            }
            is_there = if is_forward { iter.next() } else { iter.prev() }.expect("a step");
        }
        assert_eq!((count, sum), (ACCOUNTS, ACCOUNTS * MONEY), "accounts, and their money");
    }
}

#[derive(Default)]
struct Found(BTreeMap<usize, Account>);

impl GetSink for Found {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.0.insert(index, Account::from(entry.value));
    }
}

/// The transactions of one thread.
fn transact<E: Engine + 'static>(engine: &Arc<E>, seed: u64, each: u64) -> History {
    let (mut prng, mut history) = (Prng::new(seed), History::new());
    let ordered = ordered(engine);
    for n in 0..each {
        let number = ((seed + 1) << 32) | (n + 1);
        let other = prng.below(OTHERS).to_be_bytes();
        engine.put(&other, &[n as u8; 50], Durability::Buffered).expect("a put");
        let mut accounts = BTreeSet::new();
        while accounts.len() < 2 + prng.below(2) as usize {
            accounts.insert(prng.below(ACCOUNTS));
        }
        let accounts: Vec<u64> = accounts.into_iter().collect();
        let keys: Vec<Vec<u8>> = accounts.iter().map(|account| account_key(*account)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let snapshot = Arc::clone(&ordered).snapshot().expect("a snapshot");
        let mut found = Found::default();
        snapshot.get_many(&keys, &mut found).expect("a get");
        let mut now: Vec<Account> = (0..keys.len()).map(|at| found.0[&at]).collect();
        let reads = accounts.iter().copied().zip(now.iter().map(|account| account.writer));
        let reads = reads.collect();
        // One of those that were read is not written where there are three.
        let moved = prng.below(now[0].money + 1);
        now[0] = Account { writer: number, money: now[0].money - moved };
        now[1] = Account { writer: number, money: now[1].money + moved };
        let values = [now[0].bytes(), now[1].bytes()];
        let mut batch = WriteBatch::new();
        batch.put(keys[0], &values[0]).put(keys[1], &values[1]);
        let commit = ordered.commit(&*snapshot, Reads::of(&keys), &batch, Durability::Buffered);
        if commit.expect("a commit") {
            let writes = accounts[..2].iter().copied().collect();
            history.insert(number, Committed { reads, writes });
        }
    }
    history
}

/// Every version is overwritten once at most, and some order of the transactions explains what they
/// read: whoever read a version comes after its writer and before the writer of the next one.
fn check(history: &History) -> Result<(), String> {
    let mut next: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for (number, committed) in history {
        for account in &committed.writes {
            let before = committed.reads[account];
            if let Some(other) = next.insert((*account, before), *number) {
                return Err(format!("{other} and {number} both overwrote {before} of {account}"));
            }
        }
    }
    let mut after: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for (number, committed) in history {
        for (account, writer) in &committed.reads {
            after.entry(*writer).or_default().insert(*number);
            if let Some(later) = next.get(&(*account, *writer)).filter(|later| *later != number) {
                after.entry(*number).or_default().insert(*later);
            }
        }
    }
    // Those that nothing left comes before go first.
    let mut waiting: BTreeMap<u64, usize> = history.keys().map(|number| (*number, 0)).collect();
    waiting.insert(0, 0);
    for later in after.values().flatten() {
        *waiting.get_mut(later).ok_or("a version of nobody was read")? += 1;
    }
    let mut free: Vec<u64> = waiting.iter().filter(|(_, n)| **n == 0).map(|(at, _)| *at).collect();
    let mut ordered = 0;
    while let Some(number) = free.pop() {
        ordered += 1;
        for later in after.get(&number).into_iter().flatten() {
            let count = waiting.get_mut(later).expect("it is known");
            *count -= 1;
            if *count == 0 {
                free.push(*later);
            }
        }
    }
    let cycle = waiting.len() - ordered;
    if cycle == 0 { Ok(()) } else { Err(format!("{cycle} transactions have no order")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn committed(reads: &[(u64, u64)], writes: &[u64]) -> Committed {
        Committed {
            reads: reads.iter().copied().collect(),
            writes: writes.iter().copied().collect(),
        }
    }

    #[test]
    fn lost_updates_and_write_skew_are_found() {
        let one = committed(&[(1, 0), (2, 0)], &[1]);
        let good = History::from([(7, one.clone()), (8, committed(&[(1, 7), (2, 0)], &[2]))]);
        assert_eq!(check(&good), Ok(()));
        let lost = History::from([(7, one.clone()), (8, committed(&[(1, 0)], &[1]))]);
        assert!(check(&lost).expect_err("a lost update").contains("both overwrote"));
        let skew = History::from([(7, one), (8, committed(&[(1, 0), (2, 0)], &[2]))]);
        assert!(check(&skew).expect_err("write skew").contains("no order"));
        let dirty = History::from([(8, committed(&[(1, 99)], &[1]))]);
        assert!(check(&dirty).is_err(), "what nobody committed was read");
    }
}
