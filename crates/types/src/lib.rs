//! Values that are no strings: hashes, lists, sets, sorted sets and streams, as entries of an
//! engine of any kind; and counters of distinct elements ([`HyperLogLog`]), which are strings.
//!
//! An [`Object`] is the value of a user's key: a small one has all of its elements there. A large
//! one has there the root of a tree, whose pages are entries of their own ([`PageId`]). So all that
//! an object asks of an engine is to read entries and to write several as one step; no engine needs
//! to know of it, and none needs to have an order.
//!
//! The bytes are those of docs/formats/types.md; why they are such is in
//! docs/decisions/035-objects-are-counted-trees.md.
//!
//! ```
//! use silica_types::{Hash, Kind, MemoryPages, Object};
//!
//! let (mut object, mut pages) = (Object::new(Kind::Hash), MemoryPages::default());
//! let mut hash = Hash::of(&mut object, &mut pages);
//! assert!(hash.put(b"field", b"value").unwrap().is_none());
//! assert_eq!(hash.get(b"field").unwrap().unwrap(), b"value");
//! let bytes = object.encode();
//! assert_eq!(Object::decode(Kind::Hash, &bytes).unwrap(), object);
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod check;
mod counts;
mod cursor;
mod entries;
mod exchange;
mod hash;
mod hyperloglog;
mod indexed;
mod list;
mod object;
mod page;
mod pages;
mod parts;
mod sample;
mod set;
mod stream;
mod tree;
mod zset;

pub use check::{Checked, check};
pub use counts::Counts;
pub use entries::{element_of_entry, entries_of_object, entry_for, owner_of_entry};
pub use exchange::{StoredEntry, entries_of_rdb, of_rdb, to_rdb};
pub use hash::{Expiring, Hash};
pub use hyperloglog::{Corrupt, HyperLogLog, REGISTERS, Registers};
pub use indexed::Page;
pub use list::List;
pub use object::{Kind, Object, is_marked, pages_of};
pub use pages::{
    FLAT_BYTES_MAX, FLAT_BYTES_USUAL, KEY_BYTES, MemoryPages, PREFIX, PageId, Pages, is_inner,
};
pub use sample::{distinct_below, visit_ranks};
pub use set::{Set, intersect, subtract, unite};
pub use stream::{Consumer, Fields, Group, Pending, Stream, StreamId, StreamInfo};
pub use tree::{Direction, Element, PAGE_BYTES_MAX, TreeMut};
pub use zset::{LexEnd, ScoreRange, Zset};
