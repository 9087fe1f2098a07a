//! What a server is started with.

use crate::{BothSides, Passed};
use silica::engine::{Durability, Error, ErrorKind, Result};
use silica_commands::{Agreement, ClusterOptions, DATABASES_MAX, SettingsFile};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// How event loops wait for sockets and move their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EventLoopKind {
    /// By io_uring where the kernel has all that it takes (Linux 6.1 has), else by epoll.
    #[default]
    Auto,
    /// By epoll and a system call for each read and write.
    Epoll,
    /// By io_uring, or an error where that is refused.
    IoUring,
}

/// The files of a server's side of TLS, all of them PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, and those between it and its authority.
    pub cert: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// Authorities of which clients must have a certificate; clients need none where this is none.
    pub ca: Option<PathBuf>,
}

/// What connections to other servers have TLS with: files of PEM, and the name that is expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkFiles {
    /// Authorities of which the other servers have their certificates.
    pub ca: PathBuf,
    /// This server's certificate and its private key, if others ask for one.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name for which their certificates are; that by which they are reached if there is none.
    pub name: Option<String>,
}

/// Who reads and writes an engine's partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// One event loop each, which alone reads and writes them: others send it their requests.
    Erew,
    /// One event loop each writes them, and all read.
    Crew,
    /// All; writers of one take turns.
    #[default]
    Crcw,
}

impl Mode {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Erew => "erew",
            Mode::Crew => "crew",
            Mode::Crcw => "crcw",
        }
    }
}

/// Settings of a [`crate::Server`].
#[derive(Clone)]
pub struct Config {
    /// Addresses to listen on for RESP and memcached's protocols, which the first bytes of a
    /// connection tell apart; port 0 takes a free one.
    pub listen: Vec<SocketAddr>,
    /// What connections are encrypted with: those to [`Config::tls_listen`], or where that is empty
    /// those to all other TCP addresses.
    pub tls: Option<TlsFiles>,
    /// What connections to other servers have TLS with, if they have it (`tls-replication`,
    /// `tls-cluster`).
    pub links: Option<LinkFiles>,
    /// Addresses to listen on for the same protocols over TLS, beside plain ones.
    pub tls_listen: Vec<SocketAddr>,
    /// A socket in the file system for the same protocols, which only this user may connect to.
    pub unix: Option<PathBuf>,
    /// Addresses to listen on for memcached's protocols alone.
    pub memcached: Vec<SocketAddr>,
    /// Loopback addresses to listen on for datagrams of memcached's protocols.
    pub udp: Vec<SocketAddr>,
    /// An address for the datagram protocol, on loopback unless a password is set; each loop has a
    /// port, this and the following.
    pub datagrams: Option<SocketAddr>,
    /// A loopback address for the dashboard and metrics over HTTP.
    pub admin: Option<SocketAddr>,
    /// Sockets that are listened on already; [`Config::with_passed`] puts them here.
    pub passed: Passed,
    /// Where the stores are, if they are on a disk: the dashboard shows how much of it is free.
    pub directory: Option<PathBuf>,
    /// Event loops; one per core is right.
    pub loops: usize,
    /// How they wait.
    pub event_loop: EventLoopKind,
    /// Who reads and writes partitions. Where it is not [`Mode::Crcw`], database 0 must have an
    /// engine whose partitions threads can own.
    pub mode: Mode,
    /// Threads that call engines which may wait for a device; at least 2.
    pub io_workers: usize,
    /// What clients must give before anything else.
    pub password: Option<Vec<u8>>,
    /// A file of users, each a line `user NAME WORD...` as ACL SETUSER takes the words.
    pub acl_file: Option<PathBuf>,
    /// What a write's acknowledgement means.
    pub durability: Durability,
    /// Databases that `SELECT` reaches, 1 to [`DATABASES_MAX`].
    pub databases: u32,
    /// Connections at the same time.
    pub clients_max: usize,
    /// Memory of the whole process as its user set it, which INFO and CONFIG tell; 0 where there
    /// is no such number. [`Config::clients_bytes_max`] is a part of it.
    pub memory_bytes: u64,
    /// Bytes of all that clients make the server hold: requests, replies, and what is kept for
    /// them. What does not fit is refused; only over it by an eighth the client that holds most is
    /// dropped. A value passes only if it fits twice into 15/16 of it.
    pub clients_bytes_max: usize,
    /// Bytes of replies that one client may leave unread before its requests wait.
    pub client_output_bytes_max: usize,
    /// Milliseconds after which a client over that limit is dropped if it reads nothing.
    pub stalled_ms_max: u64,
    /// Milliseconds within which a client must give its password, where one is set.
    pub auth_ms_max: u64,
    /// Milliseconds without a byte after which a client that has begun a request is dropped; 0 for
    /// never. Whoever sends, however slowly, and whoever has begun none stays.
    pub request_ms_max: u64,
    /// Milliseconds that a statement of SQL may take, at first; 0 for any time.
    pub sql_ms_max: u64,
    /// Settings, as CONFIG SET takes them, that hold from the start.
    pub settings: Vec<(String, String)>,
    /// The file that they are from, for CONFIG REWRITE.
    pub settings_file: Option<Arc<dyn SettingsFile>>,
    /// This server is a node of a cluster. Its port is that of the first address where it is 0
    /// here, and so is its host where it is empty, unless that address is any.
    pub cluster: Option<ClusterOptions>,
    /// The servers that agree about database 0, if some do.
    pub agreement: Option<Arc<dyn Agreement>>,
    /// The certificates that these show each other, which are read again with those of the server.
    pub members: Option<BothSides>,
    /// Milliseconds that a graceful stop waits for clients to read their last replies.
    pub stop_ms_max: u64,
}

