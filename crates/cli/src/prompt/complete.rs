//! What the prompt completes: verbs, subcommands, flags and their values, keyspaces, and keys.

use super::words::quote;
use super::{Line, redis};
use crate::text;
use clap::{Arg, Command, CommandFactory};
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use silica::{KeyRange, Keyspace, Registry, Silica};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Keys that are proposed at most.
const KEYS_MAX: usize = 50;
/// Entries that are looked at for keys, where the engine keeps no order.
const LOOKED_AT_MAX: usize = 10_000;

/// The keyspace that the prompt is turned to, by name.
pub(super) type Turned = Rc<RefCell<String>>;

/// Proposes what may come next.
pub(super) struct Proposals {
    store: Arc<Silica>,
    turned: Turned,
    command: Command,
}

impl Proposals {
    pub(super) fn new(store: Arc<Silica>, turned: Turned) -> Self {
        let mut command = Line::command();
        // So that flags of every command are among those of each.
        command.build();
        Proposals { store, turned, command }
    }

    /// Where the word begins that is completed, and what it may become.
    pub(super) fn of(&self, typed: &str) -> (usize, Vec<String>) {
        let begin = typed.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let (before, word) = typed.split_at(begin);
        let before: Vec<&str> = before.split_whitespace().collect();
        let mut found = match before.split_first() {
            None => self.verbs(word),
            Some((verb, behind)) => self.arguments(verb, behind, word),
        };
        found.retain(|other| other.starts_with(word) || other.starts_with('"'));
        found.dedup();
        (begin, found)
    }

    /// Verbs, and Redis's commands in the case in which they are begun.
    fn verbs(&self, word: &str) -> Vec<String> {
        let is_upper = word.starts_with(|c: char| c.is_ascii_uppercase());
        let commands = silica_server::command_names().map(|(name, _)| name);
        let mut names: Vec<String> = if is_upper {
            commands.map(str::to_ascii_uppercase).collect()
        } else {
            let visible = self.command.get_subcommands().filter(|command| !command.is_hide_set());
            let verbs = visible.map(|command| command.get_name().to_string());
            let commands = commands.filter(|_| !word.is_empty()).map(str::to_string);
            verbs.chain(commands).collect()
        };
        names.sort();
        names
    }

    fn arguments(&self, verb: &str, behind: &[&str], word: &str) -> Vec<String> {
        let Some(mut command) = self.command.find_subcommand(verb) else {
            let is_key = behind.is_empty() && redis::takes_key(verb);
            return if is_key { self.keys(word) } else { Vec::new() };
        };
        let mut path = vec![verb];
        for word in behind {
            if let Some(inner) = command.find_subcommand(word) {
                path.push(word);
                command = inner;
            }
        }
        let flag = behind.last().and_then(|last| last.strip_prefix("--"));
        if let Some(arg) = flag.and_then(|flag| flag_of(command, flag))
            && arg.get_action().takes_values()
        {
            return self.values(arg);
        }
        if word.starts_with('-') {
            let flags = command.get_arguments().filter(|arg| !arg.is_hide_set());
            let mut flags: Vec<_> =
                flags.filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect();
            flags.sort();
            return flags;
        }
        let inner: Vec<_> =
            command.get_subcommands().map(|inner| inner.get_name().to_string()).collect();
        if !inner.is_empty() {
            return inner;
        }
        match path[..] {
            ["use" | "migrate" | "why"] | ["keyspace", "drop"] => self.keyspaces(),
            ["get" | "put" | "del" | "ttl" | "expire" | "persist"] => self.keys(word),
            ["help"] => self.verbs(word),
            _ => Vec::new(),
        }
    }

    /// Values of a flag, where they are known.
    fn values(&self, arg: &Arg) -> Vec<String> {
        match arg.get_long() {
            Some("keyspace") => self.keyspaces(),
            Some("engine" | "to") => {
                let registry = Registry::builtin();
                let names = registry.iter().map(|spec| spec.name.to_string());
                names.chain([silica::AUTO.to_string()]).collect()
            }
            Some("set") => {
                let registry = Registry::builtin();
                let mut names: Vec<String> = registry
                    .iter()
                    .flat_map(|spec| spec.options)
                    .map(|option| format!("{}=", option.name))
                    .collect();
                names.sort();
                names
            }
            _ => arg.get_possible_values().iter().map(|value| value.get_name().into()).collect(),
        }
    }

