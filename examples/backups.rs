//! Backups of a store that is open and written: the second shares with the first what has not
//! changed.

use silica::{OpenOptions, Result};

fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let place = |name: &str| directory.path().join(name);
    let store = silica::open(place("store"))?;
    let notes = store.keyspace("notes")?;
    for n in 0..1000 {
        notes.put(format!("note {n}"), "as it was on monday")?;
    }
    // What is in files that stay as they are can be linked and shared.
    notes.compact_range(..)?;
    let monday = store.backup(place("monday"))?;
    println!("monday: {} files linked, {} written", monday.files_linked, monday.files_written);

    notes.put("note 7", "as it was on tuesday")?;
    let tuesday = store.backup_since(place("tuesday"), place("monday"))?;
    assert!(tuesday.files_shared > 0);
    println!("tuesday: {} files shared with monday's", tuesday.files_shared);

    // A backup is a store of its own; it can be looked into where it lies.
    let backup = OpenOptions::new().read_only(true).open(place("monday"))?;
    let note = backup.keyspace("notes")?.get("note 7")?;
    assert_eq!(note.as_deref(), Some(&b"as it was on monday"[..]));
    drop(backup);

    // A restore copies it, and checks every byte of the copy.
    silica::restore(place("tuesday"), place("restored"), OpenOptions::new())?;
    let restored = silica::open(place("restored"))?;
    let note = restored.keyspace("notes")?.get("note 7")?;
    assert_eq!(note.as_deref(), Some(&b"as it was on tuesday"[..]));
    restored.close()?;
    store.close()
}
