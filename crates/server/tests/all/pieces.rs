//! A request may arrive in any pieces: every protocol, both kinds of loops, with and without TLS,
//! whatever the connection was doing before.
//!
//! Nothing sleeps: one loop serves all connections of a test, and INFO, which that loop runs behind
//! whatever it has taken in, tells how many bytes came.

use crate::support::tls::{client_config, files};
use crate::support::{Client, Probe, config, read_some, request, start_with};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use silica_base::{Prng, test_size};
use silica_server::{Config, EventLoopKind, Mode, Server};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Connections that get their pieces side by side.
const STREAMS: usize = 64;
/// Longer than a busy machine takes for anything here.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOPS: [EventLoopKind; 2] = [EventLoopKind::Auto, EventLoopKind::Epoll];

/// Both ends of a connection.
trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// A socket that counts what is written to it.
struct Wire<S> {
    socket: S,
    sent: Arc<AtomicU64>,
}

impl<S: Read> Read for Wire<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.socket.read(buf) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

impl<S: Write> Write for Wire<S> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let written = self.socket.write(buf)?;
        self.sent.fetch_add(written as u64, Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    Tls,
    Unix,
}

/// A server, and what its clients have sent.
struct House {
    server: Server,
    sent: Arc<AtomicU64>,
    control: Box<dyn Stream>,
    unix: PathBuf,
}

impl House {
    /// One whose control connection starts with `login`.
    fn start(event_loop: EventLoopKind, config: Config, login: &[u8]) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let name = format!("silica-pieces-{}-{number}", std::process::id());
        let unix = std::env::temp_dir().join(name);
        let config = Config {
            event_loop,
            loops: 1,
            tls: Some(files()),
            tls_listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            unix: Some(unix.clone()),
            ..config
        };
        let (server, _) = start_with(config, Probe::new(false));
        let sent = Arc::new(AtomicU64::new(0));
        let mut control = plain(server.local_addr(), &sent);
        control.write_all(login).unwrap();
        let mut house = House { server, sent, control, unix };
        if !login.is_empty() {
            house.control.read_exact(&mut [0; 5]).unwrap();
        }
        house
    }

    fn open(event_loop: EventLoopKind) -> Self {
        House::start(event_loop, config(), b"")
    }

    fn connect(&self, way: Way) -> Box<dyn Stream> {
        let sent = Arc::clone(&self.sent);
        match way {
            Way::Plain => plain(self.server.local_addr(), &sent),
            Way::Tls => {
                let socket = tcp(self.server.tls_addrs()[0]);
                let name = ServerName::try_from("localhost").unwrap();
                let config = client_config(&rustls::version::TLS13, None);
                let session = ClientConnection::new(config, name).unwrap();
                Box::new(StreamOwned::new(session, Wire { socket, sent }))
            }
            Way::Unix => {
                let socket = UnixStream::connect(&self.unix).unwrap();
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                Box::new(Wire { socket, sent })
            }
        }
    }

    /// A number that INFO shows.
    fn number(&mut self, name: &str) -> u64 {
        self.control.write_all(b"INFO stats\r\n").unwrap();
        let mut text = Vec::new();
        loop {
            let mut piece = [0; 4096];
            let n = read_some(&mut self.control, &mut piece).expect("an answer to INFO");
            text.extend_from_slice(&piece[..n]);
            let head = text.iter().position(|byte| *byte == b'\n');
            let Some(head) = head else { continue };
            let len: usize = std::str::from_utf8(&text[1..head - 1]).unwrap().parse().unwrap();
            if text.len() == head + 1 + len + 2 {
                break;
            }
        }
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
        line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
    }

    /// Waits until the loop has taken in, and planned, all that was sent.
    fn wait_until_taken(&mut self, what: &str) {
        let start = Instant::now();
        while self.number("total_net_input_bytes") != self.sent.load(Relaxed) {
            assert!(start.elapsed() < PATIENCE, "{what}: the server stopped receiving");
        }
    }

    /// Sends the case's bytes over each of `streams` in the pieces that its cuts make, the next
    /// piece only when the loop has planned the last; then all get their replies.
    fn deliver(&mut self, case: &Case, streams: &mut [Box<dyn Stream>], cuts: &[Vec<usize>]) {
        let streams = &mut streams[..cuts.len()];
        let pieces = cuts.iter().map(Vec::len).max().unwrap_or(0) + 1;
        let what = || format!("{} cut at {:?}…", case.name, cuts[0].first());
        for piece in 0..pieces {
            for (stream, cuts) in streams.iter_mut().zip(cuts) {
                let end = |piece: usize| cuts.get(piece).map_or(case.bytes.len(), |cut| *cut);
                let start = if piece == 0 { 0 } else { end(piece - 1) };
                let bytes = &case.bytes[start..end(piece)];
                stream.write_all(bytes).and_then(|()| stream.flush()).unwrap_or_else(|e| {
                    panic!("{}: the server stopped receiving: {e}", what());
                });
            }
            if piece + 1 < pieces {
                self.wait_until_taken(&what());
            }
        }
        for (stream, cuts) in streams.iter_mut().zip(cuts) {
            case.expect(stream, &format!("cut at {:?}…", &cuts[..cuts.len().min(8)]));
        }
    }

    /// Delivers the case once for each set of cuts, over connections of one way.
    fn deliver_all(&mut self, case: &Case, way: Way, cuts: &[Vec<usize>]) {
        let many = cuts.len().min(STREAMS);
        let mut streams: Vec<Box<dyn Stream>> = (0..many).map(|_| self.connect(way)).collect();
        for cuts in cuts.chunks(STREAMS) {
            self.deliver(case, &mut streams, cuts);
        }
    }

    fn stop(self) {
        drop(self.control);
        self.server.stop();
    }
}

