use super::*;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ops::Range;
use std::time::Duration;

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}

fn message<'a>(to: Option<&'a Peer>, bytes: &'a [u8], segment_bytes: usize) -> Message<'a> {
    Message { to, bytes, segment_bytes }
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
    let bodies = [b"head-a", b"head-b", b"head-c", b"head-d"];
    let messages: Vec<_> = bodies.iter().map(|body| message(Some(&to), *body, 0)).collect();
    assert_eq!(
        outgoing.send(&client, messages.iter().copied()).unwrap(),
        3,
        "no more than there is room for"
    );
    assert_eq!(outgoing.send(&client, messages[3..].iter().copied()).unwrap(), 1);
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
            let reply = [message(Some(arrival.peer), b"thanks", 0)];
            assert_eq!(outgoing.send(&server, reply).unwrap(), 1);
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
    Outgoing::new(1).send(&client, [message(None, &[1; 40], 0)]).unwrap();
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
    let train = [message(None, &body, 100)];
    assert_eq!(Outgoing::new(1).send(&client, train).unwrap(), 1);
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
    Outgoing::new(1).send(&client, train).unwrap();
    let lens: Vec<usize> = (0..3).map(|_| plain.recv(&mut bytes).unwrap()).collect();
    assert_eq!(lens, [100, 100, 50]);
}

/// The trains of datagrams of these receivers and lengths, one after the other: place and segment.
fn trains(joins: bool, datagrams: &[(usize, usize)]) -> Vec<(usize, Range<usize>, usize)> {
    let (mut trains, mut start) = (Trains::new(joins), 0);
    for (to, len) in datagrams {
        trains.add(*to, start..start + len);
        start += len;
    }
    let told = |train: &Train<usize>| (train.to, train.place.clone(), train.segment_bytes());
    trains.all().iter().map(told).collect()
}

#[test]
fn datagrams_of_one_length_and_one_that_is_shorter_are_a_train() {
    let datagrams = [(1, 40), (1, 40), (1, 30), (1, 30), (1, 31), (2, 31), (2, 31)];
    let want = [(1, 0..110, 40), (1, 110..140, 0), (1, 140..171, 0), (2, 171..233, 31)];
    assert_eq!(trains(true, &datagrams), want);
    assert_eq!(trains(false, &[(1, 40), (1, 40)]), [(1, 0..40, 0), (1, 40..80, 0)]);
    // No more than the kernel cuts, in number and in bytes.
    let lens = |len, count| trains(true, &vec![(0, len); count]).into_iter().map(|t| t.1.len());
    assert_eq!(lens(40, 65).collect::<Vec<_>>(), [64 * 40, 40]);
    assert_eq!(lens(1400, 50).collect::<Vec<_>>(), [42 * 1400, 8 * 1400]);
}

#[test]
fn what_does_not_follow_in_memory_is_no_train() {
    let mut trains = Trains::new(true);
    trains.add((), 0..40);
    trains.add((), 50..90);
    assert_eq!(trains.all().len(), 2);
}

#[test]
fn a_datagram_is_lengthened_to_go_on_with_a_train() {
    let mut trains = Trains::new(true);
    assert_eq!(trains.lengthened(1, 36), 36);
    trains.add(1, 0..52);
    let wanted = [(1, 36), (1, 26), (1, 25), (1, 52), (1, 60), (2, 36)];
    let lengthened = wanted.map(|(to, len)| trains.lengthened(to, len));
    assert_eq!(lengthened, [52, 52, 25, 52, 60, 36]);
    let mut alone = Trains::new(false);
    alone.add(1, 0..52);
    assert_eq!(alone.lengthened(1, 36), 36, "there is nothing to go on with");
}
