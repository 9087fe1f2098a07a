//! The texts of scripts, by their SHA-1, as EVALSHA names them.

use super::shebang::{self, ScriptFlags};
use crate::budget::{Budget, Share};
use silica_lua::sha1_hex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Scripts that are kept although nobody has loaded them: the last ones that EVAL ran. Redis 7.4
/// keeps as many.
const EVALUATED_MAX: usize = 500;
/// Memory of a script beside its text: its name in two places, and the tree.
const SCRIPT_BYTES: usize = 256;

/// A script.
#[derive(Debug)]
pub(crate) struct Script {
    /// SHA-1 of its text, in hexadecimal digits.
    pub(crate) name: String,
    /// Its text without the words of the first line.
    pub(crate) body: Vec<u8>,
    pub(crate) flags: ScriptFlags,
    /// It took long when it ran last.
    pub(crate) is_slow: AtomicBool,
}

/// The script with this text, or why it is none.
pub(crate) fn new_script(text: &[u8]) -> Result<Script, String> {
    Script::new(sha1_hex(text), text)
}

impl Script {
    /// The script with this name and text, or why it is none.
    pub(crate) fn new(name: String, text: &[u8]) -> Result<Self, String> {
        let (body, flags) = shebang::of_script(text)?;
        Ok(Script { name, body: body.to_vec(), flags, is_slow: AtomicBool::new(false) })
    }

    fn held_bytes(&self) -> usize {
        self.body.len() + SCRIPT_BYTES
    }
}

#[derive(Default)]
struct Kept {
    by_name: BTreeMap<String, Arc<Script>>,
    /// Those that EVAL has brought, the oldest first.
    evaluated: VecDeque<String>,
}

/// The scripts of a server.
pub(crate) struct Scripts {
    kept: Mutex<Kept>,
    share: Share,
    /// How often all were forgotten: what threads remember of before is void.
    version: AtomicU64,
    /// No other store in this process has it.
    pub(crate) id: u64,
}

impl Scripts {
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Scripts {
            kept: Mutex::default(),
            share: Share::new(budget),
            version: AtomicU64::new(0),
            id: NEXT.fetch_add(1, Relaxed),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often all scripts were forgotten.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Relaxed)
    }

    /// The script called `name`, in whatever case.
    pub(crate) fn get(&self, name: &[u8]) -> Option<Arc<Script>> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        self.kept().by_name.get(&name).cloned()
    }

    /// Keeps a script until SCRIPT FLUSH or, if it is only `evaluated`, until it is one of many; or
    /// says why there is no memory for it.
    pub(crate) fn add(&self, script: Script, evaluated: bool) -> Result<Arc<Script>, String> {
        let mut kept = self.kept();
        let Kept { by_name, evaluated: order } = &mut *kept;
        if let Some(known) = by_name.get(&script.name) {
            if !evaluated {
                order.retain(|name| *name != script.name);
            }
            return Ok(Arc::clone(known));
        }
        while order.len() >= EVALUATED_MAX
            && let Some(oldest) = order.pop_front()
        {
            self.forget(by_name, &oldest);
        }
        self.share.grow(script.held_bytes())?;
        let script = Arc::new(script);
        if evaluated {
            order.push_back(script.name.clone());
        }
        by_name.insert(script.name.clone(), Arc::clone(&script));
        Ok(script)
    }

    fn forget(&self, by_name: &mut BTreeMap<String, Arc<Script>>, name: &str) {
        if let Some(script) = by_name.remove(name) {
            self.share.shrink(script.held_bytes());
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        let mut kept = self.kept();
        let names: Vec<String> = kept.by_name.keys().cloned().collect();
        names.iter().for_each(|name| self.forget(&mut kept.by_name, name));
        kept.evaluated.clear();
        self.version.fetch_add(1, Relaxed);
    }

    /// How many are kept, and their bytes.
    pub(crate) fn usage(&self) -> (usize, usize) {
        (self.kept().by_name.len(), self.share.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evaluated_scripts_make_room_and_loaded_ones_stay() {
        let budget = Budget::new(1 << 20);
        let scripts = Scripts::new(&budget);
        let script = |n: usize| Script::new(format!("s{n}"), b"return 1").unwrap();
        scripts.add(script(0), false).unwrap();
        scripts.add(script(1), true).unwrap();
        scripts.add(script(1), false).unwrap();
        for n in 2..700 {
            scripts.add(script(n), true).unwrap();
        }
        let has = |n: usize| scripts.get(format!("S{n}").as_bytes()).is_some();
        assert!(has(0) && has(1) && !has(2) && has(699));
        assert_eq!(scripts.usage().0, EVALUATED_MAX + 2);
        assert!(budget.used() > 0);
        let large = Script::new("large".into(), &[b' '; 1 << 20]).unwrap();
        assert!(scripts.add(large, false).unwrap_err().starts_with("OOM"));
        scripts.clear();
        assert_eq!((scripts.usage(), budget.used(), scripts.version()), ((0, 0), 0, 1));
    }
}
