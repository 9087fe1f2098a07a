//! The conformance suite that every engine passes, and a reference engine.
//!
//! Invariant: the suite knows no engine and no device; both come in through a harness that the
//! engine's own tests implement.

mod reference;

pub use reference::Reference;
