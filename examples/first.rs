//! A store in a directory: what is put there is there the next time, too.

fn main() -> silica::Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    {
        let store = silica::open(directory.path())?;
        let users = store.keyspace("users")?;
        // When this returns, it survives a power cut.
        users.put("ada", "1815")?;
        users.put("grace", "1906")?;
        users.put("alan", "1912")?;
        users.delete("grace")?;
        store.close()?;
    }
    let store = silica::open(directory.path())?;
    let users = store.keyspace("users")?;
    assert_eq!(users.get("ada")?.as_deref(), Some(&b"1815"[..]));
    assert_eq!(users.get("grace")?, None);
    for entry in &users {
        let (name, born) = entry?;
        println!("{} was born in {}", text(&name), text(&born));
    }
    println!("{} users", users.count(true)?.estimate);
    store.close()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
