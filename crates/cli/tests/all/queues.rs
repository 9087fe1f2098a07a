//! Queues of jobs on Redis's types, each enqueuing, retrying, scheduling and finishing jobs on a
//! cache and on a durable store, which must run each job once. docs/compatibility.md lists them.

use crate::client_pages::{fetched, run};
use crate::clients::{must_be_content, on_both, source};
use crate::programs::{go_build, go_get, must_be_listed, npm, pip};
use crate::support::{Server, scratch};
use silica_base::{Prng, test_size};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const PYTHON: [&str; 5] =
    ["celery==5.7.0", "dramatiq==2.2.1", "huey==3.5.4", "redis==8.1.0", "rq==3.0.0"];
/// In an environment of its own: arq needs an older redis-py.
const ARQ: [&str; 2] = ["arq==0.28.0", "redis==5.3.1"];
const NODE: [&str; 3] = ["bee-queue@2.0.0", "bullmq@6.7.0", "ioredis@6.0.0"];
const GO: [&str; 1] = ["github.com/hibiken/asynq@v0.26.0"];

/// Time for the jobs of one round.
const ROUND_LIMIT: Duration = Duration::from_secs(100);

#[test]
fn the_page_lists_what_is_tested() {
    must_be_listed(PYTHON.iter().chain(&ARQ[..1]).chain(&NODE).chain(&GO));
}

/// The interpreter that has all of [`PYTHON`], which the first test to ask installs.
fn python() -> Option<&'static Path> {
    static PLACE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let place = PLACE.get_or_init(|| {
        // Celery's messages need it, and do not say so to pip everywhere.
        let wanted = [&PYTHON[..], &["packaging"]].concat();
        let place = fetched("queues.py", |place| pip(place, &wanted))?;
        Some(place.join("venv/bin/python"))
    });
    place.as_deref()
}

/// `python NAME` on a server; its workers find the port in their environment.
fn command(python: &Path, name: &str, server: &Server) -> Command {
    let mut command = Command::new(python);
    command.arg(source(&format!("programs/queues/{name}")));
    command.env("PORT", server.port.to_string()).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn run_on_both(name: &str) {
    let Some(python) = python() else { return };
    run_on_both_by(python, name);
}

fn run_on_both_by(python: &Path, name: &str) {
    on_both(&format!("queues-{name}"), |server| {
        must_be_content(&mut command(python, name, server));
    });
}

#[test]
fn celery() {
    run_on_both("celery_jobs.py");
}

#[test]
fn rq() {
    run_on_both("rq_jobs.py");
}

#[test]
fn huey() {
    run_on_both("huey_jobs.py");
}

#[test]
fn dramatiq() {
    run_on_both("dramatiq_jobs.py");
}

#[test]
fn arq() {
    let Some(place) = fetched("queues-arq.py", |place| pip(place, &ARQ)) else { return };
    run_on_both_by(&place.join("venv/bin/python"), "arq_jobs.py");
}

/// The program says how it tells what the server lost or did twice.
#[test]
fn rq_on_a_server_that_is_killed() {
    let Some(python) = python() else { return };
    let dir = scratch("queues-killed");
    for name in ["ran", "sent", "acknowledged"] {
        std::fs::write(dir.join(name), "").expect("written");
    }
    let rounds = test_size(3, 6, 60);
    let mut prng = Prng::new(39);
    let program = |server: &Server, what: &str, round: u64| {
        let mut command = command(python, "rq_killed.py", server);
        command.args([what, &round.to_string()]).env("DIRECTORY", &dir);
        command
    };
    for round in 0..rounds {
        let server = Server::start(&dir.join("store"), &[]);
        let log = std::fs::File::create(dir.join("log")).expect("created");
        let mut work = program(&server, "work", round);
        work.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut child = work.spawn().expect("the program starts");
        wait_for_jobs(&mut child, &dir, 20 + prng.below(80));
        std::thread::sleep(Duration::from_micros(prng.below(10_000)));
        server.kill();
        let is_good = child.wait().expect("own child").success();
        assert!(is_good, "round {round}: {}", log_in(&dir));
    }
    let server = Server::start(&dir.join("store"), &[]);
    run(&mut program(&server, "finish", rounds)).unwrap_or_else(|said| panic!("{said}"));
    server.stop();
}

/// Waits until so many more jobs have noted in `dir` that they ran.
fn wait_for_jobs(child: &mut Child, dir: &Path, wanted: u64) {
    let ran = || std::fs::read_to_string(dir.join("ran")).expect("the file is there");
    let count = || ran().lines().count() as u64;
    let (begin, end) = (count(), Instant::now() + ROUND_LIMIT);
    while count() < begin + wanted {
        let runs = child.try_wait().expect("own child").is_none();
        assert!(runs && Instant::now() < end, "{wanted} jobs do not run: {}", log_in(dir));
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn log_in(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("log")).unwrap_or_default()
}

#[test]
fn queues_in_node() {
    let Some(place) = fetched("queues.mjs", |place| npm(place, &NODE)) else { return };
    // Modules are looked for beside the program.
    let program = place.join("queues.mjs");
    std::fs::copy(source("programs/queues.mjs"), &program).expect("copied");
    on_both("queues-mjs", |server| {
        must_be_content(Command::new("node").arg(&program).arg(server.port.to_string()));
    });
}

#[test]
fn queues_in_go() {
    let Some(place) = fetched("queues.go", |place| go_get(place, &GO)) else { return };
    let program = go_build(&place, "programs/queues.go");
    on_both("queues-go", |server| {
        must_be_content(Command::new(&program).arg(server.port.to_string()));
    });
}
