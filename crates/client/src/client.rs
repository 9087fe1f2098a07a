//! The client: directory, packing, windows, patience.

use crate::lane::{Lane, PATIENCE_DOUBLINGS};
use crate::options::Options;
use silica_base::{Error, ErrorKind, Result};
use silica_proto::datagram::{
    DATAGRAM_BYTES_MAX, Directory, HEADER_BYTES, Header, Kind, PASS_BYTES, Reply, Request,
};
use std::io;
use std::net::{SocketAddr, UdpSocket};

/// No pass is asked with.
const NO_PASS: [u8; PASS_BYTES] = [0; PASS_BYTES];

/// A client of one server.
#[derive(Debug)]
pub struct Client {
    /// Which lane a key belongs to.
    directory: Directory,
    lanes: Vec<Lane>,
    options: Options,
    sent_again: u64,
}

fn failed(what: &str) -> impl FnOnce(io::Error) -> Error {
    let what = what.to_string();
    move |error| Error::io(what, error)
}

/// True if nothing has come in time.
fn is_over(error: &io::Error) -> bool {
    use io::ErrorKind::{TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut)
}

impl Client {
    /// A client of the server at `address`, the first of its ports.
    pub fn connect(address: SocketAddr) -> Result<Self> {
        Self::connect_with(address, Options::default())
    }

    /// A client with other options than the usual ones.
    pub fn connect_with(address: SocketAddr, options: Options) -> Result<Self> {
        Self::connect_by(address, &NO_PASS, options)
    }

    /// A client with a pass, which it is given over a connection to the server at `address`: as
    /// `login`, a user's name and password, where the server asks for one. It knows which port
    /// owns a key, where keys have owners.
    pub fn log_in(
        address: SocketAddr,
        login: Option<(&str, &str)>,
        options: Options,
    ) -> Result<Self> {
        let (port, pass) = crate::login::pass(address, login)?;
        Self::connect_by(SocketAddr::new(address.ip(), port), &pass, options)
    }

    fn connect_by(address: SocketAddr, pass: &[u8; PASS_BYTES], options: Options) -> Result<Self> {
        let first = open(address)?;
        let (directory, token) = ask(&first, pass, &options)?;
        let mut lanes = Vec::new();
        let mut first = Some((first, token));
        for port in directory.ports.iter().copied() {
            let known = first.take_if(|_| port == address.port());
            let (socket, token) = match known {
                Some(known) => known,
                // The token belongs to the socket that asks.
                None => {
                    let socket = open(SocketAddr::new(address.ip(), port))?;
                    let (_, token) = ask(&socket, pass, &options)?;
                    (socket, token)
                }
            };
            let lane = Lane::new(socket, token, &options);
            lanes.push(lane.map_err(failed("preparing a socket for replies"))?);
        }
        Ok(Client { directory, lanes, options, sent_again: 0 })
    }

    /// What the server has told: its limits and ports, and where keys have owners these.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Datagrams that were sent more than once so far.
    pub fn sent_again(&self) -> u64 {
        self.sent_again
    }

    /// Sends `requests` and gives each reply to `take`, with the number of its request. Returns
    /// when all are answered. Requests of one call have no order among themselves; where there
    /// are two writes of a key, either may win.
    pub fn exchange(
        &mut self,
        requests: &[Request<'_>],
        mut take: impl FnMut(usize, Reply<'_>),
    ) -> Result<()> {
        self.pack(requests)?;
        let Options { attempts_max, window, requests_max, .. } = self.options;
        loop {
            let mut waiting = false;
            for lane in &mut self.lanes {
                lane.send(window, requests_max).map_err(failed("sending datagrams"))?;
                waiting |= lane.is_waiting();
            }
            if !waiting {
                return Ok(());
            }
            for lane in self.lanes.iter_mut().filter(|lane| lane.is_waiting()) {
                match lane.receive(attempts_max, &mut take) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) if is_over(&error) => {
                        let again = lane.give_up(attempts_max);
                        self.sent_again += again.map_err(failed("waiting for replies"))?;
                    }
                    Err(error) => {
                        return Err(Error::io("receiving datagrams", error));
                    }
                }
            }
        }
    }

