//! Where bursts wait for a thread that may wait for a device.

/// Which of the workers' queues a burst waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Reads only.
    Read,
    /// Some writes.
    Write,
    /// One request that may take long.
    Long,
    /// Statements of SQL of one connection.
    Sql,
}
