//! What was refused to whom, for ACL LOG.

use super::check::Denied;
use crate::budget::{Budget, Share};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Milliseconds within which the same refusal is counted, not noted again.
const SAME_MS: u64 = 60_000;
/// Bytes of a key or name that are kept.
const OBJECT_BYTES_MAX: usize = 1024;

/// Something that was refused, once or several times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) id: u64,
    pub(crate) count: u64,
    /// What stood in the way: `command`, `key`, `channel` or `auth`.
    pub(crate) reason: &'static str,
    /// Where it was asked for: `toplevel` or `multi`.
    pub(crate) context: &'static str,
    /// The command, key or channel.
    pub(crate) object: Vec<u8>,
    pub(crate) user: String,
    /// The last client, as CLIENT LIST shows it.
    pub(crate) client: String,
    pub(crate) first_ms: u64,
    pub(crate) last_ms: u64,
}

impl Refusal {
    /// That `denied` stands in the way of `user`.
    pub(crate) fn of(denied: &Denied, user: &str, in_transaction: bool) -> Self {
        let (reason, object) = match denied {
            Denied::Command(name) => ("command", name.as_bytes()),
            Denied::Key(key) => ("key", &key[..]),
            Denied::Option(option) => ("key", option.as_bytes()),
            Denied::Channel(channel) => ("channel", &channel[..]),
        };
        let context = if in_transaction { "multi" } else { "toplevel" };
        Refusal::new(reason, context, object, user.into())
    }

    /// That `user` was named to `command` with a wrong password.
    pub(crate) fn of_password(command: &[u8], user: &[u8]) -> Self {
        let user = &user[..user.len().min(OBJECT_BYTES_MAX)];
        Refusal::new("auth", "toplevel", command, String::from_utf8_lossy(user).into_owned())
    }

    fn new(reason: &'static str, context: &'static str, object: &[u8], user: String) -> Self {
        let object = object[..object.len().min(OBJECT_BYTES_MAX)].to_vec();
        let client = String::new();
        Refusal { id: 0, count: 1, reason, context, object, user, client, first_ms: 0, last_ms: 0 }
    }

    fn held_bytes(&self) -> usize {
        let texts = self.object.len() + self.user.len() + self.client.len();
        size_of::<(Refusal, Share)>() + texts + 64
    }

    fn is_same(&self, other: &Refusal) -> bool {
        let of = |refusal: &Refusal| (refusal.reason, refusal.context);
        of(self) == of(other) && self.object == other.object && self.user == other.user
    }
}

/// The last refusals.
#[derive(Debug)]
pub(crate) struct RefusalLog {
    pub(crate) len_max: AtomicUsize,
    next_id: AtomicU64,
    /// Newest first.
    list: Mutex<VecDeque<(Refusal, Share)>>,
    /// Memory of all of them.
    bytes: AtomicUsize,
}

impl Default for RefusalLog {
    fn default() -> Self {
        let len_max = AtomicUsize::new(128);
        RefusalLog {
            len_max,
            next_id: AtomicU64::new(0),
            list: Mutex::default(),
            bytes: AtomicUsize::new(0),
        }
    }
}

impl RefusalLog {
    /// Notes a refusal to the client that `line` describes.
    pub(crate) fn add(
        &self,
        mut refusal: Refusal,
        line: String,
        now_ms: u64,
        budget: &Arc<Budget>,
    ) {
        let len_max = self.len_max.load(Relaxed);
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same =
            |old: &Refusal| now_ms - old.last_ms.min(now_ms) < SAME_MS && old.is_same(&refusal);
        match list.iter().position(|(old, _)| is_same(old)).and_then(|at| list.remove(at)) {
            Some((old, share)) => {
                self.bytes.fetch_sub(share.bytes(), Relaxed);
                refusal = Refusal { count: old.count + 1, ..old };
            }
            None => {
                refusal.id = self.next_id.fetch_add(1, Relaxed);
                refusal.first_ms = now_ms;
            }
        }
        (refusal.client, refusal.last_ms) = (line, now_ms);
        let bytes = refusal.held_bytes();
        let share = Share::new(budget);
        let mut all = self.bytes.load(Relaxed) + bytes;
        // Without memory for all, the oldest go.
        while all > budget.max() / 8 || list.len() >= len_max || share.grow(bytes).is_err() {
            match list.pop_back() {
                Some((_, share)) => all -= share.bytes(),
                None => break,
            }
        }
        match share.bytes() {
            0 => all -= bytes,
            _ => list.push_front((refusal, share)),
        }
        self.bytes.store(all, Relaxed);
    }

    /// Memory of all refusals.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// The newest `count` refusals.
    pub(crate) fn newest(&self, count: usize) -> Vec<Refusal> {
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.iter().take(count).map(|(refusal, _)| refusal.clone()).collect()
    }

    pub(crate) fn clear(&self) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.clear();
        self.bytes.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_counted_for_a_minute() {
        let log = RefusalLog::default();
        let budget = Budget::new(1 << 20);
        let key = |name: &str| Refusal::of(&Denied::Key(name.into()), "ann", false);
        for (name, now_ms) in [("a", 1000), ("b", 2000), ("a", 30_000), ("a", 95_000)] {
            log.add(key(name), format!("at {now_ms}"), now_ms, &budget);
        }
        let shown: Vec<_> = log.newest(9).into_iter().collect();
        let short: Vec<_> = shown
            .iter()
            .map(|r| (r.id, r.count, r.first_ms, r.last_ms, r.client.as_str()))
            .collect();
        assert_eq!(
            short,
            [
                (2, 1, 95_000, 95_000, "at 95000"),
                (0, 2, 1000, 30_000, "at 30000"),
                (1, 1, 2000, 2000, "at 2000"),
            ]
        );
        log.len_max.store(2, Relaxed);
        log.add(key("c"), String::new(), 95_001, &budget);
        assert_eq!(log.newest(9).len(), 2);
        assert_eq!(log.newest(1)[0].object, b"c");
        log.clear();
        assert_eq!(log.newest(9), []);
    }

    #[test]
    fn long_keys_are_cut() {
        let long = Refusal::of(&Denied::Key(vec![b'k'; 9999]), "ann", true);
        assert_eq!((long.object.len(), long.context), (OBJECT_BYTES_MAX, "multi"));
        assert_eq!(Refusal::of_password(b"AUTH", &[b'u'; 9999]).user.len(), OBJECT_BYTES_MAX);
    }
}
