//! SPTree: a B+-tree for persistent memory with its inner nodes and filters in DRAM, chapter 4 of
//! the dissertation in docs/papers.md ("Spot-On").
//!
//! Three layers: `top` says in memory which leaf a key belongs to; `nodes` has for each leaf, in
//! memory, an optimistic lock and a filter of its keys; `leaf` is the leaf in the region.
//! docs/formats/sptree.md has the format and the argument about crashes, docs/engines/sptree.md
//! says when to use it.

mod admin;
mod anchors;
mod apply;
mod buffered;
mod buffers;
mod change;
mod check;
mod copying;
mod counts;
mod engine;
mod entry;
mod history;
mod key;
mod layout;
mod leaf;
mod lock;
mod log;
mod merge;
mod metrics;
mod nodes;
mod open;
mod options;
mod ordered;
mod pieces;
mod plan;
mod read;
mod replay;
mod root;
mod run;
mod salvage;
mod snapshot;
mod sync;
mod tags;
mod top;
mod tree;
mod unfold;
mod upkeep;
mod write;

pub(crate) use open::NAME;
pub(crate) use salvage::salvage;

pub use metrics::METRICS;
pub use options::OPTIONS;
pub use tree::SpTree;
