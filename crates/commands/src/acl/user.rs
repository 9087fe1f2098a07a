//! A user: what it may do, and the words that say so.

use crate::budget::Share;
use crate::clients::DEFAULT_USER;
use crate::glob::Pattern;
use crate::table::{CATEGORIES, COMMANDS, Command};
use crate::unsupported;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The SHA-256 of a password, which is all that is kept of it.
pub(super) type Hash = [u8; 32];

/// Keys that a user may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyPattern {
    pub(crate) pattern: Vec<u8>,
    pub(crate) compiled: Pattern,
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl KeyPattern {
    fn shown(&self) -> Vec<u8> {
        let prefix = match (self.read, self.write) {
            (true, false) => "%R~",
            (false, true) => "%W~",
            _ => "~",
        };
        [prefix.as_bytes(), &self.pattern].concat()
    }
}

/// A user. A new one may do nothing.
#[derive(Debug, Clone, Default)]
pub struct User {
    pub(crate) name: Arc<str>,
    pub(crate) enabled: bool,
    /// Any password is right.
    pub(crate) no_password: bool,
    hashes: Vec<Hash>,
    pub(super) all_keys: bool,
    pub(super) keys: Vec<KeyPattern>,
    pub(super) all_channels: bool,
    pub(super) channels: Vec<Vec<u8>>,
    /// Every command; `commands` are then all that there are.
    pub(super) all_commands: bool,
    pub(super) commands: BTreeSet<&'static str>,
    /// What gave and took commands, after the first rule for all of them.
    rules: Vec<String>,
    base_all: bool,
    /// What it may besides: a request that one of them permits as a whole runs. They have neither
    /// names nor passwords.
    pub(super) selectors: Vec<User>,
    /// What it takes of the clients' memory, if a client has made it.
    pub(super) kept: Option<Arc<Share>>,
}

const ALL_KEYS: &str = "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid \
                        and does not have any effect. Try 'resetkeys' to start with an empty list \
                        of patterns";
const ALL_CHANNELS: &str = "Adding a pattern after the * pattern (or the 'allchannels' flag) is \
                            not valid and does not have any effect. Try 'resetchannels' to start \
                            with an empty list of channels";
const UNKNOWN: &str = "Unknown command or category name in ACL";
const BAD_HASH: &str = "The password hash must be exactly 64 characters and contain only \
                        lowercase hexadecimal characters";
const NO_SUCH_PASSWORD: &str = "The password you are trying to remove from the user does not exist";
const SYNTAX: &str = "Syntax error";

/// Words of ACL SETUSER, of which those of a selector (in parentheses) become one; or the word
/// whose parenthesis is never closed.
pub(super) fn joined<'w>(
    words: impl Iterator<Item = &'w [u8]>,
) -> Result<Vec<Cow<'w, [u8]>>, &'w [u8]> {
    let mut all = Vec::new();
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for word in words {
        let (first, mut so_far) = match open.take() {
            None if word.starts_with(b"(") => (word, word.to_vec()),
            None => {
                all.push(Cow::Borrowed(word));
                continue;
            }
            Some((first, so_far)) => (first, [&so_far, &b" "[..], word].concat()),
        };
        match so_far.ends_with(b")") {
            true => all.push(Cow::Owned(std::mem::take(&mut so_far))),
            false => open = Some((first, so_far)),
        }
    }
    open.map_or(Ok(all), |(first, _)| Err(first))
}

/// Every command and subcommand.
pub(super) fn all_commands() -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().flat_map(|command| std::iter::once(command).chain(command.subs))
}

/// A pattern that a line can hold.
fn pattern(bytes: &[u8]) -> Result<&[u8], &'static str> {
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || [0, 0x0B].contains(byte);
    if bytes.iter().any(is_space) { Err(SYNTAX) } else { Ok(bytes) }
}

fn hash(password: &[u8]) -> Hash {
    Sha256::digest(password).into()
}

