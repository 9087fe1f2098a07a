//! Who sent a datagram, in the form that the kernel gives and takes.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Bytes of an address of either kind, as the kernel has them.
const V4_BYTES: u32 = size_of::<libc::sockaddr_in>() as u32;
const V6_BYTES: u32 = size_of::<libc::sockaddr_in6>() as u32;

/// An address of the internet. Kept as the kernel has it, so that answering costs no conversion.
///
/// An address of version 4 lies in the room of one of version 6: family and port are at the same
/// places, and its number is where the other's flow is.
#[derive(Clone, Copy)]
pub struct Peer {
    name: libc::sockaddr_in6,
    len: u32,
}

impl Peer {
    /// Nobody.
    pub(super) const NONE: Peer = Peer {
        name: libc::sockaddr_in6 {
            sin6_family: 0,
            sin6_port: 0,
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
            sin6_scope_id: 0,
        },
        len: 0,
    };

    /// Room for an address of either kind.
    pub(super) fn room(&mut self) -> (*mut libc::c_void, libc::socklen_t) {
        ((&raw mut self.name).cast(), V6_BYTES)
    }

    /// The kernel wrote an address of `len` bytes.
    pub(super) fn received(&mut self, len: libc::socklen_t) {
        self.len = len.min(V6_BYTES);
    }

    /// The address as the kernel takes it.
    pub(super) fn name(&self) -> (*const libc::c_void, libc::socklen_t) {
        ((&raw const self.name).cast(), self.len)
    }

    /// Bytes that tell this address and its port from all others.
    pub fn bytes(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..2].copy_from_slice(&self.name.sin6_port.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.name.sin6_family.to_le_bytes());
        if self.len == V4_BYTES {
            bytes[4..8].copy_from_slice(&self.name.sin6_flowinfo.to_le_bytes());
        } else {
            bytes[8..].copy_from_slice(&self.name.sin6_addr.s6_addr);
        }
        bytes
    }

    /// The address; `None` where it is of no kind that is known.
    pub fn address(&self) -> Option<SocketAddr> {
        let port = u16::from_be(self.name.sin6_port);
        match (i32::from(self.name.sin6_family), self.len) {
            (libc::AF_INET, V4_BYTES..) => {
                let ip = Ipv4Addr::from(u32::from_be(self.name.sin6_flowinfo));
                Some(SocketAddr::V4(SocketAddrV4::new(ip, port)))
            }
            (libc::AF_INET6, V6_BYTES..) => {
                let ip = Ipv6Addr::from(self.name.sin6_addr.s6_addr);
                let (flow, scope) = (self.name.sin6_flowinfo, self.name.sin6_scope_id);
                Some(SocketAddr::V6(SocketAddrV6::new(ip, port, flow, scope)))
            }
            _ => None,
        }
    }
}

impl PartialEq for Peer {
    /// True where they have address and port in common.
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Peer {}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        let mut peer = Peer::NONE;
        peer.name.sin6_port = address.port().to_be();
        match address {
            SocketAddr::V4(v4) => {
                peer.len = V4_BYTES;
                peer.name.sin6_family = libc::AF_INET as libc::sa_family_t;
                peer.name.sin6_flowinfo = u32::from(*v4.ip()).to_be();
            }
            SocketAddr::V6(v6) => {
                peer.len = V6_BYTES;
                peer.name.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                peer.name.sin6_flowinfo = v6.flowinfo();
                peer.name.sin6_addr.s6_addr = v6.ip().octets();
                peer.name.sin6_scope_id = v6.scope_id();
            }
        }
        peer
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.address())
    }
}

const _: () = {
    use std::mem::offset_of;
    assert!(
        offset_of!(libc::sockaddr_in, sin_addr) == offset_of!(libc::sockaddr_in6, sin6_flowinfo)
            && offset_of!(libc::sockaddr_in, sin_port) == offset_of!(libc::sockaddr_in6, sin6_port)
    );
};
