//! `silica serve`.

use crate::address;
use crate::agreement;
use crate::args::ServeArgs;
use crate::config;
use crate::databases::{self, InMemory};
use crate::options_file::OptionsFile;
use crate::passed;
use log::{debug, info, warn};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use silica::{
    CACHE_ENGINE, DEFAULT_KEYSPACE, DEFAULT_MEMORY_BYTES, Engine, Error, ErrorKind, Result,
};
use silica_console::Global;
use silica_console::signals::{self, Wish, Wishes};
use silica_replica::Replica;
use silica_server::{
    ClusterOptions, Config, Databases, LinkFiles, Server, SettingsFile, StopHandle, TlsFiles,
    program_bytes,
};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The least that clients get where no number is given (or half of all memory).
const CLIENTS_BYTES_USUAL: u64 = 16 << 20;
/// The least that clients, and the stores, work with.
const PART_BYTES_MIN: u64 = 1 << 20;

/// A cache's clients get no more than this where no number is given: its values are small.
const CACHE_CLIENTS_BYTES_MAX: u64 = 64 << 20;
/// What the program has of a cache's memory: pages that are used, stacks, the allocator's.
const CACHE_PROGRAM_BYTES: u64 = 10 << 20;

/// Serves until SIGINT or SIGTERM.
pub(crate) fn run(global: &Global, args: &ServeArgs) -> Result<()> {
    if args.plain_pages {
        silica_base::use_plain_pages();
    }
    if let Some(bytes) = args.cache {
        return run_cache(global, args, bytes);
    }
    let path = args.directory.clone().unwrap_or_else(|| global.directory());
    let memory = global.memory.unwrap_or(DEFAULT_MEMORY_BYTES);
    let memory = Memory::divide("--memory", memory, args.client_memory)?;
    memory.check_limit("--memory")?;
    let config = config(args, &memory)?;
    // Before anything else, so that a signal during the start is not lost.
    let signals = awaited(&config)?;
    let stores = memory.stores_beside_program();
    let store = Arc::new(options_of_store(global, args).memory_bytes(stores).open(&path)?);
    // Opened now, so that what is wrong with it is told at the start.
    let keyspace = store.keyspace(DEFAULT_KEYSPACE)?;
    global.check_engine(&keyspace)?;
    let engine = keyspace.engine().descriptor().name;
    check_durability(&keyspace)?;
    let durability = keyspace.durability();
    let config = Config { durability, directory: Some(path.clone()), ..config };
    let config = in_cluster(args, config, Some(&path))?;
    let record = |file| keyspace.record(file, &silica::RecordOptions::default());
    let recording = args.record.as_ref().map(record).transpose()?;
    drop(keyspace);
    databases::prepare(&store, &args.database, stores)?;
    let config = Config { members: agreement::certificates(args, &config)?, ..config };
    let group = agreement::start(args, &config, &store)?;
    let (config, databases) = match &group {
        Some(group) => agreement::serve(config, group),
        None => (config, Arc::clone(&store) as Arc<dyn Databases>),
    };
    let all: Vec<_> = databases
        .listed()
        .into_iter()
        .filter_map(|index| Some((index, databases.open(index).ok()?)))
        .collect();
    let durability = config.durability;
    let server = Server::start(config, databases)?;
    let replica = Replica::start(Arc::clone(server.service()))?;
    let what = format!("{}{} on", path.display(), group.as_ref().map_or("", |_| ", replicated,"));
    let others = databases::words(all.into_iter())?;
    let leaving = group.clone();
    let leave = move || leaving.iter().for_each(|group| group.leave());
    stop_on_signal(signals, args.file.clone(), (server.stop_handle(), leave))?;
    announce(&what, &server, engine, &format!("{}{others}", durability_words(durability)));
    let service = Arc::clone(server.service());
    server.wait();
    drop(replica);
    warn_if_lost(service.leave_position());
    drop(service);
    if let Some(report) = recording.map(silica::Recording::stop).transpose()? {
        info!("recorded {} operations, {} dropped", report.operations, report.dropped);
    }
    group.iter().for_each(|group| group.stop());
    // A thread of the server that is just ending may have it, too.
    store.shut()?;
    info!("stopped");
    Ok(())
}