fn tcp(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_nodelay(true).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn plain(address: SocketAddr, sent: &Arc<AtomicU64>) -> Box<dyn Stream> {
    Box::new(Wire { socket: tcp(address), sent: Arc::clone(sent) })
}

/// A request and its reply.
struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    /// Where its parts begin.
    parts: Vec<usize>,
    want: Vec<u8>,
}

impl Case {
    fn expect(&self, stream: &mut dyn Stream, how: &str) {
        let mut got = vec![0; self.want.len()];
        let read = stream.read_exact(&mut got);
        read.unwrap_or_else(|e| panic!("{} {how}: no reply: {e}", self.name));
        assert!(got == self.want, "{} {how}: {}", self.name, got.escape_ascii());
    }
}

/// About so many bytes are a large request.
const LARGE: usize = 100_000;

/// EXISTS with keys of `key_bytes` bytes each.
fn exists(name: &'static str, key_bytes: usize) -> Case {
    let head = format!("${key_bytes}\r\n");
    let many = LARGE / (head.len() + key_bytes + 2);
    let mut bytes = format!("*{}\r\n$6\r\nEXISTS\r\n", many + 1).into_bytes();
    let mut parts = vec![4, 8];
    for n in 0..many {
        parts.push(bytes.len());
        bytes.extend_from_slice(head.as_bytes());
        parts.push(bytes.len());
        bytes.extend_from_slice(format!("{n:0>key_bytes$}\r\n").as_bytes());
    }
    Case { name, bytes, parts, want: b":0\r\n".to_vec() }
}

/// A line that asks for keys of `key_bytes` bytes each.
fn get(name: &'static str, key_bytes: usize, line_bytes: usize) -> Case {
    let (mut bytes, mut parts) = (b"get".to_vec(), Vec::new());
    for n in 0..line_bytes / (key_bytes + 1) {
        parts.push(bytes.len());
        bytes.extend_from_slice(format!(" {n:0>key_bytes$}").as_bytes());
    }
    parts.push(bytes.len());
    bytes.extend_from_slice(b"\r\n");
    Case { name, bytes, parts, want: b"END\r\n".to_vec() }
}

