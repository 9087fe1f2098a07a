//! The regular expressions of SQLite's shell: `X REGEXP Y` is true if a part of X is of the pattern
//! Y.
//!
//! `X*`, `X+`, `X?`, `X{p,q}`, `X|Y`, `(X)`, `^`, `$`, `.`, `[abc]`, `[^a-z]`, `\d`, `\s`, `\w`,
//! their opposites in capitals, `\b`, and escapes of single letters. A pattern becomes a machine
//! that is in many states at once: the time is at most the text's length times the pattern's.

/// Repetitions are written out: a pattern becomes at most so many steps.
const STEPS_MAX: usize = 10_000;
/// Parentheses in one another: the parser calls itself.
const DEPTH_MAX: usize = 100;

/// One step of the machine.
#[derive(Debug, Clone)]
enum Step {
    /// A letter of a set, or of all others.
    Letter(Set),
    /// Goes on at both places.
    Fork(usize, usize),
    Start,
    End,
    /// Between a letter of a word and one that is none.
    Border,
    Found,
}

#[derive(Debug, Clone, Default)]
struct Set {
    ranges: Vec<(char, char)>,
    is_inverted: bool,
}

impl Set {
    fn of(ranges: &[(char, char)], is_inverted: bool) -> Self {
        Set { ranges: ranges.to_vec(), is_inverted }
    }

    fn has(&self, letter: char) -> bool {
        let is_in = self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&letter));
        is_in != self.is_inverted
    }
}

fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

const DIGITS: &[(char, char)] = &[('0', '9')];
const SPACES: &[(char, char)] = &[('\t', '\r'), (' ', ' ')];
const WORDS: &[(char, char)] = &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')];

/// The ranges of `\d` and its like.
fn class(letter: char) -> Option<&'static [(char, char)]> {
    match letter.to_ascii_lowercase() {
        'd' => Some(DIGITS),
        's' => Some(SPACES),
        'w' => Some(WORDS),
        _ => None,
    }
}

/// A pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    steps: Vec<Step>,
    ignores_case: bool,
}

struct Parser<'p> {
    rest: std::iter::Peekable<std::str::Chars<'p>>,
    steps: Vec<Step>,
    depth: usize,
    ignores_case: bool,
}