/// The hash that 64 hexadecimal digits stand for.
fn parse_hash(text: &[u8]) -> Option<Hash> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = text.as_chunks::<2>() else { return None };
    let bytes: Option<Vec<u8>> =
        pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
    bytes?.try_into().ok()
}

impl User {
    /// A user who may do nothing and has no password.
    pub(crate) fn new(name: &str) -> Self {
        User { name: name.into(), ..User::default() }
    }

    /// The user who everybody is at first: may do everything, without a password or with this.
    pub(crate) fn default_with(password: Option<&[u8]>) -> Self {
        let mut user = User::new(DEFAULT_USER);
        for word in ["on", "allkeys", "allchannels", "allcommands"] {
            user.apply(word.as_bytes()).expect("these words are known");
        }
        match password {
            Some(password) => user.hashes.push(hash(password)),
            None => user.no_password = true,
        }
        user
    }

    /// True where whoever says nothing is this user.
    pub fn lets_in(&self) -> bool {
        self.enabled && self.no_password
    }

    /// True where nothing has to be asked.
    pub fn is_unlimited(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels
    }

    /// True where `given` is one of its passwords. Takes as long for a wrong one as for a right.
    pub(crate) fn knows(&self, given: &[u8]) -> bool {
        let given = hash(given);
        let found = self
            .hashes
            .iter()
            .fold(false, |found, known| found | crate::password::same(&given, known));
        self.no_password || found
    }

    pub(crate) fn has_passwords(&self) -> bool {
        !self.hashes.is_empty()
    }