fn data() -> Vec<u8> {
    let mut data = vec![0; LARGE];
    Prng::new(1).fill(&mut data);
    data
}

/// A line, data and a line end.
fn store(name: &'static str, line: &str, want: &str) -> Case {
    let bytes = [line.as_bytes(), b"\r\n", &data(), b"\r\n"].concat();
    let parts = vec![line.len(), line.len() + 2, bytes.len() - 2, bytes.len()];
    Case { name, bytes, parts, want: want.into() }
}

fn packet(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut header = [0; 24];
    (header[0], header[1], header[3], header[4]) =
        (0x80, opcode, key.len() as u8, extras.len() as u8);
    let body = (extras.len() + key.len() + value.len()) as u32;
    header[8..12].copy_from_slice(&body.to_be_bytes());
    [&header, extras, key, value].concat()
}

/// A quiet set, and a packet that asks for an answer.
fn binary() -> Case {
    let mut bytes = packet(0x11, &[0; 8], b"binary", &data());
    let set = bytes.len();
    bytes.extend(packet(0x0a, b"", b"", b""));
    let mut want = packet(0x0a, b"", b"", b"");
    want[0] = 0x81;
    Case { name: "binary", bytes, parts: vec![2, 24, 32, 38, set, set + 24], want }
}

fn cases() -> Vec<Case> {
    vec![
        exists("small arguments", 11),
        exists("arguments", 400),
        get("a line of keys", 11, LARGE),
        get("a line of long keys", 240, LARGE),
        store("set", &format!("set text 0 0 {LARGE}"), "STORED\r\n"),
        store("meta set", &format!("ms meta {LARGE}"), "HD\r\n"),
        binary(),
    ]
}

/// One cut each, at every `step`th byte.
fn single_cuts(case: &Case, step: usize) -> Vec<Vec<usize>> {
    (1..case.bytes.len()).step_by(step).map(|at| vec![at]).collect()
}

/// Cuts through the middle and on both sides of the beginning of every part.
fn cuts_at_parts(case: &Case) -> Vec<Vec<usize>> {
    let around = |shift: usize| {
        let mut cuts: Vec<usize> = case
            .parts
            .iter()
            .map(|part| part + shift)
            .filter_map(|at| at.checked_sub(2))
            .filter(|at| (1..case.bytes.len()).contains(at))
            .collect();
        cuts.sort_unstable();
        cuts.dedup();
        cuts
    };
    (0..5).map(around).collect()
}

/// Every byte within 2 KiB of the size of a receive buffer is cut at by one connection of many.
fn cuts_at_a_buffers_end() -> Vec<Vec<usize>> {
    let (from, to) = ((64 << 10) - (2 << 10), (64 << 10) + (2 << 10));
    (0..STREAMS).map(|phase| (from + phase..=to).step_by(STREAMS).collect()).collect()
}

#[test]
fn a_request_may_be_cut_anywhere() {
    let step = test_size(2999, 97, 1) as usize;
    for event_loop in LOOPS {
        let mut house = House::open(event_loop);
        for case in cases() {
            for way in [Way::Plain, Way::Tls] {
                house.deliver_all(&case, way, &single_cuts(&case, step));
                house.deliver_all(&case, way, &cuts_at_a_buffers_end());
                // In a request of many small parts every byte is near the beginning of one.
                if case.parts.len() < 1000 {
                    house.deliver_all(&case, way, &cuts_at_parts(&case));
                }
            }
        }
        house.stop();
    }
}

