//! Libraries of functions, as FUNCTION LOAD brings them and FCALL calls them.

use super::shebang::{self, ScriptFlags};
use crate::budget::{Budget, Share};
use silica_lua::{Library, LibraryFunction, sha1_hex};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Says which functions the text of a library has, or why it has none.
type Load<'l> = dyn FnMut(&[u8]) -> Result<Vec<LibraryFunction>, String> + 'l;

/// Memory of a library beside its text, and of each function.
const LIBRARY_BYTES: usize = 512;
const FUNCTION_BYTES: usize = 256;
/// The first bytes of what FUNCTION DUMP returns (docs/formats/functions.md).
const MAGIC: &[u8; 8] = b"SILICAF1";
const CHECKSUM_BYTES: usize = 40;

/// A library that was loaded.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) name: String,
    /// Its text as it came.
    pub(crate) text: Vec<u8>,
    pub(crate) library: Library,
    pub(crate) functions: Vec<LibraryFunction>,
}

impl Loaded {
    fn held_bytes(&self) -> usize {
        2 * self.text.len() + LIBRARY_BYTES + FUNCTION_BYTES * self.functions.len()
    }
}

/// A function to be called.
#[derive(Debug, Clone)]
pub(crate) struct Callable {
    pub(crate) library: Arc<Loaded>,
    pub(crate) name: String,
    pub(crate) flags: ScriptFlags,
}

/// What happens to the libraries that are there when others come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// They stay, and none may have a name that comes.
    Append,
    /// Those with names that come make way.
    Replace,
    /// All make way.
    Flush,
}

type ByName = BTreeMap<String, Arc<Loaded>>;

/// The libraries of a server.
pub(crate) struct Libraries {
    by_name: Mutex<ByName>,
    share: Share,
}

impl Libraries {
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Libraries { by_name: Mutex::default(), share: Share::new(budget) }
    }

    fn lock(&self) -> MutexGuard<'_, ByName> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The libraries by name.
    pub(crate) fn list(&self) -> Vec<Arc<Loaded>> {
        self.lock().values().cloned().collect()
    }

    /// The function called `name`.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Callable> {
        let all = self.lock();
        let found = all.values().find_map(|library| {
            let function = library.functions.iter().find(|f| f.name.as_bytes() == name)?;
            Some((library, function))
        });
        let (library, function) = found?;
        let flags = ScriptFlags::of(function.flags.iter().map(|flag| &**flag));
        Some(Callable { library: Arc::clone(library), name: function.name.clone(), flags })
    }

    /// Adds the libraries with these `texts`, all or none; `load` says which functions the text of
    /// a library without its first line has. Returns their names, or why they were refused.
    pub(crate) fn add(
        &self,
        texts: &[&[u8]],
        policy: Policy,
        load: &mut Load<'_>,
    ) -> Result<Vec<String>, String> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut new = Vec::new();
        for text in texts {
            let (name, code) = shebang::of_library(text)?;
            let functions = load(code)?;
            if functions.is_empty() {
                return Err("ERR No functions registered".into());
            }
            let id = NEXT.fetch_add(1, Relaxed);
            let library = Library { id, code: code.to_vec() };
            new.push(Loaded { name, text: text.to_vec(), library, functions });
        }
        let mut all = self.lock();
        let mut next = if policy == Policy::Flush { ByName::new() } else { all.clone() };
        for library in &new {
            if next.remove(&library.name).is_some() && policy == Policy::Append {
                return Err(format!("ERR Library '{}' already exists", library.name));
            }
        }
        let mut names = Vec::new();
        for library in new {
            let taken = |name: &str| {
                next.values().any(|other| other.functions.iter().any(|f| f.name == name))
            };
            if let Some(function) = library.functions.iter().find(|f| taken(&f.name)) {
                return Err(format!("ERR Function {} already exists", function.name));
            }
            names.push(library.name.clone());
            next.insert(library.name.clone(), Arc::new(library));
        }
        let bytes = |all: &ByName| all.values().map(|library| library.held_bytes()).sum::<usize>();
        let (before, after) = (bytes(&all), bytes(&next));
        match after.checked_sub(before) {
            Some(more) => self.share.grow(more)?,
            None => self.share.shrink(before - after),
        }
        *all = next;
        Ok(names)
    }

    /// Removes the library called `name`; false if there is none.
    pub(crate) fn remove(&self, name: &[u8]) -> bool {
        let name = String::from_utf8_lossy(name);
        let removed = self.lock().remove(&*name);
        removed.iter().for_each(|library| self.share.shrink(library.held_bytes()));
        removed.is_some()
    }

    /// Removes all.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.lock());
        all.values().for_each(|library| self.share.shrink(library.held_bytes()));
    }

    /// All libraries as bytes.
    pub(crate) fn dump(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for library in self.list() {
            out.extend_from_slice(&(library.text.len() as u32).to_le_bytes());
            out.extend_from_slice(&library.text);
        }
        let checksum = sha1_hex(&out);
        out.extend_from_slice(checksum.as_bytes());
        out
    }

    /// The texts of the libraries in what [`Libraries::dump`] returned.
    pub(crate) fn texts(dump: &[u8]) -> Result<Vec<&[u8]>, String> {
        let wrong = || "ERR DUMP payload version or checksum are wrong".to_string();
        let end = dump.len().checked_sub(CHECKSUM_BYTES).ok_or_else(wrong)?;
        let (body, checksum) = dump.split_at(end);
        let mut rest = body.strip_prefix(MAGIC).ok_or_else(wrong)?;
        if sha1_hex(body).as_bytes() != checksum {
            return Err(wrong());
        }
        let mut texts = Vec::new();
        while !rest.is_empty() {
            let (len, behind) = rest.split_first_chunk::<4>().ok_or_else(wrong)?;
            let len = u32::from_le_bytes(*len) as usize;
            let (text, behind) = behind.split_at_checked(len).ok_or_else(wrong)?;
            texts.push(text);
            rest = behind;
        }
        Ok(texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(code: &[u8]) -> Result<Vec<LibraryFunction>, String> {
        let name = String::from_utf8_lossy(code).trim().to_string();
        Ok(vec![LibraryFunction { name, description: None, flags: vec!["no-writes".into()] }])
    }

    #[test]
    fn libraries_come_and_go() {
        let budget = Budget::new(1 << 20);
        let all = Libraries::new(&budget);
        let add = |text: &str, policy| all.add(&[text.as_bytes()], policy, &mut load);
        assert_eq!(add("#!lua name=a\nf", Policy::Append).unwrap(), ["a"]);
        let refused = add("#!lua name=a\ng", Policy::Append).unwrap_err();
        assert_eq!(refused, "ERR Library 'a' already exists");
        let refused = add("#!lua name=b\nf", Policy::Append).unwrap_err();
        assert_eq!(refused, "ERR Function f already exists");
        assert!(add("#!lua name=a\ng", Policy::Replace).is_ok());
        assert!(all.find(b"f").is_none() && all.find(b"g").unwrap().flags.no_writes);
        let dump = all.dump();
        assert!(add("#!lua name=c\nh", Policy::Flush).is_ok() && all.list().len() == 1);
        let texts = Libraries::texts(&dump).unwrap();
        all.add(&texts, Policy::Append, &mut load).unwrap();
        assert_eq!(all.list().len(), 2);
        for cut in 0..dump.len() {
            assert!(Libraries::texts(&dump[..cut]).is_err(), "{cut}");
        }
        assert!(all.remove(b"a") && !all.remove(b"a"));
        all.clear();
        assert_eq!(budget.used(), 0);
    }
}