impl Default for Config {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        Config {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 6379))],
            tls: None,
            links: None,
            tls_listen: Vec::new(),
            unix: None,
            memcached: Vec::new(),
            udp: Vec::new(),
            datagrams: None,
            admin: None,
            passed: Passed::default(),
            directory: None,
            loops: cores,
            event_loop: EventLoopKind::default(),
            mode: Mode::default(),
            io_workers: (2 * cores).max(4),
            password: None,
            acl_file: None,
            durability: Durability::Synced,
            databases: DATABASES_MAX,
            clients_max: 20_000,
            memory_bytes: 0,
            clients_bytes_max: 1 << 30,
            client_output_bytes_max: 32 << 20,
            stalled_ms_max: 60_000,
            auth_ms_max: 30_000,
            request_ms_max: 300_000,
            sql_ms_max: 5_000,
            settings: Vec::new(),
            settings_file: None,
            cluster: None,
            agreement: None,
            members: None,
            stop_ms_max: 5_000,
        }
    }
}

impl std::fmt::Debug for Config {
    /// Shows everything but the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("listen", &self.listen)
            .field("tls", &self.tls)
            .field("tls_listen", &self.tls_listen)
            .field("memcached", &self.memcached)
            .field("udp", &self.udp)
            .field("datagrams", &self.datagrams)
            .field("loops", &self.loops)
            .field("mode", &self.mode)
            .field("io_workers", &self.io_workers)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Refuses to let strangers in: `lets_in` where a connection needs no password.
    pub(crate) fn refuse_strangers(&self, lets_in: bool) -> Result<()> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Config, message));
        if self.encrypts_all() {
            return Ok(());
        }
        let mut all = self.listen.iter().chain(&self.memcached);
        let open = all.find(|a| !a.ip().is_loopback());
        if let (Some(address), true) = (open, lets_in) {
            return refuse(format!(
                "listening on {address} without a password would let anyone in; \
                 set a password or listen on 127.0.0.1:{}",
                address.port()
            ));
        }
        Ok(())
    }

    /// Says so where TLS keeps nobody out beyond loopback: `lets_in` where a connection needs no
    /// password.
    pub(crate) fn warn_of_strangers(&self, lets_in: bool) {
        let asks = self.tls.as_ref().is_some_and(|tls| tls.ca.is_some());
        let mut all = self.listen.iter().chain(&self.memcached).chain(&self.tls_listen);
        if lets_in
            && !asks
            && let Some(open) = all.find(|a| !a.ip().is_loopback())
        {
            log::warn!(
                "{open} is encrypted, but whoever reaches it is let in: set a password, or ask \
                 clients for certificates"
            );
        }
    }

    /// True where every TCP address speaks TLS.
    pub(crate) fn encrypts_all(&self) -> bool {
        self.tls.is_some() && self.tls_listen.is_empty()
    }

    /// Refuses settings that cannot work or that would let strangers in.
    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Config, message));
        if self.listen.is_empty() && self.unix.is_none() && self.passed.is_empty() {
            return refuse("no address to listen on; give one such as 127.0.0.1:6379".into());
        }
        self.refuse_strangers(self.password.is_none() && self.acl_file.is_none())?;
        if self.tls.is_none() && !self.tls_listen.is_empty() {
            return refuse("an address for TLS needs a certificate and a key".into());
        }
        self.check_udp()?;
        self.check_cluster()?;
        if self.password.as_ref().is_some_and(Vec::is_empty) {
            return refuse("the password is empty; give at least one character".into());
        }
        if !(1..=DATABASES_MAX).contains(&self.databases) {
            return refuse(format!("databases must be between 1 and {DATABASES_MAX}"));
        }
        if !(1..=1024).contains(&self.loops) || !(2..=1024).contains(&self.io_workers) {
            return refuse("loops must be 1 to 1024 and io_workers 2 to 1024".into());
        }
        if self.clients_bytes_max < 1 << 20 || self.client_output_bytes_max < 64 << 10 {
            return refuse(
                "clients_bytes_max must be 1 MiB or more and client_output_bytes_max 64 KiB or more"
                    .into(),
            );
        }
        Ok(())
    }
}