#[test]
fn a_request_may_come_in_pieces_of_any_size() {
    for event_loop in LOOPS {
        let house = House::open(event_loop);
        for case in cases() {
            for (way, size) in [
                (Way::Plain, 1),
                (Way::Plain, 1460),
                (Way::Plain, 4096),
                (Way::Tls, 100),
                (Way::Tls, 1460),
                (Way::Unix, 1460),
            ] {
                let cuts = (size..case.bytes.len()).step_by(size);
                // Nobody waits for the server here: it reads what has come together so far.
                let mut stream = house.connect(way);
                let mut start = 0;
                for cut in cuts.chain([case.bytes.len()]) {
                    stream.write_all(&case.bytes[start..cut]).unwrap();
                    start = cut;
                }
                case.expect(&mut stream, &format!("in pieces of {size}"));
            }
        }
        house.stop();
    }
}

/// What a connection was doing, and what comes then.
struct Story {
    before: Vec<u8>,
    /// The reply to it.
    said: Vec<u8>,
    case: Case,
}

fn story(name: &'static str, before: &str, said: &str, bytes: Vec<u8>, want: &str) -> Story {
    let case = Case { name, bytes, parts: Vec::new(), want: want.as_bytes().to_vec() };
    Story { before: before.into(), said: said.into(), case }
}

/// A command with `many` arguments that `arg` makes.
fn command(name: &str, many: usize, arg: impl Fn(usize) -> String) -> Vec<u8> {
    let args: Vec<String> = (0..many).map(arg).collect();
    let all = std::iter::once(name.as_bytes()).chain(args.iter().map(String::as_bytes));
    request(&all.collect::<Vec<_>>())
}

fn key(n: usize) -> String {
    format!("key:{n:07}")
}

fn stories() -> Vec<Story> {
    let keys = |name: &str, many| command(name, many, key);
    let pairs = |many: usize| command("MSET", 2 * many, |n| key(n / 2));
    let exec = "*1\r\n$4\r\nEXEC\r\n";
    let confirmed = |many: usize| {
        let one = |n: usize| {
            let name = format!("channel-of-twenty-bytes-{n:05}");
            format!("*3\r\n$9\r\nsubscribe\r\n${}\r\n{name}\r\n:{}\r\n", name.len(), n + 1)
        };
        (0..many).map(one).collect::<String>()
    };
    let channels = |many| command("SUBSCRIBE", many, |n| format!("channel-of-twenty-bytes-{n:05}"));
    vec![
        story("DEL", "", "", keys("DEL", 5000), ":0\r\n"),
        story("MSET", "", "", pairs(40_000), "+OK\r\n"),
        story(
            "MSET and UNLINK",
            "",
            "",
            [pairs(40_000), keys("UNLINK", 40_000)].concat(),
            "+OK\r\n:40000\r\n",
        ),
        story("EXISTS", "", "", keys("EXISTS", 100_000), ":0\r\n"),
        story(
            "MGET",
            "",
            "",
            keys("MGET", 100_000),
            &format!("*100000\r\n{}", "$-1\r\n".repeat(100_000)),
        ),
        story(
            "MSET in MULTI",
            "*1\r\n$5\r\nMULTI\r\n",
            "+OK\r\n",
            [pairs(4000), keys("DEL", 4000), exec.into()].concat(),
            "+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n:4000\r\n",
        ),
        story("SUBSCRIBE", "", "", channels(4000), &confirmed(4000)),
        story(
            "PING while listening",
            "*2\r\n$9\r\nSUBSCRIBE\r\n$29\r\nchannel-of-twenty-bytes-00000\r\n",
            &confirmed(1),
            request(&[b"PING", &[b'p'; LARGE]]),
            &format!("*2\r\n$4\r\npong\r\n${LARGE}\r\n{}\r\n", "p".repeat(LARGE)),
        ),
    ]
}

