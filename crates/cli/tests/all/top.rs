//! `silica top`: what it shows is what INFO says, of Redis, too.

use crate::support::{Client, Reply, Server, arg, said, scratch, silica, silica_ok};
use serde_json::Value;
use std::process::{Command, Stdio};

fn fill(server: &Server) -> Client {
    let mut client = server.client();
    client.ask(&[b"CLIENT", b"SETNAME", b"filler"]).unwrap();
    for i in 0..200 {
        let key = format!("key{i}");
        client.ask(&[b"SET", key.as_bytes(), b"value"]).unwrap();
        client.ask(&[b"GET", key.as_bytes()]).unwrap();
    }
    client.ask(&[b"GET", b"missing"]).unwrap();
    client
}

fn field(client: &mut Client, name: &str) -> f64 {
    let Ok(Reply::Bytes(Some(bytes))) = client.ask(&[b"INFO"]) else { panic!("INFO is a text") };
    let text = String::from_utf8(bytes).unwrap();
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
}

/// One look at the server, as JSON.
fn look(server: &Server) -> Value {
    let address = format!("127.0.0.1:{}", server.port);
    let text = silica_ok(&["top", "--addr", &address, "--interval", "0.2", "--json"]);
    serde_json::from_str(&text).expect("one object")
}

/// Compares fields that only the filling client moves.
fn compare(look: &Value, client: &mut Client, names: &[&str]) {
    for name in names {
        assert_eq!(look["fields"][name].as_f64(), Some(field(client, name)), "{name}: {look}");
    }
    let clients = look["clients"].as_array().unwrap();
    assert!(clients.iter().any(|client| client["name"] == "filler"), "{clients:?}");
    assert_eq!(look["not_told"].as_array().map(Vec::len), Some(0), "{look}");
    assert!(look["rates"]["requests"].as_f64().unwrap() > 0.0, "it asks itself: {look}");
}

#[test]
fn one_look_has_the_numbers_of_info() {
    let directory = scratch("top");
    let server = Server::start(&directory.join("store"), &[]);
    let mut client = fill(&server);
    let seen = look(&server);
    let names = ["keyspace_hits", "keyspace_misses", "maxmemory", "db0_puts", "db0_gets"];
    compare(&seen, &mut client, &names);
    assert_eq!(
        (&seen["fields"]["keyspace_misses"], &seen["rates"]["reads"]),
        (&1.into(), &0.0.into())
    );
    let lines = silica_ok(&["top", "--addr", &format!("127.0.0.1:{}", server.port), "--once"]);
    assert!(lines.contains("keys of database 0 (wip)") && lines.contains("requests/s"), "{lines}");
}

#[test]
fn redis_is_shown_as_far_as_it_tells() {
    if Command::new("redis-server").arg("--version").output().is_err() {
        println!("skipped: redis-server is not installed");
        return;
    }
    let server = Server::start_redis(&scratch("top-redis").join("redis"));
    let mut client = fill(&server);
    let seen = look(&server);
    compare(&seen, &mut client, &["keyspace_hits", "keyspace_misses", "maxmemory"]);
    assert!(seen["rates"]["reads"].is_null(), "Redis does not count keys: {seen}");
    let lines = silica_ok(&["top", "--addr", &format!("127.0.0.1:{}", server.port), "--once"]);
    let has_keys =
        lines.lines().any(|line| line.contains("keys of database 0") && line.ends_with("200"));
    assert!(has_keys, "{lines}");
}

#[test]
fn what_is_wrong_is_told_with_the_way_out() {
    for (args, part) in [
        (&["top"][..], "give --addr HOST:PORT"),
        (&["top", "--addr", "127.0.0.1:1", "--once"], "connecting to the server at 127.0.0.1:1"),
        (&["top", "--addr", "127.0.0.1:1", "--interval", "0"], "0.1 to 3600"),
    ] {
        let output = silica(args).output().unwrap();
        assert!(!output.status.success() && said(&output).contains(part), "{}", said(&output));
    }
}

/// In a terminal of 80 columns and 24 lines: the numbers of INFO stand on the screen, keys work,
/// and the terminal is left as it was.
#[test]
fn a_terminal_shows_the_numbers_and_takes_keys() {
    let directory = scratch("top-tty");
    let server = Server::start(&directory.join("store"), &[]);
    let mut client = fill(&server);
    let script = directory.join("keys.py");
    std::fs::write(&script, TERMINAL).unwrap();
    let output = Command::new("python3")
        .arg(arg(&script))
        .args([env!("CARGO_BIN_EXE_silica"), &format!("127.0.0.1:{}", server.port)])
        .arg(format!("{:.0}", field(&mut client, "db0_entries_estimate")))
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else {
        println!("skipped: python3, which has terminals of its own, is not installed");
        return;
    };
    assert!(output.status.success(), "{}", said(&output));
}

/// Runs the program in a terminal of its own, presses keys, and waits for what is shown. The
/// screen is kept as a grid, since only what changes is drawn.
const TERMINAL: &str = r#"
import fcntl, os, pty, re, select, struct, sys, termios, time

pid, terminal = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    time.sleep(0.2)
    os.execv(sys.argv[1], ["silica", "top", "--addr", sys.argv[2], "--interval", "0.2"])
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
grid = [[" "] * 80 for _ in range(24)]
row, column, pending, all_bytes = 0, 0, "", b""

def draw(text):
    global row, column, pending
    pending += text
    while pending:
        escape = re.match(r"\x1b\[([0-9;?]*)([a-zA-Z])|\x1b[^\[]", pending)
        if pending[0] == "\x1b":
            if not escape:
                return
            if escape.group(2) == "H":
                place = (escape.group(1) or "1;1").split(";")
                row, column = int(place[0]) - 1, int(place[1]) - 1
            pending = pending[escape.end():]
            continue
        letter, pending = pending[0], pending[1:]
        if letter >= " " and row < 24 and column < 80:
            grid[row][column] = letter
            column += 1

def await_text(pattern):
    end = time.time() + 60
    while True:
        shown = "\n".join("".join(line) for line in grid)
        if re.search(pattern, shown):
            return shown
        ready, _, _ = select.select([terminal], [], [], max(0, end - time.time()))
        if not ready:
            sys.exit("no %r in\n%s" % (pattern, shown))
        global all_bytes
        more = os.read(terminal, 65536)
        all_bytes += more
        draw(more.decode("utf-8", "replace"))

await_text(r"Silica \S+ at 127.0.0.1:\d+, up ")
await_text(r"\n.0 +wip +%s " % sys.argv[3])
await_text(r"Connections by memory")
await_text(r"filler")
os.write(terminal, b"s")
await_text(r"Connections by idle time")
os.write(terminal, b"r")
await_text(r"idle time, reversed")
os.write(terminal, b"\t")
await_text(r"Slow requests, newest first")
os.write(terminal, b" ")
await_text(r"paused")
os.write(terminal, b"q")
try:
    while True:
        all_bytes += os.read(terminal, 65536)
except OSError:
    pass
_, status = os.waitpid(pid, 0)
if b"\x1b[?1049l" not in all_bytes:
    sys.exit("the screen was not given back")
sys.exit(os.waitstatus_to_exitcode(status))
"#;
