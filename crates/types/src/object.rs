//! An object: what the value of its key says, and its trees.
//!
//! See docs/formats/types.md.

use crate::page::{damaged, take_bytes, take_varint};
use crate::pages::{Allocation, PageId, Pages};
use crate::tree::{ENTRIES, Tree, TreeMut};
use silica_base::{Result, write_varint};

/// The upper half of the user bits of an entry that is an object.
const MARK: u32 = 0x51CA;
/// The version of objects that are written, and of those whose elements are entries.
const VERSION: u32 = 1;
const VERSION_OF_ENTRIES: u32 = 2;
/// An object has an id: it has, or had, pages.
const HAS_PAGES: u8 = 1;
/// Trees of an object at most.
const TREES_MAX: usize = 2;
/// Mark of an object that has a tree more than others of its kind.
pub(crate) const SECOND_TREE: u8 = 1 << 6;

/// The type of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Fields with values.
    Hash = 1,
    /// Values by their position.
    List = 2,
    /// Members.
    Set = 3,
    /// Members with scores.
    Zset = 4,
    /// Entries of fields, by ids that ascend, with groups of readers.
    Stream = 5,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 5] = [Kind::Hash, Kind::List, Kind::Set, Kind::Zset, Kind::Stream];

    /// What TYPE calls it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Hash => "hash",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::Zset => "zset",
            Kind::Stream => "stream",
        }
    }

    /// Trees of an object of this kind.
    fn trees(self) -> usize {
        match self {
            Kind::Hash | Kind::List | Kind::Set => 1,
            Kind::Zset | Kind::Stream => 2,
        }
    }

    /// The user bits of an entry that is such an object.
    pub fn user_bits(self) -> u32 {
        MARK << 16 | (self as u32) << 8 | VERSION
    }

    /// The kind of the object that an entry with `user_bits` is; `None` of a string.
    pub fn of_user_bits(user_bits: u32) -> Option<Kind> {
        let kind = |kind: &Kind| *kind as u32 == user_bits >> 8 & 0xff;
        is_marked(user_bits).then(|| Kind::ALL.into_iter().find(kind)).flatten()
    }
}

/// True if an entry with `user_bits` is no string.
#[inline]
pub fn is_marked(user_bits: u32) -> bool {
    user_bits >> 16 == MARK
}

/// A value that is no string, in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    kind: Kind,
    pub(crate) allocation: Allocation,
    /// How often it was changed since it has pages: a reader of several of these knows by it that
    /// nothing has changed meanwhile.
    changes: u64,
    trees: [Tree; TREES_MAX],
    /// What OBJECT ENCODING says beside the kind: once long, or mixed, always so.
    pub(crate) marks: u8,
    /// What a kind keeps beside its elements.
    pub(crate) meta: Vec<u8>,
    /// Pages and elements that it has left behind: the name that they had, and how many they are.
    left: Option<(u64, u64)>,
}

impl Object {
    /// One without elements.
    pub fn new(kind: Kind) -> Self {
        Object {
            kind,
            allocation: Allocation::default(),
            changes: 0,
            trees: Default::default(),
            marks: 0,
            meta: Vec::new(),
            left: None,
        }
    }

    /// Its type.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The name of its pages, if it has any.
    pub fn id(&self) -> Option<u64> {
        (self.allocation.id != 0).then_some(self.allocation.id)
    }

    /// Numbers below this may name pages of it. Elements that are entries count like pages.
    pub fn pages_end(&self) -> u64 {
        let entries = self.trees().iter().filter(|tree| tree.height() == ENTRIES);
        self.allocation.next + entries.map(Tree::len).sum::<u64>()
    }

    /// True if its elements are entries of their own.
    pub fn is_of_entries(&self) -> bool {
        self.trees[0].height() == ENTRIES
    }

    /// The user bits of the entry of its key.
    pub fn user_bits(&self) -> u32 {
        let bits = self.kind.user_bits();
        if self.is_of_entries() { bits - VERSION + VERSION_OF_ENTRIES } else { bits }
    }

    /// What names its state, and no other state that it ever had, if its elements are entries.
    pub fn state(&self) -> Option<(u64, u64)> {
        self.is_of_entries().then_some((self.allocation.id, self.changes))
    }

