//! Thousands of calls at a time on two threads: futures, here of tokio; any executor will do.

use silica::aio::Pool;
use silica::{KeyRange, Result};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = silica::open(directory.path().join("store"))?;
    let pool = Pool::new(2)?;
    let users = pool.keyspace(&store.keyspace("users")?);

    // A thousand writes wait together and share a few syncs of the device.
    let puts: Vec<_> = (0..1000)
        .map(|n| {
            let users = users.clone();
            tokio::spawn(async move { users.put(format!("user/{n:04}"), "blue").await })
        })
        .collect();
    for put in puts {
        put.await.expect("no task panics")?;
    }
    assert_eq!(users.get("user/0007").await?.as_deref(), Some(&b"blue"[..]));

    // A range comes a page at a time.
    let (mut range, mut found) = (users.range(KeyRange::prefix(b"user/")).await?, 0);
    while let Some(entry) = range.next().await {
        entry?;
        found += 1;
    }
    println!("{found} users");
    assert_eq!(found, 1000);
    drop(range);

    // Transactions run on a thread of the pool, again if somebody else was faster.
    let changed = users.transact(|transaction| {
        let old = transaction.get_for_update("user/0001")?;
        transaction.put("user/0001", "green");
        Ok(old)
    });
    assert_eq!(changed.await?.as_deref(), Some(&b"blue"[..]));

    // So does everything else.
    let (target, here) = (directory.path().join("backup"), pool.clone());
    drop((users, pool));
    let report = here.run(move || {
        let report = store.backup(&target)?;
        store.close()?;
        Ok(report)
    });
    println!("{} keyspace in the backup", report.await?.keyspaces);
    Ok(())
}
