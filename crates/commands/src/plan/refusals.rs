//! Requests that are not planned: they call no command, are of HTTP, or another node of a cluster
//! runs them.

use super::Planner;
use crate::burst::Args;
use crate::cluster::Asked;
use crate::push::Kind;
use crate::resp::clients;
use crate::resp::topics::kind_of;
use crate::table::{Command, Run, Trait};

impl Planner<'_> {
    /// In a cluster: why a request is no part of a transaction on this node.
    pub(super) fn refuse_queued(&self, command: &Command, args: Args<'_>) -> Result<(), String> {
        let Some(cluster) = &self.service.cluster else { return Ok(()) };
        let asked = self.asked(command);
        let is_shard = command.is(Trait::ToChannel) && kind_of(args) == Kind::Shard;
        let refused = match is_shard {
            true => cluster.refuse([args.get(1)].into_iter(), asked),
            false => cluster.refuse(command.keys(args), asked),
        };
        refused.map_or(Ok(()), Err)
    }

    /// What a request of `command` says to a cluster.
    fn asked(&self, command: &Command) -> Asked {
        let asking = self.session.asking || command.has("asking");
        let (read_only, changes) = (self.session.read_only, command.has("write"));
        Asked { asking, read_only, changes, of_channels: command.is(Trait::ToChannel) }
    }
}

/// What runs a request inside of a transaction.
pub(super) fn queued_run(command: &Command, args: Args<'_>) -> Run {
    match command.run {
        Run::Choose(choose) => choose(args),
        Run::Apart(apart) if command.is(Trait::Queued) => Run::Across(apart),
        // Its connection is known to the transaction.
        _ if command.name == "client|kill" => Run::Whole(clients::kill_others),
        run => run,
    }
}

/// The reply to a command that does not exist.
pub(super) fn unknown(args: Args<'_>) -> String {
    let shown = |bytes: &[u8], max: usize| {
        String::from_utf8_lossy(&bytes[..bytes.len().min(max)]).into_owned()
    };
    let mut list = String::new();
    for arg in args.from(1) {
        if list.len() >= 128 {
            break;
        }
        list.push_str(&format!("'{}' ", shown(arg, 128 - list.len())));
    }
    let name = shown(args.get(0), 128);
    format!("ERR unknown command '{name}', with args beginning with: {list}")
}

/// Verbs of HTTP that browsers send, beside POST.
const HTTP_VERBS: [&str; 6] = ["get", "head", "put", "delete", "options", "patch"];

/// True for the first line of a request of HTTP: a verb, a path and the version.
pub(super) fn speaks_http(args: Args<'_>) -> bool {
    args.len() == 3
        && args.get(2).starts_with(b"HTTP/1.")
        && args.get(1).starts_with(b"/")
        && HTTP_VERBS.iter().any(|verb| args.is(0, verb))
}
