//! `silica serve`.

use crate::args::{Global, ServeArgs};
use log::{info, warn};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use silica::{DEFAULT_KEYSPACE, Error, ErrorKind, Result};
use silica_server::{Config, Databases, Server, StopHandle};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;

/// Serves until SIGINT or SIGTERM.
pub(crate) fn run(global: &Global, args: &ServeArgs) -> Result<()> {
    let path = args.directory.clone().unwrap_or_else(|| global.directory());
    let config = config(args)?;
    // Before anything else, so that a signal during the start is not lost.
    let signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|e| Error::io("installing the signal handlers", e))?;
    let options = global.open_options().durability(args.durability.into());
    let store = Arc::new(options.open(&path)?);
    // Opened now, so that what is wrong with it is told at the start.
    let keyspace = store.keyspace(DEFAULT_KEYSPACE)?;
    global.check_engine(&keyspace)?;
    let engine = keyspace.engine().descriptor().name;
    drop(keyspace);
    let databases = Arc::clone(&store) as Arc<dyn Databases>;
    let server = Server::start(config, databases)?;
    announce(&path, server.local_addrs(), engine, args);
    stop_on_signal(signals, server.stop_handle())?;
    server.wait();
    match Arc::try_unwrap(store) {
        Ok(store) => store.close()?,
        Err(shared) => shared.sync()?,
    }
    info!("stopped");
    Ok(())
}

/// Stops gracefully on the first signal, at once on the second.
fn stop_on_signal(mut signals: Signals, server: StopHandle) -> Result<()> {
    let listen = move || {
        for (count, signal) in signals.forever().enumerate() {
            if count > 0 {
                warn!("a second signal: leaving at once; what was acknowledged is in the log");
                std::process::exit(128 + signal);
            }
            info!("stopping on signal {signal}");
            server.stop();
        }
    };
    let thread = std::thread::Builder::new().name("silica-signals".to_string()).spawn(listen);
    thread.map(drop).map_err(|e| Error::io("starting the thread that waits for signals", e))
}

/// The line that scripts wait for.
fn announce(path: &Path, addresses: &[SocketAddr], engine: &str, args: &ServeArgs) {
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let durability = silica::Durability::from(args.durability);
    println!(
        "silica: serving {} on {} (engine {engine}, {} writes)",
        path.display(),
        addresses.join(", "),
        if durability == silica::Durability::Synced { "synced" } else { "buffered" }
    );
}

fn config(args: &ServeArgs) -> Result<Config> {
    let default = Config::default();
    Ok(Config {
        listen: addresses(&args.listen)?,
        loops: if args.loops == 0 { default.loops } else { args.loops },
        password: password(args)?,
        durability: args.durability.into(),
        clients_bytes_max: usize::try_from(args.client_memory).unwrap_or(usize::MAX),
        ..default
    })
}

fn addresses(listen: &str) -> Result<Vec<SocketAddr>> {
    let wrong = |why: String| {
        let message = format!("cannot listen on '{listen}': {why}; use --listen HOST:PORT");
        Error::new(ErrorKind::Config, message)
    };
    let found: Vec<_> = listen.to_socket_addrs().map_err(|e| wrong(e.to_string()))?.collect();
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
