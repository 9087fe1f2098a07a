//! Glob patterns as KEYS, SCAN, PSUBSCRIBE, ACL and CONFIG GET know them: `*`, `?`, `[a-z]`,
//! `[^a]`, and `\` before any of them.
//!
//! They mean what Redis's `stringmatchlen` means, but that `*` matches the empty text, too, and
//! that the bytes of a range are unsigned, as they are for Redis on ARM.
//!
//! A pattern is compiled once, in time and memory that grow with its length, and then matched in
//! time that grows with the length of the text: a class is a set of 256 bits, and what stands
//! between two stars is found at its first place and never looked for again.

use std::collections::BTreeMap;

/// No key is longer. A pattern that more bytes must match than this matches nothing.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// What stands between two stars is compared place by place if it has no more elements than
/// these, else by a bit for each element, which is as quick.
const PLACES_MAX: usize = 64;

/// Bytes, one bit each.
type Set = [u64; 4];

const fn has(set: &Set, byte: u8) -> bool {
    set[byte as usize / 64] >> (byte % 64) & 1 == 1
}

/// What a pattern is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    Byte(u8),
    Any,
    /// A byte of this set among the pattern's.
    Of(u32),
    /// Any number of bytes.
    Star,
}

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// No two stars are neighbours.
    elements: Box<[Element]>,
    sets: Box<[Set]>,
    /// Bytes of the shortest text that matches.
    bytes_min: usize,
}

/// True where `text` matches `pattern`, which is used once.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    Pattern::new(pattern).matches(text)
}

impl Pattern {
    pub(crate) fn new(pattern: &[u8]) -> Self {
        let mut elements = Vec::new();
        let mut sets = BTreeMap::new();
        let mut bytes_min = 0;
        let mut rest = pattern;
        while let [first, ..] = rest
            && bytes_min <= TEXT_BYTES_MAX
        {
            let (element, len) = match (first, rest) {
                (b'*', _) => (Element::Star, 1),
                (b'?', _) => (Element::Any, 1),
                (b'\\', [_, escaped, ..]) => (Element::Byte(*escaped), 2),
                (b'[', _) => {
                    let (set, len) = class(rest);
                    let next = sets.len() as u32;
                    (Element::Of(*sets.entry(set).or_insert(next)), len)
                }
                (plain, _) => (Element::Byte(*plain), 1),
            };
            rest = &rest[len..];
            if element != Element::Star || elements.last() != Some(&Element::Star) {
                elements.push(element);
            }
            bytes_min += usize::from(element != Element::Star);
        }
        let mut list = vec![Set::default(); sets.len()];
        sets.into_iter().for_each(|(set, place)| list[place as usize] = set);
        Pattern { elements: elements.into(), sets: list.into(), bytes_min }
    }

    /// True where `text` matches.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        if text.len() < self.bytes_min || self.bytes_min > TEXT_BYTES_MAX {
            return false;
        }
        let mut parts = self.elements.split(|element| *element == Element::Star);
        let begins = parts.next().unwrap_or_default();
        let Some(ends) = parts.next_back() else {
            return text.len() == self.bytes_min && self.is_at(begins, text);
        };
        // Both have room: together they are no longer than the shortest text that matches.
        let (begin, rest) = text.split_at(begins.len());
        let (mut rest, end) = rest.split_at(rest.len() - ends.len());
        if !self.is_at(begins, begin) || !self.is_at(ends, end) {
            return false;
        }
        for part in parts {
            match self.find(part, rest) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        true
    }

    /// What every text that matches begins with.
    pub(crate) fn beginning(&self) -> Vec<u8> {
        let byte = |element: &Element| match element {
            Element::Byte(byte) => Some(*byte),
            _ => None,
        };
        self.elements.iter().map_while(byte).collect()
    }

    #[cfg(test)]
    fn held_bytes(&self) -> usize {
        size_of_val(&*self.elements) + size_of_val(&*self.sets)
    }

    fn takes(&self, element: Element, byte: u8) -> bool {
        match element {
            Element::Byte(wanted) => wanted == byte,
            Element::Any | Element::Star => true,
            Element::Of(set) => has(&self.sets[set as usize], byte),
        }
    }

    /// True where `text` begins with `part`.
    fn is_at(&self, part: &[Element], text: &[u8]) -> bool {
        part.iter().zip(text).all(|(element, byte)| self.takes(*element, *byte))
    }

    /// The first place of `part` in `text`.
    fn find(&self, part: &[Element], text: &[u8]) -> Option<usize> {
        if part.len() > text.len() {
            return None;
        }
        if part.len() <= PLACES_MAX {
            return text.windows(part.len()).position(|window| self.is_at(part, window));
        }
        self.find_long(part, text)
    }

    /// Goes through `text` once with a bit for each element of `part`: bit `n` is set if the first
    /// `n + 1` elements match the bytes up to here (the shift-and algorithm).
    fn find_long(&self, part: &[Element], text: &[u8]) -> Option<usize> {
        let words = part.len().div_ceil(64);
        // For each byte the elements that take it.
        let mut takers = vec![0u64; 256 * words];
        for (nth, element) in part.iter().enumerate() {
            let bit = 1 << (nth % 64);
            for byte in 0..=u8::MAX {
                if self.takes(*element, byte) {
                    takers[usize::from(byte) * words + nth / 64] |= bit;
                }
            }
        }
        let mut state = vec![0u64; words];
        let last = part.len() - 1;
        for (at, byte) in text.iter().enumerate() {
            let takers = &takers[usize::from(*byte) * words..][..words];
            let mut carry = 1;
            for (word, takers) in state.iter_mut().zip(takers) {
                let shifted = *word << 1 | carry;
                carry = *word >> 63;
                *word = shifted & takers;
            }
            if state[last / 64] >> (last % 64) & 1 == 1 {
                return Some(at - last);
            }
        }
        None
    }
}

