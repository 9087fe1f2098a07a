//! Catalogs that nobody meant well: mutations, half of them with the right length and checksum.

use crate::catalog::{Catalog, Record};
use silica_base::{CountingAllocator, checksum, hammer, test_size};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn catalog(keyspaces: u64) -> Catalog {
    let mut catalog = Catalog::default();
    for id in 0..keyspaces {
        let option = |n: u64| (format!("option{n}"), "x".repeat(n as usize * 50));
        catalog.add(Record {
            id: id << 20,
            name: format!("keyspace {id}"),
            engine: "silt".into(),
            options: (0..id % 5).map(option).collect(),
        });
    }
    catalog
}

/// Length and checksum as docs/formats/store.md gives them.
fn reseal(bytes: &mut [u8]) {
    let Some(end) = bytes.len().checked_sub(4).filter(|end| *end >= 16) else { return };
    bytes[12..16].copy_from_slice(&(end as u32 - 16).to_le_bytes());
    let sum = checksum(&bytes[..end]);
    bytes[end..].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn catalogs() {
    let corpus = [0, 1, 3, 20].map(|keyspaces| catalog(keyspaces).encode());
    let inputs = test_size(5_000, 100_000, 100_000_000);
    let decode = |bytes: &[u8]| {
        let Ok(catalog) = Catalog::decode(bytes, "silica") else { return false };
        let again = Catalog::decode(&catalog.encode(), "silica").expect("just encoded");
        assert_eq!(again, catalog);
        true
    };
    let (accepted, refused) = hammer(inputs, 64 << 10, &corpus, |b| reseal(b), decode);
    assert!(accepted + refused == 1 || (accepted > 20 && refused > 20), "{accepted}, {refused}");
}
