//! What the checks need on the machine, and how it gets there.

use std::process::Command;

/// A program, the Debian package that has it, and what it is for.
const TOOLS: &[(&str, &str, &str)] = &[
    ("redis-cli", "redis-tools", "the real-client tests"),
    ("redis-benchmark", "redis-tools", "the real-client tests"),
    ("memccapable", "libmemcached-tools", "the real-client tests"),
    ("memcslap", "libmemcached-tools", "the real-client tests"),
    ("go", "golang-go", "the real-client tests"),
    ("javac", "default-jdk-headless", "the real-client tests"),
    ("npm", "npm", "better-sqlite3 on the SQL library"),
    ("pip3", "python3-pip", "Django and SQLAlchemy on the SQL library"),
    ("tclsh", "tcl", "SQLite's own tests on the SQL library"),
    ("prometheus-redis-exporter", "prometheus-redis-exporter", "the real-client tests"),
];

/// Libraries that clients in Go, Java and Tcl are made with, and the packages that have them.
const CLIENT_LIBRARIES: &[(&str, &str)] = &[
    ("/usr/share/gocode/src/github.com/gomodule/redigo", "golang-github-gomodule-redigo-dev"),
    (
        "/usr/share/gocode/src/github.com/bradfitz/gomemcache",
        "golang-github-bradfitz-gomemcache-dev",
    ),
    ("/usr/share/java/spymemcached.jar", "libspymemcached-java"),
    ("/usr/lib/tcltk/sqlite3/libtclsqlite3.so", "libsqlite3-tcl"),
];

/// A module of Debian's Python, and the package that has it: clients that the tests use.
const PYTHON_MODULES: &[(&str, &str)] =
    &[("redis", "python3-redis"), ("pymemcache", "python3-pymemcache")];

/// C libraries of other people's stores (the start of the file's name), and the Debian packages
/// that have them. A store whose library is missing takes no part in comparisons.
const PEERS: &[(&str, &str)] = &[
    ("librocksdb.so", "librocksdb7.8"),
    ("libleveldb.so", "libleveldb1d"),
    ("liblmdb.so", "liblmdb0"),
    ("libsqlite3.so", "libsqlite3-0"),
];

/// Programs that are other people's servers, and the Debian packages that have them. One that is
/// missing takes no part either.
const SERVERS: &[(&str, &str)] = &[
    ("memcached", "memcached"),
    ("redis-server", "redis-server"),
    ("redis-sentinel", "redis-sentinel"),
    ("nutcracker", "nutcracker"),
    ("etcd", "etcd-server"),
];

/// Programs that judge file systems, and the Debian packages that have them. The tests of mounts
/// do without one that is missing.
const SUITES: &[(&str, &str)] =
    &[("postmark", "postmark"), ("fs_mark", "fsmark"), ("fio", "fio"), ("sqlite3", "sqlite3")];

/// A browser, and the Debian package that has it: the dashboard is looked at with it.
const BROWSER: (&str, &str) = ("chromium", "chromium");

/// Where the packages put libraries.
const LIBRARY_DIRECTORIES: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
];

/// Rust components, as `cargo` subcommands.
const COMPONENTS: &[(&str, &str)] = &[("fmt", "rustfmt"), ("clippy", "clippy")];

