//! CLIENT LIST and CLIENT KILL: connections by what they are.

use super::{Cx, Keyspace, SYNTAX};
use crate::acl::Acl;
use crate::burst::Args;
use crate::clients::Client;
use silica::engine::Result;
use silica_proto::{Reply, parse_i64};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Kinds of connections, as Redis tells them apart.
const KINDS: &[&str] = &["normal", "pubsub", "master", "replica", "slave"];

/// What connections have to be.
#[derive(Debug, Default)]
struct Filter {
    ids: Option<BTreeSet<u64>>,
    kind: Option<&'static str>,
    peer: Option<Vec<u8>>,
    local: Option<Vec<u8>>,
    user: Option<Vec<u8>>,
    /// Seconds since it connected.
    age_min: u64,
}

impl Filter {
    fn takes(&self, client: &Client, now_ms: u64) -> bool {
        let kind = match () {
            () if client.is_replica() => "replica",
            () if client.is_listening() => "pubsub",
            () => "normal",
        };
        let is = |wanted: &Option<Vec<u8>>, text: &dyn Fn() -> String| {
            wanted.as_ref().is_none_or(|wanted| *wanted == text().into_bytes())
        };
        self.ids.as_ref().is_none_or(|ids| ids.contains(&client.id))
            && self.kind.is_none_or(|wanted| wanted == kind)
            && is(&self.peer, &|| client.peer.to_string())
            && is(&self.local, &|| client.local.to_string())
            && is(&self.user, &|| client.user_name())
            && now_ms.saturating_sub(client.born_ms) / 1000 >= self.age_min
    }

    fn set_kind(&mut self, kind: &[u8]) -> Result<(), String> {
        let known = KINDS.iter().find(|known| kind.eq_ignore_ascii_case(known.as_bytes()));
        let known = known.map(|known| if *known == "slave" { &"replica" } else { known });
        self.kind = Some(known.ok_or_else(|| {
            format!("ERR Unknown client type '{}'", String::from_utf8_lossy(kind))
        })?);
        Ok(())
    }
}

fn id(text: &[u8]) -> Option<u64> {
    parse_i64(text).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0)
}

fn list_filter(args: Args<'_>) -> Result<Filter, String> {
    let mut filter = Filter::default();
    match args.len() {
        2 => {}
        4 if args.is(2, "type") => filter.set_kind(args.get(3))?,
        4.. if args.is(2, "id") => {
            let ids: Option<BTreeSet<u64>> = args.from(3).map(id).collect();
            filter.ids = Some(ids.ok_or("ERR Invalid client ID")?);
        }
        _ => return Err(SYNTAX.into()),
    }
    Ok(filter)
}

pub(crate) fn list(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let filter = match list_filter(args) {
        Ok(filter) => filter,
        Err(text) => {
            reply.error(&text);
            return Ok(());
        }
    };
    let now_ms = keys.service.unix_ms();
    let line = |client: Arc<Client>| {
        let tracked = keys.service.tracking.shown(client.id);
        client.line(tracked, now_ms) + "\n"
    };
    let chosen = keys.service.clients.all().into_iter().filter(|c| filter.takes(c, now_ms));
    reply.verbatim(chosen.map(line).collect::<String>().as_bytes());
    Ok(())
}

/// The filter of a CLIENT KILL, and whether it spares its own connection.
fn kill_filter(acl: &Acl, args: Args<'_>) -> Result<(Filter, bool), String> {
    let (mut filter, mut spare) = (Filter::default(), true);
    if args.len() == 3 {
        filter.peer = Some(args.get(2).to_vec());
        return Ok((filter, false));
    }
    for index in (2..args.len()).step_by(2) {
        let value = args.from(index + 1).next().ok_or(SYNTAX)?;
        let word = args.get(index).to_ascii_lowercase();
        match &word[..] {
            b"id" => {
                let id = id(value).ok_or("ERR client-id should be greater than 0")?;
                filter.ids = Some(BTreeSet::from([id]));
            }
            b"type" => filter.set_kind(value)?,
            b"addr" => filter.peer = Some(value.to_vec()),
            b"laddr" => filter.local = Some(value.to_vec()),
            b"user" => {
                let name = String::from_utf8_lossy(value);
                acl.get(&name).ok_or_else(|| format!("ERR No such user '{name}'"))?;
                filter.user = Some(value.to_vec());
            }
            b"maxage" => filter.age_min = id(value).ok_or(SYNTAX)?,
            b"skipme" if value.eq_ignore_ascii_case(b"yes") => spare = true,
            b"skipme" if value.eq_ignore_ascii_case(b"no") => spare = false,
            _ => return Err(SYNTAX.into()),
        }
    }
    Ok((filter, spare))
}

/// CLIENT KILL in a transaction, which spares its own connection.
pub(crate) fn kill_others(
    keys: &Keyspace<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let (service, now_ms) = (keys.service, keys.service.unix_ms());
    let (filter, _) = match kill_filter(&service.acl, args) {
        Ok(chosen) => chosen,
        Err(text) => {
            reply.error(&text);
            return Ok(());
        }
    };
    let all = service.clients.all().into_iter();
    let others = all.filter(|client| filter.takes(client, now_ms) && client.id != keys.client);
    let mut count = 0;
    for client in others {
        count += 1;
        let owner = client.owner();
        service.front.close(client.loop_index, owner);
    }
    match (args.len(), count) {
        (3, 0) => reply.error("ERR No such client"),
        (3, _) => reply.ok(),
        _ => reply.integer(count),
    }
    Ok(())
}

pub(crate) fn kill(cx: &mut Cx<'_>, args: Args<'_>) {
    let (filter, spare) = match kill_filter(&cx.service.acl, args) {
        Ok(chosen) => chosen,
        Err(text) => return cx.reply.error(&text),
    };
    let now_ms = cx.service.unix_ms();
    let mut count = 0;
    for client in cx.service.clients.all() {
        if !filter.takes(&client, now_ms) || (spare && client.id == cx.client.id) {
            continue;
        }
        count += 1;
        if client.id == cx.client.id {
            // It gets its answer yet.
            cx.session.quit = true;
            continue;
        }
        let owner = client.owner();
        cx.service.front.close(client.loop_index, owner);
    }
    match (args.len(), count) {
        (3, 0) => cx.reply.error("ERR No such client"),
        (3, _) => cx.reply.ok(),
        _ => cx.reply.integer(count),
    }
}
