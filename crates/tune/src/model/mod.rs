//! What distinct keys so many requests name: what analytic models of stores stand on.
//!
//! [`Popularity`] says how often each key is written, in a compressed form; [`Primitives`] turn
//! numbers of requests into numbers of distinct keys and back (Lim's dissertation, section 4.2).
//! Sizes are in entries, unless a name says bytes. Models of designs over these are in
//! `silica-lab`; those of our engines are in [`recommend`](crate::recommend).

mod curve;
mod extended;
mod flash_cache;
mod items;
mod latest;
mod popularity;
mod primitives;
mod quadrature;
mod range;
mod writes;

pub use extended::{Deletes, Drifting, ItemBytes};
pub use flash_cache::{FlashCache, FlashCost, FlashLoad};
pub use items::{ItemSizes, Items};
pub(crate) use latest::Course;
pub use latest::Latest;
pub use popularity::{Group, Popularity, SKEW_MAX};
pub use primitives::Primitives;
pub use range::positive;
pub use writes::{Distinct, Writes};
