//! BITFIELD: integers of any width inside a value.

use super::bits::{bit_offset, grown};
use super::types::WRONG_TYPE;
use super::update::rewrite_changed;
use super::{NOT_INTEGER, SYNTAX, VALUE_BYTES_MAX, Values};
use crate::burst::Args;
use crate::table::{Answer, Modify, Read, Wants};
use silica::engine::{EntryRef, Update};
use silica_proto::{Reply, parse_i64};

pub(crate) static BITFIELD: Modify = Modify {
    many: false,
    any: false,
    refuse: |args| steps(args).err().map(String::from),
    decide: bitfield,
};
pub(crate) static BITFIELD_RO: Read = Read::new(1, Wants::Value, bitfield_ro)
    .with_other_type(|args| readings(args).err().unwrap_or(WRONG_TYPE));

/// An integer's width and sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    signed: bool,
    bits: u32,
}

/// What happens to a result that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Get,
    Set(i64, Overflow),
    Add(i64, Overflow),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    kind: Kind,
    offset: usize,
    action: Action,
}

const BAD_TYPE: &str = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is \
                        not supported but i64 is.";
const BAD_OFFSET: &str = "ERR bit offset is not an integer or out of range";

impl Kind {
    fn parse(text: &[u8]) -> Result<Kind, &'static str> {
        let (first, digits) = text.split_first().ok_or(BAD_TYPE)?;
        let signed = match first {
            b'i' | b'I' => true,
            b'u' | b'U' => false,
            _ => return Err(BAD_TYPE),
        };
        let bits = parse_i64(digits).filter(|n| (1..=63 + i64::from(signed)).contains(n));
        Ok(Kind { signed, bits: bits.ok_or(BAD_TYPE)? as u32 })
    }

    /// The smallest and the largest number.
    fn bounds(self) -> (i128, i128) {
        match self.signed {
            true => (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1),
            false => (0, (1 << self.bits) - 1),
        }
    }

    /// The number that the low bits of `n` are.
    fn wrap(self, n: i128) -> i64 {
        let low = n & ((1 << self.bits) - 1);
        let negative = self.signed && low >> (self.bits - 1) & 1 == 1;
        (if negative { low - (1 << self.bits) } else { low }) as i64
    }

    fn fit(self, n: i128, overflow: Overflow) -> Option<i64> {
        let (low, high) = self.bounds();
        if (low..=high).contains(&n) {
            return Some(n as i64);
        }
        match overflow {
            Overflow::Wrap => Some(self.wrap(n)),
            Overflow::Saturate => Some(n.clamp(low, high) as i64),
            Overflow::Fail => None,
        }
    }

    /// The number that a client has sent to be stored. One without a sign takes the bits of a
    /// negative number for a large one, as Redis does: it saturates at the top.
    fn given(self, n: i64) -> i128 {
        if self.signed { i128::from(n) } else { i128::from(n.cast_unsigned()) }
    }

    fn read(self, bytes: &[u8], offset: usize) -> i64 {
        let bits = (offset..offset + self.bits as usize).fold(0_i128, |n, at| {
            let byte = bytes.get(at / 8).copied().unwrap_or(0);
            n << 1 | i128::from(byte >> (7 - at % 8) & 1)
        });
        self.wrap(bits)
    }

    fn write(self, bytes: &mut [u8], offset: usize, n: i64) {
        for at in 0..self.bits as usize {
            let place = offset + at;
            let mask = 0x80 >> (place % 8);
            match n >> (self.bits as usize - 1 - at) & 1 {
                1 => bytes[place / 8] |= mask,
                _ => bytes[place / 8] &= !mask,
            }
        }
    }
}

/// A bit offset, or `#n` for the n-th integer of its width.
fn offset(text: &[u8], kind: Kind) -> Result<usize, &'static str> {
    let (text, scale) = match text {
        [b'#', rest @ ..] => (rest, kind.bits as usize),
        _ => (text, 1),
    };
    let first = bit_offset(text).and_then(|n| n.checked_mul(scale)).ok_or(BAD_OFFSET)?;
    let fits = (first + kind.bits as usize).div_ceil(8) <= VALUE_BYTES_MAX;
    if fits { Ok(first) } else { Err(BAD_OFFSET) }
}

