//! `silica record`, `silica serve --record` and `silica sketch --addr`, through the binary.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

struct Served {
    child: Child,
    address: String,
}

impl Served {
    fn start(store: &Path, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_silica"))
            .arg("serve")
            .arg(store)
            .args(["--listen", "127.0.0.1:0", "--memory", "64MiB", "--durability", "buffered"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let after_on = line.split_whitespace().skip_while(|word| *word != "on").nth(1);
        let address = after_on.unwrap_or_else(|| panic!("{line}")).to_string();
        Served { child, address }
    }

    /// Sends inline commands, and waits for the last one's reply.
    fn ask(&self, lines: impl Iterator<Item = String>) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let text: String = lines.map(|line| line + "\r\n").collect();
        stream.write_all(text.as_bytes()).unwrap();
        stream.write_all(b"ECHO the-end\r\n").unwrap();
        let mut replies = String::new();
        for line in BufReader::new(stream).lines() {
            let line = line.unwrap();
            if line == "the-end" {
                return replies;
            }
            replies += &line;
            replies.push('\n');
        }
        panic!("no end: {replies}");
    }

    /// Asks so often for what is not there, each time after the reply to the one before.
    fn ask_one_by_one(&self, line: &str, times: usize) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let mut replies = BufReader::new(stream.try_clone().unwrap());
        let (line, mut reply) = (format!("{line}\r\n"), String::new());
        for _ in 0..times {
            stream.write_all(line.as_bytes()).unwrap();
            reply.clear();
            replies.read_line(&mut reply).unwrap();
            assert_eq!(reply, "$-1\r\n");
        }
    }

    fn stop(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }
}

