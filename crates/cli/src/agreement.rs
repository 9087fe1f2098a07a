//! `silica serve --replicated-by`: a server as a member of a group.

use crate::args::ServeArgs;
use silica::{Durability, Error, ErrorKind, Result, Silica};
use silica_agree::{Certificates, ClientConfig, Group, Options, ServerConfig, Tls};
use silica_server::{Agreement, BothSides, Config, Databases};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Threads for writes at least: each waits for a majority.
const IO_WORKERS_MIN: usize = 8;

/// Starts the member that `args` ask for, if they ask for one.
pub(crate) fn start(
    args: &ServeArgs,
    config: &Config,
    store: &Arc<Silica>,
) -> Result<Option<Arc<Group>>> {
    let Some(member) = args.member.clone() else { return Ok(None) };
    let refuse = |text: String| Err(Error::new(ErrorKind::Config, text));
    let members: Vec<String> = args.replicated_by.clone();
    for address in members.iter().chain([&member]) {
        let Ok(parsed) = address.parse::<SocketAddr>() else {
            return refuse(format!("'{address}' is no address of a member; use IP:PORT"));
        };
        if !parsed.ip().is_loopback() && config.password.is_none() && !args.tls_members {
            return refuse(format!(
                "members on {address} without a password would let anyone write; set the same \
                 password for all members, or let them show certificates (--tls-members)"
            ));
        }
    }
    let Some(client) = config.listen.first().copied().filter(|client| client.port() != 0) else {
        return refuse("members tell each other where clients go; give --listen a port".into());
    };
    let password = config.password.clone().unwrap_or_default();
    let stale_reads = args.stale_reads;
    let listen = args.member_listen.clone();
    let name = config.links.as_ref().and_then(|links| links.name.clone());
    let tls =
        config.members.clone().map(|both| Tls { certificates: Arc::new(OfServer(both)), name });
    let options = Options { member, listen, members, client, password, tls, stale_reads };
    Group::start(options, Arc::clone(store)).map(Some)
}

/// The certificates of members, which the server reads again.
struct OfServer(BothSides);

impl Certificates for OfServer {
    fn client(&self) -> Arc<ClientConfig> {
        self.0.client()
    }

    fn server(&self) -> Arc<ServerConfig> {
        self.0.server()
    }

    fn explain(&self, error: io::Error) -> io::Error {
        self.0.explain(error)
    }
}

/// The certificates that members show each other, if `args` ask for TLS between them: those of the
/// server.
///
/// # Errors
/// `Config` if options are missing or a file is wrong, with its name.
pub(crate) fn certificates(args: &ServeArgs, config: &Config) -> Result<Option<BothSides>> {
    if args.member.is_none() || !args.tls_members {
        return Ok(None);
    }
    let Some((own, links)) = config.tls.as_ref().zip(config.links.as_ref()) else {
        let text = "--tls-members needs --tls-cert, --tls-key and --tls-peer-ca (or --tls-ca)";
        return Err(Error::new(ErrorKind::Config, text));
    };
    BothSides::read(own, links).map(Some)
}

/// What the server of a member is started with.
pub(crate) fn serve(config: Config, group: &Arc<Group>) -> (Config, Arc<dyn Databases>) {
    let agreement = Some(Arc::clone(group) as Arc<dyn Agreement>);
    // The group's log is synced before a write is answered, and nothing else has to be.
    let durability = Durability::Buffered;
    let io_workers = config.io_workers.max(IO_WORKERS_MIN);
    let config = Config { agreement, durability, databases: 1, io_workers, ..config };
    (config, Arc::clone(group) as Arc<dyn Databases>)
}
