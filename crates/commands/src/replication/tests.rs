use super::*;
use crate::address::Address;
use crate::clients::Clients;
use silica::engine::EntryRef;

fn replication() -> Replication {
    Replication::new(&Budget::new(8 << 20), Prng::new(7))
}

fn ping(one: &Replication, db: u8) {
    let mut effects = Effects::default();
    effects.push(Some(db), &[b"PING"]);
    one.append(&effects, true);
}

#[test]
fn a_promoted_replica_continues_its_primary() {
    let followed = replication();
    let follower = replication();
    [&followed, &follower].iter().for_each(|one| one.keep());
    ping(&followed, 0);
    let (history, offset) = followed.position();
    assert!(follower.become_replica("127.0.0.1", 1) && follower.is_replica());
    assert!(!follower.become_replica("127.0.0.1", 1), "it is that already");
    follower.set_position(&history.id, offset, Some(0));
    ping(&followed, 2);
    let bytes = followed.read(offset, 1000).unwrap();
    assert_eq!(bytes, b"*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n*1\r\n$4\r\nPING\r\n");
    follower.append_from_primary(&bytes, Some(2), false);
    assert_eq!(follower.position(), followed.position());
    assert_eq!(follower.read(offset, 1000), Some(bytes));

    assert!(follower.become_primary() && !follower.become_primary());
    let promoted = follower.history();
    assert_ne!(promoted.id, history.id);
    assert_eq!(promoted.second, Some((history.id.clone(), followed.offset())));
    ping(&follower, 2);
    let select = b"*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n";
    assert!(follower.read(followed.offset(), 1000).unwrap().starts_with(select));
    followed.rename_history(&promoted.id);
    assert_eq!(followed.history(), promoted);
}

#[test]
fn whoever_waits_for_a_role_is_told() {
    let one = replication();
    let (role, version) = one.role();
    assert_eq!(
        (&role, one.wait_for_role(version, Duration::from_millis(1)).0),
        (&role, Role::Primary)
    );
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| one.wait_for_role(version, Duration::from_secs(60)));
        one.become_replica("there", 7);
        let role = Role::Replica { host: "there".into(), port: 7 };
        assert_eq!(waits.join().unwrap(), (role, version + 1));
    });
}

