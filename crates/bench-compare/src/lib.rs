//! The measuring instrument: stores of ours, stores of other people and the limits of the machine
//! on the same work, in one run.
//!
//! A [`Peer`] opens a store as a [`silica_bench::Target`], which the one driver of `silica-bench`
//! drives with the one workload generator. Other people's engines are known here and nowhere else.
//! Peers that are C libraries or servers are found when a run starts; one that is not installed is
//! reported as missing, with the package that has it.

mod agreement;
mod budget;
mod cell;
mod cgroup;
mod child;
mod datagrams;
mod files;
mod flash_cache;
mod foreseen;
pub mod limits;
mod load;
mod machine;
mod moving;
mod peer;
mod peers;
mod performed;
mod protocol;
pub mod report;
mod resp;
pub mod results;
mod rounds;
mod runner;
mod scaling;
mod schedule;
pub mod stats;
mod suite;
mod summary;
mod table;
mod types;
mod usage;
mod work;

pub use agreement::{
    AgreementProgress, AgreementReport, AgreementRequest, AgreementRun, GroupRow, agreement,
};
pub use cell::{Cell, Figure, Job, Outcome};
pub use child::serve_cell;
pub use datagrams::{AtRate, AtSkew, DatagramsReport, DatagramsSize, datagrams};
pub use files::{read, write};
pub use flash_cache::{
    CacheFigure, CacheProgress, CacheReport, CacheRequest, CacheRow, CacheRun, caches,
    serve_cache_cell,
};
pub use load::{Load, Speech};
pub use machine::{date, describe};
pub use moving::{
    MovingProgress, MovingReport, MovingRequest, MovingRound, MovingRun, Waits, moving,
};
pub use peer::{About, Class, Peer, Setting, Setup};
pub use peers::{all, find};
pub use runner::{Progress, Run, compare};
pub use scaling::{
    ScalingProgress, ScalingReport, ScalingRequest, ScalingRow, ScalingRun, scaling, serve_series,
    thread_counts,
};
pub use schedule::{ALLOWANCE_BYTES, Request};
pub use suite::{OWN_WAYS, SUITES, Size, Suite};
pub use table::table;
pub use types::{
    BoardDesign, BoardRow, MemoryRow, QueueRow, RateRow, TypesProgress, TypesReport, TypesRequest,
    TypesRun, types,
};
pub use work::Work;
