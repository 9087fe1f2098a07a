//! Scripts: programs of clients that act on keys as one step.
//!
//! A script runs on a [`Step`] of its database: reads see the database and the step's own writes,
//! and writes stay in the step. When the script has ended, one atomic update of all keys that it
//! read or wrote checks that nobody has changed what was read, and applies the writes; if somebody
//! has, the script runs anew. So a script is one step for everybody else, on every engine, and
//! after a crash all of it is there or nothing. No lock is held while it runs: a script that takes
//! long keeps nobody from working (docs/decisions/032-a-script-is-an-optimistic-step.md).
//!
//! Invariants:
//!
//! 1. What a script wrote leaves its step by one `update` or `update_all`, or not at all.
//! 2. A script whose reads no longer hold has written nothing and is not answered; it runs anew.
//! 3. A script that ends with an error keeps what it wrote before, as in Redis. One that was killed
//!    or moved to another thread has written nothing.
//! 4. On a thread that others wait for, a script runs a few milliseconds at most; then it begins
//!    again on a thread for long requests.
//!
//! * `step`: the entries that a script has read and written;
//! * `store`, `libraries`, `shebang`: the texts that are kept, by their names;
//! * `running`: scripts that take long, and what ends them;
//! * `worker`: the interpreter of a thread;
//! * `host`: commands that a script calls;
//! * `call`: running one from its arguments to its answer.

mod answer;
mod call;
mod host;
mod libraries;
mod running;
mod shebang;
mod step;
mod store;
mod worker;

pub(crate) use answer::write as write_answer;
pub(crate) use call::{Environment, Place, ScriptCall, ScriptKind};
pub(crate) use libraries::{Libraries, Policy};
pub(crate) use running::{Kill, Runnings};
pub(crate) use step::Step;
pub(crate) use store::{Scripts, new_script};
pub(crate) use worker::{check, functions as functions_of};