fn silica(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_silica")).args(arguments).output().unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = silica(&[arguments, &["--json"]].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// 2000 gets of 20 keys that are there, 1000 puts of them, 100 deletes of others.
fn work(served: &Served) {
    let gets = (0..2000).map(|n| format!("GET key:{}", n % 20));
    let puts = (0..1000).map(|n| format!("SET key:{} {}", n % 20, "v".repeat(30)));
    let deletes = (0..100).map(|n| format!("DEL other:{n}"));
    served.ask(puts.chain(gets).chain(deletes));
}

#[test]
fn a_running_server_is_recorded_and_the_trace_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::start(&directory.path().join("store"), &[]);
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
    let trace = path("trace");
    let recorder = Command::new(env!("CARGO_BIN_EXE_silica"))
        .args(["record", &trace, "--addr", &served.address, "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It has begun when the trace's first line is there.
    wait_for_lines(trace.as_ref());
    let busy = silica(&["record", &path("other"), "--addr", &served.address, "--seconds", "1"]);
    let error = String::from_utf8_lossy(&busy.stderr);
    assert!(!busy.status.success() && error.contains("recorded already"), "{error}");
    assert!(!directory.path().join("other").exists());
    work(&served);
    let pid = recorder.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = recorder.wait_with_output().unwrap();
    assert!(output.status.success());
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["dropped"], &told["unrecorded"]), (&0.into(), &0.into()), "{told}");
    let text = std::fs::read_to_string(&trace).unwrap();
    let count = |word: &str| text.lines().filter(|l| l.split(' ').nth(1) == Some(word)).count();
    assert_eq!((count("put"), count("get")), (1000, 2100), "{}", &text[text.len() - 900..]);
    assert_eq!(told["operations"], 3100);
    assert!(!text.contains("key:"), "keys are not shown");

    let replayed = json(&["bench", "replay", &trace, "--engine", "wip"]);
    assert_eq!((&replayed["operations"], &replayed["puts"]), (&3100.into(), &1000.into()));
    assert_eq!(replayed["hits"], 2000);
    let tuned = json(&["tune", "--trace", &trace]);
    let workload = tuned["workload"].as_str().unwrap();
    assert!(workload.contains("keys = 20\n") || workload.contains("keys = 120\n"), "{workload}");

    // One call in some hundreds is sampled, and requests that arrive together are one call.
    served.ask_one_by_one("GET nothing", 5000);
    let sketched = json(&["sketch", "--addr", &served.address]);
    let misses = sketched["mix"]["get_misses"].as_f64().unwrap();
    assert!(misses > 0.9, "{sketched}");
    let unknown = silica(&["sketch", "--addr", &served.address, "--keyspace", "users"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no database"));
    served.stop();
}

/// Waits until a recording has written something.
fn wait_for_lines(trace: &Path) {
    let began = std::time::Instant::now();
    while !std::fs::read(trace).is_ok_and(|text| !text.is_empty()) {
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_recording_ends_by_itself_before_its_trace_is_too_large() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::start(&directory.path().join("store"), &[]);
    let trace = directory.path().join("trace");
    let recorder = Command::new(env!("CARGO_BIN_EXE_silica"))
        .args(["record", trace.to_str().unwrap(), "--addr", &served.address])
        .args(["--max-size", "8KiB", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_lines(&trace);
    work(&served);
    let output = recorder.wait_with_output().unwrap();
    assert!(output.status.success());
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = std::fs::read_to_string(&trace).unwrap();
    assert_eq!(told["bytes"], text.len());
    assert!((7 << 10..=8 << 10).contains(&text.len()), "{}", text.len());
    let lines = text.lines().filter(|line| !line.starts_with('#')).count() - 1;
    assert_eq!(told["operations"], lines, "{told}");
    let other = directory.path().join("other");
    let arguments = ["record", other.to_str().unwrap(), "--addr", &served.address];
    let small = silica(&[&arguments[..], &["--max-size", "1000"]].concat());
    let error = String::from_utf8_lossy(&small.stderr);
    assert!(!small.status.success() && error.contains("1024 or more"), "{error}");
    assert!(!other.exists());
    // Nothing is left at the server.
    assert!(silica(&[&arguments[..], &["--seconds", "0.1"]].concat()).status.success());
    served.stop();
}

#[test]
fn a_full_disk_ends_a_recording_at_the_server_too() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::start(&directory.path().join("store"), &[]);
    let disk = directory.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    // What is mounted there is seen by that process only.
    let on_small_disk = |script: &str| {
        let mut command = Command::new("unshare");
        let mount = "mount -t tmpfs -o size=64k none \"$1\"";
        command.args(["--map-root-user", "--mount", "sh", "-c", &format!("{mount} && {script}")]);
        command.arg(env!("CARGO_BIN_EXE_silica")).arg(&disk);
        command.args(["--addr", &served.address]);
        command
    };
    if !on_small_disk("true").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: no file system can be mounted here without privileges");
        return;
    }
    // It says when the first lines are there, and afterwards what came of it.
    let script = "{ \"$0\" record \"$1/trace\" \"$2\" \"$3\" & } && \
        while [ ! -s \"$1/trace\" ]; do sleep 0.01; done && \
        echo ready && { wait $!; echo $?; cat \"$1/trace\"; }";
    let mut recorder =
        on_small_disk(script).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 6];
    recorder.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    assert_eq!(&ready, b"ready\n");
    // Of some 20 bytes for each of its operations.
    (0..4).for_each(|_| work(&served));
    let output = recorder.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("what it has up to its last line is a trace"), "{error}");
    let said = String::from_utf8(output.stdout).unwrap();
    let (status, trace) = said.split_once('\n').unwrap();
    assert_ne!(status, "0");
    assert!(trace.len() > 60 << 10 && trace.starts_with("silica-trace 1\n"), "{}", trace.len());
    // Long before it would give way to another one.
    let other = directory.path().join("other");
    let arguments = ["record", other.to_str().unwrap(), "--addr", &served.address];
    let again = silica(&[&arguments[..], &["--seconds", "0.1"]].concat());
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    served.stop();
}

#[test]
fn a_server_records_itself_from_start_to_stop() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    let store = directory.path().join("store");
    let served = Served::start(&store, &["--record", trace.to_str().unwrap()]);
    work(&served);
    served.stop();
    let mut text = std::fs::read(&trace).unwrap();
    let whole = String::from_utf8(text.clone()).unwrap();
    assert!(whole.lines().last().unwrap().starts_with("# the end: 3100 operations"), "{whole}");
    // As if the process had died while it wrote.
    text.truncate(text.len() / 2);
    let cut = directory.path().join("cut");
    std::fs::write(&cut, &text).unwrap();
    let replay = silica(&["bench", "replay", cut.to_str().unwrap(), "--json"]);
    let error = String::from_utf8_lossy(&replay.stderr);
    assert!(replay.status.success(), "{error}");
    assert_eq!(error.contains("cut off"), text.last() != Some(&b'\n'), "{error}");
    let report: Value = serde_json::from_slice(&replay.stdout).unwrap();
    let lines = String::from_utf8(text).unwrap().matches('\n').count() as u64;
    // But for the first two.
    assert_eq!(report["operations"], lines - 2);
}
