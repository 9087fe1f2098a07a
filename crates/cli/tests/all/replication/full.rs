//! A replica whose disk is too small for what its primary has.

use super::*;
use crate::support::scratch;

#[test]
fn a_full_disk_ends_a_synchronisation_and_nothing_else() {
    let dir = scratch("replication-full-disk");
    let disk = dir.join("disk");
    std::fs::create_dir_all(&disk).expect("the directory can be made");
    let path = dir.join("replica");
    let small = ["--loops", "2", "--memory", "64MiB", "--set=segment_bytes=256KiB"];
    let Some(silica) = Server::start_on_disk_of(&path, &disk, "48m", &small) else {
        println!("skipped: no file system can be mounted here without privileges");
        return;
    };
    let mut replica = silica.client();
    ask(&mut replica, "SET own 1");
    ask(&mut replica, "RPUSH list a b c");
    let before = contents(&mut replica);
    let large = Server::start(&dir.join("large"), &["--loops", "2"]);
    let mut primary = large.client();
    let mut random = Prng::new(1);
    for nth in 0..1_200 {
        // What does not get smaller.
        let value: Vec<u8> = (0..100_000).map(|_| random.next_u64() as u8).collect();
        primary.ask(&[b"SET", format!("large:{nth}").as_bytes(), &value]).expect("a reply");
    }
    follow(&mut replica, large.port);
    wait_for_log(&path, "the link to the primary ends");
    let log = std::fs::read_to_string(path.with_extension("log")).expect("the log");
    let why = log.lines().find(|line| line.contains("the link to the primary ends"));
    let why = why.expect("it was there").to_lowercase();
    assert!(["no space", "full", "room"].iter().any(|word| why.contains(word)), "{why}");
    assert_eq!(contents(&mut replica), before, "nothing was lost, and nothing came");
    // With less it succeeds, in the room that the attempts have given back.
    ask(&mut primary, "FLUSHALL");
    write(&mut primary, &mut random, 300);
    must_be_equal(&mut primary, &mut replica, "after the disk was full");
    silica.stop();
}
