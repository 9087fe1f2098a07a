//! Scripts outlive the death of the process as wholes: what a script wrote is there, all of it or
//! none, and all of it if the script was answered.

use crate::support::{Client, Reply, Server, encode, read_all, scratch};
use silica_base::{Prng, test_size};
use std::time::Duration;

const ACCOUNTS: u64 = 8;
const MONEY: i64 = 1000;
const CONNECTIONS: u64 = 3;
/// Moves money between two of the keys and counts that in a third one.
const MOVE: &[u8] =
    b"redis.call('DECRBY', KEYS[1], ARGV[1]) redis.call('INCRBY', KEYS[2], ARGV[1]) \
                      return redis.call('INCR', KEYS[3])";
const ENGINES: [&[&str]; 4] = [
    &["--set=memtable_bytes_max=64KiB", "--set=log_bytes_max=256KiB", "--set=segment_bytes=64KiB"],
    &["--engine=silt", "--set=partitions=2", "--set=segment_bytes=64KiB"],
    &["--engine=turbo", "--memory=64MiB"],
    &["--engine=sptree", "--memory=64MiB"],
];

fn account(n: u64) -> Vec<u8> {
    format!("account:{n}").into_bytes()
}

fn counter(connection: u64) -> Vec<u8> {
    format!("moves:{connection}").into_bytes()
}

/// The numbers at `names`; 0 of keys that are not there.
fn numbers(client: &mut Client, names: &[Vec<u8>]) -> Vec<i64> {
    let number = |value: Option<Vec<u8>>| match value {
        None => 0,
        Some(text) => String::from_utf8(text).expect("digits").parse().expect("a number"),
    };
    read_all(client, names).into_iter().map(number).collect()
}

/// Moves money until the server dies; how many moves were answered.
fn move_money(mut client: Client, connection: u64, seed: u64) -> i64 {
    let mut prng = Prng::new(seed ^ connection << 40);
    let mut answered = 0;
    loop {
        let from = prng.below(ACCOUNTS);
        let to = (from + 1 + prng.below(ACCOUNTS - 1)) % ACCOUNTS;
        let amount = (1 + prng.below(9)).to_string();
        let (from, to, counter) = (account(from), account(to), counter(connection));
        let mut request = Vec::new();
        encode(&mut request, &[b"EVAL", MOVE, b"3", &from, &to, &counter, amount.as_bytes()]);
        if client.send(&request).is_err() {
            return answered;
        }
        match client.reply() {
            Ok(Reply::Number(_)) => answered += 1,
            Ok(_) => panic!("a script failed"),
            Err(_) => return answered,
        }
    }
}

#[test]
fn scripts_outlive_the_process_as_wholes() {
    let rounds = test_size(3, 20, 500);
    for (number, options) in ENGINES.iter().enumerate() {
        let path = scratch(&format!("kill-scripts-{number}")).join("data");
        let names: Vec<Vec<u8>> = (0..ACCOUNTS).map(account).collect();
        let counters: Vec<Vec<u8>> = (0..CONNECTIONS).map(counter).collect();
        let mut answered = vec![0; CONNECTIONS as usize];
        let mut prng = Prng::new(number as u64);
        for round in 0..=rounds {
            let server = Server::start(&path, options);
            let mut client = server.client();
            if round == 0 {
                let mut request = Vec::new();
                let start = MONEY.to_string();
                names
                    .iter()
                    .for_each(|name| encode(&mut request, &[b"SET", name, start.as_bytes()]));
                client.send(&request).expect("a server that takes requests");
                names.iter().for_each(|_| drop(client.reply().expect("a reply")));
            }
            let sum: i64 = numbers(&mut client, &names).iter().sum();
            assert_eq!(sum, ACCOUNTS as i64 * MONEY, "{options:?}, round {round}: half a script");
            let moves = numbers(&mut client, &counters);
            for (moves, answered) in moves.iter().zip(&mut answered) {
                let possible = *answered..=*answered + 1;
                assert!(possible.contains(moves), "{moves} moves, {answered} were answered");
                *answered = *moves;
            }
            let seed = prng.next_u64();
            let delay = Duration::from_micros(5_000 + prng.below(60_000));
            std::thread::scope(|scope| {
                let movers: Vec<_> = (0..CONNECTIONS)
                    .map(|connection| (connection, server.client()))
                    .map(|(n, client)| scope.spawn(move || move_money(client, n, seed)))
                    .collect();
                std::thread::sleep(delay);
                server.kill();
                for (mover, answered) in movers.into_iter().zip(&mut answered) {
                    *answered += mover.join().expect("a mover");
                }
            });
        }
        assert!(answered.iter().sum::<i64>() > 0, "{options:?}: no script was answered");
        let _ = std::fs::remove_dir_all(path.parent().expect("a scratch directory"));
    }
}
