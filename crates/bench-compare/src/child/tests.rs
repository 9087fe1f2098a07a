use super::*;
use crate::cell::{Job, memory_bytes};
use crate::peers;
use crate::work::Work;

fn cell() -> Cell {
    Cell {
        suite: "flash".into(),
        name: "read".into(),
        store: "silica:silt".into(),
        job: Job::Prepare,
        work: Work {
            workload: "read".into(),
            keys: 10,
            operations: 10,
            key_bytes: 16,
            value_bytes: 16,
            threads: 1,
            synced: false,
            distribution: "uniform".into(),
            batch: 1,
            rate: 0,
            seed: 1,
            load: None,
        },
        memory_bytes: 64 << 20,
        resident: false,
        set: Vec::new(),
        cold: false,
        repetition: 0,
        directory: "nowhere".into(),
        check_operations: 0,
        seconds: 0.0,
        door: None,
    }
}

fn perform(script: &str, limit: Duration, interrupted: bool) -> Said<Outcome> {
    let command = ["sh", "-c", script].map(OsString::from);
    match start(&command, &cell(), limit, &AtomicBool::new(interrupted))? {
        Started::Done(outcome) => Ok(*outcome),
        Started::Ready(_) => Err("ready".to_string()),
    }
}

fn shell(script: &str, limit: Duration, interrupted: bool) -> String {
    perform(script, limit, interrupted).unwrap_err()
}

#[test]
fn only_a_store_of_ours_on_a_device_has_the_rest_of_the_allowance() {
    let number = |store: &str, resident| {
        let peer = peers::find(store).expect("it is known");
        memory_bytes(&Cell { resident, ..cell() }, peer) >> 20
    };
    assert_eq!((number("silica:wip", false), number("silica:wip", true)), (64, 88));
    assert_eq!((number("leveldb", true), number("silica:mica", true)), (64, 64));
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn deaths_have_reasons() {
    assert_eq!(shell("echo why >&2; exit 3", MINUTE, false), "why");
    assert_eq!(shell("exit 3", MINUTE, false), "exit status: 3");
    assert_eq!(shell("kill -11 $$", MINUTE, false), "died of signal 11");
    assert!(shell("echo hello", MINUTE, false).contains("no outcome"));
    let slow = shell("exec sleep 60", Duration::from_millis(50), false);
    assert!(slow.contains("stopped after"), "{slow}");
    assert!(shell("exec sleep 60", MINUTE, true).contains("interrupted"));
}

#[test]
fn outcomes_come_back_whole() {
    let mut outcome = Outcome { version: "1".into(), ..Outcome::default() };
    outcome.push("throughput_ops", "ops/s", 1234.5);
    let text = serde_json::to_string(&Message::Done(Box::new(outcome.clone()))).unwrap();
    let script = format!("read cell; echo noise; echo '@silica-cell {text}'");
    assert_eq!(perform(&script, MINUTE, false).unwrap(), outcome);
    let back: Cell = serde_json::from_str(&serde_json::to_string(&cell()).unwrap()).unwrap();
    assert_eq!(back, cell());
}

/// A store with work in the background, and a server beside it: each adds a line to its file in an
/// endless loop. Orders are answered like those of a cell.
const BUSY: &str = r#"
    read cell
    work() { while true; do echo >> "$1"; done; }
    work background & (work server) &
    echo '@silica-cell "Ready"'
    while read order; do
        case "$order" in
            *Slice*) sleep 0.05
                echo '@silica-cell {"Slice":{"operations":5,"seconds":0.05,"complete":false}}' ;;
            *) kill %1 %2; echo '@silica-cell {"Done":OUTCOME}'; exit 0 ;;
        esac
    done
"#;

#[test]
fn between_slices_nobody_of_the_group_gets_anywhere() {
    let directory = tempfile::tempdir().unwrap();
    let outcome = serde_json::to_string(&Outcome::default()).unwrap();
    let place = format!("cd {}\n", directory.path().display());
    let script = place + &BUSY.replace("OUTCOME", &outcome);
    let command = ["bash", "-c", &script].map(OsString::from);
    let interrupted = AtomicBool::new(false);
    let Ok(Started::Ready(mut player)) = start(&command, &cell(), MINUTE, &interrupted) else {
        panic!("it does not wait for slices")
    };
    let lines = || {
        let length = |name| std::fs::metadata(directory.path().join(name)).map_or(0, |m| m.len());
        (length("background"), length("server"))
    };
    for _ in 0..3 {
        let before = lines();
        let slice = player.slice(0.05).unwrap();
        assert!((slice.operations, slice.complete) == (5.0, false) && slice.seconds >= 0.05);
        let after = lines();
        assert!(after.0 > before.0 && after.1 > before.1, "in a slice all work: {before:?}");
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(lines(), after, "and between slices nobody does");
    }
    assert_eq!(player.end(true).unwrap(), Outcome::default());
}

#[test]
fn one_that_is_given_up_is_gone_with_all_its_processes() {
    let directory = tempfile::tempdir().unwrap();
    let place = format!("cd {}\n", directory.path().display());
    let command = ["bash", "-c", &(place + BUSY)].map(OsString::from);
    let interrupted = AtomicBool::new(false);
    let Ok(Started::Ready(player)) = start(&command, &cell(), MINUTE, &interrupted) else {
        panic!("it does not wait for slices")
    };
    let group = player.process.as_ref().unwrap().group;
    drop(player);
    // Those that the shell started are init's now, which takes a moment.
    let started = Instant::now();
    while kill_process_group(group, Signal::CONT).is_ok() {
        assert!(started.elapsed() < MINUTE);
        std::thread::sleep(LOOK_PERIOD);
    }
}
