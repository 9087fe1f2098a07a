//! Addresses of servers as people write them.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};

/// The addresses of `HOST:PORT`, or of a port alone, which is one of loopback.
///
/// # Errors
/// It is neither, or the name service does not know the host.
pub(crate) fn resolved(text: &str) -> std::io::Result<Vec<SocketAddr>> {
    match text.parse() {
        Ok(port) => Ok(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))]),
        Err(_) => Ok(text.to_socket_addrs()?.collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::resolved;

    #[test]
    fn a_port_alone_is_one_of_loopback() {
        let first = |text: &str| resolved(text).map(|all| all[0].to_string());
        assert_eq!(first("7000").unwrap(), "127.0.0.1:7000");
        assert_eq!(first("0.0.0.0:7000").unwrap(), "0.0.0.0:7000");
        assert_eq!(first("[::1]:7000").unwrap(), "[::1]:7000");
        for wrong in ["70000", "-1", "localhost", ""] {
            assert!(first(wrong).is_err(), "{wrong}");
        }
    }
}
