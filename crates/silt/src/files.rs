//! Names and ids of a store's files.

use silica_base::{Error, ErrorKind, Result};

/// What a table file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    Hash,
    Sorted,
}

/// Name of table file `number`.
pub(crate) fn table_name(kind: Table, number: u64) -> String {
    match kind {
        Table::Hash => format!("HASH-{number:08}"),
        Table::Sorted => format!("SORTED-{number:08}"),
    }
}

/// The number in a table file's name.
pub(crate) fn table_number(name: &str) -> Option<u64> {
    name.strip_prefix("HASH-").or_else(|| name.strip_prefix("SORTED-"))?.parse().ok()
}

/// The id that the checksums of table file `number` are bound to.
pub(crate) fn table_id(store_id: u64, number: u64) -> u64 {
    store_id.rotate_left(17) ^ number
}

/// The number of an open table file.
pub(crate) fn number_of_open(name: &str) -> Result<u64> {
    table_number(name)
        .ok_or_else(|| Error::new(ErrorKind::Corruption, format!("{name} is no table file")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree() {
        for kind in [Table::Hash, Table::Sorted] {
            assert_eq!(table_number(&table_name(kind, 77)), Some(77));
        }
        assert_eq!(table_number("LOG-00000001"), None);
    }
}