fn put(one: &Replication, key: &str, len: usize) -> Vec<u8> {
    let (mut effects, value) = (Effects::default(), vec![b'v'; len]);
    effects.put(0, key.as_bytes(), EntryRef { value: &value, expires_unix_ms: 7, user_bits: 5 });
    effects.put(0, b"second", EntryRef::new(b"w"));
    effects.delete(0, b"third");
    let before = one.offset();
    one.append(&effects, true);
    one.read(before, usize::MAX).expect("it is kept")
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

#[test]
fn strings_are_records_while_everybody_takes_them() {
    let one = replication();
    one.keep();
    assert!(has(&put(&one, "a", 10), "SILICA.ENTRIES") && one.form() == "records");
    assert_eq!(one.records_end() + b"*1\r\n$4\r\nEXEC\r\n".len() as u64, one.offset());
    one.state().plain_feeds = 1;
    let bytes = put(&one, "b", 10);
    assert!(has(&bytes, "$3\r\nSET\r\n$1\r\nb") && has(&bytes, "PXAT\r\n$1\r\n7"));
    assert!(has(&bytes, "$3\r\nDEL\r\n$5\r\nthird") && !has(&bytes, "SILICA"));
    // It may come back for what follows, as long as that is kept.
    let end = one.offset();
    (one.state().plain_feeds, one.state().plain_end) = (0, end);
    assert_eq!(one.form(), "commands");
    while one.kept().0 < end {
        let bytes = put(&one, "c", 60_000);
        assert!(!has(&bytes, "SILICA") || one.kept().0 >= end);
    }
    assert!(has(&put(&one, "d", 10), "SILICA.ENTRIES"));
    one.settings.has_records.store(false, Relaxed);
    assert!(has(&put(&one, "e", 10), "$3\r\nSET\r\n$1\r\ne"));
}

#[test]
fn records_have_a_size() {
    let mut effects = Effects::default();
    let value = vec![1; 300 << 10];
    for key in 0..10_u8 {
        effects.put(0, &[key], EntryRef::new(&value));
    }
    effects.push(Some(0), &[b"DEL", b"k"]);
    effects.put(3, b"k", EntryRef::new(b"v"));
    let shape: Vec<_> = effects.parts().map(|(db, form, bytes)| (db, form, bytes.len())).collect();
    assert!(shape.iter().all(|(_, _, len)| *len <= 1 << 20), "{shape:?}");
    let forms: Vec<_> = shape.iter().map(|(db, form, _)| (*db, *form)).collect();
    let of = |count| (Some(0), Form::Entries(count));
    let one = (Some(3), Form::Entries(1));
    assert_eq!(forms, [of(3), of(3), of(3), of(1), (Some(0), Form::Commands), one]);
    // Effects behind others keep their places.
    let mut all = Effects::default();
    all.push(None, &[b"PING"]);
    all.append(&mut effects);
    let moved: Vec<_> = all.parts().skip(1).map(|(_, _, bytes)| bytes.len()).collect();
    assert_eq!(moved, shape.iter().map(|(_, _, len)| *len).collect::<Vec<_>>());
}

#[test]
fn a_replica_that_has_left_leaves_nothing_behind() {
    let (one, clients, budget) = (replication(), Clients::default(), Budget::new(8 << 20));
    let here = || Address::Ip(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
    let client = clients.add((0, 0), (here(), here()), 0, &budget);
    let feed = one.feed_of(&clients, &budget, &client, 0).unwrap();
    assert!(!client.is_replica(), "it has only said that it is one");
    let again = one.feed_of(&clients, &budget, &client, 0).unwrap();
    assert!(Arc::ptr_eq(&feed, &again));
    feed.begin_sync().unwrap();
    assert!(client.is_replica() && one.replicas().len() == 1);
    clients.remove(client.id);
    one.forget(&client, 1);
    assert!(one.feed_of(&clients, &budget, &client, 1).is_none(), "nobody would end it");
    let (left, gone) = (Arc::downgrade(&feed), Arc::downgrade(&client));
    drop((feed, again, client));
    assert_eq!(budget.used(), 0, "what was put aside for its data");
    assert!(left.upgrade().is_none() && gone.upgrade().is_none(), "they hold each other");
}

/// True if somebody may go on who stands at `offset` of history `id`.
fn may_go_on(one: &Replication, id: &str, offset: u64) -> bool {
    one.has_all_since(&one.state(), (id.as_bytes(), offset), true)
}

#[test]
fn whoever_may_lack_keys_does_not_go_on() {
    let one = replication();
    one.keep();
    one.tells.store(true, Relaxed);
    ping(&one, 0);
    let (History { id, .. }, begun) = one.position();
    ping(&one, 1);
    let middle = one.offset();
    assert!(may_go_on(&one, &id, begun) && may_go_on(&one, &id, middle));
    // A replica whose data is that of `begun` has gone, before all keys were put into the stream.
    one.note_half_told(begun);
    ping(&one, 2);
    assert!(!may_go_on(&one, &id, begun) && !may_go_on(&one, &id, middle));
    assert!(may_go_on(&one, &id, one.offset()), "whoever was there at the end has all");
    assert!(one.parting().is_none(), "a replica may have less than its offset says");
    // Another one, of which more was put.
    one.note_half_told(middle);
    assert!(!may_go_on(&one, &id, begun) && !may_go_on(&one, &id, one.offset()));
}

#[test]
fn a_stream_goes_on_behind_a_restart() {
    let before = replication();
    before.keep();
    before.tells.store(true, Relaxed);
    ping(&before, 3);
    before.timers.note_at(3, b"short", 77);
    let (history, offset) = before.position();
    let parting = before.parting().expect("it is kept");
    let bytes = parting.encode();
    let parting = restart::Parting::decode(&bytes).expect("decodes");

    let primary = Replication::new(&Budget::new(8 << 20), Prng::new(8));
    primary.go_on_from(parting.clone(), 5);
    let (now, at) = primary.position();
    assert_eq!((at, now.second), (offset, Some((history.id.clone(), offset))));
    assert_ne!(now.id, history.id, "two copies would have one history");
    assert!(primary.tells() && primary.timers.has_due(77));
    assert!(may_go_on(&primary, &history.id, 0) && may_go_on(&primary, &history.id, offset));
    assert!(!may_go_on(&primary, &history.id, offset + 1));
    ping(&primary, 3);
    let select = b"*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n";
    assert!(primary.read(offset, 1000).unwrap().starts_with(select));

    let replica = Replication::new(&Budget::new(8 << 20), Prng::new(9));
    replica.become_replica("there", 7);
    replica.go_on_from(parting, 5);
    assert_eq!(replica.position(), (history.clone(), offset));
    assert!(may_go_on(&replica, &history.id, offset) && !replica.tells());
}