impl Parser<'_> {
    fn push(&mut self, step: Step) -> Result<(), String> {
        if self.steps.len() >= STEPS_MAX {
            return Err("the pattern is too large".into());
        }
        self.steps.push(step);
        Ok(())
    }

    /// Alternatives, up to a closing parenthesis or the end.
    fn alternatives(&mut self) -> Result<(), String> {
        let start = self.steps.len();
        self.sequence()?;
        if self.rest.next_if_eq(&'|').is_none() {
            return Ok(());
        }
        // A fork before the first, and behind it a way past the second.
        let first = self.steps.split_off(start);
        self.push(Step::Fork(0, 0))?;
        self.append(&first, start)?;
        let past = self.steps.len();
        self.push(Step::Fork(0, 0))?;
        self.steps[start] = Step::Fork(start + 1, past + 1);
        self.alternatives()?;
        let end = self.steps.len();
        self.steps[past] = Step::Fork(end, end);
        Ok(())
    }

    /// Appends steps that were cut off at `from`, with their places moved.
    fn append(&mut self, steps: &[Step], from: usize) -> Result<(), String> {
        let by = self.steps.len() - from;
        for step in steps {
            let step = match step {
                Step::Fork(one, other) => Step::Fork(one + by, other + by),
                other => other.clone(),
            };
            self.push(step)?;
        }
        Ok(())
    }

    fn sequence(&mut self) -> Result<(), String> {
        while let Some(letter) = self.rest.next_if(|letter| !matches!(letter, '|' | ')')) {
            let start = self.steps.len();
            self.one(letter)?;
            self.repetitions(start)?;
        }
        Ok(())
    }

    fn one(&mut self, letter: char) -> Result<(), String> {
        match letter {
            '(' => {
                self.depth += 1;
                if self.depth > DEPTH_MAX {
                    return Err("too many parentheses in one another".into());
                }
                self.alternatives()?;
                self.depth -= 1;
                self.rest.next_if_eq(&')').map(|_| ()).ok_or_else(|| "unmatched '('".into())
            }
            '.' => self.push(Step::Letter(Set::of(&[], true))),
            '^' => self.push(Step::Start),
            '$' => self.push(Step::End),
            '[' => self.set(),
            '*' | '+' | '?' => Err(format!("'{letter}' without operand")),
            '\\' => {
                let escaped = self.escaped()?;
                match class(escaped) {
                    _ if escaped == 'b' => self.push(Step::Border),
                    Some(ranges) => {
                        self.push(Step::Letter(Set::of(ranges, escaped.is_uppercase())))
                    }
                    None => self.letter(self::letter_of(escaped)),
                }
            }
            letter => self.letter(letter),
        }
    }

    fn letter(&mut self, letter: char) -> Result<(), String> {
        let letter = if self.ignores_case { lower(letter) } else { letter };
        self.push(Step::Letter(Set::of(&[(letter, letter)], false)))
    }

    fn escaped(&mut self) -> Result<char, String> {
        self.rest.next().ok_or_else(|| "a backslash at the end".into())
    }

    fn set(&mut self) -> Result<(), String> {
        let is_inverted = self.rest.next_if_eq(&'^').is_some();
        let mut ranges = Vec::new();
        let mut is_first = true;
        loop {
            let letter = self.rest.next().ok_or("unclosed '['")?;
            if letter == ']' && !is_first {
                break;
            }
            is_first = false;
            let mut first = letter;
            if letter == '\\' {
                first = self.escaped()?;
                if let Some(of_class) = class(first).filter(|_| first.is_lowercase()) {
                    ranges.extend_from_slice(of_class);
                    continue;
                }
                first = letter_of(first);
            }
            let mut ahead = self.rest.clone();
            let is_range = ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']');
            if !is_range {
                ranges.push((first, first));
                continue;
            }
            self.rest.next();
            let last = match self.rest.next().ok_or("unclosed '['")? {
                '\\' => letter_of(self.escaped()?),
                last => last,
            };
            ranges.push((first, last));
        }
        if self.ignores_case {
            let folded: Vec<_> = ranges.iter().flat_map(|range| folded(*range)).collect();
            ranges.extend(folded);
        }
        self.push(Step::Letter(Set { ranges, is_inverted }))
    }

    /// What stands behind the steps from `start` on and repeats them.
    fn repetitions(&mut self, start: usize) -> Result<(), String> {
        while let Some(sign) = self.rest.next_if(|sign| matches!(sign, '*' | '+' | '?' | '{')) {
            let (least, most) = match sign {
                '*' => (0, None),
                '+' => (1, None),
                '?' => (0, Some(1)),
                _ => self.counts()?,
            };
            let steps = self.steps.split_off(start);
            for _ in 0..least {
                self.append(&steps, start)?;
            }
            match most {
                None => {
                    let fork = self.steps.len();
                    self.push(Step::Fork(0, 0))?;
                    self.append(&steps, start)?;
                    self.push(Step::Fork(fork, fork))?;
                    self.steps[fork] = Step::Fork(fork + 1, self.steps.len());
                }
                Some(most) => {
                    for _ in least..most {
                        let fork = self.steps.len();
                        self.push(Step::Fork(0, 0))?;
                        self.append(&steps, start)?;
                        self.steps[fork] = Step::Fork(fork + 1, self.steps.len());
                    }
                }
            }
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Option<usize>, String> {
        let mut number = None;
        while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
            let all = 10 * number.unwrap_or(0) + digit as usize - '0' as usize;
            if all > STEPS_MAX {
                return Err("the pattern is too large".into());
            }
            number = Some(all);
        }
        Ok(number)
    }

    /// The counts of `{p}`, `{p,}` or `{p,q}`, whose brace was read.
    fn counts(&mut self) -> Result<(usize, Option<usize>), String> {
        let least = self.number()?.ok_or("'{' without a number")?;
        let most = match self.rest.next_if_eq(&',') {
            Some(_) => self.number()?,
            None => Some(least),
        };
        if self.rest.next() != Some('}') {
            return Err("unmatched '{'".into());
        }
        if most.is_some_and(|most| most < least) {
            return Err("'{p,q}' with q below p".into());
        }
        Ok((least, most))
    }
}

/// The letter that an escape stands for.
fn letter_of(escaped: char) -> char {
    match escaped {
        'a' => '\x07',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        other => other,
    }
}

/// The lower-case letters of a range, of the Latin alphabet's capitals.
fn folded((first, last): (char, char)) -> Option<(char, char)> {
    let (first, last) = (first.max('A'), last.min('Z'));
    (first <= last).then(|| (first.to_ascii_lowercase(), last.to_ascii_lowercase()))
}

fn lower(letter: char) -> char {
    letter.to_ascii_lowercase()
}

/// States that the machine is in, each once.
#[derive(Default)]
struct States {
    list: Vec<usize>,
    has: Vec<bool>,
}

impl States {
    fn clear(&mut self, len: usize) {
        self.list.clear();
        self.has.clear();
        self.has.resize(len, false);
    }
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(super) fn new(text: &str, ignores_case: bool) -> Result<Self, String> {
        let (rest, steps) = (text.chars().peekable(), Vec::new());
        let mut parser = Parser { rest, steps, depth: 0, ignores_case };
        parser.alternatives()?;
        if parser.rest.next().is_some() {
            return Err("unmatched ')'".into());
        }
        parser.push(Step::Found)?;
        Ok(Pattern { steps: parser.steps, ignores_case })
    }

