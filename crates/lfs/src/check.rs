//! Checking a file system: every invariant of the tree and of the device, by a look at all of it.

use crate::batch::{decode_summary, page_sum, summary_pages};
use crate::core::{Lfs, Writer};
use crate::extents::UNWRITTEN;
use crate::fault::LfsResult;
use crate::ground::{Fetch, Ground};
use crate::node::{Attributes, Ino, Kind, Node, ROOT};
use crate::space::Use;
use crate::tree::read;
use std::collections::BTreeMap;
use std::fmt;

/// Something that should not be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// A directory has an entry of an inode that is not there.
    Dangling {
        /// The directory.
        directory: Ino,
        /// The name.
        name: Vec<u8>,
    },
    /// An inode has another number of names than it says.
    Links {
        /// The inode.
        ino: Ino,
        /// What it says.
        says: u32,
        /// What there are.
        has: u32,
    },
    /// An inode has no name, and nobody holds it.
    Unreachable {
        /// The inode.
        ino: Ino,
    },
    /// A directory says that it lies in another one than it does.
    Parent {
        /// The directory.
        directory: Ino,
    },
    /// Two pages of files lie at one place.
    Overlap {
        /// The inode of the second.
        ino: Ino,
        /// Its page.
        index: u64,
    },
    /// A page lies outside of what its segment has.
    Outside {
        /// The inode.
        ino: Ino,
        /// Its page.
        index: u64,
    },
    /// A page cannot be read, or is not what was written.
    Damaged {
        /// The inode.
        ino: Ino,
        /// Its page.
        index: u64,
    },
    /// A segment's summary says that a page is another's.
    Summary {
        /// The segment.
        segment: u32,
    },
    /// Counts of live pages in memory do not match.
    Counts {
        /// The segment.
        segment: u32,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Dangling { directory, name } => {
                let name = String::from_utf8_lossy(name);
                write!(f, "directory {directory} has the name {name:?} of nothing")
            }
            Problem::Links { ino, says, has } => {
                write!(f, "inode {ino} says that it has {says} names, and has {has}")
            }
            Problem::Unreachable { ino } => write!(f, "inode {ino} has no name"),
            Problem::Parent { directory } => {
                write!(f, "directory {directory} names another parent than it has")
            }
            Problem::Overlap { ino, index } => {
                write!(f, "page {index} of inode {ino} lies where another page lies")
            }
            Problem::Outside { ino, index } => {
                write!(f, "page {index} of inode {ino} lies where nothing was written")
            }
            Problem::Damaged { ino, index } => {
                write!(f, "page {index} of inode {ino} is not what was written")
            }
            Problem::Summary { segment } => {
                write!(f, "the summary of segment {segment} is damaged or names other owners")
            }
            Problem::Counts { segment } => {
                write!(f, "the count of live pages of segment {segment} is wrong")
            }
        }
    }
}

/// By place whose page it is.
type Places = BTreeMap<u64, (Ino, u64)>;

impl<G: Ground> Lfs<G> {
    /// Looks at everything: names and link counts, places of pages, counts of live pages,
    /// summaries, and the checksum of each page in a segment that has a summary. Reads all of the
    /// device that is in use. Changes nothing.
    ///
    /// # Errors
    /// What the device said, but not of single pages.
    pub fn check(&self) -> LfsResult<Vec<Problem>> {
        let mut writer = self.change()?;
        if self.commit(&mut writer)? {
            self.checkpoint(&mut writer)?;
        }
        let mut problems = Vec::new();
        self.check_names(&mut problems);
        let places = self.check_places(&writer, &mut problems);
        self.check_segments(&writer, &places, &mut problems);
        problems.sort_unstable();
        Ok(problems)
    }

