//! Names and ids of a store's files, and when they are removed.

use crate::wip::Wip;
use silica_device::Device;
use std::mem;

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

/// Files that go when nobody keeps them any more.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    /// How many keep all files.
    pub(crate) keepers: usize,
    pub(crate) names: Vec<String>,
}

/// While this lives, no file is removed.
pub(crate) struct FilesKept<'w, D: Device>(&'w Wip<D>);

impl<D: Device> Wip<D> {
    /// Keeps all files, also those that nothing names any more.
    pub(crate) fn keep_files(&self) -> FilesKept<'_, D> {
        self.removals.lock().expect("no panic while held").keepers += 1;
        FilesKept(self)
    }
}

impl<D: Device> Drop for FilesKept<'_, D> {
    fn drop(&mut self) {
        let mut removals = self.0.removals.lock().expect("no panic while held");
        removals.keepers -= 1;
        let gone = if removals.keepers == 0 { mem::take(&mut removals.names) } else { Vec::new() };
        drop(removals);
        gone.iter().for_each(|name| self.0.remove_quietly(name));
    }
}
