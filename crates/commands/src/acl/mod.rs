//! Users: who may do what.
//!
//! `user` has a user and the words that make one, `check` says whether it may run a request. Users
//! never change; a change makes a new one and a new version of the register, which connections
//! notice with their next request.

mod check;
mod log;
mod user;

pub(crate) use check::{Access, Denied};
pub(crate) use log::{Refusal, RefusalLog};
pub(crate) use user::KeyPattern;
pub use user::User;
use user::joined;

use crate::budget::{Budget, Share};
use crate::clients::DEFAULT_USER;
use silica::device::rewrite_file;
use silica::engine::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// Memory of a user: so many times its line, and its commands.
const LINES: usize = 3;
const USER_BYTES: usize = 4 << 10;

type Users = BTreeMap<String, Arc<User>>;

/// All users.
#[derive(Debug)]
pub struct Acl {
    users: RwLock<Users>,
    /// Counts changes; connections look whether theirs is the last.
    version: AtomicU64,
    pub(crate) file: Option<PathBuf>,
    /// What was refused.
    pub(crate) log: RefusalLog,
}

impl Acl {
    /// The users of `file`, and who everybody is at first, with `password` if there is one.
    pub fn new(password: Option<&[u8]>, file: Option<&Path>) -> Result<Self> {
        let first = Arc::new(User::default_with(password));
        let mut users = BTreeMap::from([(DEFAULT_USER.to_string(), first)]);
        if let Some(path) = file {
            users.extend(read(path).map_err(|text| Error::new(ErrorKind::Config, text))?);
        }
        Ok(Acl {
            users: RwLock::new(users),
            version: AtomicU64::new(1),
            file: file.map(Path::to_path_buf),
            log: RefusalLog::default(),
        })
    }

    fn users(&self) -> RwLockReadGuard<'_, Users> {
        self.users.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the last change.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Makes a change; nothing is changed where it fails.
    fn change<T, E>(
        &self,
        change: impl FnOnce(&mut Users) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        let mut new = users.clone();
        let result = change(&mut new)?;
        *users = new;
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(result)
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<User>> {
        self.users().get(name).cloned()
    }

    /// Memory of all users that clients have made.
    pub(crate) fn kept_bytes(&self) -> usize {
        let of = |user: &Arc<User>| user.kept.as_ref().map_or(0, |share| share.bytes());
        self.users().values().map(of).sum()
    }

    pub(crate) fn all(&self) -> Vec<Arc<User>> {
        self.users().values().cloned().collect()
    }

    /// True where a new connection needs no password.
    pub fn lets_in(&self) -> bool {
        self.get(DEFAULT_USER).is_some_and(|user| user.lets_in())
    }

    /// True where any password would be right for somebody.
    pub(crate) fn has_passwords(&self) -> bool {
        self.users().values().any(|user| user.has_passwords())
    }

    /// The user called `name`, where `given` is a password of its.
    pub(crate) fn authenticate(&self, name: &[u8], given: &[u8]) -> Option<Arc<User>> {
        let user = std::str::from_utf8(name).ok().and_then(|name| self.get(name));
        // A name that there is not takes as long as one that there is.
        let nobody = || Arc::new(User::default_with(Some(b"")));
        let (user, is_there) = user.map_or_else(|| (nobody(), false), |user| (user, true));
        (user.knows(given) && is_there && user.enabled).then_some(user)
    }

    /// Applies words to the user called `name`, which is made where there is none.
    pub(crate) fn set<'w>(
        &self,
        name: &str,
        words: impl Iterator<Item = &'w [u8]>,
        budget: &Arc<Budget>,
    ) -> std::result::Result<(), String> {
        self.change(|users| {
            let mut user = users.get(name).map_or_else(|| User::new(name), |user| (**user).clone());
            for word in joined(words).map_err(|word| format!("ERR {}", never_closed(word)))? {
                user.apply(&word).map_err(|why| {
                    let word = String::from_utf8_lossy(&word);
                    format!("ERR Error in ACL SETUSER modifier '{word}': {why}")
                })?;
            }
            let share = Share::new(budget);
            share.grow(LINES * user.line().len() + USER_BYTES)?;
            user.kept = Some(Arc::new(share));
            users.insert(name.into(), Arc::new(user));
            Ok(())
        })
    }

    /// Removes the users in `names`; those that there were.
    pub(crate) fn remove(&self, names: &[String]) -> Vec<String> {
        let removed = self.change(|users| {
            let mut removed = names.to_vec();
            removed.retain(|name| users.remove(name).is_some());
            Ok::<_, String>(removed)
        });
        removed.unwrap_or_default()
    }

