//! The client on a real server, and on a network that loses datagrams.

use silica_client::{Client, Directory, Options, Reply, Request};
use silica_engine::{Engine, EngineExt, Result};
use silica_proto::datagram::{Header, Kind, Reason, Requests};
use silica_server::{Config, Databases, Mode, Server};
use silica_testkit::Reference;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

struct Source(Arc<Reference>);

impl Databases for Source {
    fn open(&self, _: u32) -> Result<Arc<dyn Engine>> {
        Ok(Arc::clone(&self.0) as Arc<dyn Engine>)
    }
}

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

fn start() -> (Server, Arc<Reference>) {
    let engine = Arc::new(Reference::new());
    let listen = vec![ANY];
    let config = Config { listen, datagrams: Some(ANY), loops: 3, ..Config::default() };
    (Server::start(config, Arc::new(Source(Arc::clone(&engine)))).unwrap(), engine)
}

fn connect(server: &Server) -> Client {
    Client::connect(server.datagram_addrs()[0]).unwrap()
}

/// All replies in the order of their requests.
fn all(client: &mut Client, requests: &[Request<'_>]) -> Vec<Option<Vec<u8>>> {
    let mut replies = vec![None; requests.len()];
    let mut count = 0;
    client
        .exchange(requests, |number, reply| {
            count += 1;
            replies[number] = match reply {
                Reply::Done(value) => Some(value.to_vec()),
                Reply::Missing => None,
                other => panic!("{other:?}"),
            };
        })
        .unwrap();
    assert_eq!(count, requests.len(), "each request is answered once");
    replies
}

#[test]
fn one_by_one() {
    let (server, engine) = start();
    let mut client = connect(&server);
    assert_eq!(client.get(b"a").unwrap(), None);
    client.put(b"a", b"1", 0).unwrap();
    assert_eq!(client.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    client.put(b"old", b"1", 1).unwrap();
    assert_eq!(client.get(b"old").unwrap(), None, "it expired in 1970");
    client.delete(b"a").unwrap();
    client.delete(b"a").unwrap();
    assert_eq!(client.get(b"a").unwrap(), None);
    // What others have stored may be too large for a datagram.
    engine.put(b"large", &[7; 1025], silica_engine::Durability::Buffered).unwrap();
    let refused = client.get(b"large").unwrap_err();
    assert_eq!(refused.kind(), silica_engine::ErrorKind::TooLarge);
    assert!(client.put(&[1; 256], b"", 0).is_err());
    assert!(client.put(b"", b"", 0).is_err());
    assert!(client.put(b"a", &[1; 1025], 0).is_err());
    client.put(&[1; 255], &[2; 1024], 0).unwrap();
    assert_eq!(client.get(&[1; 255]).unwrap().as_deref(), Some(&[2; 1024][..]));
    server.stop();
}

#[test]
fn many_at_once_are_as_in_a_map() {
    let (server, _) = start();
    let mut client = connect(&server);
    let mut random = silica_base::Prng::new(7);
    let mut map = BTreeMap::new();
    for round in 0..20u64 {
        let mut keys: Vec<Vec<u8>> =
            (0..1500).map(|_| format!("key {}", random.below(3000)).into_bytes()).collect();
        keys.sort();
        keys.dedup();
        let values: Vec<Vec<u8>> =
            keys.iter().map(|_| vec![round as u8; random.below(300) as usize]).collect();
        let mut writes = Vec::new();
        for (key, value) in keys.iter().zip(&values) {
            writes.push(match random.below(4) {
                0 => Request::Delete(key),
                _ => Request::Put { key, value, expires_unix_ms: 0 },
            });
        }
        all(&mut client, &writes);
        for write in &writes {
            match write {
                Request::Put { key, value, .. } => map.insert(key.to_vec(), value.to_vec()),
                other => map.remove(other.key()),
            };
        }
        let gets: Vec<_> = keys.iter().map(|key| Request::Get(key)).collect();
        let want: Vec<_> = keys.iter().map(|key| map.get(key).cloned()).collect();
        assert_eq!(all(&mut client, &gets), want);
    }
    server.stop();
}

/// Passes datagrams on between clients, one after the other, and one port of a server.
struct Way {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    /// Clients so far, and datagrams that were lost.
    clients: Arc<AtomicU64>,
    lost: Arc<AtomicU64>,
}

impl Drop for Way {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// A way to `server`, on which datagram `n` of a client passes `times(client, n)` times.
fn way(server: SocketAddr, mut times: impl FnMut(u64, u64) -> u64 + Send + 'static) -> Way {
    let bind = || {
        let socket = UdpSocket::bind(ANY).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    let outer = bind();
    let address = outer.local_addr().unwrap();
    let (over, clients, lost) = <(Arc<AtomicBool>, Arc<AtomicU64>, Arc<AtomicU64>)>::default();
    let way = Way { address, over, clients, lost };
    let (over, clients, lost) = (way.over.clone(), way.clients.clone(), way.lost.clone());
    std::thread::spawn(move || {
        let (mut bytes, mut client, mut inner) = (vec![0; 2000], None, bind());
        let mut passed = 0;
        let mut next = |clients: &AtomicU64, passed: &mut u64| {
            let times = times(clients.load(Ordering::Relaxed) - 1, *passed);
            *passed += 1;
            lost.fetch_add(u64::from(times == 0), Ordering::Relaxed);
            0..times
        };
        while !over.load(Ordering::Relaxed) {
            let mut is_idle = true;
            if let Ok((len, from)) = outer.recv_from(&mut bytes) {
                is_idle = false;
                if client != Some(from) {
                    // Late replies to the last client do not reach this one.
                    (client, inner, passed) = (Some(from), bind(), 0);
                    inner.connect(server).unwrap();
                    clients.fetch_add(1, Ordering::Relaxed);
                }
                next(&clients, &mut passed).for_each(|_| drop(inner.send(&bytes[..len])));
            }
            if let (Ok(len), Some(client)) = (inner.recv(&mut bytes), client) {
                is_idle = false;
                // The directory names the server's ports: one is enough here.
                if let Ok((Header { kind: Kind::Directory, .. }, _)) = Header::read(&bytes[..len]) {
                    bytes[6..8].copy_from_slice(&1u16.to_le_bytes());
                    bytes[32..34].copy_from_slice(&address.port().to_le_bytes());
                }
                let times = next(&clients, &mut passed);
                times.for_each(|_| drop(outer.send_to(&bytes[..len], client)));
            }
            if is_idle {
                std::thread::yield_now();
            }
        }
    });
    way
}

/// Puts and gets `count` entries, of values that grow up to 1,000 bytes.
fn put_and_get(client: &mut Client, count: usize) {
    let entry = |n: usize| (format!("key {n}"), vec![n as u8; n * 1000 / count]);
    let entries: Vec<_> = (0..count).map(entry).collect();
    let puts = entries.iter().map(|(key, value)| Request::Put {
        key: key.as_bytes(),
        value,
        expires_unix_ms: 0,
    });
    all(client, &puts.collect::<Vec<_>>());
    let gets: Vec<_> = entries.iter().map(|(key, _)| Request::Get(key.as_bytes())).collect();
    let found = all(client, &gets);
    assert!(found.iter().zip(&entries).all(|(found, (_, value))| found.as_ref() == Some(value)));
}

#[test]
fn what_is_lost_is_sent_again() {
    let (server, _) = start();
    let mut random = silica_base::Prng::new(3);
    let way = way(server.datagram_addrs()[0], move |_, _| random.below(3));
    let options = Options { requests_max: 3, window: 8, ..Options::default() };
    let mut client = Client::connect_with(way.address, options).unwrap();
    put_and_get(&mut client, 60);
    assert!(client.sent_again() > 0);
    server.stop();
}

#[test]
fn any_one_datagram_may_be_lost() {
    let (server, _) = start();
    let way = way(server.datagram_addrs()[0], |client, n| u64::from(client != n));
    let patience = Duration::from_millis(10);
    let options = Options { patience, receive_bytes: 32 << 10, ..Options::default() };
    // Until a client loses none, since it needs no more datagrams.
    let lost = (0..1000).find(|clients| {
        let mut client = Client::connect_with(way.address, options).unwrap();
        put_and_get(&mut client, 40);
        way.lost.load(Ordering::Relaxed) == *clients
    });
    assert!(lost.is_some_and(|lost| lost > 30), "{lost:?}");
    server.stop();
}

#[test]
fn the_python_client_may_lose_any_one_datagram() {
    let (server, _) = start();
    let way = way(server.datagram_addrs()[0], |client, n| u64::from(client != n));
    let port = way.address.port().to_string();
    if python(&["127.0.0.1", &port, "losses", "90"]) {
        let lost = way.lost.load(Ordering::Relaxed);
        assert!(lost > 30, "{lost}");
    }
    server.stop();
}

/// A server of this test's own: answers the ask, then hands out datagrams of requests.
struct Pretended(UdpSocket);

impl Pretended {
    fn bind() -> Self {
        let socket = UdpSocket::bind(ANY).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Pretended(socket)
    }

    /// The next datagram of requests: header and keys.
    fn next(&self) -> (Header, Vec<Vec<u8>>) {
        let mut bytes = vec![0; 2000];
        loop {
            let (len, from) = self.0.recv_from(&mut bytes).unwrap();
            self.0.connect(from).unwrap();
            let (header, rest) = Header::read(&bytes[..len]).unwrap();
            if header.kind == Kind::Requests {
                let keys = Requests::new(rest, header.count).map(|r| r.unwrap().key().to_vec());
                return (header, keys.collect());
            }
            let kind = Kind::Directory;
            let mut answer = Header { kind, count: 1, word: 9, ..header }.bytes().to_vec();
            let port = self.0.local_addr().unwrap().port();
            Directory::new(&[port], None).write(&mut answer);
            self.0.send(&answer).unwrap();
        }
    }

    /// Answers some of the requests of a datagram, each with its key.
    fn answer(&self, header: Header, keys: &[Vec<u8>], part: std::ops::Range<usize>) {
        let word = Header::word_of(part.start, keys.len());
        let count = part.len() as u16;
        let mut bytes = Header { kind: Kind::Replies, count, word, ..header }.bytes().to_vec();
        keys[part].iter().for_each(|key| Reply::Done(key).write(&mut bytes));
        self.0.send(&bytes).unwrap();
    }
}

/// However often replies are lost, no retry asks for what was answered.
#[test]
fn a_retry_asks_only_for_what_is_missing() {
    let server = Pretended::bind();
    let address = server.0.local_addr().unwrap();
    let asks = std::thread::spawn(move || {
        let options = Options { patience: Duration::from_millis(30), ..Options::default() };
        let mut client = Client::connect_with(address, options).unwrap();
        let keys: Vec<String> = (0..100).map(|n| format!("{n}")).collect();
        let gets: Vec<_> = keys.iter().map(|key| Request::Get(key.as_bytes())).collect();
        let found = all(&mut client, &gets);
        assert!(
            found.iter().zip(&keys).all(|(found, key)| found.as_deref() == Some(key.as_bytes()))
        );
    });
    let (first, mut keys) = server.next();
    assert_eq!(keys.len(), 100);
    let first_keys = keys.clone();
    let mut header = first;
    // Replies in the middle, at the end and at the beginning are lost.
    for lose in [33..66, 22..33, 0..4, 2..4] {
        server.answer(header, &keys, 0..lose.start);
        server.answer(header, &keys, lose.end..keys.len());
        let wanted = keys[lose].to_vec();
        loop {
            let (next, asked) = server.next();
            assert!(next.sequence > header.sequence && next.room > 0);
            // On a slow machine the client may have sent it before it had the replies.
            if asked != keys {
                assert_eq!(asked, wanted);
                (header, keys) = (next, asked);
                break;
            }
        }
    }
    // A late reply to the first datagram counts.
    let at = first_keys.iter().position(|key| *key == keys[0]).unwrap();
    server.answer(first, &first_keys, at..at + 1);
    let rest = keys[1..].to_vec();
    loop {
        let (next, asked) = server.next();
        if asked != keys {
            assert_eq!(asked, rest);
            server.answer(next, &asked, 0..asked.len());
            break;
        }
    }
    asks.join().unwrap();
}

/// Datagrams that sockets which are connected to one of `ports` had no room for.
fn dropped(ports: &[u16]) -> u64 {
    let table = std::fs::read_to_string("/proc/net/udp").unwrap();
    let of_row = |row: &str| {
        let cells: Vec<&str> = row.split_whitespace().collect();
        let port = u16::from_str_radix(cells[2].split(':').nth(1).unwrap(), 16).unwrap();
        ports.contains(&port).then(|| cells.last().unwrap().parse::<u64>().unwrap())
    };
    table.lines().skip(1).filter_map(of_row).sum()
}

/// Nothing is sent again: an overflow is an error after a while.
#[test]
fn replies_never_overflow_the_clients_buffer() {
    let (server, _) = start();
    let ports: Vec<u16> = server.datagram_addrs().iter().map(SocketAddr::port).collect();
    for receive_bytes in [32 << 10, 64 << 10, 104 << 10, 4 << 20] {
        let patience = Duration::from_secs(10);
        let options = Options { patience, attempts_max: 1, receive_bytes, ..Options::default() };
        let mut client = Client::connect_with(server.datagram_addrs()[0], options).unwrap();
        for _ in 0..3 {
            put_and_get(&mut client, 2000);
            assert_eq!((dropped(&ports), client.sent_again()), (0, 0), "{receive_bytes}");
        }
    }
    server.stop();
}

#[test]
fn a_server_that_does_not_answer_is_told() {
    let nobody = UdpSocket::bind(ANY).unwrap();
    let options =
        Options { patience: Duration::from_millis(1), attempts_max: 3, ..Options::default() };
    let error = Client::connect_with(nobody.local_addr().unwrap(), options).unwrap_err();
    assert!(error.to_string().contains("directory"), "{error}");
}

/// Sends one datagram and returns the answer, if there is one.
fn raw(socket: &UdpSocket, datagram: &[u8]) -> Option<Vec<u8>> {
    socket.send(datagram).unwrap();
    let mut found = None;
    // Answers of one batch have no order; when the first of these is answered the batch is over.
    for sequence in [98, 99] {
        let ask = Header { kind: Kind::Ask, room: 0, count: 0, sequence, word: 0 };
        let mut ask = ask.bytes().to_vec();
        ask.resize(200, 0);
        socket.send(&ask).unwrap();
        loop {
            let mut bytes = vec![0; 2000];
            let len = socket.recv(&mut bytes).unwrap();
            bytes.truncate(len);
            if Header::read(&bytes).unwrap().0.sequence == sequence {
                break;
            }
            assert_eq!(found.replace(bytes), None, "one answer at most");
        }
    }
    found
}

#[test]
fn strangers_get_nothing_longer_than_they_sent() {
    let (server, _) = start();
    let socket = UdpSocket::bind(ANY).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.connect(server.datagram_addrs()[0]).unwrap();
    let header =
        |kind, word| Header { kind, room: 0, count: 1, sequence: 5, word }.bytes().to_vec();
    let refusal = |reason| Some(Header::refusal(5, reason).bytes().to_vec());
    // An ask that is shorter than its answer, what servers send, and bytes of something else.
    assert_eq!(raw(&socket, &header(Kind::Ask, 0)), None);
    assert_eq!(raw(&socket, &header(Kind::Replies, 0)), None);
    assert_eq!(raw(&socket, &header(Kind::Refusal, 0)), None);
    assert_eq!(raw(&socket, b"GET / HTTP/1.1\r\n\r\n and some more"), None);
    assert_eq!(raw(&socket, b""), None);
    // Requests without the token, whatever they are.
    let mut get = header(Kind::Requests, 1234);
    Request::Get(b"key").write(&mut get);
    assert_eq!(raw(&socket, &get), refusal(Reason::Token));
    let mut other = get.clone();
    other[3] = 2;
    assert_eq!(raw(&socket, &other), refusal(Reason::Version));
    // With the token of another socket.
    let theirs = UdpSocket::bind(ANY).unwrap();
    theirs.connect(server.datagram_addrs()[0]).unwrap();
    let mut ask = header(Kind::Ask, 0);
    ask.resize(200, 0);
    let token = |socket: &UdpSocket| {
        socket.send(&ask).unwrap();
        let mut bytes = [0; 2000];
        let len = socket.recv(&mut bytes).unwrap();
        Header::read(&bytes[..len]).unwrap().0.word
    };
    get[16..24].copy_from_slice(&token(&theirs).to_le_bytes());
    assert_eq!(raw(&socket, &get), refusal(Reason::Token));
    get[16..24].copy_from_slice(&token(&socket).to_le_bytes());
    let answer = raw(&socket, &get).unwrap();
    assert_eq!(Header::read(&answer).unwrap().0.kind, Kind::Replies);
    // A datagram that was cut is refused as a whole.
    assert_eq!(raw(&socket, &get[..get.len() - 1]), refusal(Reason::Malformed));
    server.stop();
}

#[test]
fn a_password_that_is_set_later_keeps_datagrams_out() {
    let (server, _) = start();
    let address = server.datagram_addrs()[0];
    let options = Options { patience: Duration::from_millis(50), ..Options::default() };
    let mut client = Client::connect_with(address, options).unwrap();
    client.put(b"a", b"1", 0).unwrap();
    let mut redis = std::net::TcpStream::connect(server.local_addr()).unwrap();
    let mut line = [0; 5];
    redis.write_all(b"ACL SETUSER default >secret\r\n").unwrap();
    redis.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"+OK\r\n");
    assert!(client.get(b"a").is_err());
    redis.write_all(b"ACL SETUSER default nopass\r\n").unwrap();
    redis.read_exact(&mut line).unwrap();
    assert_eq!(client.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    server.stop();
}

struct Cache(Arc<dyn Engine>);

impl Databases for Cache {
    fn open(&self, _: u32) -> Result<Arc<dyn Engine>> {
        Ok(Arc::clone(&self.0))
    }
}

/// A cache in mode `mode`, whose partitions three loops share, with a password where one is given.
fn start_cache(mode: Mode, password: Option<&str>) -> (Server, Arc<dyn Engine>) {
    let options = silica::OpenOptions::new().memory_bytes(64 << 20).set("partitions", "8");
    let cache = options.open_cache().unwrap();
    let password = password.map(|word| word.as_bytes().to_vec());
    let loops = 3;
    let (listen, datagrams) = (vec![ANY], Some(ANY));
    let config = Config { listen, datagrams, loops, mode, password, ..Config::default() };
    (Server::start(config, Arc::new(Cache(Arc::clone(&cache)))).unwrap(), cache)
}

/// Puts, gets and deletes many keys, some of them over a connection.
fn work(client: &mut Client, server: &Server) {
    let keys: Vec<String> = (0..2000).map(|n| format!("key {n}")).collect();
    let entry = |key: &String| (key.clone(), format!("of {key}"));
    let entries: Vec<(String, String)> = keys.iter().map(entry).collect();
    let puts = entries.iter().map(|(key, value)| Request::Put {
        key: key.as_bytes(),
        value: value.as_bytes(),
        expires_unix_ms: 0,
    });
    all(client, &puts.collect::<Vec<_>>());
    let gets: Vec<_> = keys.iter().map(|key| Request::Get(key.as_bytes())).collect();
    let found = all(client, &gets);
    let want = entries.iter().map(|(_, value)| Some(value.clone().into_bytes()));
    assert_eq!(found, want.collect::<Vec<_>>());
    let mut redis = std::net::TcpStream::connect(server.local_addr()).unwrap();
    redis.write_all(b"AUTH secret\r\nDEL \"key 7\"\r\nGET \"key 8\"\r\n").unwrap();
    let mut lines = BufReader::new(redis).lines().map_while(|line| line.ok());
    assert!(lines.any(|line| line == "of key 8"), "the connection ended before the value");
    assert_eq!(client.get(b"key 7").unwrap(), None);
    client.delete(b"key 8").unwrap();
    assert_eq!(client.get(b"key 8").unwrap(), None);
}

#[test]
fn who_logs_in_knows_the_owners_of_keys() {
    for mode in [Mode::Erew, Mode::Crew, Mode::Crcw] {
        let (server, cache) = start_cache(mode, Some("secret"));
        let refused = Client::connect(server.datagram_addrs()[0]).unwrap_err();
        assert!(refused.to_string().contains("log in"), "{refused}");
        let log_in = |login| Client::log_in(server.local_addr(), login, Options::default());
        for login in [None, Some(("default", "wrong")), Some(("nobody", "secret"))] {
            assert!(log_in(login).is_err(), "{login:?}");
        }
        let mut client = log_in(Some(("default", "secret"))).unwrap();
        let partitions = client.directory().partitions;
        assert_eq!(partitions.is_some(), mode != Mode::Crcw);
        for n in 0..1000 {
            let key = format!("{n} is hashed as the cache hashes it");
            let owned = partitions.map(|partitions| partitions.of(key.as_bytes()));
            let want = cache.as_sharded().unwrap().shard_of(key.as_bytes());
            assert_eq!(owned.unwrap_or(want), want);
        }
        work(&mut client, &server);
        server.stop();
    }
}

#[test]
fn without_a_password_nobody_is_told_the_seed_who_does_not_log_in() {
    let (server, _) = start_cache(Mode::Erew, None);
    let mut stranger = connect(&server);
    assert_eq!(stranger.directory().partitions, None);
    work(&mut stranger, &server);
    let known = Client::log_in(server.local_addr(), None, Options::default()).unwrap();
    assert!(known.directory().partitions.is_some());
    server.stop();
}

#[test]
fn a_change_of_users_ends_passes() {
    let (server, _) = start_cache(Mode::Erew, Some("secret"));
    let login = Some(("default", "secret"));
    let log_in = || Client::log_in(server.local_addr(), login, Options::default());
    let mut client = log_in().unwrap();
    client.put(b"a", b"1", 0).unwrap();
    let mut redis = std::net::TcpStream::connect(server.local_addr()).unwrap();
    let mut lines = [0; 10];
    redis.write_all(b"AUTH secret\r\nACL SETUSER bob on >bob +@all ~key\r\n").unwrap();
    redis.read_exact(&mut lines).unwrap();
    assert_eq!(&lines, b"+OK\r\n+OK\r\n");
    assert!(client.get(b"a").is_err(), "its pass has ended");
    assert_eq!(log_in().unwrap().get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    let bob = Client::log_in(server.local_addr(), Some(("bob", "bob")), Options::default());
    assert!(bob.unwrap_err().to_string().contains("without limits"));
    server.stop();
}

#[test]
fn the_python_client_logs_in() {
    let (server, _) = start_cache(Mode::Erew, Some("secret"));
    let port = server.local_addr().port().to_string();
    python(&["127.0.0.1", &port, "3", "secret"]);
    server.stop();
}

#[test]
fn the_python_client() {
    let (server, _) = start();
    let port = server.datagram_addrs()[0].port().to_string();
    python(&["127.0.0.1", &port, "3"]);
    server.stop();
}

/// Runs the client's own tests; false where there is no Python.
fn python(args: &[&str]) -> bool {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/python/test_silica_client.py");
    let mut python = std::process::Command::new("python3");
    python.env("PYTHONDONTWRITEBYTECODE", "1");
    let Ok(output) = python.arg(script).args(args).output() else {
        println!("skipped: python3 is not installed");
        return false;
    };
    let shown = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && shown.contains("content"), "{shown}");
    true
}
