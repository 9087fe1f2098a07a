//! Glob patterns as KEYS, SCAN and CONFIG GET know them.

/// True where `text` matches `pattern`: `*`, `?`, `[a-z]`, `[^a]`, and `\` before any of them.
///
/// Only the last star is ever retried, so the work is at most the product of both lengths.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            p += 1;
            retry = Some((p, t));
            continue;
        }
        let step = match text.get(t) {
            Some(byte) if p < pattern.len() => one(&pattern[p..], *byte),
            Some(_) => None,
            None if p == pattern.len() => return true,
            None => return false,
        };
        match (step, retry) {
            (Some(len), _) => {
                p += len;
                t += 1;
            }
            (None, Some((after_star, from))) => {
                retry = Some((after_star, from + 1));
                (p, t) = (after_star, from + 1);
            }
            (None, None) => return false,
        }
    }
}

/// What every text that matches `pattern` begins with.
pub(crate) fn beginning(pattern: &[u8]) -> Vec<u8> {
    let (mut plain, mut rest) = (Vec::new(), pattern);
    loop {
        rest = match rest {
            [] | [b'*' | b'?' | b'[', ..] => return plain,
            [b'\\', escaped, rest @ ..] => {
                plain.push(*escaped);
                rest
            }
            [byte, rest @ ..] => {
                plain.push(*byte);
                rest
            }
        }
    }
}

/// Matches `byte` against the first element of `pattern`; returns that element's length.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    let (hit, len) = match pattern {
        [b'?', ..] => (true, 1),
        [b'[', ..] => class(pattern, byte),
        [b'\\', escaped, ..] => (*escaped == byte, 2),
        [plain, ..] => (*plain == byte, 1),
        [] => return None,
    };
    hit.then_some(len)
}

/// Matches a bracket class; an unclosed one reaches to the end of the pattern.
fn class(pattern: &[u8], byte: u8) -> (bool, usize) {
    let mut at = 1;
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut hit = false;
    while at < pattern.len() && pattern[at] != b']' {
        if pattern[at] == b'\\' && at + 1 < pattern.len() {
            hit |= pattern[at + 1] == byte;
            at += 2;
        } else if pattern.get(at + 1) == Some(&b'-') && at + 2 < pattern.len() {
            let (a, b) = (pattern[at], pattern[at + 2]);
            hit |= (a.min(b)..=a.max(b)).contains(&byte);
            at += 3;
        } else {
            hit |= pattern[at] == byte;
            at += 1;
        }
    }
    (hit != negated, (at + 1).min(pattern.len()))
}

#[cfg(test)]
mod tests {
    use super::{beginning, matches};

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
            assert_eq!(beginning(pattern.as_bytes()), begins.as_bytes(), "{pattern}");
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
}
