//! A workload in one line of words, as people describe it.

use silica_base::Result;
use silica_engine::{parse_size, similar};

use crate::lines::{config, number};
use crate::{Access, Mix, Sizes, Workload};

use super::Needs;

/// The words that a description may have, with what they mean.
pub const WORDS: [(&str, &str); 24] = [
    ("keys", "live keys, such as 100M"),
    ("key", "bytes of a key"),
    ("value", "bytes of a value"),
    ("gets", "share of gets of keys that are there, such as 90; all shares come to 100 at most"),
    ("misses", "gets of keys that are not"),
    ("puts", "puts of keys that are there"),
    ("inserts", "puts of new keys"),
    ("deletes", "deletes"),
    ("scans", "scans"),
    ("modifies", "gets and puts of a key as one step"),
    ("scan", "entries of a scan"),
    ("zipf", "skew of the popularity of keys"),
    ("uniform", "all keys alike"),
    ("hot-set", "share of the keys and of the requests they get, such as 0.1:0.9"),
    ("latest", "skew over age: the newest keys are the popular ones, and inserts bring new ones"),
    ("memory", "memory that the store may use, such as 1GiB"),
    ("threads", "threads that call at the same time"),
    ("burst", "keys that a call looks up"),
    ("synced", "share of the writes that are synced, 0 to 1"),
    ("rate", "operations a second that come"),
    ("ordered", "keys are needed in their order"),
    ("volatile", "entries need not survive the process"),
    ("cache", "entries need not survive the process, nor stay"),
    ("flash", "bytes of flash that a cache may have, such as 64GiB"),
];

/// The longest key of any engine.
const KEY_BYTES_MAX: f64 = 65_536.0;
/// Percent that the shares come to at most; a hair more for rounding.
const SHARES_MAX: f64 = 100.01;

/// Those of them that are shares of the operations.
const SHARES: [&str; 7] = ["gets", "misses", "puts", "inserts", "deletes", "scans", "modifies"];

/// Those of them that say which keys are popular.
const POPULARITIES: [&str; 4] = ["zipf", "uniform", "hot-set", "latest"];

/// Reads `keys=100M value=100 gets=90 puts=10 zipf=0.99 memory=1GiB`; what is left out is as in
/// [`Workload::default`].
///
/// # Errors
/// `Config` for words that are not known, numbers that are none, two popularities, and workloads
/// that cannot be.
pub fn describe(text: &str) -> Result<(Workload, Needs)> {
    let mut workload = Workload::default();
    let mut mix = Mix::NOTHING;
    let (mut ordered, mut durable, mut may_evict) = (false, true, false);
    let mut flash_bytes = None;
    let mut says_mix = false;
    let mut popularity: Option<&str> = None;
    for word in text.split([' ', ',', '\n', '\t']).filter(|word| !word.is_empty()) {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let count = || counted(value).map_err(|e| e.within(format_args!("'{word}'")));
        says_mix |= SHARES.contains(&name);
        if POPULARITIES.contains(&name)
            && let Some(other) = popularity.replace(word)
        {
            let text = format!("'{other}' and '{word}' both say which keys are popular");
            return Err(config(text + ": give one of them"));
        }
        match name {
            "keys" => workload.keys = count()? as u64,
            "key" => workload.key_bytes = Sizes::constant(count()?),
            "value" => workload.value_bytes = Sizes::constant(bytes(word, value)? as f64),
            "gets" => mix.get_hits = count()?,
            "misses" => mix.get_misses = count()?,
            "puts" => mix.overwrites = count()?,
            "inserts" => mix.inserts = count()?,
            "deletes" => mix.deletes = count()?,
            "scans" => mix.scans = count()?,
            "modifies" => mix.modifies = count()?,
            "scan" => workload.scan_entries = Sizes::constant(count()?),
            "zipf" => workload.access = Access::Zipf { skew: count()? },
            "uniform" => workload.access = Access::Zipf { skew: 0.0 },
            "hot-set" => workload.access = format!("hot-set {value}").parse()?,
            "latest" => workload.access = Access::Latest { skew: count()? },
            "memory" => workload.memory_bytes = bytes(word, value)?,
            "threads" => workload.threads = count()? as u32,
            "burst" => workload.burst = count()?,
            "synced" => workload.synced = count()?,
            "rate" => workload.rate = Some(count()?),
            "ordered" => ordered = true,
            "volatile" => durable = false,
            "flash" => flash_bytes = Some(bytes(word, value)?),
            "cache" => (durable, may_evict) = (false, true),
            _ => {
                let names = WORDS.map(|(name, _)| name);
                let meant = similar(name, names)
                    .map_or(String::new(), |other| format!(" (did you mean '{other}'?)"));
                let known = names.join(", ");
                let text = format!("'{word}' describes nothing{meant}; known are {known}");
                return Err(config(text));
            }
        }
    }
    if says_mix {
        check_shares(&mix)?;
        workload.mix = mix;
    }
    check_key_bytes(workload.key_bytes.mean())?;
    if matches!(workload.access, Access::Latest { .. }) && workload.mix.inserts <= 0.0 {
        return Err(config(
            "latest needs inserts, which make other keys the latest: say how many there are, such \
             as gets=95 inserts=5, or give zipf",
        ));
    }
    workload.validate()?;
    let needs = Needs::of(&workload);
    let ordered = ordered || needs.ordered;
    Ok((workload, Needs { ordered, durable, may_evict, flash_bytes, ..needs }))
}

/// Refuses keys that are longer than any store takes.
fn check_key_bytes(bytes: f64) -> Result<()> {
    if bytes <= KEY_BYTES_MAX {
        return Ok(());
    }
    Err(config(format!(
        "key= is the bytes of a key, which has at most {KEY_BYTES_MAX}, not {bytes}; the number of \
         keys is keys="
    )))
}

/// Refuses shares of which nothing can be the whole.
fn check_shares(mix: &Mix) -> Result<()> {
    let all = mix.total();
    if all <= SHARES_MAX {
        return Ok(());
    }
    Err(config(format!(
        "the shares of the operations ({}) come to {all} %, which is more than all: give parts of \
         100",
        SHARES.join(", ")
    )))
}

fn bytes(word: &str, value: &str) -> Result<u64> {
    parse_size(value).ok_or_else(|| config(format!("'{word}' is no size; use one such as 64MiB")))
}

/// `100M`, `1.5k`, `1e6` or `7`.
fn counted(text: &str) -> Result<f64> {
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        Some((at, 'G' | 'B')) => (&text[..at], 1e9),
        Some((at, 'T')) => (&text[..at], 1e12),
        _ => (text, 1.0),
    };
    number(digits).map(|value| value * factor)
}
