//! How the values of flags are read; what is wrong with one names what is right.

use std::time::Duration;

/// What a database is to be.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseArg {
    pub(crate) index: u32,
    pub(crate) engine: String,
    pub(crate) options: Vec<(String, String)>,
}

/// Most threads for background work.
const THREADS_MAX: usize = 1024;

pub(crate) fn size(text: &str) -> Result<u64, String> {
    silica::parse_size(text).ok_or_else(|| "use a size such as 64MiB, 2G or 1048576".to_string())
}

/// Memory, within the range that a store can have.
pub(super) fn memory(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    silica::check_memory_bytes("memory", bytes).map_err(|e| e.to_string())?;
    Ok(bytes)
}

pub(super) fn memory_part(text: &str) -> Result<(String, u64), String> {
    let (name, bytes) = text.rsplit_once('=').ok_or("use NAME=SIZE, such as users=64MiB")?;
    Ok((name.to_string(), memory(bytes)?))
}

pub(super) fn threads(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| *count <= THREADS_MAX);
    count.ok_or_else(|| format!("use a number from 0 to {THREADS_MAX}"))
}

/// A time such as 30s, 1h 30m or 500ms; seconds where there is no unit.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let wrong = |_| "use a time such as 30s, 500ms, 1h 30m or 7d; a number alone is seconds";
    humantime::parse_duration(text).map_err(wrong).map_err(String::from)
}

pub(super) fn database(text: &str) -> Result<DatabaseArg, String> {
    let wrong = || "use N=ENGINE or N=ENGINE,OPTION=VALUE, such as 1=mica,memory_bytes=64MiB";
    let (index, rest) = text.split_once('=').ok_or_else(wrong)?;
    let index = index.parse().ok().filter(|index| *index < silica_server::DATABASES_MAX);
    let index = index.ok_or(format!("databases are 0 to {}", silica_server::DATABASES_MAX - 1))?;
    let mut parts = rest.split(',');
    let engine = parts.next().filter(|engine| !engine.is_empty()).ok_or_else(wrong)?.to_string();
    Ok(DatabaseArg { index, engine, options: parts.map(pair).collect::<Result<_, _>>()? })
}

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("use OPTION=VALUE")?;
    Ok((name.to_string(), value.to_string()))
}

pub(super) fn distribution(text: &str) -> Result<silica_bench::Distribution, String> {
    let parsed = silica_bench::Distribution::parse(text);
    parsed.ok_or_else(|| {
        let names = silica_bench::Distribution::ALL.map(|distribution| distribution.name());
        format!("use {}", names.join(", "))
    })
}