    /// Has no elements any more, and leaves what it had to be removed later.
    pub(crate) fn leave(&mut self) {
        self.left = Some((self.allocation.id, self.pages_end()));
        (self.allocation, self.changes) = (Allocation::default(), 0);
        self.trees.iter_mut().for_each(Tree::reset);
    }

    /// Makes its trees, which are empty, such whose elements are entries, or ordinary ones.
    pub(crate) fn set_entries(&mut self, are_entries: bool) {
        for tree in &mut self.trees[..self.kind.trees()] {
            if are_entries { tree.become_entries() } else { tree.reset() }
        }
    }

    /// Pages and elements that it has left behind, told once: the name that they had, and how many
    /// they are.
    pub fn take_left(&mut self) -> Option<(u64, u64)> {
        self.left.take()
    }

    /// Elements of tree `nth`.
    pub fn len(&self, nth: usize) -> u64 {
        self.trees[nth].len()
    }

    /// True if no tree has an element.
    pub fn is_empty(&self) -> bool {
        self.trees().iter().all(|tree| tree.len() == 0)
    }

    /// Tree `nth`, with `pages` to read and write.
    pub fn tree<'t>(&'t mut self, nth: usize, pages: &'t mut dyn Pages) -> TreeMut<'t> {
        TreeMut { tree: &mut self.trees[nth], allocation: &mut self.allocation, pages, nth }
    }

    /// True if tree `nth` lies in the value of the key as a whole.
    pub fn is_flat(&self, nth: usize) -> bool {
        self.trees[nth].height() == 0
    }

    /// All of its trees.
    pub(crate) fn trees(&self) -> &[Tree] {
        &self.trees[..self.kind.trees() + usize::from(self.has_second_tree())]
    }

    /// True if it has a tree more than others of its kind.
    pub(crate) fn has_second_tree(&self) -> bool {
        self.marks & SECOND_TREE != 0
    }

    /// Gives it that tree, if it has none yet.
    pub(crate) fn add_second_tree(&mut self) {
        debug_assert!(self.kind.trees() < TREES_MAX, "no kind of two trees has one more");
        self.marks |= SECOND_TREE;
    }

    /// Takes that tree away if there is nothing in it.
    pub(crate) fn drop_second_tree_if_empty(&mut self) {
        if self.has_second_tree() && self.trees().last().is_some_and(|tree| tree.len() == 0) {
            self.marks &= !SECOND_TREE;
            self.trees[self.kind.trees()] = Tree::default();
        }
    }

    /// Removes every page; the object has no elements then.
    ///
    /// # Errors
    /// Those of `pages`.
    pub fn free(&mut self, pages: &mut dyn Pages) -> Result<()> {
        (0..self.trees().len()).try_for_each(|nth| self.tree(nth, pages).clear())
    }

    /// The numbers of all pages of it, of which the leaves need not be read.
    ///
    /// # Errors
    /// Those of `pages`.
    pub fn page_ids(&mut self, pages: &mut dyn Pages) -> Result<Vec<PageId>> {
        let mut all = Vec::new();
        for nth in 0..self.trees().len() {
            self.tree(nth, pages).page_ids(&mut all)?;
        }
        Ok(all)
    }

    /// Notes that it was changed; `random` names its new state.
    pub fn touch(&mut self, random: u64) {
        match self.is_of_entries() {
            true => self.changes = random,
            false => self.changes = self.changes.wrapping_add(u64::from(self.allocation.id != 0)),
        }
    }

    /// The value of its key.
    pub fn encode(&self) -> Vec<u8> {
        let roots: usize = self.trees().iter().map(|tree| tree.root().len() + 12).sum();
        let mut out = Vec::with_capacity(32 + roots + self.meta.len());
        self.encode_into(&mut out);
        out
    }

