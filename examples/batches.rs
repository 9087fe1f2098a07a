//! Several writes that happen together, or not at all: users, and an index of them by their city.

use silica::{KeyRange, Keyspace, Result, WriteBatch};

/// Puts a user and the entry of the index. Whenever the power goes, both are there, or neither.
fn add(users: &Keyspace, name: &str, city: &str) -> Result<()> {
    let (user, index) = (format!("user/{name}"), format!("city/{city}/{name}"));
    let mut batch = WriteBatch::new();
    batch.put(user.as_bytes(), city.as_bytes()).put(index.as_bytes(), b"");
    users.write(&batch)
}

fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = silica::open(directory.path())?;
    let users = store.keyspace("users")?;
    add(&users, "ada", "london")?;
    add(&users, "alan", "london")?;
    add(&users, "emmy", "erlangen")?;

    let prefix = b"city/london/";
    let in_london = users.range(KeyRange::prefix(prefix))?;
    let names: Vec<Vec<u8>> =
        in_london.map(|entry| Ok(entry?.0[prefix.len()..].to_vec())).collect::<Result<_>>()?;
    println!("in London: {}", String::from_utf8_lossy(&names.join(&b", "[..])));
    assert_eq!(names, [&b"ada"[..], b"alan"]);

    // One batch is also the fast way to load: a thousand writes are one append and one sync.
    let keys: Vec<String> = (0..1000).map(|n| format!("user/robot {n}")).collect();
    let mut batch = WriteBatch::new();
    for key in &keys {
        batch.put(key.as_bytes(), b"nowhere");
    }
    users.write(&batch)?;
    assert_eq!(users.range(KeyRange::prefix(b"user/"))?.count(), 1003);
    store.close()
}
