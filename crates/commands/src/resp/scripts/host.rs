//! The commands that a script calls.

use super::running::Running;
use super::step::Step;
use crate::acl::{Denied, Refusal, User};
use crate::budget::Claim;
use crate::burst::{Args, Input, Request};
use crate::clients::Client;
use crate::cluster::{Asked, CROSS_SLOT};
use crate::engine_calls::error_text;
use crate::push::Kind;
use crate::resp::monitors;
use crate::resp::{Cx, Keyspace, topics};
use crate::service::Service;
use crate::session::Session;
use crate::table::{Command, Run, Trait, find, find_sub};
use silica::engine::{Engine, Result};
use silica_lua::{Dialect, Host, LogLevel};
use silica_proto::{Reply, Span, Version};
use std::sync::Arc;

/// Runs all requests of an input on an engine; their replies, or `None` if they have to run on a
/// thread for long requests.
pub(crate) type RunCommand<'r> = dyn FnMut(&dyn Engine, &Input) -> Result<Option<Vec<u8>>> + 'r;

/// A message: what it is sent to, by kind and name, and its text.
pub(super) type Message = (Kind, Vec<u8>, Vec<u8>);

/// Replies of one command that a script may hold: they are claimed twice, and copied into Lua.
const REPLY_BYTES_MAX: usize = 64 << 20;

/// What a script's commands act on.
pub(super) struct Commands<'c> {
    pub(super) service: &'c Service,
    pub(super) user: &'c Arc<User>,
    pub(super) client: &'c Client,
    pub(super) db: usize,
    pub(super) step: &'c Step<'c>,
    /// The database, unless the script is part of a transaction.
    pub(super) whole: Option<&'c Arc<dyn Engine>>,
    pub(super) claim: &'c Claim,
    pub(super) is_read_only: bool,
    /// The keys that are read are noted for the client.
    pub(super) is_tracked: bool,
    pub(super) run: &'c mut RunCommand<'c>,
    /// The last command's arguments.
    pub(super) input: Input,
    /// Messages to be sent when the script has taken effect: channel and text.
    pub(super) announced: Vec<Message>,
    /// Lines for those who monitor, to be shown when the script has taken effect.
    pub(super) shown: Vec<String>,
    pub(super) running: Option<Arc<Running>>,
    /// A command takes longer than others may wait: the script runs anew elsewhere.
    pub(super) is_postponed: bool,
}

impl Host for Commands<'_> {
    fn call(&mut self, args: &[&[u8]], dialect: Dialect, reply: &mut Vec<u8>) {
        let mut input = std::mem::take(&mut self.input);
        input.bytes.clear();
        input.spans.clear();
        input.requests.clear();
        for arg in args {
            let start = input.bytes.len() as u32;
            input.spans.push(Span { start, len: arg.len() as u32 });
            input.bytes.extend_from_slice(arg);
        }
        let version = match dialect {
            Dialect::Resp2 => Version::Resp2,
            Dialect::Resp3 => Version::Resp3,
        };
        if let Err(text) = self.answer(&mut input, version, reply) {
            reply.clear();
            Reply::new(reply, version).error(&text);
        }
        if reply.len() > REPLY_BYTES_MAX {
            reply.clear();
            let text = format!("OOM a script gets replies of {REPLY_BYTES_MAX} bytes at most");
            Reply::new(reply, version).error(&text);
        }
        self.input = input;
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        match level {
            LogLevel::Debug | LogLevel::Verbose => log::debug!("script: {text}"),
            LogLevel::Notice => log::info!("script: {text}"),
            LogLevel::Warning => log::warn!("script: {text}"),
        }
    }

    fn permits(&mut self, args: &[&[u8]]) -> Option<bool> {
        let mut bytes = Vec::new();
        let mut spans = Vec::new();
        for arg in args {
            spans.push(Span { start: bytes.len() as u32, len: arg.len() as u32 });
            bytes.extend_from_slice(arg);
        }
        let args = Args::new(&bytes, &spans);
        let command = find_any(args)?;
        if !command.takes(args.len()) {
            return None;
        }
        Some(self.user.permits(command, args).is_ok())
    }
}