/// Installs what is missing; names what stays missing.
pub fn run() -> Result<(), String> {
    let mut complaints = Vec::new();
    for (subcommand, component) in COMPONENTS {
        if !succeeds("cargo", &[subcommand, "--version"]) {
            succeeds("rustup", &["component", "add", component]);
            if !succeeds("cargo", &[subcommand, "--version"]) {
                complaints.push(format!("cargo {subcommand}: rustup component add {component}"));
            }
        }
    }
    let missing: Vec<_> = TOOLS.iter().filter(|tool| !is_there(tool.0)).collect();
    if !missing.is_empty() {
        let mut packages: Vec<&str> = missing.iter().map(|tool| tool.1).collect();
        packages.dedup();
        install(&packages);
    }
    for (program, package, purpose) in missing.into_iter().filter(|tool| !is_there(tool.0)) {
        complaints.push(format!("{program} ({purpose}): install the package {package}"));
    }
    for (module, package) in PYTHON_MODULES.iter().filter(|wanted| !has_module(wanted.0)) {
        install(&[package]);
        if !has_module(module) {
            complaints.push(format!("Python module {module}: install the package {package}"));
        }
    }
    for (path, package) in CLIENT_LIBRARIES.iter().filter(|wanted| !is_file(wanted.0)) {
        install(&[package]);
        if !is_file(path) {
            complaints.push(format!("{path} (the real-client tests): install {package}"));
        }
    }
    install_peers();
    install_each(SUITES, is_there, "no mount is judged by it");
    install_browser();
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

/// Installs other people's stores where that works, and names those that stay missing.
fn install_peers() {
    let out = "its store takes no part in comparisons";
    install_each(PEERS, has_library, out);
    // These packages start their servers, which would take time from what is measured.
    let had: Vec<_> = SERVERS.iter().map(|server| is_there(server.0)).collect();
    install_each(SERVERS, is_there, out);
    // Each service is called as its program.
    for ((program, _), had) in SERVERS.iter().zip(had) {
        if !had && is_there("systemctl") {
            succeeds("systemctl", &["disable", "--now", program]);
        }
    }
}

/// Installs the browser where that works.
fn install_browser() {
    let (program, package) = BROWSER;
    if !is_there(program) {
        install(&[package]);
    }
    if !is_there(program) {
        println!("{package} is not there: the dashboard is not looked at in a browser");
    }
}

/// Installs the packages of those that are not there, names those that stay missing, and says what
/// that comes to.
fn install_each(wanted: &[(&str, &str)], is_there: fn(&str) -> bool, comes_to: &str) {
    let missing: Vec<_> = wanted.iter().filter(|wanted| !is_there(wanted.0)).collect();
    for (_, package) in &missing {
        // Each by itself: a release of Debian that lacks one may have the others.
        install(&[package]);
    }
    for (_, package) in missing.into_iter().filter(|wanted| !is_there(wanted.0)) {
        println!("{package} is not there: {comes_to}");
    }
}

fn is_file(path: &str) -> bool {
    std::path::Path::new(path).exists()
}

/// True where Debian's Python has the module.
fn has_module(module: &str) -> bool {
    succeeds("/usr/bin/python3", &["-c", &format!("import {module}")])
}

/// True where a library whose file's name starts with `start` is installed.
fn has_library(start: &str) -> bool {
    let names = |dir: &&str| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut all = LIBRARY_DIRECTORIES.iter().flat_map(names);
    all.any(|entry| entry.file_name().to_string_lossy().starts_with(start))
}

/// A C compiler for another target (the ciphers of TLS are assembled even for a type check), the
/// Debian packages that have it, and a program of theirs.
const CROSS_COMPILER: (&[&str], &str) =
    (&["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"], "aarch64-linux-gnu-gcc");

/// True where `target`, the other one that CI knows, can be compiled for, now or before.
pub fn add_target(target: &str) -> bool {
    let (packages, compiler) = CROSS_COMPILER;
    if !is_there(compiler) {
        install(packages);
    }
    succeeds("rustup", &["target", "add", target]) && is_there(compiler)
}

/// True where `program` is on the path.
pub fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Installs Debian's packages, if this machine has such.
pub fn install(packages: &[&str]) {
    if !is_there("apt-get") {
        return;
    }
    // As root directly, otherwise through a sudo that asks nothing.
    let prefix: &[&str] = if is_there("sudo") && !is_root() { &["sudo", "-n"] } else { &[] };
    let apt = |args: &[&str]| {
        let words = [prefix, &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"], args].concat();
        succeeds(words[0], &words[1..])
    };
    let args = [&["install", "-y", "-q", "--no-install-recommends"], packages].concat();
    if !apt(&args) {
        apt(&["update", "-q"]);
        apt(&args);
    }
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|o| o.stdout.trim_ascii() == b"0")
}

fn succeeds(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(std::process::Stdio::null());
    command.output().is_ok_and(|o| o.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_up_on_the_path() {
        assert!(is_there("sh"));
        assert!(!is_there("no-such-program-anywhere"));
    }

    #[test]
    fn libraries_are_looked_up_where_packages_put_them() {
        assert!(has_library("libc.so"));
        assert!(!has_library("libnostore-of-nobody.so"));
    }
}
