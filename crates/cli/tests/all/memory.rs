//! Promise 7: a server under load stays within the memory number that it was given, plus 10 %.

use crate::support::{Client, Reply, Server, encode, scratch};
use silica_base::{Prng, test_size};
use std::time::{Duration, Instant};

const MEMORY_MIB: u64 = 96;
const VALUE_BYTES: usize = 1000;
const BURST: u64 = 256;

/// A number of the process's status file, in KiB.
fn status_kib(pid: u32, field: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("Linux has it");
    let line = text.lines().find(|line| line.starts_with(field)).expect("a field of the file");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number of KiB")
}

fn key(n: u64) -> Vec<u8> {
    format!("key:{:016x}", Prng::new(n).next_u64()).into_bytes()
}

fn value(n: u64) -> Vec<u8> {
    let mut value = vec![0; VALUE_BYTES];
    Prng::new(!n).fill(&mut value);
    value
}

fn put_burst(client: &mut Client, first: u64) {
    let mut commands = Vec::new();
    for n in first..first + BURST {
        encode(&mut commands, &[b"SET", &key(n), &value(n)]);
    }
    client.send(&commands).expect("the server reads");
    for _ in 0..BURST {
        assert_eq!(client.reply().expect("a reply"), Reply::Status("OK".into()));
    }
}

fn get_burst(client: &mut Client, prng: &mut Prng, below: u64) {
    let numbers: Vec<u64> = (0..BURST).map(|_| prng.below(below)).collect();
    let mut commands = Vec::new();
    numbers.iter().for_each(|n| encode(&mut commands, &[b"GET", &key(*n)]));
    client.send(&commands).expect("the server reads");
    for n in numbers {
        let right = client.reply().expect("a reply") == Reply::Bytes(Some(value(n)));
        assert!(right, "entry {n} is not what was written");
    }
}