fn stories_of_pipelines() -> Vec<Story> {
    let keys = |name: &str, many| command(name, many, key);
    let small = "*1\r\n$4\r\nPING\r\n";
    let behind = |many: usize, last: Vec<u8>| [small.repeat(many).into_bytes(), last].concat();
    let inline = format!("EXISTS {}\r\n", "k ".repeat(32_700)).into_bytes();
    let line = get("", 11, LARGE).bytes;
    let quiet: Vec<u8> =
        (0..4000).flat_map(|n| packet(0x09, b"", key(n).as_bytes(), b"")).collect();
    let mut noop = packet(0x0a, b"", b"", b"");
    let ended = [quiet, noop.clone()].concat();
    noop[0] = 0x81;
    let mut stories = vec![
        story("inline", "", "", inline.clone(), ":0\r\n"),
        story(
            "inline behind small ones",
            "",
            "",
            behind(5000, inline),
            &format!("{}:0\r\n", "+PONG\r\n".repeat(5000)),
        ),
        story(
            "behind small ones",
            "",
            "",
            behind(5000, keys("DEL", 5000)),
            &format!("{}:0\r\n", "+PONG\r\n".repeat(5000)),
        ),
        story("a line behind a line", "", "", line.repeat(2), "END\r\nEND\r\n"),
        story("quiet packets", "", "", ended, ""),
    ];
    stories.last_mut().expect("there are some").case.want = noop;
    stories
}

#[test]
fn a_request_may_come_in_pieces_whatever_the_connection_does() {
    let mut random = Prng::new(5);
    for mode in [Mode::Crcw, Mode::Crew, Mode::Erew] {
        for event_loop in LOOPS {
            let mut house = House::start(event_loop, Config { mode, ..config() }, b"");
            for Story { before, said, case } in stories().into_iter().chain(stories_of_pipelines())
            {
                let len = case.bytes.len();
                let places = [len / 2, 65_536, 65_537, len - 1, random.below(len as u64) as usize];
                let cuts = places.map(|at| vec![at.clamp(1, len - 1)]);
                for (way, cut) in [Way::Plain, Way::Unix, Way::Tls].iter().cycle().zip(&cuts) {
                    let mut streams = [house.connect(*way)];
                    streams[0].write_all(&before).unwrap();
                    let mut got = vec![0; said.len()];
                    streams[0].read_exact(&mut got).unwrap();
                    assert!(got == said, "{}: {}", case.name, got.escape_ascii());
                    house.deliver(&case, &mut streams, std::slice::from_ref(cut));
                }
            }
            house.stop();
        }
    }
}

#[test]
fn strangers_may_send_what_they_may_in_pieces() {
    for event_loop in LOOPS {
        let config = Config { password: Some(b"secret".to_vec()), ..config() };
        let login = request(&[b"AUTH", b"secret"]);
        let mut house = House::start(event_loop, config, &login);
        let arg = vec![b'a'; 16 << 10];
        let bytes = request(&[&arg[..]; 10]);
        let want = b"-NOAUTH Authentication required.\r\n".to_vec();
        let head = b"*10\r\n$16384\r\n".len();
        let parts = (0..10).map(|n| head + n * (arg.len() + 10)).collect();
        let case = Case { name: "ten arguments", bytes: unknown_to(bytes), parts, want };
        house.deliver_all(&case, Way::Plain, &cuts_at_parts(&case));
        house.deliver_all(&case, Way::Tls, &cuts_at_a_buffers_end()[..8]);
        house.stop();
    }
}

/// The request in `bytes` with EXISTS in the place of its first argument.
fn unknown_to(mut bytes: Vec<u8>) -> Vec<u8> {
    let rest = bytes.split_off(b"*10\r\n$16384\r\n".len() + (16 << 10) + 2);
    [b"*10\r\n$6\r\nEXISTS\r\n", &rest[..]].concat()
}

#[test]
fn a_line_without_an_end_is_refused() {
    for event_loop in LOOPS {
        let mut house = House::open(event_loop);
        let mut line = get("", 11, 1 << 20).bytes;
        line.truncate(line.len() - 2);
        line.extend_from_slice(&[b'k'; 100]);
        let mut stream = house.connect(Way::Plain);
        // The connection ends at once, which whoever is sending may notice.
        let _ = stream.write_all(&line);
        let mut got = Vec::new();
        match stream.read_to_end(&mut got) {
            Err(e) if e.kind() != io::ErrorKind::ConnectionReset => panic!("not ended: {e}"),
            _ => assert!(got.is_empty(), "{}", got.escape_ascii()),
        }
        assert_eq!(house.number("request_timeouts"), 0);
        house.stop();
    }
}

