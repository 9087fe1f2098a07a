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
}
