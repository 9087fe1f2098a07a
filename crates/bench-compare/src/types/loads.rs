//! What is asked: ten commands on objects, each by itself, those that take away after those that
//! put there.

use super::talk::Train;

/// Requests of a connection that are under way.
pub(super) const DEPTH: usize = 16;
/// Elements of a small object.
const SMALL: u64 = 10;
/// An odd number: multiples of it modulo 2^32 come to every number once.
const STEP: u64 = 2_654_435_761;

/// A command, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Lpush,
    Rpop,
    Sadd,
    Spop,
    Hset,
    Hget,
    Zadd,
    Zrange,
    Zpopmin,
    Xadd,
}

/// How the elements lie in objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// All in one object of each type.
    One,
    /// Ten in each of many.
    Many,
}

impl Shape {
    pub(super) const ALL: [Shape; 2] = [Shape::One, Shape::Many];

    /// For people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Shape::One => "one object",
            Shape::Many => "ten elements an object",
        }
    }
}

impl Command {
    pub(super) const ALL: [Command; 10] = [
        Command::Lpush,
        Command::Rpop,
        Command::Sadd,
        Command::Spop,
        Command::Hset,
        Command::Hget,
        Command::Zadd,
        Command::Zrange,
        Command::Zpopmin,
        Command::Xadd,
    ];

    /// As clients call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Command::Lpush => "LPUSH",
            Command::Rpop => "RPOP",
            Command::Sadd => "SADD",
            Command::Spop => "SPOP",
            Command::Hset => "HSET",
            Command::Hget => "HGET",
            Command::Zadd => "ZADD",
            Command::Zrange => "ZRANGE",
            Command::Zpopmin => "ZPOPMIN",
            Command::Xadd => "XADD",
        }
    }

    /// How many run, of a round with `elements` elements.
    pub(super) fn requests(self, elements: u64) -> u64 {
        match self {
            Command::Zrange => (elements / 10).max(1),
            _ => elements,
        }
    }

    /// The trains of a round with `elements` elements, which differ from round to round.
    pub(super) fn trains(self, shape: Shape, elements: u64, round: u64) -> Vec<Train> {
        let requests = self.requests(elements);
        let starts: Vec<u64> = (0..requests).step_by(DEPTH).collect();
        let train = |start: u64| {
            let mut train = Train::default();
            for nth in start..(start + DEPTH as u64).min(requests) {
                self.request(&mut train, shape, (elements, round), nth);
            }
            train
        };
        starts.into_iter().map(train).collect()
    }

    fn request(self, train: &mut Train, shape: Shape, (elements, round): (u64, u64), nth: u64) {
        // Neighbours in time are not neighbours in order.
        let mixed = (nth * STEP + round) % (1 << 32);
        let other = nth * 7919 % elements;
        let object = match shape {
            Shape::One => 0,
            Shape::Many => nth % elements.div_ceil(SMALL),
        };
        let key = |name: &str| format!("{name}:{object:08}").into_bytes();
        let (list, set) = (key("list"), key("set"));
        let (hash, zset, stream) = (key("hash"), key("zset"), key("stream"));
        let value = format!("value:{mixed:010}").into_bytes();
        let member = format!("member:{mixed:010}").into_bytes();
        let score = (mixed % 1_000_000).to_string().into_bytes();
        match self {
            Command::Lpush => train.push(&[b"LPUSH", &list, &value]),
            Command::Rpop => train.push(&[b"RPOP", &list]),
            Command::Sadd => train.push(&[b"SADD", &set, &member]),
            Command::Spop => train.push(&[b"SPOP", &set]),
            Command::Hset => train.push(&[b"HSET", &hash, &member, &value]),
            Command::Hget => {
                let asked = match shape {
                    Shape::One => (other * STEP + round) % (1 << 32),
                    Shape::Many => mixed,
                };
                let field = format!("member:{asked:010}").into_bytes();
                train.push(&[b"HGET", &hash, &field]);
            }
            Command::Zadd => train.push(&[b"ZADD", &zset, &score, &member]),
            Command::Zrange => {
                let first = match shape {
                    Shape::One => other.min(elements.saturating_sub(100)),
                    Shape::Many => 0,
                };
                let (first, last) = (first.to_string(), (first + 99).to_string());
                train.push(&[b"ZRANGE", &zset, first.as_bytes(), last.as_bytes()]);
            }
            Command::Zpopmin => train.push(&[b"ZPOPMIN", &zset]),
            Command::Xadd => train.push(&[b"XADD", &stream, b"*", b"field", &value]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn what_is_popped_was_pushed_and_what_is_asked_for_is_there() {
        let elements = 1000;
        for shape in Shape::ALL {
            let words = |command: Command, nth: usize| {
                let all = command.trains(shape, elements, 3);
                let requests: usize = all.iter().map(|train| train.requests).sum();
                assert_eq!(requests as u64, command.requests(elements));
                let text: Vec<u8> = all.into_iter().flat_map(|train| train.bytes).collect();
                let text = String::from_utf8(text).unwrap();
                let lines: Vec<&str> = text.split("\r\n").collect();
                let of_request = |at: usize| Some(lines.get(at + 2 * nth)?.to_string());
                let starts = lines.iter().enumerate().filter(|(_, line)| line.starts_with('*'));
                starts.filter_map(|(at, _)| of_request(at)).collect::<Vec<String>>()
            };
            assert_eq!(words(Command::Lpush, 2), words(Command::Rpop, 2), "the same lists");
            let fields = |command| words(command, 3).into_iter().collect::<BTreeSet<_>>();
            assert_eq!(fields(Command::Hset).len(), 1000, "no field twice");
            assert_eq!(fields(Command::Hset), fields(Command::Hget));
        }
    }
}
