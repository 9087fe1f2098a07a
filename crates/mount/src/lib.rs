//! Mounts.
