//! Scripts in an interpreter, without a server.

mod errors;
mod limits;
mod support;
mod values;
