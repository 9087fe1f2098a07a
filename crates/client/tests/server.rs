//! The client on a real server, and on a network that loses datagrams.

use silica_client::{Client, Options, Reply, Request};
use silica_engine::testkit::Reference;
use silica_engine::{Engine, EngineExt, Result};
use silica_proto::datagram::{Header, Kind, Reason};
use silica_server::{Config, Databases, Mode, Server};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Passes datagrams on between one client and a server, and loses and repeats some.
fn lossy(server: SocketAddr, over: Arc<AtomicBool>) -> SocketAddr {
    let inner = UdpSocket::bind(ANY).unwrap();
    let outer = UdpSocket::bind(ANY).unwrap();
    let address = outer.local_addr().unwrap();
    inner.connect(server).unwrap();
    for socket in [&inner, &outer] {
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    }
    std::thread::spawn(move || {
        let mut random = silica_base::Prng::new(3);
        let (mut bytes, mut client) = (vec![0; 2000], None);
        while !over.load(Ordering::Relaxed) {
            if let Ok((len, from)) = outer.recv_from(&mut bytes) {
                client = Some(from);
                for _ in 0..random.below(3) {
                    inner.send(&bytes[..len]).unwrap();
                }
            }
            if let (Ok(len), Some(client)) = (inner.recv(&mut bytes), client) {
                for _ in 0..random.below(3) {
                    // The directory names ports behind the loss: one is enough here.
                    let mut datagram = bytes[..len].to_vec();
                    if let Ok((header, _)) = Header::read(&bytes[..len])
                        && header.kind == Kind::Directory
                    {
                        datagram[6..8].copy_from_slice(&1u16.to_le_bytes());
                        let port = outer.local_addr().unwrap().port();
                        datagram[32..34].copy_from_slice(&port.to_le_bytes());
                    }
                    outer.send_to(&datagram, client).unwrap();
                }
            }
        }
    });
    address
}

#[test]
fn what_is_lost_is_sent_again() {
    let (server, _) = start();
    let over = Arc::new(AtomicBool::new(false));
    let address = lossy(server.datagram_addrs()[0], Arc::clone(&over));
    let options = Options { requests_max: 3, window: 8, ..Options::default() };
    let mut client = Client::connect_with(address, options).unwrap();
    let keys: Vec<String> = (0..60).map(|n| format!("key {n}")).collect();
    let puts: Vec<_> = keys
        .iter()
        .map(|key| Request::Put { key: key.as_bytes(), value: key.as_bytes(), expires_unix_ms: 0 })
        .collect();
    all(&mut client, &puts);
    let gets: Vec<_> = keys.iter().map(|key| Request::Get(key.as_bytes())).collect();
    let want: Vec<_> = keys.iter().map(|key| Some(key.clone().into_bytes())).collect();
    assert_eq!(all(&mut client, &gets), want);
    assert!(client.sent_again() > 0);
    over.store(true, Ordering::Relaxed);
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
        let ask = Header { kind: Kind::Ask, count: 0, sequence, word: 0 };
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
    let header = |kind, word| Header { kind, count: 1, sequence: 5, word }.bytes().to_vec();
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
    let options =
        Options { patience: Duration::from_millis(50), attempts_max: 3, ..Options::default() };
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
    let mut seen = Vec::new();
    while !seen.ends_with(b"of key 8\r\n") {
        let mut piece = [0; 100];
        let len = redis.read(&mut piece).unwrap();
        assert!(len > 0, "{}", seen.escape_ascii());
        seen.extend_from_slice(&piece[..len]);
    }
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

fn python(args: &[&str]) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/python/test_silica_client.py");
    let mut python = std::process::Command::new("python3");
    python.env("PYTHONDONTWRITEBYTECODE", "1");
    let Ok(output) = python.arg(script).args(args).output() else {
        println!("skipped: python3 is not installed");
        return;
    };
    let shown = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && shown.contains("content"), "{shown}");
}
