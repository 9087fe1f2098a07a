//! Shared mechanisms.
