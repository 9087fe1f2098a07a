//! Whether a user may run a request: the one place that decides.

use super::User;
use crate::burst::Args;
use crate::glob;
use crate::push::Kind;
use crate::table::{Command, Trait};

/// What a user may not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Denied {
    Command(&'static str),
    Key(Vec<u8>),
    /// An option that names keys by a pattern.
    Option(&'static str),
    Channel(Vec<u8>),
}

impl Denied {
    /// Which of the checks it failed.
    fn step(&self) -> u8 {
        match self {
            Denied::Command(_) => 0,
            Denied::Key(_) | Denied::Option(_) => 1,
            Denied::Channel(_) => 2,
        }
    }

    /// The error that answers the request.
    pub(crate) fn text(&self) -> String {
        match self {
            Denied::Command(name) => {
                format!("NOPERM this user has no permissions to run the '{name}' command")
            }
            Denied::Key(_) => "NOPERM this user has no permissions to access one of the keys used \
                               as arguments"
                .into(),
            Denied::Option(option) => {
                format!("ERR {option} option of SORT denied due to insufficient ACL permissions")
            }
            Denied::Channel(_) => "NOPERM this user has no permissions to access one of the \
                                   channels used as arguments"
                .into(),
        }
    }

    /// What ACL DRYRUN says.
    pub(crate) fn explanation(&self) -> String {
        let text = String::from_utf8_lossy;
        match self {
            Denied::Command(name) => {
                format!("This user has no permissions to run the '{name}' command")
            }
            Denied::Key(key) => {
                format!("This user has no permissions to access the '{}' key", text(key))
            }
            Denied::Option(option) => {
                format!("This user has no permissions to access all keys, as {option} may")
            }
            Denied::Channel(name) => {
                format!("This user has no permissions to access the '{}' channel", text(name))
            }
        }
    }
}

/// What a command does to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    /// It tells what the key holds.
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl User {
    /// Whether it may run `command` with `args`.
    pub(crate) fn permits(&self, command: &Command, args: Args<'_>) -> Result<(), Denied> {
        if self.is_unlimited() || command.open_to_all() {
            return Ok(());
        }
        self.permits_by(|rights| {
            rights.permits_command(command)?;
            for (nth, key) in command.keys(args).enumerate() {
                rights.permits_key(key, command.access(nth, args))?;
            }
            if command.is(Trait::LooksUp) {
                rights.permits_patterns(args)?;
            }
            rights.permits_channels(command, args)
        })
    }

    /// Whether its own rights, or those of one of its selectors, suffice for `check`; the refusal
    /// is of those that came furthest.
    pub(crate) fn permits_by(
        &self,
        mut check: impl FnMut(&User) -> Result<(), Denied>,
    ) -> Result<(), Denied> {
        let Err(mut denied) = check(self) else { return Ok(()) };
        for selector in &self.selectors {
            match check(selector) {
                Ok(()) => return Ok(()),
                Err(other) if other.step() > denied.step() => denied = other,
                Err(_) => {}
            }
        }
        Err(denied)
    }

    pub(crate) fn permits_command(&self, command: &Command) -> Result<(), Denied> {
        match self.all_commands || self.commands.contains(command.name) {
            true => Ok(()),
            false => Err(Denied::Command(command.name)),
        }
    }

    pub(crate) fn permits_key(&self, key: &[u8], access: Access) -> Result<(), Denied> {
        let gives = |pattern: &super::KeyPattern| {
            (pattern.read || !access.read)
                && (pattern.write || !access.write)
                && pattern.compiled.matches(key)
        };
        match self.all_keys || self.keys.iter().any(gives) {
            true => Ok(()),
            false => Err(Denied::Key(key.to_vec())),
        }
    }

    /// Whether it may name keys by the patterns among the options of SORT.
    fn permits_patterns(&self, args: Args<'_>) -> Result<(), Denied> {
        let mut at = 2;
        while !self.all_keys && at + 1 < args.len() {
            at += match () {
                () if args.is(at, "by") && args.get(at + 1).contains(&b'*') => {
                    return Err(Denied::Option("BY"));
                }
                () if args.is(at, "get") => return Err(Denied::Option("GET")),
                () if args.is(at, "by") || args.is(at, "store") => 2,
                () if args.is(at, "limit") => 3,
                () => 1,
            };
        }
        Ok(())
    }

    /// True if it may listen to `topic`, which is a channel or a pattern for channels.
    pub(crate) fn may_hear(&self, kind: Kind, topic: &[u8]) -> bool {
        self.rights().any(|rights| rights.gives_channel(kind, topic))
    }

    /// True if it may be told the name of `key`: it may do something to that.
    pub(crate) fn may_know(&self, key: &[u8]) -> bool {
        let nothing = Access { read: false, write: false };
        self.rights().any(|rights| rights.permits_key(key, nothing).is_ok())
    }

    /// True if it may read and write every key, by one set of rights.
    pub(crate) fn has_all_keys(&self) -> bool {
        self.rights().any(|rights| rights.all_keys)
    }

    /// True if it may be told the names of all keys.
    pub(crate) fn may_know_all(&self) -> bool {
        self.rights().any(|rights| rights.all_keys)
    }

    /// Its own rights and those of its selectors.
    fn rights(&self) -> impl Iterator<Item = &User> {
        std::iter::once(self).chain(&self.selectors)
    }

    /// Who listens to a pattern must have been given this very pattern.
    fn gives_channel(&self, kind: Kind, topic: &[u8]) -> bool {
        let gives = |pattern: &Vec<u8>| match kind {
            Kind::Pattern => pattern == topic,
            Kind::Channel | Kind::Shard => glob::matches(pattern, topic),
        };
        self.all_channels || self.channels.iter().any(gives)
    }

    fn permits_channels(&self, command: &Command, args: Args<'_>) -> Result<(), Denied> {
        let (channels, kind) = match () {
            // Patterns for channels hold for sharded ones, too.
            () if command.is(Trait::ToChannel) => (1, Kind::Channel),
            () if command.is(Trait::Channels) => (usize::MAX, Kind::Channel),
            () if command.is(Trait::Patterns) => (usize::MAX, Kind::Pattern),
            () => return Ok(()),
        };
        let mut topics = args.from(1).take(channels);
        let denied = topics.find(|topic| !self.gives_channel(kind, topic));
        denied.map_or(Ok(()), |topic| Err(Denied::Channel(topic.to_vec())))
    }
}