/// The program's own pages count, too: what only its start needs does not stay.
#[test]
fn a_server_keeps_few_pages_of_the_program() {
    let path = scratch("program_pages").join("data");
    let server = Server::start_cache(&path, "64MiB", &[]);
    let mut client = server.client();
    let begun = Instant::now();
    loop {
        assert_eq!(client.ask(&[b"PING"]).expect("a reply"), Reply::Status("PONG".into()));
        // It listens a moment before it gives them back. Of 19 MiB at the highest 16 were pages of
        // files; 6 to 10 are left, of which 2 are of libraries.
        let kib = |field| status_kib(server.pid(), field);
        let (highest, now) = (kib("VmHWM:"), kib("RssFile:"));
        if now < highest * 2 / 3 {
            break;
        }
        let waited = begun.elapsed().as_secs();
        assert!(waited < 30, "{now} KiB of files are resident; at most it was {highest} KiB");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(client);
    server.stop();
    let _ = std::fs::remove_dir_all(path.parent().expect("a scratch directory"));
}

/// A cache takes what its clients' memory holds twice, and changes it.
#[test]
fn a_served_cache_has_large_values() {
    let path = scratch("large_in_cache").join("data");
    for options in [&[][..], &["--mode", "crew", "--loops", "2"]] {
        let server = Server::start_cache(&path, "512MiB", options);
        let mut client = server.client();
        let mut ask = |words: &[&[u8]]| client.ask(words).expect("a reply");
        let mut value = vec![b'x'; 8 << 20];
        assert_eq!(ask(&[b"SET", b"large", &value]), Reply::Status("OK".into()));
        assert_eq!(ask(&[b"APPEND", b"large", b"end"]), Reply::Number((8 << 20) + 3));
        assert_eq!(ask(&[b"SETRANGE", b"large", b"0", b"start"]), Reply::Number((8 << 20) + 3));
        assert_eq!(ask(&[b"COPY", b"large", b"other"]), Reply::Number(1));
        value[..5].copy_from_slice(b"start");
        value.extend_from_slice(b"end");
        for key in [b"large", b"other"] {
            assert!(ask(&[b"GET", key]) == Reply::Bytes(Some(value.clone())), "{options:?}");
        }
        let too_large = vec![b'x'; 40 << 20];
        match ask(&[b"SET", b"large", &too_large]) {
            Reply::Error(text) => assert!(text.contains("--client-memory"), "{text}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(ask(&[b"STRLEN", b"large"]), Reply::Number((8 << 20) + 3));
        drop(client);
        server.stop();
    }
    let _ = std::fs::remove_dir_all(path.parent().expect("a scratch directory"));
}

#[test]
fn resident_memory_stays_within_the_number_set() {
    let path = scratch("memory").join("data");
    let memory = format!("{MEMORY_MIB}MiB");
    let server = Server::start(&path, &["--memory", &memory]);
    let mut client = server.client();
    let mut prng = Prng::new(7);
    // Some times the memory number, so that conversions and merges run beside the load.
    let entries = test_size(60_000, 400_000, 20_000_000);
    for first in (0..entries).step_by(BURST as usize) {
        put_burst(&mut client, first);
        if prng.one_in(4) {
            get_burst(&mut client, &mut prng, first + BURST);
        }
    }
    let highest = status_kib(server.pid(), "VmHWM:");
    let limit = MEMORY_MIB * 1024 * 11 / 10;
    println!("{entries} entries of {VALUE_BYTES} bytes: at most {highest} KiB of {limit} KiB");
    assert!(highest <= limit, "{highest} KiB resident; {limit} KiB are promised");
    drop(client);
    server.stop();
    let _ = std::fs::remove_dir_all(path.parent().expect("a scratch directory"));
}

/// A client that asks for a value and never reads: in which protocol, of how many bytes the value
/// is, and how the server moves bytes.
struct Unread<'a> {
    name: &'a str,
    value_bytes: usize,
    request: fn(&mut Vec<u8>),
    options: &'a [&'a str],
}

fn get_by_resp(out: &mut Vec<u8>) {
    encode(out, &[b"GET", b"large"]);
}

fn get_by_memcached(out: &mut Vec<u8>) {
    out.extend_from_slice(b"get large\r\n");
}

/// Replies that nobody reads are a part of the number, too, whichever thread answers: values of
/// 1 MiB have to be read by a worker, those of 200 KiB are answered by a loop.
#[test]
fn clients_that_do_not_read_stay_within_the_number_set() {
    let (large, small) = (1 << 20, 200 << 10);
    let (epoll, ring) = (&["--event-loop", "epoll"][..], &[][..]);
    let many = &["--loops", "16"][..];
    let kinds = [
        ("epoll", large, get_by_resp as fn(&mut Vec<u8>), epoll),
        ("ring", large, get_by_resp, ring),
        ("many", small, get_by_resp, many),
        ("epoll-memcached", small, get_by_memcached, epoll),
        ("ring-memcached", large, get_by_memcached, ring),
    ];
    for (name, value_bytes, request, options) in kinds {
        check_unread(&Unread { name, value_bytes, request, options });
    }
}

fn check_unread(kind: &Unread<'_>) {
    const CLIENTS: usize = 40;
    const REPLY_BYTES_OF_CLIENT: usize = 16 << 20;
    let path = scratch(&format!("memory-clients-{}", kind.name)).join("data");
    let memory = format!("{MEMORY_MIB}MiB");
    let options = [&["--memory", &memory][..], kind.options].concat();
    let server = Server::start(&path, &options);
    let mut client = server.client();
    let large = vec![b'x'; kind.value_bytes];
    assert_eq!(client.ask(&[b"SET", b"large", &large]).unwrap(), Reply::Status("OK".into()));
    let mut commands = Vec::new();
    (0..REPLY_BYTES_OF_CLIENT / kind.value_bytes).for_each(|_| (kind.request)(&mut commands));
    // All replies together are several times the number.
    let mut idle: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
    for other in &mut idle {
        // A client that was dropped meanwhile may see it here.
        let _ = other.send(&commands);
    }
    for _ in 0..20 {
        assert_eq!(client.ask(&[b"PING"]).unwrap(), Reply::Status("PONG".into()));
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut number = |name: &str| {
        let Reply::Bytes(Some(info)) = client.ask(&[b"INFO", b"memory"]).unwrap() else {
            panic!("no INFO");
        };
        let info = String::from_utf8(info).expect("a text");
        let line = info.lines().find_map(|line| line.strip_prefix(name)).expect("a line of INFO");
        line.strip_prefix(':').unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(number("maxmemory"), MEMORY_MIB << 20);
    let most = number("clients_bytes_max");
    assert_eq!(most + number("stores_bytes_max"), MEMORY_MIB << 20);
    // Beyond a quarter more, the client that holds most is dropped: by the loop that serves it,
    // when it is its turn.
    let start = Instant::now();
    while number("clients_bytes") > most * 5 / 4 {
        assert!(start.elapsed() < Duration::from_secs(60), "too much is held for clients");
        std::thread::sleep(Duration::from_millis(20));
    }
    let highest = status_kib(server.pid(), "VmHWM:");
    let limit = MEMORY_MIB * 1024 * 11 / 10;
    let name = kind.name;
    println!("{name}: {CLIENTS} clients that do not read: at most {highest} KiB of {limit} KiB");
    assert!(highest <= limit, "{name}: {highest} KiB resident; {limit} KiB are promised");
    drop((client, idle));
    server.stop();
    let _ = std::fs::remove_dir_all(path.parent().expect("a scratch directory"));
}
