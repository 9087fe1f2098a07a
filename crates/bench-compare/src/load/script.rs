//! What a connection says, and what it must hear.

use super::{Load, Sets, Speech};
use silica::Error;
use silica_base::Prng;
use silica_proto::datagram::{Reply, Request};
use std::ops::Range;

/// Requests that all connections together have before they begin again.
const REQUESTS: usize = 1 << 17;
/// Sets of a train while the store is filled.
const FILL_DEPTH: usize = 64;
/// Sets of a datagram, which holds no more, while the store is filled.
const FILL_DATAGRAM: usize = 16;
/// One request in this many is a set.
const SETS: u64 = 20;
/// Before the number of a key; some servers take no key that is all digits for anything else.
const KEY_PREFIX: &str = "key:";
/// Before the number of a short key, and how long other keys are at least.
const SHORT_PREFIX: &str = "k";
const LONG_KEY_BYTES: usize = 12;

/// What a server that has lost an entry says instead of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Miss {
    /// It may not be lost.
    Never,
    /// RESP's null.
    Null,
    /// Nothing at all.
    Silence,
    /// The reply of our datagram protocol.
    Missing,
}

impl Miss {
    fn words(self) -> &'static [u8] {
        match self {
            Miss::Null => b"$-1\r\n",
            Miss::Missing => &[1, 0, 0, 0],
            Miss::Never | Miss::Silence => b"",
        }
    }
}

/// A part of a reply that is there or is missed.
#[derive(Debug, Clone, Copy)]
struct Unit {
    /// Its end among all replies.
    end: u32,
    miss: Miss,
}

/// Requests that leave together.
#[derive(Debug, Clone)]
struct Train {
    requests: Range<usize>,
    replies: Range<usize>,
    units: Range<usize>,
    operations: u64,
}

/// What came of a train so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// More must come.
    Part,
    /// Everything, with so many misses.
    All(u64),
    /// Everything, with so many misses, and something behind it, from this byte on.
    More(u64, usize),
    /// What the server never should have said, from this byte on.
    Nonsense(usize),
}

/// All trains of a connection, in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    requests: Vec<u8>,
    replies: Vec<u8>,
    units: Vec<Unit>,
    trains: Vec<Train>,
}

impl Script {
    /// The scripts of `load` over `keys` keys.
    pub(crate) fn of_load(load: &Load, keys: u64, shape: (usize, usize)) -> Vec<Script> {
        Self::part_of_load(load, keys, shape, 0)
    }

    /// Part `part` of a load that is longer than the scripts of one.
    pub(crate) fn part_of_load(
        load: &Load,
        keys: u64,
        shape: (usize, usize),
        part: u64,
    ) -> Vec<Script> {
        let together = load.together();
        let trains = (REQUESTS / load.connections / together).max(1);
        let each = |connection| {
            let seed = part * load.connections as u64 + connection as u64 + 1;
            let mut random = Prng::new(seed);
            let mut script = Script::default();
            for _ in 0..trains {
                script.train(together, |script| script.request(load, &mut random, keys, shape));
            }
            script
        };
        (0..load.connections).map(each).collect()
    }

    /// Scripts that put every key of `keys`.
    pub(crate) fn of_fill(load: &Load, keys: Range<u64>, shape: (usize, usize)) -> Vec<Script> {
        let each = |connection| {
            let mut script = Script::default();
            let first = keys.start + connection as u64;
            let mine: Vec<u64> = (first..keys.end).step_by(load.connections).collect();
            let together = match load.speech {
                Speech::TextDatagrams => 1,
                Speech::Datagrams(_) => FILL_DATAGRAM,
                _ => FILL_DEPTH,
            };
            for keys in mine.chunks(together) {
                let mut keys = keys.iter();
                script.train(keys.len(), |script| {
                    keys.next().map_or(0, |key| script.set(load.speech, *key, shape))
                });
            }
            script
        };
        (0..load.connections).map(each).collect()
    }

    /// Scripts of `depth` messages of `bytes` bytes that come back as they were.
    pub(crate) fn of_echo(connections: usize, depth: usize, bytes: usize) -> Vec<Script> {
        let mut script = Script::default();
        script.train(depth, |script| {
            script.requests.resize(script.requests.len() + bytes, 7);
            script.replies.resize(script.replies.len() + bytes, 7);
            script.unit(Miss::Never);
            1
        });
        vec![script; connections]
    }

