//! How the values of flags are read; what is wrong with one names what is right.
//!
//! # Errors
//! What a flag takes, as text for a person.

/// Most threads for background work.
const THREADS_MAX: usize = 1024;

/// Reads a size in bytes, such as 64MiB.
pub fn size(text: &str) -> Result<u64, String> {
    silica::parse_size(text).ok_or_else(|| "use a size such as 64MiB, 2G or 1048576".to_string())
}

/// Reads a size of memory, within the range that a store can have.
pub fn memory(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    silica::check_memory_bytes("memory", bytes).map_err(|e| e.to_string())?;
    Ok(bytes)
}

/// Reads a name and a size of memory: `NAME=SIZE`.
pub fn memory_part(text: &str) -> Result<(String, u64), String> {
    let (name, bytes) = text.rsplit_once('=').ok_or("use NAME=SIZE, such as users=64MiB")?;
    Ok((name.to_string(), memory(bytes)?))
}

/// Reads a number of threads.
pub fn threads(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| *count <= THREADS_MAX);
    count.ok_or_else(|| format!("use a number from 0 to {THREADS_MAX}"))
}

/// Reads a name and a value: `NAME=VALUE`.
pub fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("use OPTION=VALUE")?;
    Ok((name.to_string(), value.to_string()))
}

/// Reads the name of a distribution of keys.
pub fn distribution(text: &str) -> Result<silica_bench::Distribution, String> {
    let parsed = silica_bench::Distribution::parse(text);
    parsed.ok_or_else(|| {
        let names = silica_bench::Distribution::ALL.map(|distribution| distribution.name());
        format!("use {}", names.join(", "))
    })
}