    /// Puts requests into datagrams.
    fn pack(&mut self, requests: &[Request<'_>]) -> Result<()> {
        self.lanes.iter_mut().for_each(Lane::clear);
        for (number, request) in requests.iter().enumerate() {
            let Some(size) = request.size() else {
                let key = request.key().len();
                let message = format!("a request with a key of {key} bytes is over its limits");
                return Err(Error::new(ErrorKind::TooLarge, message));
            };
            let lane = &mut self.lanes[self.directory.port_of(request.key())];
            debug_assert!(HEADER_BYTES + size <= DATAGRAM_BYTES_MAX);
            lane.pack(number as u32, request, size, self.options.requests_max);
        }
        self.lanes.iter_mut().for_each(Lane::end);
        Ok(())
    }

    /// The value of `key`.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut found = Err(nothing());
        self.exchange(&[Request::Get(key)], |_, reply| {
            found = match reply {
                Reply::Done(value) => Ok(Some(value.to_vec())),
                Reply::Missing => Ok(None),
                Reply::TooLarge => Err(too_large()),
                Reply::Failed | Reply::NoRoom => Err(nothing()),
            };
        })?;
        found
    }

    /// Maps `key` to `value` until `expires_unix_ms`, or for ever where that is 0.
    pub fn put(&mut self, key: &[u8], value: &[u8], expires_unix_ms: u64) -> Result<()> {
        self.write(Request::Put { key, value, expires_unix_ms })
    }

    /// Removes `key`, if it is there.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.write(Request::Delete(key))
    }

    fn write(&mut self, request: Request<'_>) -> Result<()> {
        let mut done = Err(nothing());
        self.exchange(&[request], |_, reply| {
            done = match reply {
                Reply::Done(_) => Ok(()),
                Reply::TooLarge => Err(too_large()),
                Reply::Missing | Reply::Failed | Reply::NoRoom => Err(nothing()),
            };
        })?;
        done
    }
}

fn nothing() -> Error {
    Error::new(ErrorKind::Io, "the server's engine failed; its log says why")
}

fn too_large() -> Error {
    Error::new(ErrorKind::TooLarge, "the value is too large for a datagram, or for the server")
}

/// A socket for the server at `address`.
fn open(address: SocketAddr) -> Result<UdpSocket> {
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any).and_then(|socket| {
        socket.connect(address)?;
        Ok(socket)
    });
    socket.map_err(failed(&format!("opening a socket for {address}")))
}

/// Asks for the directory and a token.
fn ask(socket: &UdpSocket, pass: &[u8; PASS_BYTES], options: &Options) -> Result<(Directory, u64)> {
    let header = Header { kind: Kind::Ask, room: 0, count: 0, sequence: 0, word: 0 };
    // The server answers with no more than it was sent.
    let mut question = [&header.bytes()[..], pass].concat();
    question.resize(DATAGRAM_BYTES_MAX, 0);
    let mut answer = [0; DATAGRAM_BYTES_MAX];
    for attempt in 0..options.attempts_max {
        let patience = options.patience * 2u32.pow(attempt.min(PATIENCE_DOUBLINGS) as u32);
        socket.set_read_timeout(Some(patience)).map_err(failed("asking for the directory"))?;
        socket.send(&question).map_err(failed("asking for the directory"))?;
        match socket.recv(&mut answer) {
            Ok(len) => match Header::read(&answer[..len]) {
                Ok((header, rest)) if header.kind == Kind::Directory => {
                    if let Ok(directory) = Directory::read(rest, header.count) {
                        return Ok((directory, header.word));
                    }
                }
                Ok((header, _)) if header.kind == Kind::Refusal => {
                    let refused = "the server wants a password: log in";
                    let refused = io::Error::new(io::ErrorKind::PermissionDenied, refused);
                    return Err(Error::io("asking for the directory", refused));
                }
                _ => {}
            },
            Err(error) if is_over(&error) || error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io("asking for the directory", error)),
        }
    }
    let message = format!("nobody answers {} times", options.attempts_max);
    Err(Error::io("asking for the directory", io::Error::new(io::ErrorKind::TimedOut, message)))
}