    /// Scripts of the same request and the same reply, each a train of its own that counts for so
    /// many operations.
    pub(crate) fn of_answers(
        load: &Load,
        (requests, replies): (usize, usize),
        operations: u64,
    ) -> Vec<Script> {
        let mut script = Script::default();
        for _ in 0..load.depth {
            script.train(1, |script| {
                script.requests.resize(script.requests.len() + requests, 7);
                script.replies.resize(script.replies.len() + replies, 7);
                script.unit(Miss::Never);
                operations
            });
        }
        vec![script; load.connections]
    }

    /// Bytes of so many gets, and of their replies.
    pub(crate) fn sizes_of_gets(load: &Load, shape: (usize, usize)) -> (usize, usize) {
        let mut script = Script::default();
        script.train(load.together(), |script| script.get(load.speech, || 0, shape));
        (script.requests.len(), script.replies.len())
    }

    /// Trains of the script.
    pub(crate) fn trains(&self) -> usize {
        self.trains.len()
    }

    /// The requests of train `index`.
    pub(crate) fn requests(&self, index: usize) -> &[u8] {
        &self.requests[self.trains[index].requests.clone()]
    }

    /// The replies to train `index`.
    pub(crate) fn replies(&self, index: usize) -> &[u8] {
        &self.replies[self.trains[index].replies.clone()]
    }

    /// Operations of train `index`.
    pub(crate) fn operations(&self, index: usize) -> u64 {
        self.trains[index].operations
    }

    /// What `came` in answer to train `index` is, where it is not the replies as they are.
    pub(crate) fn hear(&self, index: usize, came: &[u8]) -> Heard {
        let train = &self.trains[index];
        let (mut at, mut start, mut misses) = (0, train.replies.start, 0);
        for unit in &self.units[train.units.clone()] {
            let wanted = &self.replies[start..unit.end as usize];
            start = unit.end as usize;
            let rest = &came[at..];
            if rest.starts_with(wanted) {
                at += wanted.len();
            } else if wanted.starts_with(rest) {
                return Heard::Part;
            } else if unit.miss != Miss::Never && rest.starts_with(unit.miss.words()) {
                at += unit.miss.words().len();
                misses += 1;
            } else if unit.miss != Miss::Never && unit.miss.words().starts_with(rest) {
                return Heard::Part;
            } else {
                return Heard::Nonsense(at);
            }
        }
        if at == came.len() { Heard::All(misses) } else { Heard::More(misses, at) }
    }

    fn train(&mut self, depth: usize, mut request: impl FnMut(&mut Script) -> u64) {
        let (requests, replies, units) =
            (self.requests.len(), self.replies.len(), self.units.len());
        let operations = (0..depth).map(|_| request(self)).sum();
        self.trains.push(Train {
            requests: requests..self.requests.len(),
            replies: replies..self.replies.len(),
            units: units..self.units.len(),
            operations,
        });
    }

    fn request(&mut self, load: &Load, random: &mut Prng, keys: u64, shape: (usize, usize)) -> u64 {
        let is_set = match load.sets {
            Sets::Few => random.below(SETS) == 0,
            Sets::Quarter => random.below(4) == 0,
            Sets::None => false,
            Sets::All => true,
        };
        let speech = load.speech;
        match speech {
            Speech::TextMultiget(_) => self.get(speech, || random.below(keys), shape),
            _ if is_set => self.set(speech, random.below(keys), shape),
            _ => self.get(speech, || random.below(keys), shape),
        }
    }

    fn get(&mut self, speech: Speech, mut next: impl FnMut() -> u64, shape: (usize, usize)) -> u64 {
        match speech {
            Speech::Resp => self.get_resp(next(), shape),
            Speech::Text | Speech::TextDatagrams => self.get_text(1, next, shape),
            Speech::TextMultiget(n) => self.get_text(n, next, shape),
            Speech::Datagrams(_) => {
                let number = next();
                let value = value_of(number, shape.1);
                Request::Get(&packed(number, shape.0)).write(&mut self.requests);
                Reply::Done(value.as_bytes()).write(&mut self.replies);
                self.unit(Miss::Missing);
                1
            }
        }
    }