/// What the arguments ask for.
fn steps(args: Args<'_>) -> Result<Vec<Step>, &'static str> {
    let mut words = args.from(2);
    let mut overflow = Overflow::Wrap;
    let mut steps = Vec::new();
    while let Some(word) = words.next() {
        let left = words.len();
        let mut next = || words.next().ok_or(SYNTAX);
        let word = word.to_ascii_uppercase();
        if word == b"OVERFLOW" {
            overflow = match &next()?.to_ascii_uppercase()[..] {
                b"WRAP" => Overflow::Wrap,
                b"SAT" => Overflow::Saturate,
                b"FAIL" => Overflow::Fail,
                _ => return Err("ERR Invalid OVERFLOW type specified"),
            };
            continue;
        }
        let needed = match &word[..] {
            b"GET" => 2,
            b"SET" | b"INCRBY" => 3,
            _ => return Err(SYNTAX),
        };
        if left < needed {
            return Err(SYNTAX);
        }
        let kind = Kind::parse(next()?)?;
        let offset = offset(next()?, kind)?;
        let mut number = || parse_i64(next()?).ok_or(NOT_INTEGER);
        let action = match &word[..] {
            b"GET" => Action::Get,
            b"SET" => Action::Set(number()?, overflow),
            _ => Action::Add(number()?, overflow),
        };
        steps.push(Step { kind, offset, action });
    }
    Ok(steps)
}

/// Changes `value` and returns what is answered; whether anything was written.
fn run(steps: &[Step], value: &mut [u8]) -> (Vec<Option<i64>>, bool) {
    let mut wrote = false;
    let mut answers = Vec::with_capacity(steps.len());
    for Step { kind, offset, action } in steps {
        let old = kind.read(value, *offset);
        let (answer, new) = match *action {
            Action::Get => (Some(old), None),
            Action::Set(n, overflow) => {
                let new = kind.fit(kind.given(n), overflow);
                (new.map(|_| old), new)
            }
            Action::Add(by, overflow) => {
                let sum = kind.fit(i128::from(old) + i128::from(by), overflow);
                (sum, sum)
            }
        };
        if let Some(new) = new {
            kind.write(value, *offset, new);
            wrote = true;
        }
        answers.push(answer);
    }
    (answers, wrote)
}

fn bitfield(args: Args<'_>, old: Option<EntryRef<'_>>, _: u64) -> (Update, Answer) {
    let steps = match steps(args) {
        Ok(steps) => steps,
        Err(text) => return (Update::Keep, Answer::Error(text.into())),
    };
    let end = |step: &Step| (step.offset + step.kind.bits as usize).div_ceil(8);
    let writes = steps.iter().filter(|step| step.action != Action::Get);
    let mut value = match grown(args, old, writes.map(end).max().unwrap_or(0)) {
        Ok(value) => value,
        Err(text) => return (Update::Keep, Answer::Error(text.into())),
    };
    let (answers, wrote) = run(&steps, &mut value);
    let update = if wrote { rewrite_changed(old, value) } else { Update::Keep };
    (update, Answer::Integers(answers))
}

/// The steps of BITFIELD_RO.
fn readings(args: Args<'_>) -> Result<Vec<Step>, &'static str> {
    let steps = steps(args)?;
    match steps.iter().all(|step| step.action == Action::Get) {
        true => Ok(steps),
        false => Err("ERR BITFIELD_RO only supports the GET subcommand"),
    }
}

fn bitfield_ro(args: Args<'_>, values: Values<'_>, reply: &mut Reply<'_>) {
    let steps = match readings(args) {
        Ok(steps) => steps,
        Err(text) => return reply.error(text),
    };
    let bytes = values.get(0).unwrap_or_default();
    reply.array(steps.len());
    steps.iter().for_each(|step| reply.integer(step.kind.read(bytes, step.offset)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_width_read_back() {
        for signed in [false, true] {
            for bits in 1..=63 + u32::from(signed) {
                let kind = Kind { signed, bits };
                let (low, high) = kind.bounds();
                for n in [low, high, 0, high / 3, low / 3] {
                    for offset in [0, 1, 7, 13] {
                        let mut bytes = [0xA5; 11];
                        kind.write(&mut bytes, offset, n as i64);
                        assert_eq!(i128::from(kind.read(&bytes, offset)), n, "{kind:?}");
                        let before = Kind { signed: false, bits: 13 };
                        let kept = offset < 13 || before.read(&bytes, 0) == 0x14B4;
                        assert!(kept, "bits before {offset} changed");
                    }
                }
                assert_eq!(kind.fit(high + 1, Overflow::Wrap).map(i128::from), Some(low));
                assert_eq!(kind.fit(high + 1, Overflow::Saturate).map(i128::from), Some(high));
                assert_eq!(kind.fit(low - 1, Overflow::Fail), None);
            }
        }
    }
}
