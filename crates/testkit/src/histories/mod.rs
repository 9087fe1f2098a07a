//! Concurrent histories, and a search for an order that explains them: linearizability.
//!
//! [`record`] lets threads work on a few keys and stamps each call before it begins and after it
//! was answered. [`History::check`] asks for each key (a history is linearizable if its part on
//! each key is) whether its calls can be put into an order in which every answer is right and no
//! call comes before one that had ended when it began. Where there is none, it returns the
//! shortest piece that it can find that has none either, which prints itself as a picture.
//!
//! The search goes through the stamps once and keeps all pairs of a state of the key and the set
//! of calls under way that have had their effect (Wing and Gong's search with Lowe's memory of
//! what was seen); a call takes effect in it only when an answer needs that. So its price depends
//! on how many calls overlap, not on how long the history is.
//!
//! - A call without an answer ([`Answer::Unknown`]) may have its effect at any time after it
//!   began, once or never. One that was refused has none.
//! - In a cache ([`Memory::Forgets`]) a key may be gone at any time; what is gone stays gone until
//!   it is written again.
//!
//! Stamps are numbers that one atomic counter gives out. Drawing one is a barrier for the
//! processor, so what could only be seen without barriers is not seen; the orderings of lock-free
//! code have their own models.

mod check;
mod client;
mod load;
mod operation;
mod picture;
mod shorten;
mod step;
#[cfg(test)]
mod tests;

pub use client::EngineClient;
pub use load::{Client, Load, record};
pub use operation::{Answer, Call, History, Memory, Operation};
pub use picture::Unexplained;