#[test]
fn replies_wait_while_a_request_comes_in_pieces() {
    for event_loop in LOOPS {
        let config = Config { client_output_bytes_max: 64 << 10, ..config() };
        let mut house = House::start(event_loop, config, b"");
        let mut stream = house.connect(Way::Plain);
        let value = vec![b'v'; 1 << 20];
        stream.write_all(&request(&[b"SET", b"big", &value])).unwrap();
        stream.read_exact(&mut [0; 5]).unwrap();
        // More replies than sockets take, none of them read, and a part of the next request.
        let asks = request(&[b"GET", b"big"]).repeat(40);
        let last = command("DEL", 5000, key);
        stream.write_all(&asks).unwrap();
        stream.write_all(&last[..70_000]).unwrap();
        let mut got = vec![0; 40 * (value.len() + 12)];
        stream.read_exact(&mut got[..1000]).unwrap();
        stream.write_all(&last[70_000..]).unwrap();
        stream.read_exact(&mut got[1000..]).unwrap();
        let mut reply = [0; 4];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b":0\r\n");
        assert_eq!(house.number("stalled_clients_dropped"), 0);
        house.stop();
    }
}

#[test]
fn a_large_request_in_small_pieces_is_parsed_once() {
    let mib = test_size(16, 16, 1000) as usize;
    let value = "v".repeat(4080);
    let bytes = command("MSET", 2 * 256 * mib, |n| if n % 2 == 0 { key(n) } else { value.clone() });
    for event_loop in LOOPS {
        let config = Config { clients_bytes_max: 4 << 30, ..config() };
        let house = House::start(event_loop, config, b"");
        let mut stream = house.connect(Way::Plain);
        bytes.chunks(4096).for_each(|piece| stream.write_all(piece).unwrap());
        let mut reply = [0; 5];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+OK\r\n");
        house.stop();
    }
}

#[test]
fn only_a_request_that_does_not_go_on_ends_its_connection() {
    let beginnings: [&[u8]; 6] = [
        b"*2\r\n$3\r\nGET\r\n$5\r\nab",
        b"*",
        b"GET ab",
        b"get ab",
        b"set ab 0 0 10\r\nabc",
        b"\x80\x0a\0\0",
    ];
    for event_loop in LOOPS {
        let config = Config { request_ms_max: 1500, ..config() };
        let mut house = House::start(event_loop, config, b"");
        let address = house.server.local_addr();
        let connect = || Client::connect_to(address).unwrap();
        let (mut idle, mut listener, mut slow) = (connect(), connect(), connect());
        assert_eq!(idle.ask("MULTI"), "OK");
        assert_eq!(listener.ask("SUBSCRIBE a"), "['subscribe' 'a' :1]");
        let mut stuck: Vec<Client> = beginnings.iter().map(|_| connect()).collect();
        stuck.iter_mut().zip(beginnings).for_each(|(client, bytes)| client.send(bytes));
        // Slow, but it goes on.
        let mut bytes = request(&[b"ECHO", &[b'e'; 1_000_000]]).into_iter();
        while house.number("request_timeouts") < beginnings.len() as u64 {
            slow.send(&[bytes.next().expect("the others end before")]);
        }
        stuck.iter_mut().for_each(|client| assert_eq!(client.reply(), None));
        slow.send(bytes.as_slice());
        assert!(matches!(slow.reply(), Some(silica_proto::Value::Bulk(b)) if b.len() == 1_000_000));
        assert_eq!(idle.ask("PING"), "QUEUED");
        assert_eq!(listener.ask("PING"), "['pong' '']");
        house.stop();
    }
}
