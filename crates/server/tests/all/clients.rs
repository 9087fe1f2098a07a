//! Real clients, unmodified: redis-cli, redis-cli --pipe, redis-benchmark, redis-py.

use crate::support::{Client, Probe, config, request, start_with};
use silica_server::Server;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// The program, ready to talk to `server`; `None` (and a printed reason) where it is missing.
fn tool(name: &str, server: &Server) -> Option<Command> {
    if Command::new(name).arg("--version").output().is_err() {
        println!("skipped: {name} is not installed (Debian: apt-get install redis-tools)");
        return None;
    }
    let mut command = Command::new(name);
    command.args(["-h", "127.0.0.1", "-p", &server.local_addr().port().to_string()]);
    command.stdin(Stdio::null());
    Some(command)
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn redis_cli() {
    for may_wait in [false, true] {
        let (server, _) = start_with(config(), Probe::new(may_wait));
        let cases: [(&[&str], &str); 9] = [
            (&["SET", "a", "1"], "OK\n"),
            (&["GET", "a"], "1\n"),
            (&["-3", "GET", "a"], "1\n"),
            (&["-3", "CONFIG", "GET", "save"], "save \n"),
            (&["INCRBY", "a", "4"], "5\n"),
            (&["-n", "3", "DBSIZE"], "0\n"),
            (&["--scan", "--pattern", "*"], "a\n"),
            (&["-r", "2", "ECHO", "hi"], "hi\nhi\n"),
            (&["FOO"], "ERR unknown command 'FOO', with args beginning with: \n\n"),
        ];
        for (args, want) in cases {
            let Some(mut cli) = tool("redis-cli", &server) else { return };
            assert_eq!(text(&cli.args(args).output().unwrap()), want, "{args:?}");
        }
        let Some(mut cli) = tool("redis-cli", &server) else { return };
        let biggest = text(&cli.arg("--bigkeys").output().unwrap());
        assert!(biggest.contains("Sampled 1 keys"), "{biggest}");
        server.stop();
    }
}

#[test]
fn redis_cli_with_a_password() {
    let config = silica_server::Config { password: Some(b"pw".to_vec()), ..config() };
    let (server, _) = start_with(config, Probe::new(false));
    let Some(mut cli) = tool("redis-cli", &server) else { return };
    let answer = text(&cli.args(["-a", "pw", "--no-auth-warning", "PING"]).output().unwrap());
    assert_eq!(answer, "PONG\n");
    let mut cli = tool("redis-cli", &server).unwrap();
    let refused = text(&cli.args(["PING"]).output().unwrap());
    assert_eq!(refused, "NOAUTH Authentication required.\n\n");
    server.stop();
}

#[test]
fn redis_cli_pipe() {
    let (server, _) = start_with(config(), Probe::new(true));
    let Some(mut cli) = tool("redis-cli", &server) else { return };
    let mut child = cli.arg("--pipe").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let records = 20_000;
    for n in 0..records {
        let (key, value) = (format!("key:{n}"), format!("value of {n}"));
        input.write_all(&request(&[b"SET", key.as_bytes(), value.as_bytes()])).unwrap();
    }
    drop(input);
    let report = text(&child.wait_with_output().unwrap());
    assert!(report.contains(&format!("errors: 0, replies: {records}")), "{report}");
    let mut client = Client::connect(&server);
    assert_eq!(client.ask("DBSIZE"), format!(":{records}"));
    assert_eq!(client.ask("GET key:19999"), "'value of 19999'");
    server.stop();
}

#[test]
fn redis_benchmark() {
    for may_wait in [false, true] {
        let (server, _) = start_with(config(), Probe::new(may_wait));
        let Some(mut benchmark) = tool("redis-benchmark", &server) else { return };
        let args = ["-t", "set,get,incr,mset,ping", "-n", "20000", "-P", "16", "-q", "--csv"];
        let report = text(&benchmark.args(args).output().unwrap());
        // One line each, a header, and PING in both of its forms.
        for test in ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET (10 keys)"] {
            let line = report.lines().find(|line| line.starts_with(&format!("\"{test}\"")));
            let field = line.and_then(|line| line.split(',').nth(1)).map(|f| f.trim_matches('"'));
            let ops: f64 = field.expect(test).parse().unwrap();
            assert!(ops > 1000.0, "{report}");
        }
        assert_eq!(Client::connect(&server).ask("GET counter:__rand_int__"), "'20000'");
        server.stop();
    }
}

/// Debian's Python, for which its packages of libraries are.
const PYTHON: &str = "/usr/bin/python3";

#[test]
fn redis_py() {
    python_works("redis_py.py");
}

#[test]
fn redis_py_with_scripts() {
    python_works("redis_scripts.py");
}

/// redis-py has a cache of its own from version 5.3 on, which Debian's may be older than: then
/// `SILICA_TEST_PYTHON` names a Python that has it.
#[test]
fn redis_py_with_its_cache() {
    let python = std::env::var("SILICA_TEST_PYTHON").unwrap_or(PYTHON.into());
    if !imports(&python, "redis.cache") {
        println!("skipped: {python} has no redis-py with a cache (pip install 'redis>=5.3')");
        return;
    }
    program_works(&python, "redis_cache.py");
}

fn imports(python: &str, module: &str) -> bool {
    let import = Command::new(python).args(["-c", &format!("import {module}")]).output();
    import.is_ok_and(|output| output.status.success())
}

/// Runs a program of `tests/clients.d` on a server with each kind of engine.
fn python_works(name: &str) {
    if !imports(PYTHON, "redis") {
        println!("skipped: redis-py is not installed (Debian: apt-get install python3-redis)");
        return;
    }
    program_works(PYTHON, name);
}

fn program_works(python: &str, name: &str) {
    let script = format!("{}/tests/clients.d/{name}", env!("CARGO_MANIFEST_DIR"));
    for may_wait in [false, true] {
        let (server, _) = start_with(config(), Probe::new(may_wait));
        let port = server.local_addr().port().to_string();
        let output = Command::new(python).args([&script, &port]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.stdout.trim_ascii(), b"fine", "{errors}");
        server.stop();
    }
}
