//! Every check that main must pass.

use crate::step::{Steps, cargo};
use crate::{bench, binaries, compare, dist, docs, serving, setup, site, tidy, zoned};
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
    tests(&mut steps, "ci", 40 * MINUTE);
    // Built with the tests.
    let binary = serving::binary(steps.target(), "debug");
    let out = steps.target().join("xtask");
    let run = serving::Run { binary, durable: false, seconds: 10, out };
    steps.inside("a cache under mixed load for 10 s", || run.run());
    steps.inside("packages, installed on nothing", || dist::of_tests(root));
    zoned::step_if_there(&mut steps);
    steps.inside("generated docs", || docs::run(root, true));
    steps.inside("the pages as a site", || site::make(root).map(drop));
    compare::run(&mut steps, bench::run);
    bench::run_alone(&mut steps);
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

/// Modules of the server's tests that run on every event loop and in every mode of ownership.
const OF_LOOPS: [&str; 7] =
    ["bursts::", "commands::", "connections::", "hostile::", "memcached::", "topics::", "unix::"];
/// Modules that run in every mode besides.
const OF_MODES: [&str; 5] = ["udp::", "datagrams::", "differential::", "databases::", "observe::"];

/// Modules that run on a cache with flash behind it besides: memcached's protocols, datagrams.
const ON_FLASH: [&str; 7] = [
    "memcached::",
    "memcached_binary::",
    "memcached_meta::",
    "memcached_clients::",
    "datagrams::",
    "udp::",
    "differential::",
];

/// All tests, sized by the environment variable `SILICA_TESTS`.
pub fn tests(steps: &mut Steps, size: &str, limit: Duration) {
    let mut binaries = Vec::new();
    let log = steps.target().join("xtask").join("build.log");
    let root = steps.root().to_path_buf();
    steps.inside("build", || {
        binaries = binaries::built(&root, &log, 40 * MINUTE)?;
        Ok(())
    });
    // By default event loops use io_uring where the kernel has it, so the others have their turn.
    let of_loops = binaries.iter().find(|binary| binary.name == "silica-server all").cloned();
    let others = of_loops.into_iter().flat_map(|server| {
        let on_flash = server.clone().with_arguments(&ON_FLASH);
        let of_loops = server.with_arguments(&OF_LOOPS);
        let of_modes = of_loops.clone().with_arguments(&OF_MODES);
        [
            of_loops.with_variable("SILICA_TEST_EVENT_LOOP", "epoll"),
            of_modes.clone().with_variable("SILICA_TEST_MODE", "erew"),
            of_modes.with_variable("SILICA_TEST_MODE", "crew"),
            on_flash.with_variable("SILICA_TEST_ENGINE", "flash"),
        ]
    });
    binaries.extend(others);
    steps.binaries("tests", binaries, size, limit);
    let doc = ["test", "--workspace", "--doc", "--no-fail-fast"];
    steps.tests("doc tests", &mut cargo(&doc), 10 * MINUTE);
}