impl Config {
    /// True if the nodes of a cluster talk to each other by TLS.
    pub(crate) fn encrypts_cluster(&self) -> bool {
        let said = self.settings.iter().rev().find(|(name, _)| name == "tls-cluster");
        said.is_some_and(|(_, value)| value.eq_ignore_ascii_case("yes"))
    }

    /// Nodes reach each other at the port that clients are sent to.
    fn check_cluster(&self) -> Result<()> {
        let refuse = |text: &str| Err(Error::new(ErrorKind::Config, text));
        match (self.cluster.is_some(), self.encrypts_cluster()) {
            (false, _) => Ok(()),
            (true, true) if self.tls.is_none() => {
                refuse("--tls-cluster: a node needs a port for TLS; give --tls-cert and --tls-key")
            }
            (true, true) => Ok(()),
            (true, false) if self.encrypts_all() || self.listen.is_empty() => refuse(
                "the nodes of a cluster talk to each other over a plain address; give --listen \
                 one and --tls-listen another, or let them talk by TLS, too (--tls-cluster)",
            ),
            (true, false) => Ok(()),
        }
    }

    /// No datagram of memcached's carries a password, and their senders' addresses may be lies:
    /// replies, which are larger than requests, would go to whoever a liar names. In the datagram
    /// protocol senders show that they receive what is sent to them, and a pass where a password is
    /// set.
    fn check_udp(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Config, message));
        let asks = self.password.is_some() || self.acl_file.is_some();
        let mut all = self.udp.iter().chain(self.datagrams.iter().filter(|_| !asks));
        if let Some(address) = all.find(|address| !address.ip().is_loopback()) {
            return refuse(format!(
                "datagrams on {address} would let anyone in, and anyone's replies be sent to \
                 others; listen for them on 127.0.0.1:{}",
                address.port()
            ));
        }
        match (self.udp.first(), asks) {
            (Some(address), true) => refuse(format!(
                "datagrams on {address} carry no password, so the one that is set would keep \
                 nobody out; leave out one of both"
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_kept_out_by_default() {
        let open = Config { listen: vec!["0.0.0.0:6379".parse().unwrap()], ..Config::default() };
        let refused = open.check().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Config);
        assert!(refused.to_string().contains("set a password or listen on 127.0.0.1:6379"));
        assert!(Config { password: Some(b"x".to_vec()), ..open.clone() }.check().is_ok());
        assert!(Config { password: Some(Vec::new()), ..open.clone() }.check().is_err());
        assert!(Config::default().check().is_ok());
        let files = TlsFiles { cert: "c".into(), key: "k".into(), ca: None };
        let beside = vec!["0.0.0.0:6380".parse().unwrap()];
        let tls = Config { tls: Some(files), ..open.clone() };
        assert!(tls.check().is_ok(), "TLS is asked for there");
        assert!(Config { tls_listen: beside.clone(), ..tls.clone() }.check().is_err(), "plain");
        assert!(Config { tls_listen: beside, ..Config::default() }.check().is_err(), "no files");
        let v6 = Config { listen: vec!["[::1]:0".parse().unwrap()], ..Config::default() };
        assert!(v6.check().is_ok());
    }

    #[test]
    fn datagrams_stay_on_loopback_and_need_no_password() {
        let of = |address: &str, password: Option<&[u8]>| {
            let udp = vec![address.parse().unwrap()];
            let password = password.map(<[u8]>::to_vec);
            Config { udp, password, ..Config::default() }.check().map_err(|e| e.to_string())
        };
        assert_eq!(of("127.0.0.1:11211", None), Ok(()));
        let datagrams = Some("10.0.0.1:6380".parse().unwrap());
        assert!(Config { datagrams, ..Config::default() }.check().is_err());
        let password = Some(b"x".to_vec());
        assert!(Config { datagrams, password, ..Config::default() }.check().is_ok());
        let stranger = of("0.0.0.0:11211", Some(b"x")).unwrap_err();
        assert!(stranger.contains("listen for them on 127.0.0.1:11211"), "{stranger}");
        let open = of("127.0.0.1:11211", Some(b"x")).unwrap_err();
        assert!(open.contains("carry no password"), "{open}");
    }

    #[test]
    fn passwords_are_not_shown() {
        let config = Config { password: Some(b"hush".to_vec()), ..Config::default() };
        assert!(!format!("{config:?}").contains("hush"));
    }
}
