//! What a run came to, and where its values are.

/// What a run came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Iterations in all.
    pub iterations: u64,
    /// Iterations that an interrupted run had finished.
    pub resumed: u64,
    /// True if no iteration is left to do, false if `iterations_max` ended it.
    pub is_finished: bool,
    /// Values that the last iteration changed.
    pub changed: u64,
    /// Edges that were gathered.
    pub edges_gathered: u64,
    /// The copy that has the values.
    pub(crate) copy: u32,
}