/// The command or subcommand that `args` call, if there is one.
fn find_any(args: Args<'_>) -> Option<&'static Command> {
    let command = find(args.get(0))?;
    if command.subs.is_empty() || args.len() == 1 {
        return Some(command);
    }
    find_sub(command, args.get(1))
}

/// Why a script's user may not run a command.
fn denial(denied: &Denied) -> String {
    let what = match denied {
        Denied::Command(_) => "run this command or subcommand",
        Denied::Key(_) | Denied::Option(_) => {
            "access at least one of the keys mentioned in the command arguments"
        }
        Denied::Channel(_) => "access at least one of the channels mentioned in the command",
    };
    format!("NOPERM The user executing the script can't {what}")
}

impl Commands<'_> {
    /// The command that `args` call, if the script may call it.
    fn find(&self, args: Args<'_>) -> std::result::Result<&'static Command, String> {
        let unknown = "ERR Unknown Redis command called from script";
        let command = find_any(args).ok_or(unknown)?;
        if !command.takes(args.len()) {
            return Err("ERR Wrong number of args calling Redis command from script".into());
        }
        if command.has("noscript") || command.has("admin") {
            return Err("ERR This Redis command is not allowed from script".into());
        }
        if self.is_read_only && command.has("write") {
            return Err("ERR Write commands are not allowed from read-only scripts.".into());
        }
        if let Some(cluster) = &self.service.cluster
            && let Some(text) = cluster.refuse(command.keys(args), Asked::default())
        {
            return Err(match text.as_str() {
                CROSS_SLOT => {
                    "ERR Script attempted to access keys that do not hash to the same slot".into()
                }
                _ if text.starts_with("MOVED") => {
                    "ERR Script attempted to access a non local key in a cluster node".into()
                }
                _ => text,
            });
        }
        if command.has("write")
            && let Some(text) = self.service.replication.refuse_write()
        {
            return Err(text.into());
        }
        if let Err(denied) = self.user.permits(command, args) {
            let refusal = Refusal::of(&denied, &self.user.name, true);
            self.service.note_refusal(refusal, Some(self.client));
            return Err(denial(&denied));
        }
        Ok(command)
    }

    fn answer(
        &mut self,
        input: &mut Input,
        version: Version,
        reply: &mut Vec<u8>,
    ) -> std::result::Result<(), String> {
        let args = Args::new(&input.bytes, &input.spans);
        let command = self.find(args)?;
        if self.service.monitors.is_active() {
            self.shown.push(monitors::line(self.service, self.db, &"lua", args));
        }
        let mut run = command.run;
        if let Run::Choose(choose) = run {
            run = choose(args);
        }
        match run {
            Run::Read(_) | Run::Write(_) | Run::Update(_) | Run::UpdateAll(_) | Run::Type(_) => {
                let skip = command.args_before(&run);
                let request = Request::new(run, skip, args.len() - skip);
                let tracked = self.is_tracked && command.has("readonly");
                input.client = self.client.id;
                input.requests.push(Request { db: self.db as u8, version, tracked, ..request });
                let replies = (self.run)(self.step, input).map_err(|error| error_text(&error))?;
                let Some(replies) = replies else {
                    self.is_postponed = true;
                    return Err("ERR the command takes too long here".into());
                };
                reply.extend(replies);
                if self.step.has_written()
                    && let Some(running) = &self.running
                {
                    running.note_write();
                }
                self.claim_step()
            }
            Run::Whole(_) if command.is(Trait::Deferred) => {
                let kind = topics::kind_of(args);
                self.announced.push((kind, args.get(1).to_vec(), args.get(2).to_vec()));
                self.whole(topics::announce, args, &mut Reply::new(reply, version))
            }
            Run::Whole(run) if command.has("readonly") || command.name == "info" => {
                if self.whole.is_none() || self.step.has_written() {
                    let name = command.name;
                    return Err(format!(
                        "ERR '{name}' in a script comes before the script's first write, and \
                         outside of MULTI, here"
                    ));
                }
                self.whole(run, args, &mut Reply::new(reply, version))
            }
            Run::Session(_) if command.name == "select" => self.select(args, reply),
            Run::Session(run) if command.is(Trait::Immediate) || is_about_commands(command) => {
                let mut session = Session::new(true);
                session.version = version;
                session.user = Some(Arc::clone(self.user));
                let (service, client) = (self.service, self.client);
                let reply = Reply::new(reply, version);
                run(&mut Cx { service, client, session: &mut session, reply }, args);
                Ok(())
            }
            _ => Err(format!("ERR '{}' cannot be part of a script here", command.name)),
        }
    }

    /// Counts what the step holds, while the script runs.
    fn claim_step(&self) -> std::result::Result<(), String> {
        let (held, claimed) = (self.step.held_bytes(), self.claim.bytes());
        match held.checked_sub(claimed) {
            Some(more @ 1..) => self.claim.grow(more),
            _ => Ok(()),
        }
    }

    /// A script stays in its database: nothing is one step in two of them.
    fn select(&self, args: Args<'_>, reply: &mut Vec<u8>) -> std::result::Result<(), String> {
        if args.get(1) != self.db.to_string().as_bytes() {
            return Err(
                "ERR a script acts on one database here; select it before the script".into()
            );
        }
        reply.extend_from_slice(b"+OK\r\n");
        Ok(())
    }

    fn whole(
        &self,
        run: fn(&Keyspace<'_>, Args<'_>, &mut Reply<'_>) -> Result<()>,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> std::result::Result<(), String> {
        let user: &User = self.user;
        let keyspace = Keyspace {
            service: self.service,
            claim: self.claim,
            engine: self.whole.map_or(self.step as &dyn Engine, |whole| &**whole),
            db: self.db,
            whole: self.whole,
            reader: Some(user).filter(|user| !user.may_know_all()),
            client: 0,
            ahead: None,
        };
        keyspace.answer(run, args, reply);
        Ok(())
    }
}

/// True for the commands that describe commands.
fn is_about_commands(command: &Command) -> bool {
    command.name == "command" || command.name.starts_with("command|")
}