    /// True if a part of `text` is of the pattern.
    pub(super) fn matches(&self, text: &str) -> bool {
        let (mut now, mut next) = (States::default(), States::default());
        now.clear(self.steps.len());
        let mut pending = Vec::new();
        let (mut before, mut letters) = (None, text.chars().peekable());
        loop {
            let ahead = letters.peek().copied();
            if self.enter(&mut now, &mut pending, 0, (before, ahead)) {
                return true;
            }
            let Some(letter) = letters.next() else { return false };
            let compared = if self.ignores_case { lower(letter) } else { letter };
            next.clear(self.steps.len());
            let around = (Some(letter), letters.peek().copied());
            for at in &now.list {
                let Step::Letter(set) = &self.steps[*at] else { continue };
                if set.has(compared) && self.enter(&mut next, &mut pending, at + 1, around) {
                    return true;
                }
            }
            before = Some(letter);
            std::mem::swap(&mut now, &mut next);
        }
    }

    /// Enters a state and those that it leads to without a letter, between the two letters
    /// `around`; true if one of them is the last.
    fn enter(
        &self,
        states: &mut States,
        pending: &mut Vec<usize>,
        first: usize,
        around: (Option<char>, Option<char>),
    ) -> bool {
        pending.clear();
        pending.push(first);
        while let Some(at) = pending.pop() {
            if std::mem::replace(&mut states.has[at], true) {
                continue;
            }
            let (before, ahead) = around;
            match &self.steps[at] {
                Step::Found => return true,
                Step::Letter(_) => states.list.push(at),
                Step::Fork(one, other) => pending.extend([*other, *one]),
                Step::Start if before.is_none() => pending.push(at + 1),
                Step::End if ahead.is_none() => pending.push(at + 1),
                Step::Border if before.is_some_and(is_of_word) != ahead.is_some_and(is_of_word) => {
                    pending.push(at + 1);
                }
                Step::Start | Step::End | Step::Border => {}
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern, false).expect(pattern).matches(text)
    }

    #[test]
    fn patterns_find_what_they_say() {
        for (pattern, yes, no) in [
            ("", &["", "a"][..], &[][..]),
            ("b", &["b", "abc"], &["", "a", "B"]),
            ("^a.c$", &["abc", "aßc"], &["abcd", "ac", "xabc"]),
            ("^(ab|c)*d$", &["d", "ababd", "cabd"], &["ad", "abdx"]),
            ("^a|b$", &["ax", "xb"], &["xa", "bx"]),
            ("a|b|c", &["xc", "b"], &["x"]),
            ("^a+$", &["a", "aaa"], &["", "ab"]),
            ("^ab?c$", &["ac", "abc"], &["abbc"]),
            ("^a{2,3}$", &["aa", "aaa"], &["a", "aaaa"]),
            ("^a{2}$", &["aa"], &["a", "aaa"]),
            ("^(ab){2,}$", &["abab", "ababab"], &["ab"]),
            ("^a{0}b$", &["b"], &["ab"]),
            ("[^a-c]", &["d", "ad"], &["abc", ""]),
            ("^[]a]$", &["]", "a"], &["b"]),
            ("^[a-]$", &["a", "-"], &["b"]),
            (r"^\d+\s\w+$", &["12 ab_1"], &["12ab", "a b"]),
            (r"^[\d.]+$", &["1.5"], &["1a"]),
            (r"^\D\S\W$", &["ab!"], &["1b!", "a !", "abc"]),
            (r"\bcat\b", &["a cat!", "cat"], &["cats", "bobcat"]),
            (r"a\.b", &["a.b"], &["axb"]),
            (r"a\nb", &["a\nb"], &["anb"]),
            ("(a*)*b", &["aaab", "b"], &["aaaa"]),
            ("()", &["", "x"], &[]),
        ] {
            for text in yes {
                assert!(found(pattern, text), "{pattern} in {text}");
            }
            for text in no {
                assert!(!found(pattern, text), "{pattern} in {text}");
            }
        }
    }

    #[test]
    fn case_is_ignored_if_that_is_asked_for() {
        for (pattern, text) in
            [("aBc", "xABCx"), (r"\A", "xa"), ("^[A-C]+$", "abcABC"), (r"^\D+$", "AB")]
        {
            assert!(Pattern::new(pattern, true).expect(pattern).matches(text), "{pattern}");
        }
        assert!(!Pattern::new("[^A-C]", true).expect("a pattern").matches("aB"));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for pattern in
            ["(", ")", "a)", "(){99999999}", "[a", "*", "+a", "a{", "a{x}", "a{3,2}", "\\", "[\\"]
        {
            assert!(Pattern::new(pattern, false).is_err(), "{pattern}");
        }
        assert!(Pattern::new(&"(".repeat(1000), false).is_err());
        assert!(Pattern::new("(((a{100}){100}){100}){100}", false).is_err());
        assert!(Pattern::new("a{99999999999999999999}", false).is_err());
    }

    #[test]
    fn no_pattern_takes_long() {
        let text = "a".repeat(10_000);
        assert!(!found("^(a*)*(a|aa)*(a?){30}b$", &text));
    }
}
