//! The long run: the same tests at the sizes of the long run, licences and advisories.

use crate::step::{Steps, cargo};
use crate::{ci, setup};
use std::path::Path;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// Runs all long steps; true where none failed.
pub fn run(root: &Path) -> bool {
    let mut steps = Steps::new(root);
    steps.inside("tools", setup::run);
    if !setup::is_there("cargo-deny") {
        let mut install = cargo(&["install", "cargo-deny", "--locked"]);
        steps.command("install cargo-deny", &mut install, HOUR);
    }
    let mut house = cargo(&["deny", "--workspace", "check", "licenses", "bans", "sources"]);
    steps.command("licences and sources", &mut house, HOUR);
    let mut advisories = cargo(&["deny", "--workspace", "check", "advisories"]);
    steps.command_unless("advisories", &mut advisories, "failed to fetch advisory database");
    ci::tests(&mut steps, "soak", 48 * HOUR);
    steps.close()
}
