//! Registers as runs of one value:
//!
//! | byte | run |
//! |---|---|
//! | `00nnnnnn` | n + 1 zeros |
//! | `01nnnnnn nnnnnnnn` | n + 1 zeros |
//! | `1vvvvvnn` | n + 1 registers of the value v + 1 |

use super::{Corrupt, HEADER_BYTES, REGISTERS};
use std::fmt::Write;

/// Zeros of a run of one byte.
const SHORT_LEN_MAX: usize = 64;
/// The greatest value that a run can have.
const VALUE_MAX: u8 = 32;
/// Registers of a run of a value.
const VALUES_LEN_MAX: usize = 4;
/// Runs, from the one before what has changed on, that are looked at for others to join.
const JOINED_RUNS_MAX: usize = 5;

/// A run of registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    value: u8,
    len: usize,
    /// Bytes that it takes.
    bytes: usize,
}

/// The run that `bytes` begin with.
fn first(bytes: &[u8]) -> Result<Run, Corrupt> {
    let byte = *bytes.first().ok_or(Corrupt)?;
    Ok(match byte >> 6 {
        0 => Run { value: 0, len: usize::from(byte) + 1, bytes: 1 },
        1 => {
            let low = *bytes.get(1).ok_or(Corrupt)?;
            let len = usize::from(byte & 0x3f) << 8 | usize::from(low);
            Run { value: 0, len: len + 1, bytes: 2 }
        }
        _ => Run { value: (byte >> 2 & 0x1f) + 1, len: usize::from(byte & 3) + 1, bytes: 1 },
    })
}

/// Appends a run of zeros.
pub(super) fn write_zeros(out: &mut Vec<u8>, len: usize) {
    match len {
        0 => {}
        1..=SHORT_LEN_MAX => out.push((len - 1) as u8),
        _ => out.extend_from_slice(&[0x40 | ((len - 1) >> 8) as u8, (len - 1) as u8]),
    }
}

fn write_values(out: &mut Vec<u8>, value: u8, len: usize) {
    if len > 0 {
        out.push(0x80 | (value - 1) << 2 | (len - 1) as u8);
    }
}

/// Calls `each` with the runs' values and lengths.
///
/// # Errors
/// Fails if they are not of all registers.
pub(super) fn runs(registers: &[u8], mut each: impl FnMut(u8, usize)) -> Result<(), Corrupt> {
    let (mut at, mut index) = (0, 0);
    while at < registers.len() {
        let run = first(&registers[at..])?;
        (at, index) = (at + run.bytes, index + run.len);
        if index > REGISTERS {
            return Err(Corrupt);
        }
        each(run.value, run.len);
    }
    if index == REGISTERS { Ok(()) } else { Err(Corrupt) }
}

/// What raising a register comes to.
pub(super) enum Raised {
    /// It is as great already.
    Same,
    /// The counter's new bytes.
    New(Vec<u8>),
    /// No run can have this value, or the counter would be too long.
    TooLarge,
}

/// Raises a register of the counter `bytes`, which grows up to `bytes_max`. The result is that of
/// Redis, byte for byte: only runs near the register are joined.
pub(super) fn raise(
    bytes: &[u8],
    (index, value): (usize, u8),
    bytes_max: usize,
) -> Result<Raised, Corrupt> {
    if value > VALUE_MAX {
        return Ok(Raised::TooLarge);
    }
    let (mut at, mut start, mut before) = (HEADER_BYTES, 0, None);
    let run = loop {
        let run = first(bytes.get(at..).unwrap_or_default())?;
        if index < start + run.len {
            break run;
        }
        before = Some(at);
        (at, start) = (at + run.bytes, start + run.len);
    };
    if run.value >= value {
        return Ok(Raised::Same);
    }
    let (left, right) = (index - start, start + run.len - index - 1);
    let mut new = Vec::with_capacity(5);
    let part = |out: &mut Vec<u8>, len| match run.value {
        0 => write_zeros(out, len),
        value => write_values(out, value, len),
    };
    part(&mut new, left);
    write_values(&mut new, value, 1);
    part(&mut new, right);
    if new.len() > run.bytes && bytes.len() + new.len() - run.bytes > bytes_max {
        return Ok(Raised::TooLarge);
    }
    let mut raised = Vec::with_capacity(bytes.len() + 3);
    raised.extend_from_slice(&bytes[..at]);
    raised.extend_from_slice(&new);
    raised.extend_from_slice(&bytes[at + run.bytes..]);
    join(&mut raised, before.unwrap_or(HEADER_BYTES));
    Ok(Raised::New(raised))
}

/// Joins runs of one value from `at` on.
fn join(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..JOINED_RUNS_MAX {
        let Ok(run) = first(bytes.get(at..).unwrap_or_default()) else { return };
        if run.value > 0
            && let Ok(next) = first(&bytes[at + 1..])
            && next.value == run.value
            && run.len + next.len <= VALUES_LEN_MAX
        {
            let mut both = Vec::new();
            write_values(&mut both, run.value, run.len + next.len);
            bytes.splice(at..at + 2, both);
            continue;
        }
        at += run.bytes;
    }
}

/// The runs in words, as PFDEBUG DECODE tells them.
pub(super) fn text(registers: &[u8]) -> String {
    let (mut at, mut text) = (0, String::new());
    while let Ok(run) = first(registers.get(at..).unwrap_or_default()) {
        let blank = if at == 0 { "" } else { " " };
        let written = match (run.value, run.bytes) {
            (0, 1) => write!(text, "{blank}z:{}", run.len),
            (0, _) => write!(text, "{blank}Z:{}", run.len),
            (value, _) => write!(text, "{blank}v:{value},{}", run.len),
        };
        written.expect("a string takes everything");
        at += run.bytes;
    }
    text
}
