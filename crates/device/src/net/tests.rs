use super::*;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}

fn message<'a>(to: Option<&'a Peer>, parts: [&'a [u8]; 2], segment_bytes: usize) -> Message<'a> {
    Message { to, parts, segment_bytes }
}

#[test]
fn addresses_come_back_as_they_were() {
    let v6 = SocketAddrV6::new(Ipv6Addr::new(0xFE80, 0, 0, 0, 1, 2, 3, 4), 4711, 7, 9);
    for address in [SocketAddr::from(([10, 1, 2, 3], 53)), SocketAddr::V6(v6)] {
        assert_eq!(Peer::from(address).address(), Some(address));
    }
    assert_eq!(Peer::NONE.address(), None);
    let (a, b) = (SocketAddr::from(([1, 2, 3, 4], 5)), SocketAddr::from(([1, 2, 3, 4], 6)));
    assert_ne!(Peer::from(a).bytes(), Peer::from(b).bytes());
}

#[test]
fn a_batch_arrives_in_its_slots_and_is_answered() {
    let (client, server) = (socket(), socket());
    let to = Peer::from(server.local_addr().unwrap());
    let mut outgoing = Outgoing::new(3);
    let messages: Vec<_> = [b"a", b"b", b"c", b"d"]
        .iter()
        .map(|body| message(Some(&to), [b"head-", body.as_slice()], 0))
        .collect();
    assert_eq!(outgoing.send(&client, &messages).unwrap(), 3, "no more than there is room for");
    assert_eq!(outgoing.send(&client, &messages[3..]).unwrap(), 1);
    let mut incoming = Incoming::new(8);
    let mut bytes = vec![0; 8 * 64];
    let mut seen = Vec::new();
    while seen.len() < 4 {
        let count = incoming.receive(&server, &mut bytes, 60, 64).unwrap();
        for n in 0..count {
            let arrival = incoming.arrival(n);
            assert_eq!((arrival.len, arrival.segment_bytes, arrival.truncated), (6, 6, false));
            assert_eq!(arrival.peer.address(), client.local_addr().ok());
            seen.push(bytes[n * 64..n * 64 + 6].to_vec());
            let reply = [message(Some(arrival.peer), [b"thanks", b""], 0)];
            assert_eq!(outgoing.send(&server, &reply).unwrap(), 1);
        }
    }
    assert_eq!(seen, [b"head-a", b"head-b", b"head-c", b"head-d"]);
    let (len, from) = client.recv_from(&mut bytes).unwrap();
    assert_eq!((&bytes[..len], from), (&b"thanks"[..], server.local_addr().unwrap()));
}

#[test]
fn what_is_too_long_for_its_slot_is_told() {
    let (client, server) = (socket(), socket());
    client.connect(server.local_addr().unwrap()).unwrap();
    Outgoing::new(1).send(&client, &[message(None, [&[1; 20], &[2; 20]], 0)]).unwrap();
    let (mut incoming, mut bytes) = (Incoming::new(1), vec![9; 64]);
    assert_eq!(incoming.receive(&server, &mut bytes, 32, 64).unwrap(), 1);
    let arrival = incoming.arrival(0);
    assert!(arrival.truncated && arrival.len == 32);
    assert!(bytes[32..].iter().all(|byte| *byte == 9), "nothing is written beyond the slot");
}

#[test]
fn trains_are_cut_and_joined() {
    let (client, server) = (socket(), socket());
    if join_segments(&server).is_err() {
        println!("skipped: this kernel does not segment datagrams");
        return;
    }
    client.connect(server.local_addr().unwrap()).unwrap();
    let (body, mut bytes) = ((0..250).collect::<Vec<u8>>(), vec![0; 64 << 10]);
    let train = [message(None, [&body, b""], 100)];
    assert_eq!(Outgoing::new(1).send(&client, &train).unwrap(), 1);
    let mut incoming = Incoming::new(1);
    let (mut got, mut segments) = (Vec::new(), Vec::new());
    while got.len() < body.len() {
        incoming.receive(&server, &mut bytes, 64 << 10, 64 << 10).unwrap();
        let arrival = incoming.arrival(0);
        let whole = &bytes[..arrival.len];
        segments.extend(whole.chunks(arrival.segment_bytes).map(<[u8]>::len));
        got.extend_from_slice(whole);
    }
    assert_eq!((got, segments), (body.clone(), vec![100, 100, 50]));
    // One that does not ask for it gets them one by one.
    let plain = socket();
    client.connect(plain.local_addr().unwrap()).unwrap();
    Outgoing::new(1).send(&client, &train).unwrap();
    let lens: Vec<usize> = (0..3).map(|_| plain.recv(&mut bytes).unwrap()).collect();
    assert_eq!(lens, [100, 100, 50]);
}
