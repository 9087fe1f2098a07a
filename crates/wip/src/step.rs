//! How far a job came.

/// What a step of a job came to.
pub(crate) enum Step {
    /// So many bytes were moved, and there is more to do.
    More(u64),
    /// So many bytes were moved, and what comes next has to wait for the device.
    Waits(u64),
    /// What is left is the end.
    Ready,
}
