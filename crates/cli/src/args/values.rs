//! How the values of flags are read; what is wrong with one names what is right.

use silica_console::values::pair;
use std::time::Duration;

/// What a database is to be.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseArg {
    pub(crate) index: u32,
    pub(crate) engine: String,
    pub(crate) options: Vec<(String, String)>,
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

/// A number over 0.
pub(super) fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| String::from("use a number over 0, such as 0.5 or 3"))
}

/// How flash is divided.
pub(super) fn geometry(text: &str) -> Result<silica::device::blocks::Geometry, String> {
    text.parse().map_err(|error: silica::Error| error.to_string())
}