    /// Takes the users of the file in place of all others; the names of those that are gone.
    pub(crate) fn load(&self) -> std::result::Result<Vec<String>, String> {
        let path = self.file.as_ref().ok_or(NO_FILE)?;
        let mut new = read(path).map_err(|text| {
            format!(
                "ERR {text} WARNING: ACL errors detected, no change to the previously active \
                     ACL rules was performed"
            )
        })?;
        self.change(|users| {
            if let Some(first) = users.get(DEFAULT_USER) {
                new.entry(DEFAULT_USER.into()).or_insert_with(|| Arc::clone(first));
            }
            let gone = users.keys().filter(|name| !new.contains_key(*name)).cloned().collect();
            *users = new;
            Ok(gone)
        })
    }

    /// Writes all users to the file.
    pub(crate) fn save(&self) -> std::result::Result<(), String> {
        let path = self.file.as_ref().ok_or(NO_FILE)?;
        let mut text = Vec::new();
        for user in self.all() {
            text.extend_from_slice(&user.line());
            text.push(b'\n');
        }
        // Other servers may have the same file, and may save their users now, too.
        let private = Some(Permissions::from_mode(0o600));
        rewrite_file(path, private, || Ok(text)).map_err(|error| {
            ::log::warn!("the users were not saved: {error}");
            "ERR There was an error trying to save the ACLs. Please check the server logs for more \
             information"
                .to_string()
        })
    }
}

pub(crate) const NO_FILE: &str = concat!(
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users ",
    "via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis ",
    "configuration file set) in order to store users in the Redis configuration."
);

fn never_closed(word: &[u8]) -> String {
    let word = String::from_utf8_lossy(word);
    format!("Unmatched parenthesis in acl selector starting at '{word}'.")
}

/// The users in the file at `path`: a line `user NAME WORD...` each.
fn read(path: &Path) -> std::result::Result<Users, String> {
    let text = std::fs::read(path).map_err(|e| format!("{}: {e}.", path.display()))?;
    parse(&text, path)
}

/// The users in such a text, which is that of the file at `path`.
fn parse(text: &[u8], path: &Path) -> std::result::Result<Users, String> {
    let mut users = Users::new();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let wrong = |why: &str| Err(format!("{}:{}: {why}.", path.display(), index + 1));
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        if words.next() != Some(b"user") {
            return wrong("a line begins with 'user' and a name");
        }
        let Some(name) = words.next().and_then(|name| std::str::from_utf8(name).ok()) else {
            return wrong("a line begins with 'user' and a name");
        };
        let mut user = User::new(name);
        let words = match joined(words) {
            Ok(words) => words,
            Err(word) => return wrong(&never_closed(word)),
        };
        for word in words {
            if let Err(why) = user.apply(&word) {
                return wrong(&format!("{}: {why}", String::from_utf8_lossy(&word)));
            }
        }
        if users.insert(name.into(), Arc::new(user)).is_some() {
            return wrong(&format!("a second user called '{name}'"));
        }
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::{Prng, mutated, test_size};

    fn saved(users: &Users) -> Vec<u8> {
        let lines: Vec<Vec<u8>> = users.values().map(|user| user.line()).collect();
        lines.join(&b'\n')
    }

    /// Files that nobody meant well are refused with the place of the fault, or hold users who are
    /// the same when they are saved and read again.
    #[test]
    fn hostile_files_are_refused_or_come_back() {
        let corpus: Vec<Vec<u8>> = [
            &b"user default on nopass ~* &* +@all\n"[..],
            b"# two\nuser ann on >pw ~a* %R~b* &c -@all +get +client|kill\r\nuser bob off\n",
            b"user eve on #ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad +@read",
            b"user sel on ~a +get (+set ~b*) (%R~c &d +@read -get) ()",
            b"user x reset -@dangerous +info allkeys resetchannels \t +@string -set\n\n",
        ]
        .map(<[u8]>::to_vec)
        .to_vec();
        let (mut prng, path) = (Prng::new(11), Path::new("users.acl"));
        let mut accepted = 0;
        for _ in 0..test_size(5_000, 50_000, 50_000_000) {
            match parse(&mutated(&mut prng, &corpus), path) {
                Ok(users) => {
                    accepted += 1;
                    let text = saved(&users);
                    let again = parse(&text, path).expect("what was saved can be read");
                    assert_eq!(saved(&again), text, "{}", text.escape_ascii());
                }
                Err(why) => assert!(why.starts_with("users.acl:"), "{why}"),
            }
        }
        assert!(accepted > 100, "{accepted} files were accepted");
    }
}