    /// Does what a word of ACL SETUSER says, or says what is wrong with it.
    pub(crate) fn apply(&mut self, word: &[u8]) -> Result<(), &'static str> {
        match &word.to_ascii_lowercase()[..] {
            b"on" => self.enabled = true,
            b"off" => self.enabled = false,
            b"nopass" => {
                self.no_password = true;
                self.hashes.clear();
            }
            b"resetpass" => {
                self.no_password = false;
                self.hashes.clear();
            }
            b"allkeys" => self.add_keys(b"*", true, true)?,
            b"resetkeys" => {
                self.all_keys = false;
                self.keys.clear();
            }
            b"allchannels" => self.add_channels(b"*")?,
            b"resetchannels" => {
                self.all_channels = false;
                self.channels.clear();
            }
            b"allcommands" => self.set_all(true),
            b"nocommands" => self.set_all(false),
            b"reset" => *self = User::new(&self.name),
            // There are no payloads that could be unsafe.
            b"sanitize-payload" | b"skip-sanitize-payload" => {}
            b"clearselectors" => self.selectors.clear(),
            _ => return self.apply_prefixed(word),
        }
        Ok(())
    }

    fn apply_prefixed(&mut self, word: &[u8]) -> Result<(), &'static str> {
        let Some((prefix, rest)) = word.split_first() else { return Err(SYNTAX) };
        match prefix {
            b'>' => self.add_hash(hash(rest)),
            b'#' => self.add_hash(parse_hash(rest).ok_or(BAD_HASH)?),
            b'<' => return self.remove_hash(hash(rest)),
            b'!' => return self.remove_hash(parse_hash(rest).ok_or(BAD_HASH)?),
            b'~' => return self.add_keys(pattern(rest)?, true, true),
            b'%' => return self.add_some_keys(pattern(rest)?),
            b'&' => return self.add_channels(pattern(rest)?),
            b'+' => return self.give(rest, true),
            b'-' => return self.give(rest, false),
            b'(' => return self.add_selector(rest.strip_suffix(b")").ok_or(SYNTAX)?),
            _ => return Err(SYNTAX),
        }
        Ok(())
    }

    /// Adds what the words of a selector permit.
    fn add_selector(&mut self, words: &[u8]) -> Result<(), &'static str> {
        let mut selector = User::default();
        for word in words.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
            let known: &[&[u8]] = &[
                b"allkeys",
                b"resetkeys",
                b"allchannels",
                b"resetchannels",
                b"allcommands",
                b"nocommands",
            ];
            let is_whole = known.contains(&&word.to_ascii_lowercase()[..]);
            // A word that ends like the selector would end it where its line is read again.
            if !is_whole && (!b"~%&+-".contains(&word[0]) || word.ends_with(b")")) {
                return Err(SYNTAX);
            }
            selector.apply(word)?;
        }
        self.selectors.push(selector);
        Ok(())
    }

    /// Its selectors.
    pub(crate) fn selectors(&self) -> &[User] {
        &self.selectors
    }

    fn add_hash(&mut self, hash: Hash) {
        self.no_password = false;
        if !self.hashes.contains(&hash) {
            self.hashes.push(hash);
        }
    }

    fn remove_hash(&mut self, hash: Hash) -> Result<(), &'static str> {
        let place = self.hashes.iter().position(|known| *known == hash).ok_or(NO_SUCH_PASSWORD)?;
        self.hashes.remove(place);
        Ok(())
    }

    /// `R~pattern`, `W~pattern` or `RW~pattern`.
    fn add_some_keys(&mut self, word: &[u8]) -> Result<(), &'static str> {
        let tilde = word.iter().position(|byte| *byte == b'~').ok_or(SYNTAX)?;
        let letters = word[..tilde].to_ascii_uppercase();
        if letters.is_empty() || !letters.iter().all(|letter| b"RW".contains(letter)) {
            return Err(SYNTAX);
        }
        self.add_keys(&word[tilde + 1..], letters.contains(&b'R'), letters.contains(&b'W'))
    }

    fn add_keys(&mut self, pattern: &[u8], read: bool, write: bool) -> Result<(), &'static str> {
        let is_all = pattern == b"*" && read && write;
        if self.all_keys && !is_all {
            return Err(ALL_KEYS);
        }
        if is_all {
            self.all_keys = true;
            self.keys.clear();
        } else if let Some(known) = self.keys.iter_mut().find(|known| known.pattern == pattern) {
            known.read |= read;
            known.write |= write;
        } else {
            let compiled = Pattern::new(pattern);
            self.keys.push(KeyPattern { pattern: pattern.to_vec(), compiled, read, write });
        }
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), &'static str> {
        let is_all = pattern == b"*";
        if self.all_channels && !is_all {
            return Err(ALL_CHANNELS);
        }
        if is_all {
            self.all_channels = true;
            self.channels.clear();
        } else if !self.channels.iter().any(|known| known == pattern) {
            self.channels.push(pattern.to_vec());
        }
        Ok(())
    }

    fn set_all(&mut self, yes: bool) {
        self.rules.clear();
        self.base_all = yes;
        self.all_commands = yes;
        self.commands =
            if yes { all_commands().map(|c| c.name).collect() } else { BTreeSet::new() };
    }

    /// Gives or takes a command, a subcommand or a category (`@read`). A rule about a command that
    /// only Redis has is kept, and changes nothing: nobody can run it.
    fn give(&mut self, word: &[u8], yes: bool) -> Result<(), &'static str> {
        let word = std::str::from_utf8(word).map_err(|_| UNKNOWN)?.to_ascii_lowercase();
        if word == "@all" {
            self.set_all(yes);
            return Ok(());
        }
        let belongs = |command: &Command| match word.strip_prefix('@') {
            Some(category) => command.categories().contains(&category),
            None => {
                let rest = command.name.strip_prefix(word.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('|'))
            }
        };
        let meant: Vec<&'static str> =
            all_commands().filter(|command| belongs(command)).map(|command| command.name).collect();
        let is_category = word.strip_prefix('@').is_some_and(|name| CATEGORIES.contains(&name));
        if meant.is_empty() && !is_category && !unsupported::is_known(&word) {
            return Err(UNKNOWN);
        }
        for name in meant {
            if yes {
                self.commands.insert(name);
            } else {
                self.commands.remove(name);
            }
        }
        self.all_commands = self.commands.len() == all_commands().count();
        // A rule for the same, or for a subcommand of it, has no effect any more.
        self.rules.retain(|rule| {
            let rest = rule[1..].strip_prefix(word.as_str());
            !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('|'))
        });
        self.rules.push(format!("{}{word}", if yes { '+' } else { '-' }));
        Ok(())
    }

    /// What it may run, as ACL GETUSER shows it.
    pub(crate) fn commands_shown(&self) -> String {
        let base = if self.base_all { "+@all" } else { "-@all" };
        std::iter::once(base)
            .chain(self.rules.iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Its keys, as ACL GETUSER shows them.
    pub(crate) fn keys_shown(&self) -> Vec<u8> {
        match self.all_keys {
            true => b"~*".to_vec(),
            false => self.keys.iter().map(KeyPattern::shown).collect::<Vec<_>>().join(&b' '),
        }
    }

    /// Its channels, as ACL GETUSER shows them.
    pub(crate) fn channels_shown(&self) -> Vec<u8> {
        let shown = |pattern: &Vec<u8>| [b"&", &pattern[..]].concat();
        match self.all_channels {
            true => b"&*".to_vec(),
            false => self.channels.iter().map(shown).collect::<Vec<_>>().join(&b' '),
        }
    }

    /// Its passwords' hashes in hexadecimal digits.
    pub(crate) fn hashes_shown(&self) -> Vec<String> {
        let digits = |hash: &Hash| hash.iter().map(|byte| format!("{byte:02x}")).collect();
        self.hashes.iter().map(digits).collect()
    }

    /// The line of ACL LIST and of the file.
    pub(crate) fn line(&self) -> Vec<u8> {
        let mut words: Vec<Vec<u8>> = vec![b"user".to_vec(), self.name.as_bytes().to_vec()];
        words.push(if self.enabled { b"on".to_vec() } else { b"off".to_vec() });
        if self.no_password {
            words.push(b"nopass".to_vec());
        }
        words.extend(self.hashes_shown().into_iter().map(|hash| format!("#{hash}").into_bytes()));
        words.push(self.rights_shown());
        let shown = |selector: &User| [b"(", &selector.rights_shown()[..], b")"].concat();
        words.extend(self.selectors.iter().map(shown));
        words.join(&b' ')
    }

    /// Keys, channels and commands, as ACL LIST shows them.
    fn rights_shown(&self) -> Vec<u8> {
        let reset = if self.all_channels { &b""[..] } else { b"resetchannels" };
        let mut words = vec![
            self.keys_shown(),
            reset.to_vec(),
            self.channels_shown(),
            self.commands_shown().into_bytes(),
        ];
        words.retain(|word| !word.is_empty());
        words.join(&b' ')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(words: &str) -> User {
        let mut user = User::new("u");
        let words = joined(words.split(' ').map(str::as_bytes)).unwrap();
        words.iter().for_each(|word| user.apply(word).unwrap());
        user
    }

    #[test]
    fn a_line_makes_the_same_user() {
        for words in [
            "reset",
            "on nopass allkeys allchannels +@all",
            "on >a >b <a ~x* %R~r %W~w &c1 &c* +@string -set +client -client|kill",
            "+@all -@dangerous +info",
            "+@read -@all +get",
            "on nopass ~a* +get (+set ~b*) (%R~c* &x +@read -get) ()",
        ] {
            let first = user(words);
            let line = String::from_utf8(first.line()).unwrap();
            let rest = line.strip_prefix("user u ").unwrap();
            let second = user(rest);
            assert_eq!(second.selectors.len(), first.selectors.len());
            assert_eq!(second.line(), first.line());
            assert_eq!(second.commands, first.commands, "{words}");
            assert_eq!(second.keys, first.keys);
        }
    }

    const WORDS: &[&[u8]] = &[
        b"on",
        b"off",
        b"nopass",
        b"resetpass",
        b"allkeys",
        b"resetkeys",
        b"allchannels",
        b"resetchannels",
        b"allcommands",
        b"nocommands",
        b">a",
        b"<a",
        b">b",
        b"#ab",
        b"~a*",
        b"~a b",
        b"~x\nuser evil on",
        b"%R~r",
        b"%W~r",
        b"%RW~*",
        b"%~x",
        b"~*",
        b"&c",
        b"&*",
        b"&c\0",
        b"+get",
        b"-get",
        b"+@read",
        b"-@all",
        b"+@all",
        b"-@write",
        b"+client",
        b"-hset",
        b"+hset",
        b"-client|id",
        b"+client|id",
        b"-client",
        b"",
        b"%",
        b"+",
        b"@",
        b"~",
        b"&",
        b"+@",
        b"(~s* +set)",
        b"( %R~r &c +@read -get )",
        b"(~s))",
        b"(~( +get)",
        b"(on)",
        b"()",
        b"clearselectors",
    ];

    /// Words of all kinds, right and wrong, in any order: whoever comes out of them comes out of
    /// its line again.
    #[test]
    fn no_words_make_a_user_that_a_line_cannot_hold() {
        let mut random = silica_base::Prng::new(5);
        for _ in 0..silica_base::test_size(3000, 20_000, 10_000_000) {
            let mut first = User::new("u");
            for _ in 0..random.below(12) {
                // Some are refused; those change nothing.
                let before = first.line();
                let word = WORDS[random.below(WORDS.len() as u64) as usize];
                if first.apply(word).is_err() {
                    assert_eq!(first.line(), before);
                }
            }
            let mut second = User::new("u");
            let line = first.line();
            for word in joined(line.split(|byte| *byte == b' ').skip(2)).unwrap() {
                second.apply(&word).unwrap();
            }
            assert_eq!(second.line(), first.line());
            assert_eq!(second.commands, first.commands, "{}", first.line().escape_ascii());
            assert_eq!(
                (second.all_commands, second.all_keys),
                (first.all_commands, first.all_keys)
            );
        }
    }

    #[test]
    fn commands_are_given_and_taken() {
        let names = |words| user(words).commands.into_iter().collect::<Vec<_>>();
        assert_eq!(names("+get +client|id"), ["client|id", "get"]);
        assert_eq!(names("+object -object|freq -object|help -object|idletime").len(), 3);
        assert!(names("+@all -@write").contains(&"get"));
        assert!(!names("+@all -@write").contains(&"set"));
        assert!(names("+@all -get +@read").contains(&"get"));
        assert!(user("+@all").all_commands && !user("+@all -get").all_commands);
        assert!(names("+@hash").contains(&"hset") && !names("+@hash").contains(&"sadd"));
        let mut one = user("on");
        assert_eq!(names("+hset -lpush +xinfo|stream"), ["hset", "xinfo|stream"]);
        assert!(names("+bgrewriteaof -bgrewriteaof").is_empty());
        assert!(user("+@all -bgrewriteaof").all_commands, "what is not there need not be denied");
        assert_eq!(user("+@all -hset +lpush").commands_shown(), "+@all -hset +lpush");
        for wrong in ["+nope", "+@nope", "-client|nope", "+get|x"] {
            assert_eq!(one.apply(wrong.as_bytes()), Err(UNKNOWN), "{wrong}");
        }
    }

    #[test]
    fn words_in_parentheses_are_joined() {
        let all = |line: &'static str| {
            let words = joined(line.split(' ').map(str::as_bytes));
            words.map(|words| words.iter().map(|w| w.escape_ascii().to_string()).collect())
        };
        let words = |words: &[&str]| Ok(words.iter().map(|w| (*w).to_string()).collect::<Vec<_>>());
        assert_eq!(all("on (+get ~x) (+set) ~y)"), words(&["on", "(+get ~x)", "(+set)", "~y)"]));
        assert_eq!(all("on (+get ~x"), Err(&b"(+get"[..]));
    }

    #[test]
    fn passwords_are_kept_as_hashes() {
        let one = user("on >secret");
        assert!(one.knows(b"secret") && !one.knows(b"Secret") && !one.knows(b""));
        // From the standard's own example: "abc".
        let abc = user("#ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert!(abc.knows(b"abc"));
        assert!(!format!("{one:?}").contains("secret"));
        assert!(user("nopass").knows(b"any") && !user("nopass resetpass").knows(b"any"));
        assert!(!user(">x <x").knows(b"x"));
    }
}
