//! Entries that expire: sessions of users.

use silica::{Result, TimeToLive};
use std::time::Duration;

fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = silica::open(directory.path())?;
    let sessions = store.keyspace("sessions")?;
    let hour = Duration::from_secs(3600);
    sessions.put_with_ttl("token 1", "ada", hour)?;
    sessions.put_with_ttl("token 2", "alan", Duration::from_millis(1))?;
    sessions.put("token 3", "a robot, which stays")?;

    // Whoever comes back stays for another hour.
    assert!(sessions.expire("token 1", hour)?);
    match sessions.ttl("token 1")? {
        Some(TimeToLive::Left(left)) => {
            println!("token 1 lives for {} minutes", left.as_secs() / 60)
        }
        other => println!("token 1: {other:?}"),
    }
    assert_eq!(sessions.ttl("token 3")?, Some(TimeToLive::Unlimited));

    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(sessions.get("token 2")?, None, "it has expired");

    // One that is to stay after all.
    assert!(sessions.persist("token 1")?);
    assert_eq!(sessions.ttl("token 1")?, Some(TimeToLive::Unlimited));
    store.close()
}
