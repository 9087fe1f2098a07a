//! Writes of a transaction that are put aside in an engine until its commit.

use crate::{EntryRef, Snapshot};
use silica_base::Result;
use std::sync::Arc;

/// A write that is staged: a key, and its entry or `None` for a delete.
pub type StagedWrite<'w> = (&'w [u8], Option<EntryRef<'w>>);

/// Writes of a transaction that does not fit into its memory: **layers**, a later one over an
/// earlier one, which only the owner sees. Dropped without a commit, they are gone, as after a
/// crash.
///
/// A layer is a sorted run of writes, or a range of keys that is deleted of everything below it.
/// Numbers of layers are places to return to: those up to [`Staging::protect`] keep their numbers.
pub trait Staging: Send {
    /// Puts a layer of `writes` over those that are there: each key once, ascending. `put_bytes`
    /// are the bytes of all keys and values that are put, about.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Full`] if the device has no room for them. After an error the layers are
    /// those from before.
    fn put<'w>(
        &mut self,
        put_bytes: u64,
        writes: &mut dyn Iterator<Item = StagedWrite<'w>>,
    ) -> Result<()>;

    /// Deletes the keys from `lower` on and before `upper`, or all keys from there on, of all
    /// layers and of what is below them.
    fn delete_range(&mut self, lower: &[u8], upper: Option<&[u8]>);

    /// How many layers there are.
    fn layers(&self) -> usize;

    /// Keeps the first `layers` layers as they are: only later ones become one with others.
    fn protect(&mut self, layers: usize);

    /// Takes all but the first `layers` layers back, which were protected.
    fn roll_back_to(&mut self, layers: usize);

    /// What a transaction sees that began with `below`: that moment under the layers as they are
    /// now.
    fn over(&self, below: Arc<dyn Snapshot>) -> Arc<dyn Snapshot>;

    /// Writes all layers into the store, durably and in one step: newer than all that is there,
    /// after a crash all of them or none. Nobody else may have written since the transaction began:
    /// it is not looked at. No layer is left then.
    ///
    /// # Errors
    /// After one nothing has happened, and the layers are still there.
    fn commit(&mut self) -> Result<()>;
}
