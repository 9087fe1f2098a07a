//! How servers are set up, and why.

use super::pin::Pinning;
use super::{Kind, Program, Transport, memcached, redis, silica};
use crate::peer::{Setting, Setup};

fn row(name: &'static str, value: impl Into<String>, why: &'static str) -> Setting {
    Setting { name, value: value.into(), why }
}

/// Why a server has so many threads.
const THREADS_WHY: &str = "as many as the server has cores, or as the run asks";

pub(super) fn of(kind: &Kind, setup: &Setup) -> Vec<Setting> {
    let mut rows = vec![
        row(
            "cores",
            Pinning::of_setup(setup).text(),
            "a server in production has a machine of its own; its clients must not take its time",
        ),
        row(
            "connections",
            match kind.transport {
                Transport::Tcp => "one for each thread, TCP_NODELAY",
                Transport::Unix => "one for each thread",
                Transport::Udp => "a socket and a TCP connection for each thread",
            },
            "a burst is written at once, and read in as few calls as it takes",
        ),
    ];
    match kind.program {
        Program::Memcached => of_memcached(kind, setup, &mut rows),
        Program::Redis => of_redis(setup, &mut rows),
        Program::Silica if kind.transport == Transport::Udp => of_cache(setup, &mut rows),
        Program::Silica => of_silica(setup, &mut rows),
        Program::SilicaCache if kind.transport == Transport::Udp => of_datagrams(setup, &mut rows),
        Program::SilicaCache => of_silica_cache(setup, setup.memory_bytes, &mut rows),
        Program::SilicaStore => {
            of_silica_cache(setup, silica::store_bytes(setup), &mut rows);
            rows.push(row("eviction", "none", "nothing is forgotten"));
        }
    }
    rows
}

fn of_memcached(kind: &Kind, setup: &Setup, rows: &mut Vec<Setting>) {
    rows.extend([
        row(
            "-m",
            format!("{} MiB", memcached::mebibytes(setup)),
            "the memory, of entries; its hash table and connections come on top",
        ),
        row("-t", memcached::threads(setup), THREADS_WHY),
        row(
            "keys",
            "base 64",
            "the text protocol takes no binary keys; those over 187 bytes are refused",
        ),
        row(
            "requests",
            match kind.transport {
                Transport::Udp => "get, set and delete, 32 under way, by sendmmsg and recvmmsg",
                _ => "get k1 k2 … for a burst of gets, pipelined set and delete",
            },
            "one call to send a burst and one wait for it",
        ),
        row("durability", "none", "a cache in memory; synced writes are refused"),
    ]);
    if kind.transport == Transport::Udp {
        rows.push(row(
            "datagrams",
            "requests of up to 1400 bytes, sent again after 20 ms; larger sets over TCP",
            "memcached takes no request in several datagrams, but answers in them",
        ));
    }
}

fn of_redis(setup: &Setup, rows: &mut Vec<Setting>) {
    if let Some(threads) = setup.server_threads {
        let why = "its threads for sockets, as the run asks; commands have one thread";
        rows.push(row("io-threads", threads.to_string(), why));
    }
    rows.extend([
        row("maxmemory", setup.memory_bytes.to_string(), "the memory, its tables included"),
        row(
            "maxmemory-policy",
            redis::policy(setup),
            "what is put must stay, but for workloads that model a cache, which evict the oldest",
        ),
        row(
            "appendonly",
            redis::appendonly(setup),
            "yes, with appendfsync always, for synced writes; no persistence for the others, which \
             do not survive its process, as memcached's do not",
        ),
        row("save", "never", "no snapshots, which would fork the process within a run"),
        row(
            "requests",
            "GET, MGET for a burst, pipelined SET, DEL of a burst",
            "one write and one wait for a burst",
        ),
    ]);
}

fn of_cache(setup: &Setup, rows: &mut Vec<Setting>) {
    rows.extend([
        row("--cache", setup.memory_bytes.to_string(), "the one number, its clients' included"),
        row("--loops", silica::loops(setup).to_string(), THREADS_WHY),
        row("requests", "those that memcached gets over UDP", "the same client, the same bytes"),
        row("durability", "none", "a cache in memory; synced writes are refused"),
    ]);
}

fn of_datagrams(setup: &Setup, rows: &mut Vec<Setting>) {
    rows.extend([
        row("--cache", setup.memory_bytes.to_string(), "the one number, its clients' included"),
        row("--loops", silica::loops(setup).to_string(), THREADS_WHY),
        row(
            "requests",
            "of a burst as many in a datagram as it holds, sent again after 20 ms",
            "few datagrams, which the kernel joins to trains",
        ),
        row("values", "up to 1 KiB; larger ones over TCP", "a reply must fit into a datagram"),
        row("durability", "none", "a cache in memory; synced writes are refused"),
    ]);
}

fn of_silica(setup: &Setup, rows: &mut Vec<Setting>) {
    rows.extend([
        row("--memory", setup.memory_bytes.to_string(), "the one number, its clients' included"),
        row("--durability", silica::durability(setup), "as the workload asks"),
        row("--loops", silica::loops(setup).to_string(), THREADS_WHY),
        row(
            "requests",
            "GET, MGET for a burst, pipelined SET, DEL of a burst",
            "those that Redis gets",
        ),
    ]);
}

fn of_silica_cache(setup: &Setup, memory_bytes: u64, rows: &mut Vec<Setting>) {
    rows.extend([
        row("--cache", memory_bytes.to_string(), "the one number, its clients' included"),
        row("--loops", silica::loops(setup).to_string(), THREADS_WHY),
        row(
            "requests",
            "GET, MGET for a burst, pipelined SET, DEL of a burst",
            "those that Redis gets",
        ),
    ]);
}
