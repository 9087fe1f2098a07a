//! REPLICAOF: whom a server follows.

use super::Keyspace;
use crate::burst::Args;
use crate::cluster::LinkKind;
use crate::marks::remove_marks;
use crate::replication::Role;
use crate::service::Service;
use crate::waiters::Waited;
use silica::engine::{Error, ErrorKind, Result};
use silica_proto::{Reply, parse_i64};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{MutexGuard, PoisonError};

/// The name of the setting that says whom a server follows.
pub(crate) const SETTING: &str = "replicaof";

/// The error of REPLICAOF in a cluster, whose map says who follows whom.
const IN_CLUSTER: &str = "ERR REPLICAOF not allowed in cluster mode.";

/// REPLICAOF and SLAVEOF. Runs while no other burst does: no write is under way, and no group of
/// the stream.
pub(crate) fn replicaof(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let service = keys.service;
    if service.cluster.is_some() {
        reply.error(IN_CLUSTER);
        return Ok(());
    }
    if service.replication.is_failing_over() {
        reply.error("ERR REPLICAOF not allowed while failing over.");
        return Ok(());
    }
    if args.is(1, "no") && args.is(2, "one") {
        promote(service)?;
        reply.ok();
        return Ok(());
    }
    let host = String::from_utf8_lossy(args.get(1)).into_owned();
    let port = parse_i64(args.get(2)).and_then(|port| u16::try_from(port).ok());
    let Some(port) = port.filter(|port| *port > 0 && !host.is_empty()) else {
        reply.error("ERR Invalid master port");
        return Ok(());
    };
    if let Some(why) = refuse_own(service, &host, port) {
        reply.error(&format!("ERR {why}"));
        return Ok(());
    }
    match follow(service, &host, port) {
        true => reply.ok(),
        false => reply.simple("OK Already connected to specified master"),
    }
    Ok(())
}

/// Lets the server take writes of clients. Its data has no position in anybody's stream any more.
pub(crate) fn promote(service: &Service) -> Result<()> {
    if service.replication.role().0 == Role::Primary {
        return Ok(());
    }
    remove_marks(&service.databases.held()?)?;
    service.replication.become_primary();
    service.databases.clock().inspect(|clock| clock.release());
    service.drop_replicas();
    note_changed(service);
    log::info!("this server takes writes of clients from now on");
    Ok(())
}

/// Lets the server follow the one at `host` and `port`; false if it does so already. The caller is
/// alone with the databases.
pub(crate) fn follow(service: &Service, host: &str, port: u16) -> bool {
    if !service.replication.become_replica(host, port) {
        return false;
    }
    service.databases.clock().inspect(|clock| clock.hold());
    note_changed(service);
    log::info!("this server follows {host}:{port} from now on");
    // Whoever waits for a key would take it from the primary's data.
    service.waiters.all().into_iter().for_each(|client| service.wake(client, Waited::Ended));
    true
}

/// Why the server cannot follow the one at `host` and `port`, if that is itself. What only the
/// other side knows, for instance behind a proxy, is found when the link is made.
fn refuse_own(service: &Service, host: &str, port: u16) -> Option<String> {
    let announced_port = service.replication.settings.announce_port.load(Relaxed);
    let announced_port = match announced_port {
        0 => service.link_port(LinkKind::Replication).into(),
        port => port,
    };
    let is_announced = !host.is_empty()
        && u64::from(port) == announced_port
        && announced_ip(service).eq_ignore_ascii_case(host);
    (is_announced || service.front.is_own_address(host, port)).then(|| {
        format!(
            "{host}:{port} is this server itself, which cannot follow itself: name the host and \
             port of its primary, or REPLICAOF NO ONE to have none"
        )
    })
}

/// Lets CONFIG REWRITE write the setting; in a cluster the map has it.
fn note_changed(service: &Service) {
    if service.cluster.is_none() {
        service.changed_settings().insert(SETTING);
    }
}

/// The user and the password that a replica says to its primary.
pub(crate) fn auth(service: &Service) -> MutexGuard<'_, (String, String)> {
    service.replication.settings.primary_auth.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The address that a replica tells its primary; empty for none.
pub(crate) fn announced_ip(service: &Service) -> MutexGuard<'_, String> {
    service.replication.settings.announce_ip.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whom the server follows, as the setting says it; empty for nobody.
pub(crate) fn shown(service: &Service) -> String {
    match service.replication.role().0 {
        Role::Primary => String::new(),
        Role::Replica { host, port } => format!("{host} {port}"),
    }
}

/// The host and the port that the setting's `text` says; `None` for nobody.
pub(crate) fn parse(text: &[u8]) -> std::result::Result<Option<(String, u16)>, String> {
    const WRONG: &str = "it is HOST PORT, or empty (NO ONE) for a primary";
    let text = String::from_utf8_lossy(text);
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    match words[..] {
        [] => Ok(None),
        [no, one] if no.eq_ignore_ascii_case("no") && one.eq_ignore_ascii_case("one") => Ok(None),
        [host, port] => {
            let port = port.parse().ok().filter(|port| *port > 0).ok_or(WRONG)?;
            Ok(Some((host.to_string(), port)))
        }
        _ => Err(WRONG.into()),
    }
}

/// Does what the setting says, while nobody uses the databases.
pub(crate) fn set(service: &Service, wanted: Option<(String, u16)>) -> Result<()> {
    if service.cluster.is_some() {
        let text = "a node of a cluster follows whom CLUSTER REPLICATE says";
        return Err(Error::new(ErrorKind::Config, text));
    }
    service.databases.alone(|| match wanted {
        None => promote(service),
        Some((host, port)) => {
            if let Some(why) = refuse_own(service, &host, port) {
                return Err(Error::new(ErrorKind::Config, why));
            }
            follow(service, &host, port);
            Ok(())
        }
    })
}
