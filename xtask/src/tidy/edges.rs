//! Who may use whom, and what each crate's root file must declare.

use super::{Problem, Source};
use serde_json::Value;

/// A crate's place in the house.
struct Place {
    name: &'static str,
    dir: &'static str,
    /// Crates of this workspace it may use.
    uses: &'static [&'static str],
    /// True where files, clocks, threads and random hashers are banned.
    passive: bool,
    /// True where unsafe code is allowed.
    wraps: bool,
}

const GROUND: &[&str] = &["silica-base", "silica-device"];
const ENGINE: &[&str] = &["silica-base", "silica-device", "silica-parts", "silica-engine"];
/// The cache on flash stands on the flash library, each of its levels.
const ON_FLASH: &[&str] = &["silica-base", "silica-device", "silica-engine", "silica-flash"];
/// The graph engine writes through the flash library's policy level, or plain files.
const GRAPH: &[&str] = &["silica-base", "silica-device", "silica-flash"];
/// A mount makes the device, the file system on it, and speaks the kernel's protocol.
const MOUNT: &[&str] = &["silica-base", "silica-device", "silica-flash", "silica-lfs"];
const ON_MEMORY: &[&str] = &["silica-base", "silica-device", "silica-engine"];
const FACADE: &[&str] = &[
    "silica-base",
    "silica-device",
    "silica-parts",
    "silica-engine",
    "silica-silt",
    "silica-wip",
    "silica-mica",
    "silica-dida",
    "silica-pmem",
    "silica-tune",
];
/// What commands mean stands below loops and sockets, which they cannot see.
const COMMANDS: &[&str] = &[
    "silica-base",
    "silica-engine",
    "silica",
    "silica-proto",
    "silica-sql",
    "silica-lua",
    "silica-types",
];
/// Agreement stands on commands, whose engine it takes the place of.
const AGREE: &[&str] =
    &["silica-base", "silica-engine", "silica", "silica-proto", "silica-commands"];
/// The server asks the device for what the system lends it: descriptors and memory.
const SERVER: &[&str] = &[
    "silica-base",
    "silica-device",
    "silica-net",
    "silica-engine",
    "silica",
    "silica-proto",
    "silica-commands",
];
/// Whoever follows a primary hands what comes to the commands.
const REPLICA: &[&str] =
    &["silica-base", "silica-engine", "silica", "silica-proto", "silica-commands"];
/// The bench drives the product, and the two mechanisms that have benchmarks of their own.
const BENCH: &[&str] = &[
    "silica-base",
    "silica-device",
    "silica-parts",
    "silica-engine",
    "silica-silt",
    "silica-tune",
    "silica",
    "silica-sql",
];
/// What the command lines share.
const CONSOLE: &[&str] = &["silica", "silica-bench"];
/// SQL stands on a store: the engine below it is the facade's.
const SQL: &[&str] = &["silica-base", "silica", "silica-types", "silica-sqlite-source"];
const SQL_LIBRARY: &[&str] = &["silica-sql", "silica-sqlite-source"];
const CLIENT: &[&str] = &["silica-base", "silica-net", "silica-proto"];
/// Its clients of datagrams send and receive as the server does.
const COMPARE: &[&str] = &[
    "silica-base",
    "silica-device",
    "silica-net",
    "silica",
    "silica-proto",
    "silica-bench",
    "silica-client",
];
/// The product's command line. What compares, models and simulates is `silica-lab`'s.
const CLI: &[&str] = &[
    "silica-base",
    "silica-agree",
    "silica-graph",
    "silica-parts",
    "silica",
    "silica-mount",
    "silica-proto",
    "silica-server",
    "silica-replica",
    "silica-bench",
    "silica-console",
    "silica-sql",
    "silica-types",
];
const ANY: &[&str] = &["*"];

const fn passive(name: &'static str, dir: &'static str, uses: &'static [&'static str]) -> Place {
    Place { name, dir, uses, passive: true, wraps: false }
}

const fn active(name: &'static str, dir: &'static str, uses: &'static [&'static str]) -> Place {
    Place { name, dir, uses, passive: false, wraps: false }
}

