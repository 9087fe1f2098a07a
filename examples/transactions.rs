//! Transactions: four threads move money between ten accounts, and none of it is lost.

use silica::{ErrorKind, Keyspace, Result};

const ACCOUNTS: u64 = 10;

fn balance(bytes: Option<Vec<u8>>) -> u64 {
    bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Moves `amount` if it is there. What a transaction reads with `get_for_update` nobody else has
/// changed when it commits; otherwise the commit is a conflict, and it is tried again.
fn transfer(accounts: &Keyspace, from: &str, to: &str, amount: u64) -> Result<bool> {
    loop {
        let mut transaction = accounts.transaction()?;
        let source = balance(transaction.get_for_update(from)?);
        let target = balance(transaction.get_for_update(to)?);
        if source < amount || from == to {
            return Ok(false);
        }
        transaction.put(from, (source - amount).to_le_bytes());
        transaction.put(to, (target + amount).to_le_bytes());
        match transaction.commit() {
            Ok(()) => return Ok(true),
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            Err(error) => return Err(error),
        }
    }
}

fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = silica::open(directory.path())?;
    let accounts = store.keyspace("accounts")?;
    for n in 0..ACCOUNTS {
        accounts.put(format!("account {n}"), 100u64.to_le_bytes())?;
    }

    std::thread::scope(|scope| -> Result<()> {
        let threads = (1..5).map(|thread: u64| {
            let accounts = &accounts;
            scope.spawn(move || {
                (0..50).try_fold(0, |moved, n| {
                    let from = format!("account {}", (n * thread) % ACCOUNTS);
                    let to = format!("account {}", (n + thread) % ACCOUNTS);
                    Ok(moved + u64::from(transfer(accounts, &from, &to, 7)?))
                })
            })
        });
        // All start before the first is waited for.
        let threads: Vec<_> = threads.collect();
        let moved = threads.into_iter().map(|thread| thread.join().expect("no thread panics"));
        let moved: u64 = moved.sum::<Result<u64>>()?;
        println!("{moved} transfers");
        Ok(())
    })?;
    let balances = accounts.range(..)?.map(|entry| Ok(balance(Some(entry?.1))));
    let sum: u64 = balances.sum::<Result<u64>>()?;
    assert_eq!(sum, 100 * ACCOUNTS);

    // A part of a transaction can be taken back.
    let mut transaction = accounts.transaction()?;
    transaction.put("note", "stays");
    let savepoint = transaction.savepoint();
    transaction.put("note", "goes");
    transaction.roll_back_to(savepoint)?;
    transaction.commit()?;
    assert_eq!(accounts.get("note")?.as_deref(), Some(&b"stays"[..]));
    store.close()
}