    /// Appends the value of its key to `out`.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let has_pages = self.allocation.id != 0;
        out.push((u8::from(has_pages) * HAS_PAGES) | (self.marks << 1));
        if has_pages {
            out.extend_from_slice(&self.allocation.id.to_le_bytes());
            write_varint(out, self.allocation.next);
            write_varint(out, self.changes);
        }
        for tree in self.trees() {
            tree.encode(out);
        }
        out.extend_from_slice(&self.meta);
    }

    /// The object of `kind` whose key has this `value`.
    ///
    /// # Errors
    /// Fails if `value` is none.
    pub fn decode(kind: Kind, value: &[u8]) -> Result<Object> {
        let mut object = Object::new(kind);
        object.decode_again(kind, value)?;
        Ok(object)
    }

    /// Becomes the object of `kind` whose key has this `value`, in the memory that it has.
    ///
    /// # Errors
    /// Fails if `value` is none. Then this is of no use.
    pub fn decode_again(&mut self, kind: Kind, value: &[u8]) -> Result<()> {
        let (first, mut at) = (*value.first().ok_or_else(|| damaged("it is empty"))?, 1);
        (self.kind, self.allocation, self.changes) = (kind, Allocation::default(), 0);
        self.left = None;
        if first & HAS_PAGES != 0 {
            let id = take_bytes(value, &mut at, 8)?;
            self.allocation.id = u64::from_le_bytes(value[id].try_into().expect("it has 8 bytes"));
            self.allocation.next = take_varint(value, &mut at)?;
            self.changes = take_varint(value, &mut at)?;
        }
        self.marks = first >> 1;
        let count = kind.trees() + usize::from(self.marks & SECOND_TREE != 0);
        let (own, others) =
            self.trees.split_at_mut_checked(count).ok_or_else(|| damaged("it has three trees"))?;
        own.iter_mut().try_for_each(|tree| tree.decode_again(value, &mut at))?;
        if own.iter().any(|tree| tree.height() == ENTRIES) {
            let same = |tree: &Tree| tree.height() == ENTRIES && tree.len() == own[0].len();
            if kind != Kind::Zset || self.allocation.id == 0 || !own.iter().all(same) {
                return Err(damaged("its elements cannot be entries"));
            }
        }
        others.iter_mut().for_each(Tree::reset);
        self.meta.clear();
        self.meta.extend_from_slice(&value[at..]);
        Ok(())
    }

    /// Bytes of memory beside the object itself.
    pub fn held_bytes(&self) -> usize {
        self.trees.iter().map(Tree::held_bytes).sum::<usize>() + self.meta.capacity()
    }
}

/// The id of the pages that the object with this `value` has, and the number below which theirs
/// are; elements that are entries count like pages. `None` if it has none.
pub fn pages_of(value: &[u8]) -> Option<(u64, u64)> {
    let (flags, rest) = value.split_first()?;
    let (id, rest) = rest.split_first_chunk::<8>().filter(|_| flags & HAS_PAGES != 0)?;
    let (end, used) = silica_base::read_varint(rest)?;
    let elements = || {
        let rest = &rest[used..];
        let (_, used) = silica_base::read_varint(rest)?;
        let (height, rest) = rest[used..].split_first()?;
        let (len, _) = silica_base::read_varint(rest)?;
        (*height == ENTRIES).then_some(len.saturating_mul(2))
    };
    Some((u64::from_le_bytes(*id), end.saturating_add(elements().unwrap_or(0))))
}

impl Object {
    /// A copy with pages of its own.
    ///
    /// # Errors
    /// Those of `pages`.
    pub fn copy(&mut self, pages: &mut dyn Pages) -> Result<Object> {
        let mut copy = self.clone();
        if self.allocation.id == 0 {
            return Ok(copy);
        }
        copy.allocation.id = pages.new_id()?;
        copy.left = None;
        if self.is_of_entries() {
            for nth in 0..self.trees().len() {
                self.tree(nth, pages).copy_entries(copy.allocation.id)?;
            }
        }
        for page in self.page_ids(pages)? {
            let bytes = pages.get(page)?;
            pages.put(PageId { object: copy.allocation.id, ..page }, bytes);
        }
        Ok(copy)
    }

    /// Gives an object that was read with its pages a new name for these, which are to be copied:
    /// for a copy in another engine.
    pub fn rename_pages(&mut self, id: u64) {
        self.allocation.id = id;
    }
}
