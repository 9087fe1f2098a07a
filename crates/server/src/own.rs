//! Where the server listens, and which addresses are its own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long a name is looked up: whoever asks may hold up all requests of the server.
const LOOKUP_MAX: Duration = Duration::from_millis(250);

/// Where the server listens, with real ports.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    /// For every protocol.
    pub(crate) any: Vec<SocketAddr>,
    /// For TLS beside plain ones.
    pub(crate) tls: Vec<SocketAddr>,
    /// For memcached's protocol alone.
    pub(crate) memcached: Vec<SocketAddr>,
    /// For memcached's protocols in datagrams.
    pub(crate) udp: Vec<SocketAddr>,
    /// For the datagram protocol.
    pub(crate) datagrams: Vec<SocketAddr>,
}

impl Addresses {
    /// Where the nodes of a cluster reach this one, which clients are sent to.
    pub(crate) fn of_nodes(&self, encrypts: bool) -> Option<&SocketAddr> {
        self.tls.first().filter(|_| encrypts).or(self.any.first())
    }
}

/// True if a connection to `host` and `port` would come to one of the TCP listeners of `addresses`
/// for RESP. A name that is not found within [`LOOKUP_MAX`] is nobody's.
pub(crate) fn is_own(addresses: &Addresses, host: &str, port: u16) -> bool {
    let listeners: Vec<SocketAddr> = addresses
        .any
        .iter()
        .chain(&addresses.tls)
        .filter(|at| at.port() == port)
        .copied()
        .collect();
    !listeners.is_empty()
        && look_up(host, port).into_iter().any(|ip| {
            let ip = reached(ip);
            listeners.iter().any(|at| comes_to(ip, at.ip().to_canonical()))
        })
}

/// The addresses of `host`.
fn look_up(host: &str, port: u16) -> Vec<IpAddr> {
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(ip) = literal.parse() {
        return vec![ip];
    }
    if host.trim_end_matches('.').eq_ignore_ascii_case("localhost") {
        return vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    }
    let (found, wanted) = mpsc::channel();
    let host = host.to_string();
    let looked = thread::Builder::new().name("silica-lookup".into()).spawn(move || {
        let all = (&host[..], port).to_socket_addrs().map(|all| all.map(|at| at.ip()).collect());
        // Nobody waits any more if that took long.
        let _ = found.send(all.unwrap_or_default());
    });
    looked.ok().and_then(|_| wanted.recv_timeout(LOOKUP_MAX).ok()).unwrap_or_default()
}

/// The address that the system takes for `ip`: whoever connects to "any" reaches loopback.
fn reached(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

/// True if a connection to `ip` comes to a listener at `listener` with the right port.
fn comes_to(ip: IpAddr, listener: IpAddr) -> bool {
    let takes_all = match listener {
        IpAddr::V4(any) => any.is_unspecified() && ip.is_ipv4(),
        // It takes connections by IPv4, too.
        IpAddr::V6(any) => any.is_unspecified(),
    };
    ip == listener || (takes_all && is_of_this_machine(ip))
}

/// True if `ip` is an address of this machine: only those can be bound.
fn is_of_this_machine(ip: IpAddr) -> bool {
    ip.is_loopback() || (!ip.is_multicast() && UdpSocket::bind((ip, 0)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(listeners: &[&str], host: &str, port: u16) -> bool {
        let parse = |at: &&str| at.parse().expect("an address of a test");
        let (any, tls) = listeners.split_at(1);
        let addresses = Addresses {
            any: any.iter().map(parse).collect(),
            tls: tls.iter().map(parse).collect(),
            ..Addresses::default()
        };
        is_own(&addresses, host, port)
    }

    #[test]
    fn every_name_of_an_own_address_is_known() {
        for host in [
            "127.0.0.1",
            "localhost",
            "LocalHost.",
            "0.0.0.0",
            "::ffff:127.0.0.1",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(own(&["127.0.0.1:7001"], host, 7001), "{host}");
            assert!(own(&["0.0.0.0:7001"], host, 7001), "{host}");
            assert!(own(&["[::]:7001"], host, 7001), "{host}");
            assert!(own(&["10.1.2.3:7001", "127.0.0.1:7002"], host, 7002), "{host}");
            assert!(!own(&["127.0.0.1:7001"], host, 7002), "{host}");
        }
        for host in ["::1", "[::1]", "::", "localhost", "0:0:0:0:0:0:0:1"] {
            assert!(own(&["[::1]:7001"], host, 7001), "{host}");
            assert!(own(&["[::]:7001"], host, 7001), "{host}");
        }
        assert!(own(&["0.0.0.0:7001"], "127.9.9.9", 7001));
    }

    #[test]
    fn another_address_with_the_same_port_is_not_own() {
        for (listener, host) in [
            ("127.0.0.1:7001", "127.0.0.2"),
            ("127.0.0.1:7001", "::1"),
            ("0.0.0.0:7001", "::1"),
            ("0.0.0.0:7001", "203.0.113.7"),
            ("[::]:7001", "203.0.113.7"),
            ("[::]:7001", "2001:db8::7"),
            ("127.0.0.1:7001", "203.0.113.7"),
            ("0.0.0.0:7001", "224.0.0.1"),
            ("0.0.0.0:7001", "no-such-host.invalid"),
            ("0.0.0.0:7001", ""),
        ] {
            assert!(!own(&[listener], host, 7001), "{listener}: {host}");
        }
    }
}
