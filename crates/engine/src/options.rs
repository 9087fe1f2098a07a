//! The one options table: flags, config file, docs and the tuner's search space come from it.

use silica_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;

/// Type and range of an option; every value is held as a `u64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionKind {
    /// A number of things between both bounds.
    Count(u64, u64),
    /// A number of bytes between both bounds; accepts `KiB`, `MB` and so on.
    Size(u64, u64),
    /// `true` or `false`.
    Bool,
    /// One of these words; the value is its index.
    Choice(&'static [&'static str]),
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionSpec {
    /// The name, unit last.
    pub name: &'static str,
    /// Type and range.
    pub kind: OptionKind,
    /// The value where none is given.
    pub default: u64,
    /// True where it is fixed when a store is created.
    pub fixed: bool,
    /// True where the tuner may choose it.
    pub tunable: bool,
    /// What it does.
    pub doc: &'static str,
}

impl OptionSpec {
    /// Reads `text` as a value of this option.
    pub fn parse(&self, text: &str) -> Result<u64> {
        let bad = |want: String| {
            let message = format!("option {}: '{text}' is not valid; use {want}", self.name);
            Error::new(ErrorKind::Config, message)
        };
        match self.kind {
            OptionKind::Count(low, high) => match text.replace('_', "").parse() {
                Ok(n) if (low..=high).contains(&n) => Ok(n),
                _ => Err(bad(format!("a number from {low} to {high}"))),
            },
            OptionKind::Size(low, high) => match parse_size(text) {
                Some(n) if (low..=high).contains(&n) => Ok(n),
                _ => Err(bad(format!("a size from {low} to {high} bytes, such as 64MiB"))),
            },
            OptionKind::Bool => match text {
                "true" | "yes" | "on" | "1" => Ok(1),
                "false" | "no" | "off" | "0" => Ok(0),
                _ => Err(bad("true or false".into())),
            },
            OptionKind::Choice(words) => words
                .iter()
                .position(|w| *w == text)
                .map(|i| i as u64)
                .ok_or_else(|| bad(format!("one of {}", words.join(", ")))),
        }
    }

    /// The text that [`OptionSpec::parse`] reads as `value`.
    pub fn show(&self, value: u64) -> String {
        match self.kind {
            OptionKind::Bool => (value != 0).to_string(),
            OptionKind::Choice(words) => words[value as usize].to_string(),
            _ => value.to_string(),
        }
    }
}

/// Reads `64MiB`, `10kB`, `1G` (a bare letter is binary) or plain bytes.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let number: u64 = text[..split].replace('_', "").parse().ok()?;
    let factor = match text[split..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// How alike two names must be for one to be proposed instead of the other: clap's limit for flags.
const LIKENESS_MIN: f64 = 0.7;

/// The one of `known` that is most like `name`, where one is like it.
pub fn similar<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let name = name.to_ascii_lowercase();
    let likeness = |other: &str| strsim::jaro(&name, &other.to_ascii_lowercase());
    let alike = known.into_iter().map(|other| (likeness(other), other));
    let best = alike.filter(|(likeness, _)| *likeness > LIKENESS_MIN);
    best.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, other)| other)
}

/// The error for a name that is none of `known`: it proposes the one that is most like it.
pub fn unknown<'k>(what: &str, name: &str, known: impl IntoIterator<Item = &'k str>) -> Error {
    let mut seen = std::collections::BTreeSet::new();
    let known: Vec<&str> = known.into_iter().filter(|other| seen.insert(*other)).collect();
    let meant = similar(name, known.iter().copied());
    let meant = meant.map_or(String::new(), |other| format!(" (did you mean '{other}'?)"));
    let message = format!("no {what} '{name}'{meant}; known are {}", known.join(", "));
    Error::new(ErrorKind::Config, message)
}

/// Values for the options of one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OptionValues(BTreeMap<String, u64>);

/// The option of every engine that has a memory number.
pub const MEMORY_OPTION: &str = "memory_bytes";

impl OptionValues {
    /// The memory number, if it is given.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.given(MEMORY_OPTION)
    }

    /// Gives the memory number. [`crate::EngineSpec::memory_within`] says what an engine takes.
    pub fn set_memory_bytes(&mut self, bytes: u64) -> &mut Self {
        self.set(MEMORY_OPTION, bytes)
    }

    /// Reads `(name, text)` pairs against `specs`; an unknown name or bad value is an error that
    /// names what is allowed.
    pub fn parse<'t>(
        specs: &[OptionSpec],
        pairs: impl IntoIterator<Item = (&'t str, &'t str)>,
    ) -> Result<Self> {
        let mut values = BTreeMap::new();
        for (name, text) in pairs {
            let spec = specs
                .iter()
                .find(|s| s.name == name)
                .ok_or_else(|| unknown("option", name, specs.iter().map(|s| s.name)))?;
            values.insert(name.to_string(), spec.parse(text)?);
        }
        Ok(OptionValues(values))
    }

    /// Sets `name`, unchecked.
    pub fn set(&mut self, name: &str, value: u64) -> &mut Self {
        self.0.insert(name.to_string(), value);
        self
    }

    /// The value given for `name`.
    pub fn given(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// The value for `name` or its default in `specs` (where it must stand).
    pub fn value(&self, specs: &[OptionSpec], name: &str) -> u64 {
        let spec = specs.iter().find(|s| s.name == name);
        self.given(name).unwrap_or_else(|| spec.expect("the option is in its table").default)
    }

    /// All values given.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(n, v)| (n.as_str(), *v))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECS: &[OptionSpec] = &[OptionSpec {
        name: "memory_bytes",
        kind: OptionKind::Size(1 << 20, 1 << 40),
        default: 1 << 28,
        fixed: false,
        tunable: true,
        doc: "",
    }];

    #[test]
    fn sizes() {
        assert_eq!(parse_size("64MiB"), Some(64 << 20));
        assert_eq!(parse_size("2 kB"), Some(2000));
        assert_eq!(parse_size("7"), Some(7));
        assert_eq!(parse_size("x"), None);
        assert_eq!(parse_size("99999999999T"), None);
    }

    #[test]
    fn the_most_similar_name_is_proposed() {
        let known = ["memory_bytes", "block_bytes", "filter_bits", "runs_max"];
        let of = |name: &str| similar(name, known);
        assert_eq!(of("bloks_byte"), Some("block_bytes"));
        assert_eq!(of("FILTER_BIT"), Some("filter_bits"));
        assert_eq!(of("run_max"), Some("runs_max"));
        assert_eq!((of("xyz"), of("")), (None, None));
    }

    #[test]
    fn errors_name_the_fix() {
        let unknown = OptionValues::parse(SPECS, [("memory", "1")]).unwrap_err();
        assert!(unknown.to_string().contains("known are memory_bytes"));
        assert!(unknown.to_string().contains("did you mean 'memory_bytes'?"), "{unknown}");
        let nothing = OptionValues::parse(SPECS, [("quux", "1")]).unwrap_err();
        assert!(!nothing.to_string().contains("mean"), "{nothing}");
        let small = OptionValues::parse(SPECS, [("memory_bytes", "1k")]).unwrap_err();
        assert!(small.to_string().contains("64MiB"));
    }
}
