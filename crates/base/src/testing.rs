//! One dial for how much the long tests do.

/// How much a randomised test does under the environment variable `SILICA_TESTS`: `quick` where
/// it is not set (the edit loop), `ci` or `soak` where it says so.
///
/// A number in `SILICA_RUNS` wins over all three: that is how one suite is run at a chosen size.
///
/// # Panics
///
/// Where either variable holds something else, so that a typing error does not pass for a long
/// run.
#[allow(clippy::disallowed_methods)] // Tests have no other way to be told.
pub fn test_size(quick: u64, ci: u64, soak: u64) -> u64 {
    let variable = |name| std::env::var(name).ok();
    choose(
        variable("SILICA_TESTS").as_deref(),
        variable("SILICA_RUNS").as_deref(),
        [quick, ci, soak],
    )
}

fn choose(tests: Option<&str>, runs: Option<&str>, [quick, ci, soak]: [u64; 3]) -> u64 {
    if let Some(runs) = runs {
        return runs.replace('_', "").parse().expect("SILICA_RUNS is a number");
    }
    match tests {
        None | Some("" | "quick") => quick,
        Some("ci") => ci,
        Some("soak") => soak,
        Some(other) => panic!("SILICA_TESTS is '{other}'; use quick, ci or soak"),
    }
}

/// Runs `test` in a process of its own, for tests that look at the whole process: this test binary
/// once more, for the one test `name` (with its module: `resident::of_small_entries`).
///
/// # Panics
///
/// If the test fails there, or if no test has this name.
#[allow(clippy::disallowed_methods)] // Only tests call it.
pub fn in_own_process(name: &str, test: impl FnOnce()) {
    const ALONE: &str = "SILICA_TEST_ALONE";
    if std::env::var(ALONE).is_ok_and(|alone| alone == name) {
        return test();
    }
    let program = std::env::current_exe().expect("a test knows its binary");
    let mut command = std::process::Command::new(program);
    command.args(["--exact", name, "--nocapture"]).env(ALONE, name);
    let output = command.output().expect("a binary that runs starts again");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    print!("{said}");
    assert!(output.status.success() && said.contains("1 passed"), "{name} fails in its process");
}

#[cfg(test)]
mod tests {
    use super::choose;

    #[test]
    fn sizes_follow_the_dial() {
        assert_eq!(choose(None, None, [1, 2, 3]), 1);
        assert_eq!(choose(Some("quick"), None, [1, 2, 3]), 1);
        assert_eq!(choose(Some("ci"), None, [1, 2, 3]), 2);
        assert_eq!(choose(Some("soak"), None, [1, 2, 3]), 3);
        assert_eq!(choose(Some("ci"), Some("1_000"), [1, 2, 3]), 1000);
    }

    #[test]
    #[should_panic(expected = "use quick, ci or soak")]
    fn a_typing_error_is_told() {
        choose(Some("soka"), None, [1, 2, 3]);
    }

    #[test]
    fn a_test_runs_in_a_process_of_its_own() {
        let name = "testing::tests::a_test_runs_in_a_process_of_its_own";
        let ran_here = std::cell::Cell::new(false);
        super::in_own_process(name, || ran_here.set(true));
        assert_eq!(ran_here.get(), std::env::var_os("SILICA_TEST_ALONE").is_some());
        let none = std::panic::catch_unwind(|| super::in_own_process("no::such_test", || ()));
        assert!(none.is_err(), "no test has this name");
    }
}
