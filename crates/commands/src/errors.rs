//! Error replies by their first word, as INFO shows them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Different words that are counted; clients can have an influence on them.
const WORDS_MAX: usize = 128;
/// Counts those beyond.
const OTHERS: &str = "OTHERS";
/// The word of an error that has none.
const UNNAMED: &str = "ERR";
const WORD_BYTES_MAX: usize = 32;

/// How often each kind of error was answered since the start, or since CONFIG RESETSTAT.
#[derive(Debug, Default)]
pub(crate) struct Errors(Mutex<BTreeMap<String, u64>>);

/// The first word of an error reply, without the sign in front of it.
pub(crate) fn word(reply: &[u8]) -> String {
    let text = reply.strip_prefix(b"-").unwrap_or(reply);
    let end = text.iter().position(|byte| byte.is_ascii_whitespace()).unwrap_or(text.len());
    let word = &text[..end.min(WORD_BYTES_MAX)];
    let is_word = !word.is_empty() && word.iter().all(u8::is_ascii_uppercase);
    if is_word { String::from_utf8_lossy(word).into_owned() } else { UNNAMED.into() }
}

impl Errors {
    fn counts(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self, word: String) {
        let mut counts = self.counts();
        let is_known = counts.contains_key(&word) || counts.len() < WORDS_MAX;
        *counts.entry(if is_known { word } else { OTHERS.into() }).or_default() += 1;
    }

    pub(crate) fn reset(&self) {
        self.counts().clear();
    }

    /// The lines of INFO.
    pub(crate) fn write(&self, out: &mut String) {
        for (word, count) in &*self.counts() {
            write!(out, "errorstat_{word}:count={count}\r\n").expect("a string takes every write");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_up_to_a_number() {
        assert_eq!(word(b"-NOPERM this user\r\n"), "NOPERM");
        assert_eq!(word(b"-WRONGTYPE\r\n"), "WRONGTYPE");
        assert_eq!([word(b"-'x' is no word\r\n"), word(b"-"), word(b"-Sorry ")], [UNNAMED; 3]);
        let errors = Errors::default();
        for n in 0..300_u32 {
            errors.count(n.to_string());
            errors.count("ERR".into());
        }
        let mut out = String::new();
        errors.write(&mut out);
        assert!(out.contains("errorstat_ERR:count=300\r\n"), "{out}");
        assert!(out.contains("errorstat_OTHERS:count=173\r\n"), "{out}");
        assert!(out.lines().count() <= WORDS_MAX + 1);
    }
}
