//! Sockets that systemd, or whoever started this process, listens on and passes.

use listenfd::ListenFd;
use silica::{Error, ErrorKind, Result};
use silica_server::{Passed, PassedSocket};

/// The sockets that this process was started with (`LISTEN_FDS`), by their names
/// (`LISTEN_FDNAMES`); none for most processes. They can be asked for once.
///
/// # Errors
/// `Config` if one is no socket that connections come to, or has an unknown name.
pub(crate) fn sockets() -> Result<Passed> {
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let names: Vec<&str> = names.split(':').collect();
    let (mut all, mut passed) = (ListenFd::from_env(), Passed::default());
    for index in 0..all.len() {
        let name = names.get(index).copied().unwrap_or("unknown");
        passed.add(name, socket(&mut all, index, name)?)?;
    }
    Ok(passed)
}

fn socket(all: &mut ListenFd, index: usize, name: &str) -> Result<PassedSocket> {
    if let Ok(Some(socket)) = all.take_tcp_listener(index) {
        return Ok(PassedSocket::Tcp(socket));
    }
    if let Ok(Some(socket)) = all.take_unix_listener(index) {
        return Ok(PassedSocket::Unix(socket));
    }
    let message = format!(
        "what was passed as '{name}' is no TCP or unix socket for streams; a unit needs \
         ListenStream="
    );
    Err(Error::new(ErrorKind::Config, message))
}