    fn get_resp(&mut self, key: u64, (key_bytes, value_bytes): (usize, usize)) -> u64 {
        let (key, value) = (key_of(key, key_bytes), value_of(key, value_bytes));
        self.say(&format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len()));
        self.hope(&format!("${}\r\n{value}\r\n", value.len()), Miss::Null);
        1
    }

    fn get_text(
        &mut self,
        count: usize,
        mut next: impl FnMut() -> u64,
        (key_bytes, value_bytes): (usize, usize),
    ) -> u64 {
        self.say("get");
        for _ in 0..count {
            let number = next();
            let (key, value) = (key_of(number, key_bytes), value_of(number, value_bytes));
            self.say(&format!(" {key}"));
            let told = format!("VALUE {key} 0 {}\r\n{value}\r\n", value.len());
            self.hope(&told, Miss::Silence);
        }
        self.say("\r\n");
        self.hope("END\r\n", Miss::Never);
        count as u64
    }

    fn set(&mut self, speech: Speech, key: u64, (key_bytes, value_bytes): (usize, usize)) -> u64 {
        let (number, value) = (key, value_of(key, value_bytes));
        let key = key_of(number, key_bytes);
        let (keys, values) = (key.len(), value.len());
        match speech {
            Speech::Resp => {
                self.say(&format!(
                    "*3\r\n$3\r\nSET\r\n${keys}\r\n{key}\r\n${values}\r\n{value}\r\n"
                ));
                self.hope("+OK\r\n", Miss::Never);
            }
            Speech::Datagrams(_) => {
                let (key, value) = (packed(number, key_bytes), value.as_bytes());
                Request::Put { key: &key, value, expires_unix_ms: 0 }.write(&mut self.requests);
                Reply::Done(b"").write(&mut self.replies);
                self.unit(Miss::Never);
            }
            Speech::Text | Speech::TextMultiget(_) | Speech::TextDatagrams => {
                self.say(&format!("set {key} 0 0 {values}\r\n{value}\r\n"));
                self.hope("STORED\r\n", Miss::Never);
            }
        }
        1
    }

    fn say(&mut self, words: &str) {
        self.requests.extend_from_slice(words.as_bytes());
    }

    fn hope(&mut self, words: &str, miss: Miss) {
        self.replies.extend_from_slice(words.as_bytes());
        self.unit(miss);
    }

    fn unit(&mut self, miss: Miss) {
        self.units.push(Unit { end: self.replies.len() as u32, miss });
    }
}

/// Key `number` with so many bytes, or a few more where it has no room in them.
fn key_of(number: u64, bytes: usize) -> String {
    let prefix = if bytes < LONG_KEY_BYTES { SHORT_PREFIX } else { KEY_PREFIX };
    let digits = bytes.saturating_sub(prefix.len());
    format!("{prefix}{number:0digits$}")
}

/// Key `number` in binary, with so many bytes, or eight where they are fewer.
fn packed(number: u64, bytes: usize) -> Vec<u8> {
    let mut key = number.to_le_bytes().to_vec();
    key.resize(bytes.max(key.len()), 0);
    key
}

/// The value of key `number`, always the same.
pub(crate) fn value_of(number: u64, bytes: usize) -> String {
    let mut random = Prng::new(number);
    (0..bytes).map(|_| char::from(b'a' + random.below(26) as u8)).collect()
}

/// What a server said that it never should have.
pub(super) fn nonsense(name: &str, came: &[u8]) -> Error {
    let shown = String::from_utf8_lossy(&came[..came.len().min(80)]).into_owned();
    Error::new(silica::ErrorKind::Io, format!("{name} answered {shown:?}"))
}

#[cfg(test)]
mod tests {
    use super::super::Pace;
    use super::*;

    const SHAPE: (usize, usize) = (16, 8);

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn every_key_is_put_once() {
        let load = Load {
            speech: Speech::Resp,
            connections: 3,
            depth: 1,
            pace: Pace::Peak,
            sets: Sets::Few,
        };
        let scripts = Script::of_fill(&load, 0..1000, SHAPE);
        let all: String = scripts.iter().map(|script| text(&script.requests)).collect();
        for key in 0..1000 {
            assert_eq!(all.matches(&key_of(key, 16)).count(), 1, "{key}");
        }
        let operations = |s: &Script| (0..s.trains()).map(|n| s.operations(n)).sum::<u64>();
        assert_eq!(scripts.iter().map(operations).sum::<u64>(), 1000);
    }

    #[test]
    fn a_train_says_what_it_must_hear() {
        let mut script = Script::default();
        script.train(2, |script| script.get_resp(7, SHAPE));
        script.train(1, |script| script.set(Speech::Text, 8, SHAPE));
        let value = value_of(7, 8);
        let said = "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000007\r\n".repeat(2);
        assert_eq!(text(script.requests(0)), said);
        assert_eq!(text(script.replies(0)), format!("$8\r\n{value}\r\n").repeat(2));
        assert_eq!(text(script.replies(1)), "STORED\r\n");
        assert_eq!((script.trains(), script.operations(0)), (2, 2));
    }

