//! Every check that main must pass.

use crate::step::{Steps, cargo};
use crate::{bench, compare, docs, serving, setup, tidy};
use std::path::Path;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// Where code must at least type-check besides this machine.
const OTHER_TARGET: &str = "aarch64-unknown-linux-gnu";

/// Runs all steps; true where none failed.
pub fn run(root: &Path) -> bool {
    let mut steps = Steps::new(root);
    steps.inside("tools", setup::run);
    steps.command("format", &mut cargo(&["fmt", "--all", "--", "--check"]), MINUTE);
    steps.inside("tidy", || tidy::run(root));
    lints(&mut steps);
    tests(&mut steps, "ci", 25 * MINUTE);
    // Built with the tests.
    let binary = serving::binary(steps.target(), "debug");
    let out = steps.target().join("xtask");
    let run = serving::Run { binary, durable: false, seconds: 10, out };
    steps.inside("a cache under mixed load for 10 s", || run.run());
    steps.inside("generated docs", || docs::run(root, true));
    bench::run(&mut steps);
    compare::run(&mut steps);
    steps.close()
}

fn lints(steps: &mut Steps) {
    let args = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    steps.command("clippy", &mut cargo(&args), 10 * MINUTE);
    let mut doc = cargo(&["doc", "--workspace", "--no-deps"]);
    steps.command("rustdoc", doc.env("RUSTDOCFLAGS", "-D warnings"), 10 * MINUTE);
    let name = format!("check for {OTHER_TARGET}");
    if setup::add_target(OTHER_TARGET) {
        let args = ["check", "--workspace", "--lib", "--target", OTHER_TARGET];
        steps.command(&name, &mut cargo(&args), 10 * MINUTE);
    } else {
        steps.skip(&name, "the target or its C compiler cannot be installed here");
    }
}

/// All tests, sized by the environment variable `SILICA_TESTS`.
pub fn tests(steps: &mut Steps, size: &str, limit: Duration) {
    let build = ["test", "--workspace", "--lib", "--bins", "--tests", "--no-run"];
    steps.command("build", &mut cargo(&build), 25 * MINUTE);
    let run = ["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"];
    steps.tests("tests", cargo(&run).env("SILICA_TESTS", size), limit);
    // By default event loops use io_uring where the kernel has it, so the others have their turn.
    let of_loops = ["bursts", "commands", "connections", "hostile", "memcached", "topics", "unix"];
    let of_loops = |variable, value| {
        let mut run = cargo(&["test", "--workspace", "--no-fail-fast"]);
        for test in of_loops {
            run.args(["--test", test]);
        }
        run.env("SILICA_TESTS", size).env(variable, value);
        run
    };
    let mut epoll = of_loops("SILICA_TEST_EVENT_LOOP", "epoll");
    steps.tests("tests of event loops over epoll", &mut epoll, limit);
    for mode in ["erew", "crew"] {
        let mut owned = of_loops("SILICA_TEST_MODE", mode);
        owned.args(["--test", "udp", "--test", "datagrams", "--test", "differential"]);
        steps.tests(&format!("tests of event loops in mode {mode}"), &mut owned, limit);
    }
    let doc = ["test", "--workspace", "--doc", "--no-fail-fast"];
    steps.tests("doc tests", &mut cargo(&doc), 10 * MINUTE);
}
