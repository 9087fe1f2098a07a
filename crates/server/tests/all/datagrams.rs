//! The datagram protocol's server, on what a client would not send it.

use crate::support::{Probe, config, start_with};
use silica_base::{Prng, test_size};
use silica_net::datagrams::{Incoming, Message, Outgoing, SLOT_BYTES, STRIDE, join_segments};
use silica_proto::datagram::{Header, Kind, REPLY_BYTES, Reason, Replies, Reply, Request};
use silica_server::{Config, Mode};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::Duration;

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A socket that the server at `address` knows, and its token.
fn connect(address: SocketAddr) -> (UdpSocket, u64) {
    let socket = UdpSocket::bind(ANY).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.connect(address).unwrap();
    let ask = Header { kind: Kind::Ask, room: 0, count: 0, sequence: 0, word: 0 };
    let mut ask = ask.bytes().to_vec();
    ask.resize(200, 0);
    socket.send(&ask).unwrap();
    let mut answer = [0; 2000];
    let len = socket.recv(&mut answer).unwrap();
    (socket, Header::read(&answer[..len]).unwrap().0.word)
}

fn datagram(sequence: u64, token: u64, requests: &[Request<'_>]) -> Vec<u8> {
    let count = requests.len() as u16;
    let header = Header { kind: Kind::Requests, room: 0, count, sequence, word: token };
    let mut bytes = header.bytes().to_vec();
    requests.iter().for_each(|request| request.write(&mut bytes));
    bytes
}

/// Sends datagrams of one length as one message.
fn send(socket: &UdpSocket, datagrams: &[Vec<u8>]) {
    let message = |bytes, segment_bytes| Message { to: None, bytes, segment_bytes };
    let mut outgoing = Outgoing::new(1);
    let whole = datagrams.concat();
    if outgoing.send(socket, [message(&whole, datagrams[0].len())]).is_err() {
        for datagram in datagrams {
            socket.send(datagram).unwrap();
        }
    }
}

/// The next so many datagrams, by their sequence numbers: kind and word, and what is behind them.
fn receive(socket: &UdpSocket, count: usize) -> Vec<(u64, Kind, u64, Vec<u8>)> {
    let mut bytes = [0; 2000];
    let mut all: Vec<_> = (0..count)
        .map(|_| {
            let len = socket.recv(&mut bytes).unwrap();
            let (header, rest) = Header::read(&bytes[..len]).unwrap();
            (header.sequence, header.kind, header.word, rest.to_vec())
        })
        .collect();
    all.sort_by_key(|(sequence, ..)| *sequence);
    all
}

#[test]
fn each_datagram_of_a_batch_needs_the_token_of_its_sender() {
    let probe = Probe { delay: Duration::from_millis(100), ..Probe::new(true) };
    let (server, probe) = start_with(Config { datagrams: Some(ANY), loops: 1, ..config() }, probe);
    let address = server.datagram_addrs()[0];
    let ((one, token), (other, _)) = (connect(address), connect(address));
    let get = |sequence, token| datagram(sequence, token, &[Request::Get(b"key")]);
    // While the engine works on this the others wait for each other.
    let before = probe.get_calls.load(Ordering::Relaxed);
    send(&one, &[get(0, token)]);
    while probe.get_calls.load(Ordering::Relaxed) == before {
        std::thread::yield_now();
    }
    send(&one, &[get(1, token), get(2, token + 1), get(3, token), get(4, 0)]);
    send(&other, &[get(5, token), get(6, token)]);
    send(&one, &[get(7, token), get(8, token ^ 1)]);
    let kinds = |socket, count| {
        let all = receive(socket, count).into_iter();
        all.map(|(sequence, kind, ..)| (sequence, kind == Kind::Replies)).collect::<Vec<_>>()
    };
    let want = [(0, true), (1, true), (2, false), (3, true), (4, false), (7, true), (8, false)];
    assert_eq!(kinds(&one, 7), want);
    assert_eq!(kinds(&other, 2), [(5, false), (6, false)]);
    server.stop();
}

#[test]
fn replies_of_a_train_are_of_one_length_and_refusals_are_not_longer() {
    let probe = Probe::new(false);
    let (server, _) = start_with(Config { datagrams: Some(ANY), loops: 1, ..config() }, probe);
    let (socket, token) = connect(server.datagram_addrs()[0]);
    if join_segments(&socket).is_err() {
        println!("skipped: this kernel does not segment datagrams");
        return;
    }
    let put = Request::Put { key: b"key", value: b"seven b", expires_unix_ms: 0 };
    send(&socket, &[datagram(0, token, &[put])]);
    let done = receive(&socket, 1);
    assert_eq!(done[0].3.len(), REPLY_BYTES, "there is nothing to go on with");
    // Of the same length: requests are followed by zeroes, which mean nothing.
    let mut train = [Request::Get(b"key"), Request::Get(b"none"), put, Request::Delete(b"none")]
        .map(|request| datagram(1, token, &[request]))
        .to_vec();
    train.push(datagram(1, token ^ 1, &[put]));
    let longest = train.iter().map(Vec::len).max().unwrap();
    for (sequence, datagram) in (1u64..).zip(&mut train) {
        datagram[8..16].copy_from_slice(&sequence.to_le_bytes());
        datagram.resize(longest, 0);
    }
    // They come joined: all replies in one message, so one length is told for all of them.
    send(&socket, &train);
    let (mut incoming, mut slots) = (Incoming::new(4), vec![0; 4 * STRIDE]);
    let (mut lens, mut replies) = (Vec::new(), Vec::new());
    while lens.len() < train.len() {
        let count = incoming.receive(&socket, &mut slots, SLOT_BYTES, STRIDE).unwrap();
        for n in 0..count {
            for place in incoming.arrival(n).datagrams() {
                let bytes = &slots[n * STRIDE..][place];
                let (header, rest) = Header::read(bytes).unwrap();
                lens.push((header.sequence, bytes.len()));
                match header.kind {
                    Kind::Refusal => assert_eq!(header.word, Reason::Token as u64),
                    _ => replies.extend(Replies::new(rest, header.count).map(
                        |reply| matches!(reply, Ok(Reply::Done(value)) if value == b"seven b"),
                    )),
                }
            }
        }
    }
    lens.sort_unstable();
    assert_eq!(lens, [(1, 35), (2, 35), (3, 35), (4, 35), (5, 24)]);
    assert_eq!(replies.iter().filter(|found| **found).count(), 1);
    server.stop();
}

/// The replies in a datagram, as short words.
fn words(datagram: &(u64, Kind, u64, Vec<u8>), count: u16) -> Vec<String> {
    let word = |reply| match reply {
        Ok(Reply::Done(value)) => format!("done {}", value.escape_ascii()),
        other => format!("{:?}", other.expect("a whole reply")),
    };
    Replies::new(&datagram.3, count).map(word).collect()
}

/// Gets that find nothing between such that find something and writes, with an engine that tells
/// values in the order of their keys and with one that does not.
#[test]
fn replies_stand_in_the_order_of_the_requests() {
    for may_wait in [false, true] {
        let probe = Probe::new(may_wait);
        let config = Config { datagrams: Some(ANY), loops: 1, ..config() };
        let mode = config.mode;
        let (server, probe) = start_with(config, probe);
        let (socket, token) = connect(server.datagram_addrs()[0]);
        let put = |key, value| Request::Put { key, value, expires_unix_ms: 0 };
        send(&socket, &[datagram(0, token, &[put(b"a", b"1"), put(b"b", b"22")])]);
        receive(&socket, 1);
        let mixed = [
            Request::Get(b"x"),
            put(b"c", b"3"),
            Request::Get(b"a"),
            Request::Delete(b"y"),
            Request::Get(b"x"),
            Request::Get(b"b"),
            Request::Get(b"x"),
            put(b"d", b"4"),
        ];
        // One without requests is answered by one without replies, also where it comes alone.
        send(&socket, &[datagram(1, token, &[])]);
        assert_eq!(receive(&socket, 1)[0].1, Kind::Replies);
        let all = [&mixed[..], &[], &mixed[..2], &[]];
        for (sequence, requests) in (0..).zip(all) {
            send(&socket, &[datagram(sequence, token, requests)]);
        }
        let replies = receive(&socket, 4);
        let (missing, done) = ("Missing", "done ");
        let want = [missing, done, "done 1", done, missing, "done 22", missing, done];
        assert_eq!(words(&replies[0], 8), want);
        assert_eq!(words(&replies[2], 2), want[..2]);
        assert!(replies[1].1 == Kind::Replies && replies[3].1 == Kind::Replies);
        if !matches!(mode, Mode::Crcw) {
            // Shards of this engine do not fail.
            server.stop();
            continue;
        }
        // Where an engine fails, what it did not do is told.
        probe.fail_get.store(true, Ordering::Relaxed);
        send(&socket, &[datagram(9, token, &mixed)]);
        let words = words(&receive(&socket, 1)[0], 8);
        let known = if may_wait { ["Failed"; 2] } else { ["Missing", "done 22"] };
        assert_eq!([&words[0], &words[5], &words[6]], [known[0], known[1], "Failed"]);
        assert_eq!((words[1].as_str(), words[3].as_str()), (done, done));
        probe.fail_get.store(false, Ordering::Relaxed);
        probe.fail_write.store(true, Ordering::Relaxed);
        send(&socket, &[datagram(10, token, &mixed)]);
        let failed = "Failed";
        let want = [missing, failed, "done 1", failed, missing, "done 22", missing, failed];
        assert_eq!(self::words(&receive(&socket, 1)[0], 8), want);
        server.stop();
    }
}

/// The replies to `requests` in their order, and how many datagrams they took.
fn ask(
    socket: &UdpSocket,
    sequence: u64,
    token: u64,
    room: u8,
    requests: &[Request<'_>],
) -> (Vec<String>, usize) {
    let mut asked = datagram(sequence, token, requests);
    asked[5] = room;
    send(socket, &[asked]);
    let (mut parts, mut count) = (Vec::new(), 0);
    while count < requests.len() {
        let mut bytes = [0; 2000];
        let len = socket.recv(&mut bytes).unwrap();
        let (header, rest) = Header::read(&bytes[..len]).unwrap();
        assert_eq!((header.kind, header.sequence), (Kind::Replies, sequence));
        count += usize::from(header.count);
        let part = (sequence, header.kind, header.word, rest.to_vec());
        parts.push((header.place().0, words(&part, header.count)));
    }
    parts.sort();
    let datagrams = parts.len();
    (parts.into_iter().flat_map(|(_, words)| words).collect(), datagrams)
}

/// The server never sends more datagrams than the client says that it can hold.
#[test]
fn replies_take_no_more_datagrams_than_there_is_room_for() {
    for may_wait in [false, true] {
        let config = Config { datagrams: Some(ANY), loops: 1, ..config() };
        let (server, _) = start_with(config, Probe::new(may_wait));
        let (socket, token) = connect(server.datagram_addrs()[0]);
        let mut random = Prng::new(0xD6);
        let lens = [0, 1, 8, 100, 340, 341, 343, 344, 500, 684, 685, 688, 1000, 1023, 1024];
        let keys: Vec<String> = (0..lens.len()).map(|n| format!("k{n}")).collect();
        let values: Vec<Vec<u8>> = lens.iter().map(|len| vec![b'v'; *len]).collect();
        for (key, value) in keys.iter().zip(&values) {
            let put = Request::Put { key: key.as_bytes(), value, expires_unix_ms: 0 };
            assert_eq!(ask(&socket, 0, token, 1, &[put]).0, ["done "]);
        }
        let found = |n: usize| format!("done {}", "v".repeat(lens[n]));
        for sequence in 1..test_size(200, 500, 100_000) {
            let room = random.below(8) as u8;
            let most = [6, 60, 200][random.below(3) as usize];
            let picked: Vec<usize> = (0..1 + random.below(most))
                .map(|_| random.below(lens.len() as u64) as usize)
                .collect();
            let writes = random.below(3) == 0;
            let request = |(at, n): (usize, &usize)| match (writes && at % 3 == 0, at % 7) {
                (true, _) => Request::Delete(b"none"),
                (_, 6) => Request::Get(b"none"),
                _ => Request::Get(keys[*n].as_bytes()),
            };
            let requests: Vec<Request<'_>> = picked.iter().enumerate().map(request).collect();
            let (replies, datagrams) = ask(&socket, sequence, token, room, &requests);
            assert!(room == 0 || datagrams <= usize::from(room), "{datagrams} of {room}");
            let mut values = 0;
            for ((reply, request), n) in replies.iter().zip(&requests).zip(&picked) {
                match request {
                    Request::Get(b"none") => assert_eq!(reply, "Missing"),
                    Request::Get(_) if reply == "NoRoom" => assert!(room > 0),
                    Request::Get(_) => {
                        values += 1;
                        assert_eq!(*reply, found(*n));
                    }
                    _ => assert_eq!(reply, "done "),
                }
            }
            let asks = requests.iter().any(|r| matches!(r, Request::Get(key) if key != b"none"));
            assert!(values > 0 || room == 1 || !asks, "two datagrams have room for a value");
        }
        // What not even short replies have room for.
        let many = vec![Request::Get(b"none"); 345];
        assert_eq!(ask(&socket, 1 << 40, token, 2, &many).1, 2);
        let mut asked = datagram(1 << 41, token, &many);
        asked[5] = 1;
        send(&socket, &[asked]);
        let refused = receive(&socket, 1);
        assert_eq!((refused[0].1, refused[0].2), (Kind::Refusal, Reason::Malformed as u64));
        server.stop();
    }
}