    #[test]
    fn misses_are_told_from_nonsense_however_little_came() {
        let mut script = Script::default();
        script.train(2, |script| script.get_resp(7, SHAPE));
        let whole = format!("$-1\r\n$8\r\n{}\r\n", value_of(7, 8));
        for end in 0..whole.len() {
            assert_eq!(script.hear(0, &whole.as_bytes()[..end]), Heard::Part, "{end}");
        }
        assert_eq!(script.hear(0, whole.as_bytes()), Heard::All(1));
        assert_eq!(script.hear(0, b"$-1\r\n$-1\r\n"), Heard::All(2));
        assert_eq!(script.hear(0, b"$-1\r\n-ERR"), Heard::Nonsense(5));
        assert_eq!(script.hear(0, b"$-1\r\n$-1\r\n$"), Heard::More(2, 10));
        let mut script = Script::default();
        let mut keys = 0..3;
        script.train(1, |script| script.get_text(3, || keys.next().unwrap(), SHAPE));
        let value = |key| format!("VALUE {} 0 8\r\n{}\r\n", key_of(key, 16), value_of(key, 8));
        let came = format!("{}{}END\r\n", value(0), value(2));
        for end in 0..came.len() {
            assert_eq!(script.hear(0, &came.as_bytes()[..end]), Heard::Part, "{end}");
        }
        assert_eq!(script.hear(0, came.as_bytes()), Heard::All(1));
        assert_eq!(script.hear(0, b"END\r\n"), Heard::All(3));
        let swapped = format!("{}{}END\r\n", value(2), value(0));
        assert!(matches!(script.hear(0, swapped.as_bytes()), Heard::Nonsense(_)));
    }

    #[test]
    fn keys_have_their_bytes() {
        assert_eq!(key_of(9_999_999, 8), "k9999999");
        assert_eq!(key_of(7, 12), "key:00000007");
    }

    #[test]
    fn one_request_of_twenty_is_a_set() {
        let load = Load {
            speech: Speech::Text,
            connections: 2,
            depth: 16,
            pace: Pace::Peak,
            sets: Sets::Few,
        };
        let scripts = Script::of_load(&load, 100, SHAPE);
        let all: usize = scripts.iter().map(|s| text(&s.requests).matches("set ").count()).sum();
        let share = all as f64 / REQUESTS as f64;
        assert!((share - 0.05).abs() < 0.005, "{share}");
    }

    /// A datagram holds its own requests and no more, and a cache may have lost what they ask for.
    #[test]
    fn datagrams_say_and_hear_what_the_protocol_has() {
        use silica_proto::datagram::{Replies, Requests};
        let load = Load::datagrams(16);
        let scripts = Script::of_load(&load, 100, SHAPE);
        let script = &scripts[0];
        let requests: Vec<_> = Requests::new(script.requests(0), 16).map(Result::unwrap).collect();
        assert_eq!((requests.len(), script.operations(0)), (16, 16));
        let replies: Vec<_> = Replies::new(script.replies(0), 16).map(Result::unwrap).collect();
        let mut lost = Vec::new();
        for (request, reply) in requests.iter().zip(&replies) {
            match request {
                Request::Get(key) => {
                    let number = u64::from_le_bytes(*key.first_chunk().unwrap());
                    assert_eq!(*reply, Reply::Done(value_of(number, 8).as_bytes()));
                    Reply::Missing.write(&mut lost);
                }
                _ => reply.write(&mut lost),
            }
        }
        let gets = requests.iter().filter(|request| matches!(request, Request::Get(_))).count();
        assert_eq!(script.hear(0, &lost), Heard::All(gets as u64));
        let fill = Script::of_fill(&load, 0..100, SHAPE);
        let puts = fill.iter().flat_map(|script| {
            (0..script.trains()).flat_map(|n| {
                Requests::new(script.requests(n), script.operations(n) as u16).map(Result::unwrap)
            })
        });
        assert_eq!(
            puts.map(|put| put.key().to_vec()).collect::<std::collections::BTreeSet<_>>().len(),
            100
        );
        assert_eq!(Script::sizes_of_gets(&load, (8, 8)), (16 * 12, 16 * 12));
    }
}
