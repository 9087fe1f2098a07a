//! The classes of events, as `notify-keyspace-events` names them.

use std::ops::BitOr;

/// A set of classes, a bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Classes(u16);

/// Every class by its letter, in the order in which the setting is shown. Those of types that
/// there are not (lists, sets, hashes, sorted sets, streams, modules) are kept and never come.
const LETTERS: &[(u8, Classes)] = &[
    (b'g', Classes::GENERIC),
    (b'$', Classes::STRING),
    (b'l', Classes::LIST),
    (b's', Classes::SET),
    (b'h', Classes::HASH),
    (b'z', Classes::ZSET),
    (b'x', Classes::EXPIRED),
    (b'e', Classes::EVICTED),
    (b't', Classes::STREAM),
    (b'd', Classes(1 << 11)),
    (b'n', Classes::NEW),
    (b'K', Classes::KEYSPACE),
    (b'E', Classes::KEYEVENT),
    (b'm', Classes::MISS),
];
/// Letters of [`LETTERS`] that `A` stands for, which are the first ones.
const ALL_LEN: usize = 10;

impl Classes {
    pub(crate) const NONE: Classes = Classes(0);
    /// Messages of `__keyspace@0__:key`.
    pub(crate) const KEYSPACE: Classes = Classes(1);
    /// Messages of `__keyevent@0__:event`.
    pub(crate) const KEYEVENT: Classes = Classes(1 << 1);
    /// Commands that any type has.
    pub(crate) const GENERIC: Classes = Classes(1 << 2);
    pub(crate) const STRING: Classes = Classes(1 << 3);
    pub(crate) const LIST: Classes = Classes(1 << 4);
    pub(crate) const SET: Classes = Classes(1 << 5);
    pub(crate) const HASH: Classes = Classes(1 << 6);
    pub(crate) const ZSET: Classes = Classes(1 << 7);
    pub(crate) const STREAM: Classes = Classes(1 << 10);
    pub(crate) const EXPIRED: Classes = Classes(1 << 8);
    pub(crate) const EVICTED: Classes = Classes(1 << 9);
    /// A key that was not there.
    pub(crate) const NEW: Classes = Classes(1 << 12);
    /// A read of a key that is not there.
    pub(crate) const MISS: Classes = Classes(1 << 13);

    /// The classes whose letters stand in `text`; `None` if one of these is none.
    pub(crate) fn parse(text: &[u8]) -> Option<Classes> {
        text.iter().try_fold(Classes::NONE, |all, letter| match letter {
            b'A' => Some(all | Classes::all()),
            _ => LETTERS.iter().find(|known| known.0 == *letter).map(|known| all | known.1),
        })
    }

    /// The classes that `A` stands for.
    fn all() -> Classes {
        LETTERS[..ALL_LEN].iter().fold(Classes::NONE, |all, (_, class)| all | *class)
    }

    /// The letters of the classes, as Redis shows them: `n` hides behind `A`.
    pub(crate) fn text(self) -> String {
        let is_all = self.has_all(Classes::all());
        let shown = |(at, known): &(usize, &(u8, Classes))| {
            self.has(known.1) && !(is_all && (*at < ALL_LEN || known.0 == b'n'))
        };
        let letters = LETTERS.iter().enumerate().filter(shown).map(|(_, known)| known.0 as char);
        is_all.then_some('A').into_iter().chain(letters).collect()
    }

    pub(crate) const fn bits(self) -> u16 {
        self.0
    }

    /// The classes whose bits are set.
    pub(crate) const fn of_bits(bits: u16) -> Self {
        Classes(bits)
    }

    fn has_all(self, others: Classes) -> bool {
        self.0 & others.0 == others.0
    }

    /// True if any of `others` is one of them.
    pub(crate) const fn has(self, others: Classes) -> bool {
        self.0 & others.0 != 0
    }

    /// True if events come at all: a kind of message was chosen, and a class.
    pub(crate) fn is_on(self) -> bool {
        let kinds = Classes::KEYSPACE | Classes::KEYEVENT;
        self.has(kinds) && self.0 & !kinds.0 != 0
    }
}

impl BitOr for Classes {
    type Output = Classes;

    fn bitor(self, other: Classes) -> Classes {
        Classes(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_shown_as_redis_shows_them() {
        let shown = |text: &str| Classes::parse(text.as_bytes()).map(Classes::text);
        for (given, want) in [
            ("", ""),
            ("KEA", "AKE"),
            ("AKEm", "AKEm"),
            ("Ex", "xE"),
            ("mnK$g", "g$nKm"),
            ("g$lshzxetdKE", "AKE"),
            ("AnE", "AE"),
        ] {
            assert_eq!(shown(given).as_deref(), Some(want), "{given}");
        }
        assert_eq!(shown("KEq"), None);
        let is_on = |text: &str| Classes::parse(text.as_bytes()).unwrap().is_on();
        assert!(is_on("Kg") && !is_on("KE") && !is_on("Ag"));
    }
}
