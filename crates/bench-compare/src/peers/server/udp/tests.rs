//! Against a socket that loses, repeats, reorders and splits.

use super::super::pin::Pinning;
use super::super::process::{Address, loopback};
use super::super::wire::Wire;
use super::*;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::atomic::AtomicU64;

fn beside(wire: Wire, counters: &Counters) -> Beside<'_> {
    client::Client::new(wire, TextDialect::new(), counters, None)
}

/// Answers each datagram with those that `answer` makes of its text and number, until its socket
/// gets an empty one.
fn serve(socket: &UdpSocket, mut answer: impl FnMut(usize, &str) -> Vec<(u16, u16, Vec<u8>)>) {
    let mut buffer = [0; 2048];
    for count in 0.. {
        let (length, from) = socket.recv_from(&mut buffer).unwrap();
        if length == 0 {
            return;
        }
        assert_eq!(&buffer[2..8], [0, 0, 0, 1, 0, 0]);
        let text = std::str::from_utf8(&buffer[8..length]).unwrap();
        for (part, parts, payload) in answer(count, text) {
            let mut datagram = buffer[..2].to_vec();
            datagram.extend_from_slice(&part.to_be_bytes());
            datagram.extend_from_slice(&parts.to_be_bytes());
            datagram.extend_from_slice(&[0, 0]);
            datagram.extend_from_slice(&payload);
            socket.send_to(&datagram, from).unwrap();
        }
    }
}

struct Found(Vec<(usize, Vec<u8>)>);

impl Sink for Found {
    fn found(&mut self, index: usize, value: &[u8]) {
        self.0.push((index, value.to_vec()));
    }
}

/// Runs `test` with a client of a server that answers as `answer` says; the datagrams that were
/// sent again.
fn with_server(
    answer: impl FnMut(usize, &str) -> Vec<(u16, u16, Vec<u8>)> + Send,
    test: impl FnOnce(&mut Client<'_>),
) -> u64 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let udp = loopback(server.local_addr().unwrap().port());
    let counters = Counters { retries: AtomicU64::new(0), ..Counters::default() };
    std::thread::scope(|scope| {
        scope.spawn(|| serve(&server, answer));
        let address = Address::Udp { udp, tcp: listener.local_addr().unwrap() };
        let beside = beside(Wire::connect("test", &address).unwrap(), &counters);
        let pinned = Pinning::of_machine().pin_client();
        let mut client = Client::new(udp, beside, &counters, 100, pinned).unwrap();
        test(&mut client);
        let ender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        ender.send_to(&[], udp).unwrap();
    });
    counters.retries.into_inner()
}

fn whole(text: &str) -> Vec<(u16, u16, Vec<u8>)> {
    vec![(0, 1, text.as_bytes().to_vec())]
}

#[test]
fn replies_in_several_datagrams_are_put_together() {
    let mut reply = b"VALUE YQ 0 3000\r\n".to_vec();
    reply.extend_from_slice(&[b'x'; 3000]);
    reply.extend_from_slice(b"\r\nEND\r\n");
    let answer = |_, text: &str| {
        if text == "get bm9uZQ\r\n" {
            return whole("END\r\n");
        }
        assert_eq!(text, "get YQ\r\n");
        let parts = reply.len().div_ceil(1000) as u16;
        let chunks = reply.chunks(1000).enumerate();
        chunks.map(|(part, chunk)| (part as u16, parts, chunk.to_vec())).collect()
    };
    let retries = with_server(answer, |client| {
        let mut found = Found(Vec::new());
        client.get_many(&[b"none", b"a"], &mut found).unwrap();
        assert_eq!(found.0, [(1, vec![b'x'; 3000])]);
    });
    assert_eq!(retries, 0);
}

#[test]
fn what_is_lost_or_out_of_order_is_asked_for_again() {
    let answer = |count, _: &str| match count {
        0 => Vec::new(),
        // The first part is missing, then the parts come in the wrong order.
        1 => vec![(1, 2, b"END\r\n".to_vec())],
        2 => vec![(1, 2, b"END\r\n".to_vec()), (0, 2, b"VALUE YQ 0 1\r\n1\r\n".to_vec())],
        _ => whole("VALUE YQ 0 1\r\n2\r\nEND\r\n"),
    };
    let retries = with_server(answer, |client| {
        let mut found = Found(Vec::new());
        client.get_many(&[b"a"], &mut found).unwrap();
        assert_eq!(found.0, [(0, b"2".to_vec())]);
    });
    assert_eq!(retries, 3);
}

#[test]
fn writes_behind_a_lost_one_are_repeated_in_order() {
    let mut stored = Vec::new();
    let answer = |count, text: &str| {
        if count == 1 {
            return Vec::new();
        }
        stored.push(text.split("\r\n").nth(1).unwrap().to_string());
        whole("STORED\r\n")
    };
    let retries = with_server(answer, |client| {
        client.put_many(&[(b"k", b"first"), (b"k", b"second"), (b"k", b"third")]).unwrap();
    });
    assert_eq!(stored, ["first", "third", "second", "third"]);
    assert_eq!(retries, 1);
}

#[test]
fn a_server_that_is_gone_is_an_error() {
    with_server(|_, _| whole("ERROR\r\n"), |client| assert!(client.delete_many(&[b"k"]).is_err()));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let tcp = listener.local_addr().unwrap();
    let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let counters = Counters::default();
    let wire = Wire::connect("test", &Address::Tcp(tcp)).unwrap();
    let beside = beside(wire, &counters);
    let pinned = Pinning::of_machine().pin_client();
    let mut client = Client::new(free, beside, &counters, 100, pinned).unwrap();
    assert!(client.put_many(&[(b"k", b"v")]).is_err());
}
