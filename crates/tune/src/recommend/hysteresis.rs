//! When a choice that looks better is acted on: not at once, and not for little.

use std::fmt;
use std::str::FromStr;

use silica_base::Result;

use crate::lines::{config, number, whole};

/// What it takes to change an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hysteresis {
    /// Throughput that must be predicted, as a multiple of what is.
    pub gain_min: f64,
    /// Times in a row that the same engine must have looked so much better.
    pub times_min: u32,
    /// Bytes of live entries that may be moved; more is only proposed.
    pub bytes_max: u64,
}

impl Default for Hysteresis {
    fn default() -> Self {
        Hysteresis { gain_min: 1.5, times_min: 2, bytes_max: 1 << 30 }
    }
}

/// What is remembered from one time to the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wish {
    /// The engine that looked better, or nothing.
    pub engine: String,
    /// How often in a row.
    pub times: u32,
}

/// What is to be done now.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Nothing: what is there is good enough.
    Stay,
    /// Another engine looks better, but not for long enough.
    Wait,
    /// It is better, but moving so much is for people to decide.
    Propose,
    /// Move.
    Change,
}

impl Hysteresis {
    /// Looks at an `engine` whose throughput would be `gain` times what it is, with `bytes` to
    /// move; `wish` is what was remembered, and will be.
    pub fn judge(&self, wish: &mut Wish, engine: &str, gain: f64, bytes: u64) -> Verdict {
        if gain.is_nan() || gain < self.gain_min {
            *wish = Wish::default();
            return Verdict::Stay;
        }
        let times = if wish.engine == engine { wish.times.saturating_add(1) } else { 1 };
        *wish = Wish { engine: engine.to_string(), times };
        match () {
            () if times < self.times_min => Verdict::Wait,
            () if bytes > self.bytes_max => Verdict::Propose,
            () => Verdict::Change,
        }
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.engine, self.times)
    }
}

impl FromStr for Wish {
    type Err = silica_base::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (engine, times) =
            text.split_once(' ').ok_or_else(|| config(format!("'{text}' is no wish")))?;
        number(times)?;
        Ok(Wish { engine: engine.to_string(), times: whole(times)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_better_engine_must_look_better_again() {
        let rule = Hysteresis::default();
        let mut wish = Wish::default();
        assert_eq!(rule.judge(&mut wish, "silt", 2.0, 100), Verdict::Wait);
        assert_eq!(rule.judge(&mut wish, "mica", 9.0, 100), Verdict::Wait);
        assert_eq!(rule.judge(&mut wish, "silt", 2.0, 100), Verdict::Wait);
        assert_eq!(rule.judge(&mut wish, "silt", 1.49, 100), Verdict::Stay);
        assert_eq!(rule.judge(&mut wish, "silt", 1.5, 100), Verdict::Wait);
        let kept: Wish = wish.to_string().parse().unwrap();
        assert_eq!(kept, wish);
        assert_eq!(rule.judge(&mut wish, "silt", 1.5, 2 << 30), Verdict::Propose);
        assert_eq!(rule.judge(&mut wish, "silt", 1.5, 1 << 30), Verdict::Change);
        assert_eq!(rule.judge(&mut wish, "silt", f64::NAN, 1), Verdict::Stay);
        assert!("silt".parse::<Wish>().is_err() && "silt x".parse::<Wish>().is_err());
    }
}