/// The set of the class that `pattern` begins with, and the class's length; an unclosed one reaches
/// to the end of the pattern.
fn class(pattern: &[u8]) -> (Set, usize) {
    let mut set = Set::default();
    let mut add = |byte: u8| set[usize::from(byte / 64)] |= 1 << (byte % 64);
    let mut at = 1;
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    while at < pattern.len() && pattern[at] != b']' {
        if pattern[at] == b'\\' && at + 1 < pattern.len() {
            add(pattern[at + 1]);
            at += 2;
        } else if pattern.get(at + 1) == Some(&b'-') && at + 2 < pattern.len() {
            let (a, b) = (pattern[at], pattern[at + 2]);
            (a.min(b)..=a.max(b)).for_each(&mut add);
            at += 3;
        } else {
            add(pattern[at]);
            at += 1;
        }
    }
    if negated {
        set = set.map(|word| !word);
    }
    (set, (at + 1).min(pattern.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::{Prng, test_size};
    use std::time::{Duration, Instant};

    #[test]
    fn what_matches_begins_like_the_pattern() {
        for (pattern, begins) in [
            ("user:*", "user:"),
            ("a?c", "a"),
            ("*", ""),
            ("", ""),
            ("plain", "plain"),
            ("a[bc]", "a"),
            (r"a\*b*", "a*b"),
            (r"a\", r"a\"),
        ] {
            assert_eq!(
                Pattern::new(pattern.as_bytes()).beginning(),
                begins.as_bytes(),
                "{pattern}"
            );
            assert!(matches(pattern.as_bytes(), begins.as_bytes()) || pattern != begins);
        }
        assert!(matches(br"a\", br"a\") && matches(br"a\*b*", b"a*bc"));
    }

    #[test]
    fn the_usual_patterns() {
        let cases: &[(&str, &str, bool)] = &[
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*c", "abbbc", true),
            ("a*c", "abbbd", false),
            ("*a*b*", "xxaxxbxx", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]", "hb", true),
            ("h[c-a]", "hb", true),
            (r"h\*", "h*", true),
            (r"h\*", "hx", false),
            (r"h[\]]", "h]", true),
            ("h[a", "ha", true),
            ("user:*:name", "user:17:name", true),
        ];
        for (pattern, text, want) in cases {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), *want, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_stay_cheap() {
        let pattern = [b"a*".repeat(5000), b"b".to_vec()].concat();
        assert!(!matches(&pattern, &vec![b'a'; 20_000]));
    }

    /// Redis's `stringmatchlen`, line by line; a byte behind the end is a zero, as in its strings.
    fn redis(mut p: &[u8], mut s: &[u8], skip: &mut bool) -> bool {
        let at = |p: &[u8], n: usize| p.get(n).copied().unwrap_or(0);
        while !p.is_empty() && !s.is_empty() {
            match p[0] {
                b'*' => {
                    while at(p, 1) == b'*' {
                        p = &p[1..];
                    }
                    if p.len() == 1 {
                        return true;
                    }
                    while !s.is_empty() {
                        if redis(&p[1..], s, skip) {
                            return true;
                        }
                        if *skip {
                            return false;
                        }
                        s = &s[1..];
                    }
                    *skip = true;
                    return false;
                }
                b'?' => s = &s[1..],
                b'[' => {
                    p = &p[1..];
                    let not = at(p, 0) == b'^';
                    p = &p[usize::from(not)..];
                    let mut hit = false;
                    loop {
                        if p.len() >= 2 && p[0] == b'\\' {
                            p = &p[1..];
                            hit |= p[0] == s[0];
                        } else if at(p, 0) == b']' || p.is_empty() {
                            break;
                        } else if p.len() >= 3 && p[1] == b'-' {
                            let (start, end) = (p[0].min(p[2]), p[0].max(p[2]));
                            p = &p[2..];
                            hit |= (start..=end).contains(&s[0]);
                        } else {
                            hit |= p[0] == s[0];
                        }
                        p = &p[1..];
                    }
                    if hit == not {
                        return false;
                    }
                    s = &s[1..];
                }
                byte => {
                    let escaped = byte == b'\\' && p.len() >= 2;
                    p = &p[usize::from(escaped)..];
                    if p[0] != s[0] {
                        return false;
                    }
                    s = &s[1..];
                }
            }
            p = p.get(1..).unwrap_or_default();
            if s.is_empty() {
                while at(p, 0) == b'*' {
                    p = &p[1..];
                }
                break;
            }
        }
        p.is_empty() && s.is_empty()
    }

    #[test]
    fn patterns_mean_what_redis_says() {
        let mut random = Prng::new(17);
        let letters = b"aab*?[]^-\\\xff\0";
        for _ in 0..test_size(200_000, 1_000_000, 100_000_000) {
            let mut text = |letters: &[u8], len: u64| -> Vec<u8> {
                (0..random.below(len))
                    .map(|_| letters[random.below(letters.len() as u64) as usize])
                    .collect()
            };
            let (pattern, text) = (text(letters, 12), text(b"ab]-^\xff\0", 8));
            if text.is_empty() {
                continue;
            }
            let want = redis(&pattern, &text, &mut false);
            let (shown, of) = (pattern.escape_ascii(), text.escape_ascii());
            assert_eq!(matches(&pattern, &text), want, "{shown} {of}");
        }
    }

    #[test]
    fn long_parts_are_found_at_their_first_place() {
        let mut random = Prng::new(3);
        let mut found = 0;
        for _ in 0..test_size(300, 3000, 100_000) {
            let part: Vec<u8> =
                (0..65 + random.below(200)).map(|_| b"ab?"[random.below(3) as usize]).collect();
            let text: Vec<u8> =
                (0..random.below(200)).map(|_| b"ab"[random.below(2) as usize]).collect();
            // One of the texts that match stands in the middle.
            let fits: Vec<u8> = part.iter().map(|b| if *b == b'?' { b'b' } else { *b }).collect();
            let text = [&text[..], &fits, &text].concat();
            let pattern = Pattern::new(&part);
            let places = text.windows(part.len());
            let want = places.into_iter().position(|window| pattern.matches(window));
            assert_eq!(pattern.find(&pattern.elements, &text), want);
            found += usize::from(want.is_some());
            assert!(matches(&[b"*", &part[..], b"*"].concat(), &text));
            assert!(!matches(&[b"*", &part[..], b"c*"].concat(), &text));
        }
        assert!(found > 0);
    }

    #[test]
    fn large_classes_and_long_parts_stay_cheap() {
        // What took a loop seconds: each byte of the text was compared with each member.
        let class = [b"*[".to_vec(), b"ab".repeat(25_000), b"]x".to_vec()].concat();
        let pattern = Pattern::new(&class);
        assert!(pattern.held_bytes() < 100, "{} bytes for one set", pattern.held_bytes());
        let text = vec![b'a'; TEXT_BYTES_MAX];
        let start = Instant::now();
        assert!((0..20).all(|_| !pattern.matches(&text)));
        // Half as long as the text, and it fails at its last element everywhere.
        let half = [b"*".to_vec(), b"[a]".repeat(TEXT_BYTES_MAX / 2), b"b*".to_vec()].concat();
        assert!(!matches(&half, &text));
        // It would need more than any text has.
        let long = Pattern::new(&b"?".repeat(1 << 20));
        assert!(!long.matches(&text) && long.held_bytes() < 1 << 20);
        // A hundredth of a second on a quiet machine, more than a minute without sets.
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }
}