    fn keyspaces(&self) -> Vec<String> {
        let infos = self.store.keyspaces().unwrap_or_default();
        infos.into_iter().map(|info| quote(&info.name)).collect()
    }

    /// Keys that begin as `word` does. What cannot be read is not proposed.
    fn keys(&self, word: &str) -> Vec<String> {
        let name = self.turned.borrow().clone();
        let Ok(Some(keyspace)) = self.store.existing(&name) else { return Vec::new() };
        let Ok(begun) = text::parse(word.as_ref(), false) else { return Vec::new() };
        keys_of(&keyspace, &begun).iter().map(|key| quote(&text::show(key, false))).collect()
    }
}

/// Keys of `keyspace` that begin so, as many as are proposed.
fn keys_of(keyspace: &Keyspace, begun: &[u8]) -> Vec<Vec<u8>> {
    if keyspace.engine().descriptor().capabilities.ordered {
        let mut keys = Vec::new();
        let Ok(mut iterator) = keyspace.iterator(KeyRange::prefix(begun)) else { return keys };
        if iterator.seek_to_first().is_err() {
            return keys;
        }
        while let Some(key) = iterator.key()
            && keys.len() < KEYS_MAX
        {
            keys.push(key.to_vec());
            if iterator.next().is_err() {
                break;
            }
        }
        return keys;
    }
    let entries = keyspace.iter().take(LOOKED_AT_MAX).map_while(|entry| entry.ok());
    let keys = entries.map(|(key, _)| key).filter(|key| key.starts_with(begun));
    let mut keys: Vec<_> = keys.take(KEYS_MAX).collect();
    keys.sort();
    keys
}

fn flag_of<'c>(command: &'c Command, name: &str) -> Option<&'c Arg> {
    command.get_arguments().find(|arg| arg.get_long() == Some(name))
}

impl Completer for Proposals {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (begin, found) = self.of(&line[..position]);
        let pair = |word: String| {
            let end = if word.ends_with('=') { "" } else { " " };
            Pair { replacement: format!("{word}{end}"), display: word }
        };
        Ok((begin, found.into_iter().map(pair).collect()))
    }
}

impl Hinter for Proposals {
    type Hint = String;
}
impl Highlighter for Proposals {}
impl Validator for Proposals {}
impl Helper for Proposals {}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_keys(engine: &str, test: impl Fn(&Proposals)) {
        let name = format!("silica-complete-{engine}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let store = silica::OpenOptions::new().engine(engine).open(&path).unwrap();
        let keyspace = store.keyspace("default").unwrap();
        for key in ["user:ann", "user:bob", "two words", "x\n"] {
            keyspace.put(key, "v").unwrap();
        }
        store.keyspace("other").unwrap();
        drop(keyspace);
        let turned = Rc::new(RefCell::new("default".to_string()));
        test(&Proposals::new(Arc::new(store), turned));
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[track_caller]
    fn proposes(proposals: &Proposals, typed: &str, expected: &[&str]) {
        let (begin, found) = proposals.of(typed);
        assert_eq!(found, expected, "{typed}");
        assert!(found.iter().all(|w| w.starts_with(&typed[begin..]) || w.starts_with('"')));
    }

    #[test]
    fn verbs_flags_keyspaces_and_keys_are_proposed() {
        for engine in ["wip", "silt"] {
            with_keys(engine, |p| {
                proposes(p, "keysp", &["keyspace", "keyspaces"]);
                proposes(p, "SETE", &["SETEX"]);
                proposes(p, "setn", &["setnx"]);
                proposes(p, "put k v --tt", &["--ttl"]);
                proposes(p, "get --r", &["--raw", "--read-only"]);
                proposes(p, "scan --ke", &["--keys-only", "--keyspace", "--keyspace-memory"]);
                proposes(p, "put k v --durability ", &["buffered", "synced"]);
                proposes(p, "keyspace ", &["create", "drop", "list"]);
                proposes(p, "keyspace drop o", &["other"]);
                proposes(p, "use ", &["default", "other"]);
                proposes(p, "scan --keyspace d", &["default"]);
                proposes(p, "migrate default --to s", &["silt", "sptree"]);
                proposes(p, "get user:", &["user:ann", "user:bob"]);
                proposes(p, "GET user:a", &["user:ann"]);
                proposes(p, "expire x", &["x\\n"]);
                proposes(p, "del two", &["\"two words\""]);
                proposes(p, "PING x", &[]);
                proposes(p, "nonsense x", &[]);
            });
        }
    }
}
