use super::*;

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
    follower.append_from_primary(&bytes, Some(2));
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
