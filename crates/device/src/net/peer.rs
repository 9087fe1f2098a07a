//! Who sent a datagram, in the form that the kernel gives and takes.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Bytes of the longest address of the internet.
const NAME_BYTES: usize = size_of::<libc::sockaddr_in6>();

/// An address of the internet. Kept as the kernel has it, so that answering costs no conversion.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Peer {
    name: [u8; NAME_BYTES],
    len: u32,
}

impl Peer {
    /// Nobody.
    pub(super) const NONE: Peer = Peer { name: [0; NAME_BYTES], len: 0 };

    /// Room for an address of either kind.
    pub(super) fn room(&mut self) -> (*mut libc::c_void, libc::socklen_t) {
        (self.name.as_mut_ptr().cast(), NAME_BYTES as libc::socklen_t)
    }

    /// The kernel wrote an address of `len` bytes.
    pub(super) fn received(&mut self, len: libc::socklen_t) {
        self.len = len.min(NAME_BYTES as u32);
    }

    /// The address as the kernel takes it.
    pub(super) fn name(&self) -> (*const libc::c_void, libc::socklen_t) {
        (self.name.as_ptr().cast(), self.len)
    }

    /// The bytes that tell this address from others.
    pub fn bytes(&self) -> &[u8] {
        &self.name[..self.len as usize]
    }

    /// The address; `None` where it is of no kind that is known.
    pub fn address(&self) -> Option<SocketAddr> {
        let port = || u16::from_be_bytes([self.name[2], self.name[3]]);
        let family = i32::from(u16::from_ne_bytes([self.name[0], self.name[1]]));
        match (family, self.len as usize) {
            (libc::AF_INET, 8..) => {
                let ip: [u8; 4] = self.name[4..8].try_into().ok()?;
                Some(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::from(ip), port())))
            }
            (libc::AF_INET6, NAME_BYTES..) => {
                let number = |at: usize| {
                    self.name[at..at + 4].try_into().map(u32::from_ne_bytes).unwrap_or_default()
                };
                let ip: [u8; 16] = self.name[8..24].try_into().ok()?;
                let flow = u32::from_be(number(4));
                Some(SocketAddr::V6(SocketAddrV6::new(
                    Ipv6Addr::from(ip),
                    port(),
                    flow,
                    number(24),
                )))
            }
            _ => None,
        }
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        let mut peer = Peer::NONE;
        let family = match address {
            SocketAddr::V4(v4) => {
                peer.len = size_of::<libc::sockaddr_in>() as u32;
                peer.name[4..8].copy_from_slice(&v4.ip().octets());
                libc::AF_INET
            }
            SocketAddr::V6(v6) => {
                peer.len = NAME_BYTES as u32;
                peer.name[4..8].copy_from_slice(&v6.flowinfo().to_be_bytes());
                peer.name[8..24].copy_from_slice(&v6.ip().octets());
                peer.name[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
                libc::AF_INET6
            }
        };
        peer.name[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        peer.name[2..4].copy_from_slice(&address.port().to_be_bytes());
        peer
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.address())
    }
}
