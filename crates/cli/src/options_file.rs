//! A file of options: TOML, the options of `silica serve` by their names; `[set]` has options of
//! the engine, `[settings]` what CONFIG SET takes.

use clap::{Arg, ArgAction};
use silica::device::rewrite_file;
use silica::engine::unknown;
use silica::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use toml_edit::{DocumentMut, Item, Table, Value};

/// The table of what CONFIG SET takes.
const SETTINGS: &str = "settings";

/// The name of an option in the file: that on the command line, without dashes.
pub(crate) fn name_of(arg: &Arg) -> String {
    arg.get_long().unwrap_or(arg.get_id().as_str()).to_string()
}

/// A file that was read.
#[derive(Debug, Clone)]
pub(crate) struct OptionsFile {
    path: PathBuf,
    document: DocumentMut,
}

impl OptionsFile {
    /// Reads the file at `path`.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::io(format!("reading the options in {}", path.display()), e))?;
        let document = DocumentMut::from_str(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(&text, span.start));
            let why = error.message();
            Error::new(ErrorKind::Config, format!("{}:{line}: {why}", path.display()))
        })?;
        // A server may be started in one directory and rewrite its file from another.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        Ok(OptionsFile { path, document })
    }

    /// Refuses what is no option, and values of the wrong kind.
    pub(crate) fn check(&self, options: &[Arg]) -> Result<()> {
        for (name, item) in self.document.iter() {
            if name == SETTINGS {
                let table = item.as_table_like();
                let table = table.ok_or_else(|| self.wrong(name, "it is a table, [settings]"))?;
                for (name, item) in table.iter() {
                    let is_plain = item.as_value().is_some_and(|value| plain(value).is_some());
                    if !is_plain {
                        return Err(self.wrong(name, "a setting is a number or a text"));
                    }
                }
                continue;
            }
            let Some(arg) = options.iter().find(|arg| name_of(arg) == name) else {
                let names: Vec<String> = options.iter().map(name_of).collect();
                let error = unknown("option", name, names.iter().map(String::as_str));
                return Err(error.within(self.place(name)));
            };
            let values = values_of(item);
            let kind = match arg.get_action() {
                ArgAction::SetTrue => "it is true or false",
                ArgAction::Append => "it is a text, or a list of texts",
                _ => "it is one text or number",
            };
            let is_right = match arg.get_action() {
                ArgAction::SetTrue => item.is_bool(),
                ArgAction::Append => values.is_some() && !item.is_bool(),
                _ => values.is_some_and(|values| values.len() == 1) && !item.is_array(),
            };
            if !is_right {
                return Err(self.wrong(name, kind));
            }
        }
        Ok(())
    }

    /// What it says of the option `name`.
    pub(crate) fn values(&self, name: &str) -> Option<Vec<String>> {
        values_of(self.document.get(name)?)
    }

    /// The names and values of `[settings]`.
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let table = self.document.get(SETTINGS).and_then(Item::as_table_like);
        let all = table.into_iter().flat_map(|table| table.iter());
        all.filter_map(|(name, item)| Some((name.to_string(), plain(item.as_value()?)?))).collect()
    }

    /// The options, without the settings, that are not as in `other`.
    pub(crate) fn differing(&self, other: &OptionsFile) -> Vec<String> {
        let names = |file: &OptionsFile| {
            file.document.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>()
        };
        let mut all: Vec<String> = names(self).into_iter().chain(names(other)).collect();
        all.sort();
        all.dedup();
        all.retain(|name| name != SETTINGS && self.values(name) != other.values(name));
        all
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn wrong(&self, name: &str, why: &str) -> Error {
        Error::new(ErrorKind::Config, format!("{}: {name}: {why}", self.place(name)))
    }

    /// The file and the line that has `name`.
    fn place(&self, name: &str) -> String {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let is_it =
            |line: &str| line.trim_start().trim_start_matches(['[', '"', '\'']).starts_with(name);
        let line = text.lines().position(is_it).map_or(1, |index| index + 1);
        format!("{}:{line}", self.path.display())
    }
}

impl silica_server::SettingsFile for OptionsFile {
    /// Reads the file again, so that what somebody has written to it meanwhile stays, and puts a
    /// new one in its place, durably. Another server that has the same file waits so long.
    fn rewrite(&self, settings: &[(&str, String)]) -> Result<()> {
        rewrite_file(&self.path, None, || self.with(settings))
    }
}

impl OptionsFile {
    /// The text of the file as it is now, with `settings`.
    fn with(&self, settings: &[(&str, String)]) -> Result<Vec<u8>> {
        let mut now = OptionsFile::read(&self.path)?;
        let table = now.document.entry(SETTINGS).or_insert_with(|| Item::Table(Table::new()));
        let table = table
            .as_table_like_mut()
            .ok_or_else(|| Error::new(ErrorKind::Config, "[settings] is no table"))?;
        for (name, text) in settings {
            let value = match text.parse::<i64>() {
                Ok(number) => Value::from(number),
                Err(_) => Value::from(text.as_str()),
            };
            match table.get_mut(name) {
                // What stands beside it stays there.
                Some(Item::Value(old)) => {
                    let decor = old.decor().clone();
                    *old = value;
                    *old.decor_mut() = decor;
                }
                _ => drop(table.insert(name, Item::Value(value))),
            }
        }
        Ok(now.document.to_string().into_bytes())
    }
}

/// A number, a text or a truth value as text.
fn plain(value: &Value) -> Option<String> {
    Some(match value {
        Value::String(text) => text.value().clone(),
        Value::Integer(number) => number.value().to_string(),
        Value::Float(number) => number.value().to_string(),
        Value::Boolean(yes) => yes.value().to_string(),
        _ => return None,
    })
}

/// The values of an option: one, those of a list, or `name=value` for each line of a table.
fn values_of(item: &Item) -> Option<Vec<String>> {
    if let Some(table) = item.as_table_like() {
        let line =
            |(name, item): (&str, &Item)| Some(format!("{name}={}", plain(item.as_value()?)?));
        return table.iter().map(line).collect();
    }
    match item.as_value()? {
        Value::Array(all) => all.iter().map(plain).collect(),
        value => plain(value).map(|text| vec![text]),
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}
