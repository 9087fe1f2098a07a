//! Settings as text, for those who do not write Rust: bindings and files of options.

use crate::OpenOptions;
use silica_engine::{Durability, Error, ErrorKind, MEMORY_OPTION, Result, parse_size};

/// Settings of a store and of a cache that are not an engine's option.
const OWN: &[&str] = &[
    "background_bytes_per_second",
    "background_threads",
    "create",
    "durability",
    "engine",
    "image",
    "log_path",
    MEMORY_OPTION,
    "read_only",
    "workload",
];

impl OpenOptions {
    /// Names that [`OpenOptions::setting`] takes besides the options of engines.
    pub const SETTINGS: &[&str] = OWN;

    /// Changes the setting `name` to what `text` says: one that has a method of this name, or else
    /// an option of engines, as [`OpenOptions::set`] does. The opening refuses unknown names.
    ///
    /// ```
    /// # let name = format!("silica-doc-setting-{}", std::process::id());
    /// # let path = std::env::temp_dir().join(name);
    /// let wanted = [("memory_bytes", "64MiB"), ("filter_bits", "10")];
    /// let start = silica::OpenOptions::new();
    /// let options = wanted.iter().try_fold(start, |o, (name, text)| o.setting(name, text))?;
    /// options.open(&path)?.close()?;
    /// # std::fs::remove_dir_all(&path).ok();
    /// # Ok::<(), silica::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Config` if `text` is no value of the setting.
    pub fn setting(self, name: &str, text: &str) -> Result<Self> {
        let bad = |want: &str| {
            let message = format!("setting {name}: '{text}' is not valid; use {want}");
            Error::new(ErrorKind::Config, message)
        };
        let size = || parse_size(text).ok_or_else(|| bad("a size in bytes, such as 64MiB"));
        let switch = || match text {
            "true" | "yes" | "on" | "1" => Ok(true),
            "false" | "no" | "off" | "0" => Ok(false),
            _ => Err(bad("true or false")),
        };
        Ok(match name {
            "background_bytes_per_second" => self.background_bytes_per_second(size()?),
            "background_threads" => {
                let threads = text.parse().ok().filter(|threads| *threads <= 1024);
                self.background_threads(threads.ok_or_else(|| bad("a number from 0 to 1024"))?)
            }
            "create" => self.create(switch()?),
            "durability" => self.durability(match text {
                "buffered" => Durability::Buffered,
                "synced" => Durability::Synced,
                _ => return Err(bad("buffered or synced")),
            }),
            "engine" => self.engine(text),
            "image" => self.image(text),
            "log_path" => self.log_path(text),
            MEMORY_OPTION => self.memory_bytes(size()?),
            "read_only" => self.read_only(switch()?),
            "workload" => self.workload(text),
            _ => self.set(name, text),
        })
    }
}