    fn check_names(&self, problems: &mut Vec<Problem>) {
        let all = self.inodes.all();
        let mut names = silica_base::compact_map(all.iter().map(|(ino, _)| (*ino, 0_u32)));
        for (directory, node) in &all {
            let node = read(node);
            let Some(entries) = node.directory() else { continue };
            for (name, entry) in entries.list(0) {
                let Some(found) = self.inodes.get(entry.ino) else {
                    let (directory, name) = (*directory, name.to_vec());
                    problems.push(Problem::Dangling { directory, name });
                    continue;
                };
                *names.entry(entry.ino).or_default() += 1;
                if entry.kind == Kind::Directory {
                    *names.entry(*directory).or_default() += 1;
                    // A directory that is its own parent would be locked twice.
                    let is_own = entry.ino == *directory;
                    if is_own || read(&found).directory().is_none_or(|d| d.parent != *directory) {
                        problems.push(Problem::Parent { directory: entry.ino });
                    }
                }
            }
        }
        for (ino, node) in &all {
            let node = read(node);
            let Attributes { kind, links: says, .. } = node.attributes;
            let own = match kind {
                Kind::Directory if *ino == ROOT => 2,
                Kind::Directory => 1,
                _ => 0,
            };
            let named = names[ino];
            let is_unreachable = named == 0 && *ino != ROOT && node.holds == 0;
            let has = named + own;
            if is_unreachable {
                problems.push(Problem::Unreachable { ino: *ino });
            } else if says != has && !(node.holds > 0 && says == 0) {
                problems.push(Problem::Links { ino: *ino, says, has });
            }
        }
    }

    fn check_places(&self, writer: &Writer, problems: &mut Vec<Problem>) -> Places {
        let mut places = Places::new();
        for (ino, node) in self.inodes.all() {
            for (index, at) in pages_of(&read(&node)) {
                let (segment, page) = writer.space.split(at);
                let is_there = segment < self.ground.segments()
                    && page < self.ground.written(segment)
                    && matches!(
                        writer.space.segments[segment as usize].use_,
                        Use::Open | Use::Closed
                    );
                if !is_there {
                    problems.push(Problem::Outside { ino, index });
                } else if places.insert(at, (ino, index)).is_some() {
                    problems.push(Problem::Overlap { ino, index });
                }
            }
        }
        places
    }

    fn check_segments(&self, writer: &Writer, places: &Places, problems: &mut Vec<Problem>) {
        for (segment, of) in (0..).zip(&writer.space.segments) {
            let from = writer.space.place(segment, 0);
            let owned: Vec<(u64, (Ino, u64))> = places
                .range(from..from + writer.space.segment_pages)
                .map(|(a, o)| (*a, *o))
                .collect();
            if owned.len() as u32 != of.live {
                problems.push(Problem::Counts { segment });
            }
            if owned.is_empty() {
                continue;
            }
            let sums = self.sums_of(segment, from, of.owners.as_ref());
            // A power cut may have torn the summary of a segment whose pages are there.
            let sums = sums.unwrap_or_default();
            let fetch = |(i, (at, _)): (usize, &(u64, (Ino, u64)))| {
                Fetch::new(i, segment, (at - from) as u32, 1, self.page_bytes)
            };
            let fetches = owned.iter().enumerate().map(fetch).collect();
            self.ground.read(fetches, &mut |fetch, result| {
                let (at, (ino, index)) = owned[fetch.of];
                if result.is_err() {
                    problems.push(Problem::Damaged { ino, index });
                    return;
                }
                match sums.get((at - from) as usize) {
                    Some((owner, page, _)) if (*owner, *page) != (ino, index) => {
                        problems.push(Problem::Summary { segment });
                    }
                    Some((_, _, sum)) if *sum != page_sum(self.id, at, &fetch.pages) => {
                        problems.push(Problem::Damaged { ino, index });
                    }
                    _ => {}
                }
            });
        }
    }

    fn sums_of(
        &self,
        segment: u32,
        at: u64,
        kept: Option<&Vec<crate::batch::Owner>>,
    ) -> Option<Vec<crate::batch::Owner>> {
        if let Some(kept) = kept {
            return Some(kept.clone());
        }
        let count = summary_pages(self.ground.segment_pages(), self.page_bytes);
        let first = self.ground.written(segment).checked_sub(count)?;
        let mut found = None;
        let fetch = Fetch::new(0, segment, first, count, self.page_bytes);
        self.ground.read(vec![fetch], &mut |fetch, result| {
            found = result.and_then(|()| decode_summary(self.id, at, &fetch.pages)).ok();
        });
        found
    }
}

/// Pages of a file that have a place, one by one.
fn pages_of(node: &Node) -> Vec<(u64, u64)> {
    let runs = node.content().into_iter().flat_map(|content| content.extents.iter());
    let placed = runs.filter(|run| run.at != UNWRITTEN);
    placed.flat_map(|run| (0..run.count).map(move |i| (run.index + i, run.at + i))).collect()
}
