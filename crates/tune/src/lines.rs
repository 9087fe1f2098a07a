//! The text form that values of this crate share: a title line, then `name = value` lines.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use silica_base::{Error, ErrorKind, Result};

/// Bytes of a text, at most: nothing sensible is larger, and a wrong file is refused early.
const TEXT_BYTES_MAX: usize = 1 << 20;

pub(crate) fn config(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, text)
}

/// The named values of a text, with their line numbers.
pub(crate) struct Lines<'a> {
    title: &'static str,
    values: BTreeMap<&'a str, (usize, &'a str)>,
}

impl<'a> Lines<'a> {
    /// Splits `text`, whose first line is `title`.
    pub(crate) fn read(text: &'a str, title: &'static str) -> Result<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(config(format!("a '{title}' has at most {TEXT_BYTES_MAX} bytes")));
        }
        let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        let first = lines.next().map_or("", |(_, line)| line);
        if first != title {
            return Err(config(format!("line 1 must be '{title}', not '{}'", short(first))));
        }
        let mut values = BTreeMap::new();
        for (number, line) in lines.filter(|(_, l)| !l.is_empty() && !l.starts_with('#')) {
            let Some((name, value)) = line.split_once('=') else {
                return Err(config(format!("line {number}: '{}' has no '='", short(line))));
            };
            if values.insert(name.trim(), (number, value.trim())).is_some() {
                return Err(config(format!("line {number}: '{}' comes twice", short(name.trim()))));
            }
        }
        Ok(Lines { title, values })
    }

    /// Sets `target` to the value of `name`, where there is one.
    pub(crate) fn take<T>(
        &mut self,
        name: &str,
        target: &mut T,
        parse: impl FnOnce(&str) -> Result<T>,
    ) -> Result<()> {
        if let Some((number, value)) = self.values.remove(name) {
            *target = parse(value).map_err(|e| e.within(format!("line {number}, {name}")))?;
        }
        Ok(())
    }

    /// Whether the text gives `name` a value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Refuses names that nobody took.
    pub(crate) fn finish(self) -> Result<()> {
        match self.values.iter().min_by_key(|(_, (number, _))| *number) {
            None => Ok(()),
            Some((name, (number, _))) => {
                let title = self.title;
                Err(config(format!("line {number}: a '{title}' has no '{}'", short(name))))
            }
        }
    }
}

/// The beginning of `text`, for a message.
fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

/// A finite number, not negative.
pub(crate) fn number(text: &str) -> Result<f64> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err(config(format!("'{}' is no number that is 0 or more", short(text)))),
    }
}

/// A whole number.
pub(crate) fn whole<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| config(format!("'{}' is no whole number in range", short(text))))
}

/// A number, or `unknown`.
pub(crate) fn maybe(text: &str) -> Result<Option<f64>> {
    if text == "unknown" { Ok(None) } else { number(text).map(Some) }
}

/// Pairs `x:y`, spaces between.
pub(crate) fn pairs(text: &str) -> Result<Vec<(f64, f64)>> {
    let pair = |text: &str| match text.split_once(':') {
        Some((x, y)) => Ok((number(x)?, number(y)?)),
        None => Err(config(format!("'{}' is no pair like 4096:0.5", short(text)))),
    };
    text.split_whitespace().map(pair).collect()
}

pub(crate) fn show_maybe(value: Option<f64>) -> String {
    value.map_or_else(|| "unknown".into(), |v| v.to_string())
}

pub(crate) fn show_pairs(values: &[(f64, f64)]) -> String {
    let mut text = String::new();
    for (x, y) in values {
        let space = if text.is_empty() { "" } else { " " };
        // Writing to a string cannot fail.
        let _: fmt::Result = write!(text, "{space}{x}:{y}");
    }
    text
}

/// The value at `x` of a curve through `points` (rising in x): straight between points when x is
/// drawn logarithmically, level outside them. `None` without points.
pub(crate) fn between(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let (first, last) = (points.first()?, points.last()?);
    if x.is_nan() || x <= first.0 {
        return Some(first.1);
    }
    if x >= last.0 {
        return Some(last.1);
    }
    let at = points.partition_point(|p| p.0 <= x);
    let ((x0, y0), (x1, y1)) = (points[at - 1], points[at]);
    let share = if x0 > 0.0 { (x / x0).ln() / (x1 / x0).ln() } else { (x - x0) / (x1 - x0) };
    Some(y0 + (y1 - y0) * share)
}

/// Refuses a curve that does not rise in x.
pub(crate) fn check_rising(name: &str, points: &[(f64, f64)]) -> Result<()> {
    let finite =
        points.iter().all(|(x, y)| x.is_finite() && y.is_finite() && *x >= 0.0 && *y >= 0.0);
    if finite && points.windows(2).all(|w| w[0].0 < w[1].0) {
        return Ok(());
    }
    Err(config(format!("the points of {name} must be finite, not negative and rise: {points:?}")))
}
