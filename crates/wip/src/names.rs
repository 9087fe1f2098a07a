//! Names and ids of tables.

/// Name of table `number`.
pub(crate) fn table_name(number: u64) -> String {
    format!("TABLE-{number:08}")
}

/// The number in a table's name.
pub(crate) fn table_number(name: &str) -> Option<u64> {
    name.strip_prefix("TABLE-")?.parse().ok()
}

/// The id that the checksums of table `number` are bound to.
pub(crate) fn table_id(store_id: u64, number: u64) -> u64 {
    store_id.rotate_left(23) ^ number
}