/// How the store is opened, apart from its memory.
fn options_of_store(global: &Global, args: &ServeArgs) -> silica::OpenOptions {
    let options = match args.durability {
        Some(durability) => global.open_options().durability(durability.into()),
        None => global.open_options(),
    };
    let follows = |(name, value): &(String, String)| name == "replicaof" && !value.is_empty();
    let options = options.hold_expiry(settings(args).iter().any(follows));
    args.database.iter().fold(options, |options, database| {
        options.declare(
            silica_server::keyspace_name(database.index),
            &database.engine,
            &database.pairs(),
        )
    })
}

/// Warns if the place in the stream of changes could not be left for the next start.
fn warn_if_lost(left: Result<()>) {
    if let Err(error) = left {
        warn!("replicas will fetch all data after the restart: {error}");
    }
}

/// Serves a cache, or a store, in memory until SIGINT or SIGTERM.
fn run_cache(global: &Global, args: &ServeArgs, bytes: u64) -> Result<()> {
    if let Some(engine) = global.engine.as_ref().filter(|engine| *engine != CACHE_ENGINE) {
        let message = format!(
            "a cache in memory has the engine mica, not {engine}; leave --engine out, or serve a \
             directory"
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    let clients = (bytes / 8).clamp(CLIENTS_BYTES_USUAL, CACHE_CLIENTS_BYTES_MAX).min(bytes / 2);
    let memory = Memory::divide("--cache", bytes, args.client_memory.or(Some(clients)))?;
    memory.check_limit("--cache")?;
    let durability = silica::Durability::Buffered;
    let config = Config { durability, ..config(args, &memory)? };
    let config = in_cluster(args, config, args.image.as_deref())?;
    let signals = awaited(&config)?;
    let all = Arc::new(InMemory::open(global, args, &config, memory.stores_of_cache())?);
    let descriptor = *all.open(0)?.descriptor();
    let others = databases::words(all.apart().into_iter())?;
    let config = Config { databases: all.count(), ..config };
    let server = Server::start(config, Arc::clone(&all) as Arc<dyn Databases>)?;
    let replica = Replica::start(Arc::clone(server.service()))?;
    let kind = if descriptor.capabilities.may_evict { "cache" } else { "store in memory" };
    let what = match &args.flash {
        Some(path) => {
            format!("a {kind} of {} MiB with flash in {} on", bytes >> 20, path.display())
        }
        None => format!("a {kind} of {} MiB on", bytes >> 20),
    };
    let how = match (&args.image, &args.flash) {
        (_, Some(_)) => "what is on flash outlives the process",
        (Some(_), _) => "a clean stop leaves an image",
        _ => "nothing outlives the process",
    };
    stop_on_signal(signals, args.file.clone(), (server.stop_handle(), || ()))?;
    announce(&what, &server, descriptor.name, &format!("{how}{others}"));
    let is_kept = server.wait();
    drop(replica);
    if is_kept && (args.image.is_some() || args.flash.is_some()) {
        for engine in all.to_close()? {
            leave_image(&*engine)?;
        }
    }
    info!("stopped");
    Ok(())
}

/// Writes the image of a cache that nobody uses any more.
fn leave_image(cache: &dyn Engine) -> Result<()> {
    let mut tenths = 0;
    let mut progress = |done: u64, whole: u64| {
        if 10 * done / whole.max(1) > tenths {
            tenths = 10 * done / whole;
            info!("leaving what memory holds: {} %", 10 * tenths);
        }
    };
    cache.as_admin().map_or(Ok(()), |admin| admin.close(&mut progress))
}

/// The signals that a server with `config` understands.
fn awaited(config: &Config) -> Result<Signals> {
    let is_read_again =
        config.tls.is_some() || config.links.is_some() || config.settings_file.is_some();
    let again = is_read_again.then_some(SIGHUP);
    Signals::new([SIGINT, SIGTERM].into_iter().chain(again))
        .map_err(|e| Error::io("installing the signal handlers", e))
}

/// Stops gracefully on the first signal, at once on a second one that is no echo of it; SIGHUP
/// reads certificates and settings again.
fn stop_on_signal(
    mut signals: Signals,
    file: Option<OptionsFile>,
    (server, leave): (StopHandle, impl Fn() + Send + 'static),
) -> Result<()> {
    let listen = move || {
        let mut wishes = Wishes::default();
        for signal in signals.forever() {
            if signal == SIGHUP {
                file.iter().for_each(|file| config::reload(file, &server));
                match server.read_certificates() {
                    Ok(()) => info!("read the certificates for TLS again"),
                    Err(error) => warn!("the certificates for TLS stay as they were: {error}"),
                }
                continue;
            }
            match wishes.hear(Instant::now()) {
                Wish::Stop => {
                    info!("stopping on signal {signal}");
                    tell(sd_notify::NotifyState::Stopping);
                    leave();
                    server.stop();
                }
                Wish::Nothing => {}
                Wish::Leave => {
                    warn!("a second signal: leaving at once; what was acknowledged is in the log");
                    std::process::exit(128 + signal);
                }
            }
        }
    };
    signals::spawn(listen)
}

/// The line that scripts wait for.
fn announce(what: &str, server: &Server, engine: &str, how: &str) {
    let both = server.local_addrs().iter().map(ToString::to_string);
    let tls = server.tls_addrs().iter().map(|a| format!("{a} (TLS)"));
    let memcached = server.memcached_addrs().iter().map(|a| format!("{a} (memcached)"));
    let udp = server.udp_addrs().iter().map(|a| format!("{a} (memcached, UDP)"));
    let datagrams = server.datagram_addrs().first().map(|a| format!("{a} (datagrams)"));
    let unix = server.unix_paths().into_iter().map(|path| path.display().to_string());
    let addresses: Vec<_> =
        both.chain(tls).chain(memcached).chain(udp).chain(datagrams).chain(unix).collect();
    silica::device::return_freed_memory();
    let returned = silica::device::return_start_pages();
    debug!("gave {} KiB of the program back that only its start needed", returned >> 10);
    println!("silica: serving {what} {} (engine {engine}, {how})", addresses.join(", "));
    if let Some(address) = server.admin_addr() {
        println!("silica: the dashboard is at http://{address}/");
    }
    // Whoever started this process may wait for it, as systemd does; without one nothing is sent.
    tell(sd_notify::NotifyState::Ready);
}

/// Tells the service manager, if one has started this process.
fn tell(state: sd_notify::NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        warn!("the service manager was not told: {error}");
    }
}

/// Refuses to serve what every write would be refused by.
fn check_durability(keyspace: &silica::Keyspace) -> Result<()> {
    let descriptor = keyspace.engine().descriptor();
    let usual = descriptor.capabilities.usual_durability();
    if keyspace.durability() == silica::Durability::Synced && usual == silica::Durability::Buffered
    {
        let message = format!(
            "--durability synced: a write to engine {} here survives the process and no power \
             cut; leave --durability out, or serve a directory on persistent memory or with \
             engine wip or silt",
            descriptor.name
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    Ok(())
}

fn durability_words(durability: silica::Durability) -> &'static str {
    match durability {
        silica::Durability::Synced => "synced writes",
        silica::Durability::Buffered => "buffered writes",
    }
}

/// The memory number and its parts.
#[derive(Debug, PartialEq)]
struct Memory {
    whole: u64,
    clients: u64,
    stores: u64,
}

impl Memory {
    /// Gives the clients what is asked for them, or their usual share.
    fn divide(option: &str, whole: u64, clients: Option<u64>) -> Result<Self> {
        let usual = || (whole / 8).max(CLIENTS_BYTES_USUAL).min(whole / 2);
        let clients = clients.unwrap_or_else(usual);
        let stores = whole.saturating_sub(clients);
        if clients < PART_BYTES_MIN || stores < PART_BYTES_MIN {
            let mib = |bytes: u64| bytes.div_ceil(1 << 20);
            let message = format!(
                "{option} {} MiB with --client-memory {} MiB leaves too little: the clients' \
                 memory is a part of the whole, and both it and the rest need {} MiB; try {option} \
                 {}MiB",
                mib(whole),
                mib(clients),
                mib(PART_BYTES_MIN),
                mib(clients.max(PART_BYTES_MIN)).saturating_mul(8),
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        Ok(Memory { whole, clients, stores })
    }

    /// What the stores get: the program's own pages and stacks, and what the allocator keeps
    /// between large blocks, are in the number, too.
    fn stores_beside_program(&self) -> u64 {
        self.stores - program_bytes(self.whole).min(self.stores / 2)
    }

    /// What a cache gets, which uses all of it: the program's part is what it has indeed.
    fn stores_of_cache(&self) -> u64 {
        self.stores - (self.whole / 6).min(CACHE_PROGRAM_BYTES).min(self.stores / 2)
    }

    /// Refuses more memory than the process may map: it would die when it takes it.
    fn check_limit(&self, option: &str) -> Result<()> {
        let Some(left) = silica::device::address_space_left() else { return Ok(()) };
        if left >= self.whole {
            return Ok(());
        }
        let (left, whole) = (left >> 20, self.whole >> 20);
        let message = format!(
            "this process may map {left} MiB more, and {option} is {whole} MiB; raise the limit \
             (ulimit -v), or lower {option}"
        );
        Err(Error::new(ErrorKind::Config, message))
    }
}

/// What the options say, on the sockets that were passed.
fn config(args: &ServeArgs, memory: &Memory) -> Result<Config> {
    let config = options(args, memory)?;
    match passed::sockets()? {
        none if none.is_empty() => Ok(config),
        some => config.with_passed(some),
    }
}

fn options(args: &ServeArgs, memory: &Memory) -> Result<Config> {
    let default = Config::default();
    let clients_bytes_max = usize::try_from(memory.clients).unwrap_or(usize::MAX);
    Ok(Config {
        databases: args.databases,
        listen: addresses("--listen", &args.listen)?,
        tls: args.tls_cert.as_ref().zip(args.tls_key.as_ref()).map(|(cert, key)| TlsFiles {
            cert: cert.clone(),
            key: key.clone(),
            ca: args.tls_ca.clone(),
        }),
        links: links(args),
        tls_listen: match &args.tls_listen {
            Some(address) => addresses("--tls-listen", address)?,
            None => Vec::new(),
        },
        unix: args.unix.clone(),
        memcached: match &args.memcached {
            Some(address) => addresses("--memcached", address)?,
            None => Vec::new(),
        },
        udp: match &args.udp {
            Some(address) => addresses("--udp", address)?,
            None => Vec::new(),
        },
        datagrams: match &args.datagrams {
            Some(address) => addresses("--datagrams", address)?.into_iter().next(),
            None => None,
        },
        admin: match &args.admin {
            Some(address) => addresses("--admin", address)?.into_iter().next(),
            None => None,
        },
        directory: args.flash.clone(),
        loops: if args.loops == 0 { default.loops } else { args.loops },
        event_loop: args.event_loop.into(),
        mode: args.mode.into(),
        password: password(args)?,
        acl_file: args.acl_file.clone(),
        memory_bytes: memory.whole,
        clients_bytes_max,
        sql_ms_max: args.sql_time_limit,
        settings: settings(args),
        settings_file: args.file.clone().map(|file| Arc::new(file) as Arc<dyn SettingsFile>),
        // No client that only does not read takes everything.
        client_output_bytes_max: default.client_output_bytes_max.min(clients_bytes_max / 4),
        ..default
    })
}

/// The settings of a node of a cluster, whose map is kept in `directory`, if there is one.
fn in_cluster(args: &ServeArgs, config: Config, directory: Option<&Path>) -> Result<Config> {
    if !args.cluster {
        return Ok(config);
    }
    let announced = args.cluster_announce.as_deref().map(|text| {
        let parts = text.rsplit_once(':');
        let port = parts.and_then(|(_, port)| port.parse::<u16>().ok()).filter(|port| *port > 0);
        let host = parts.map(|(host, _)| host.trim_matches(['[', ']'])).filter(|h| !h.is_empty());
        host.zip(port).ok_or_else(|| {
            let message = format!("--cluster-announce '{text}' is not HOST:PORT");
            Error::new(ErrorKind::Config, message)
        })
    });
    let (host, port) = announced.transpose()?.unwrap_or(("", 0));
    let in_directory = || directory.map(|directory| directory.join("CLUSTER"));
    let cluster = ClusterOptions {
        file: args.cluster_file.clone().or_else(in_directory),
        host: host.to_string(),
        port,
        is_announced: args.cluster_announce.is_some(),
        password: config.password.clone(),
        is_synced: config.durability == silica::Durability::Synced,
        serves_parts: args.cluster_partial_coverage,
        nodes: args.cluster_nodes.clone(),
    };
    Ok(Config { cluster: Some(cluster), ..config })
}

/// What CONFIG SET would take: that of the file, and whom to follow.
fn settings(args: &ServeArgs) -> Vec<(String, String)> {
    let mut all = args.file.as_ref().map(OptionsFile::settings).unwrap_or_default();
    let is_said = all.iter().any(|(name, _)| name == "replicaof");
    if let Some((host, port)) = args.replica_of.as_ref().filter(|_| !is_said) {
        all.push(("replicaof".into(), format!("{host} {port}")));
    }
    // What the file says is what CONFIG REWRITE has written.
    let asked = [("tls-replication", args.tls_replication), ("tls-cluster", args.tls_cluster)];
    for (name, is_asked) in asked {
        if is_asked && !all.iter().any(|(said, _)| said == name) {
            all.insert(0, (name.into(), "yes".into()));
        }
    }
    all
}

/// What connections to other servers have TLS with.
fn links(args: &ServeArgs) -> Option<LinkFiles> {
    let pair = |cert: &Option<PathBuf>, key: &Option<PathBuf>| cert.clone().zip(key.clone());
    let own = pair(&args.tls_client_cert, &args.tls_client_key);
    Some(LinkFiles {
        ca: args.tls_peer_ca.clone().or_else(|| args.tls_ca.clone())?,
        identity: own.or_else(|| pair(&args.tls_cert, &args.tls_key)),
        name: args.tls_peer_name.clone(),
    })
}

fn addresses(option: &str, listen: &str) -> Result<Vec<SocketAddr>> {
    let wrong = |why: String| {
        let message = format!(
            "cannot listen on '{listen}': {why}; use {option} HOST:PORT, or a port of loopback"
        );
        Error::new(ErrorKind::Config, message)
    };
    let found = address::resolved(listen).map_err(|e| wrong(e.to_string()))?;
    if found.is_empty() { Err(wrong("the name has no address".into())) } else { Ok(found) }
}

fn password(args: &ServeArgs) -> Result<Option<Vec<u8>>> {
    if let Some(path) = &args.password_file {
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::io(format!("reading the password from {}", path.display()), e))?;
        return Ok(Some(text.lines().next().unwrap_or_default().as_bytes().to_vec()));
    }
    Ok(args.password.as_ref().map(|p| p.as_bytes().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::Memory;

    #[test]
    fn the_parts_of_memory_are_the_whole() {
        let parts = |whole: u64, clients: Option<u64>| {
            let memory = Memory::divide("--memory", whole << 20, clients.map(|c| c << 20)).ok()?;
            assert_eq!(memory.clients + memory.stores, memory.whole);
            Some((memory.clients >> 20, memory.stores >> 20))
        };
        assert_eq!(parts(256, None), Some((32, 224)));
        assert_eq!(parts(96, None), Some((16, 80)));
        assert_eq!(parts(8, None), Some((4, 4)));
        assert_eq!(parts(256, Some(200)), Some((200, 56)));
        assert_eq!(parts(256, Some(256)), None);
        assert_eq!(parts(1, None), None);
        assert_eq!(parts(256, Some(0)), None);
        let refused = Memory::divide("--memory", 256 << 20, Some(1 << 30)).unwrap_err().to_string();
        assert!(refused.contains("try --memory 8192MiB"), "{refused}");
    }
}