/// The house. A new crate is entered here with its layer's rights, or the build stops.
const HOUSE: &[Place] = &[
    Place { name: "silica-base", dir: "crates/base", uses: &[], passive: true, wraps: true },
    Place {
        name: "silica-device",
        dir: "crates/device",
        uses: &["silica-base"],
        passive: false,
        wraps: true,
    },
    Place {
        name: "silica-net",
        dir: "crates/net",
        uses: &["silica-base"],
        passive: false,
        wraps: true,
    },
    passive("silica-parts", "crates/parts", GROUND),
    passive("silica-flash", "crates/flash", GROUND),
    passive("silica-engine", "crates/engine", &["silica-base"]),
    passive("silica-testkit", "crates/testkit", ON_MEMORY),
    passive("silica-tune", "crates/tune", &["silica-base", "silica-engine"]),
    passive("silica-silt", "crates/silt", ENGINE),
    passive("silica-wip", "crates/wip", ENGINE),
    Place { name: "silica-mica", dir: "crates/mica", uses: ENGINE, passive: true, wraps: true },
    Place { name: "silica-dida", dir: "crates/dida", uses: ON_FLASH, passive: true, wraps: true },
    Place { name: "silica-pmem", dir: "crates/pmem", uses: ON_MEMORY, passive: true, wraps: true },
    passive("silica-lfs", "crates/lfs", &["silica-base", "silica-device", "silica-flash"]),
    active("silica-mount", "crates/mount", MOUNT),
    passive("silica-proto", "crates/proto", &["silica-base"]),
    passive("silica-lua", "crates/lua", &[]),
    passive("silica-types", "crates/types", &["silica-base", "silica-proto"]),
    active("silica", "crates/silica", FACADE),
    // Threads compute intervals side by side, within one call.
    active("silica-graph", "crates/graph", GRAPH),
    active("silica-commands", "crates/commands", COMMANDS),
    passive("silica-sqlite-source", "crates/sqlite-source", &[]),
    active("sqlite3", "crates/sqlite3", SQL_LIBRARY),
    // PyO3's macros write unsafe code.
    Place {
        name: "silica-python",
        dir: "crates/python",
        uses: &["silica"],
        passive: false,
        wraps: true,
    },
    // C's pointers come in.
    Place {
        name: "silica-capi",
        dir: "crates/capi",
        uses: &["silica"],
        passive: false,
        wraps: true,
    },
    // The C part calls it.
    Place { name: "silica-sql", dir: "crates/sql", uses: SQL, passive: false, wraps: true },
    active("silica-server", "crates/server", SERVER),
    active("silica-replica", "crates/replica", REPLICA),
    active("silica-agree", "crates/agree", AGREE),
    active("silica-client", "crates/client", CLIENT),
    active("silica-bench", "crates/bench", BENCH),
    // C libraries are called through their C interfaces.
    Place {
        name: "silica-bench-compare",
        dir: "crates/bench-compare",
        uses: COMPARE,
        passive: false,
        wraps: true,
    },
    active("silica-console", "crates/console", CONSOLE),
    active("silica-cli", "crates/cli", CLI),
    active("silica-lab", "crates/lab", ANY),
    active("silica-examples", "examples", &["silica"]),
    active("xtask", "xtask", ANY),
];

/// Checks each dependency of the packages in `metadata`. Dev-dependencies are exempt: a test may
/// look down from anywhere (the conformance suite runs on simulated devices, for one).
pub fn check(metadata: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let names: Vec<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(place) = HOUSE.iter().find(|place| place.name == name) else {
            problems.push(broken(name, format!("crate {name} has no place in the house table")));
            continue;
        };
        let dependencies = package["dependencies"].as_array().map_or(&[][..], Vec::as_slice);
        for dependency in dependencies.iter().filter(|d| d["kind"] != "dev") {
            let used = dependency["name"].as_str().unwrap_or_default();
            let allowed = place.uses == ANY || place.uses.contains(&used);
            if names.contains(&used) && !allowed {
                problems.push(broken(name, format!("{name} may not use {used}")));
            }
        }
    }
    problems
}

fn broken(name: &str, what: String) -> Problem {
    let dir = HOUSE.iter().find(|place| place.name == name).map_or("crates", |place| place.dir);
    Problem { path: format!("{dir}/Cargo.toml"), line: 1, what }
}

const FORBID_UNSAFE: &str = "#![forbid(unsafe_code)]";
const PASSIVE: &str =
    "#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]";

/// Checks that each crate's root file declares what its place demands.
pub fn check_attributes(sources: &[Source]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for place in HOUSE {
        let roots = ["lib.rs", "main.rs"].map(|file| format!("{}/src/{file}", place.dir));
        for source in sources.iter().filter(|source| roots.contains(&source.path)) {
            let lacks = |line: &str| !source.text.lines().any(|l| l.trim() == line);
            if !place.wraps && lacks(FORBID_UNSAFE) {
                problems.push(source.problem(1, format!("lacks {FORBID_UNSAFE}")));
            }
            if place.passive && lacks(PASSIVE) {
                problems.push(source.problem(1, format!("lacks {PASSIVE}")));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use serde_json::json;

    fn package(name: &str, uses: &[(&str, Option<&str>)]) -> Value {
        let uses: Vec<_> = uses.iter().map(|(n, k)| json!({"name": n, "kind": k})).collect();
        json!({"name": name, "dependencies": uses})
    }

    fn problems(packages: &[Value]) -> Vec<String> {
        let found = check(&json!({ "packages": packages }));
        found.iter().map(Problem::to_string).collect()
    }

    #[test]
    fn an_arrow_that_points_up_is_found() {
        let base = package("silica-base", &[("silica-device", None), ("libc", None)]);
        let device = package("silica-device", &[("silica-base", None)]);
        let expected = "crates/base/Cargo.toml:1: silica-base may not use silica-device";
        assert_eq!(problems(&[base, device]), [expected]);
    }

    #[test]
    fn dev_dependencies_are_exempt_and_build_dependencies_are_not() {
        let device = package("silica-device", &[]);
        let dev = package("silica-engine", &[("silica-device", Some("dev"))]);
        assert_eq!(problems(&[dev, device.clone()]), [""; 0]);
        let build = package("silica-engine", &[("silica-device", Some("build"))]);
        assert_eq!(problems(&[build, device]).len(), 1);
    }

    #[test]
    fn a_crate_outside_the_table_is_found() {
        assert_eq!(problems(&[package("silica-new", &[])]).len(), 1);
    }

    #[test]
    fn declarations_are_demanded() {
        let good = format!("//! Docs.\n{FORBID_UNSAFE}\n{PASSIVE}\n");
        let count = |path: &str, text: &str| check_attributes(&[sample(path, text)]).len();
        assert_eq!(count("crates/silt/src/lib.rs", &good), 0);
        assert_eq!(count("crates/silt/src/lib.rs", "//! Docs.\n"), 2);
        assert_eq!(count("crates/device/src/lib.rs", "//! Docs.\n"), 0);
        assert_eq!(count("crates/server/src/lib.rs", "//! Docs.\n"), 1);
    }
}
