//! Programs and libraries that keep strings in Redis or memcached, each doing its main job on a
//! cache and on a durable store. docs/compatibility.md lists them.

use crate::client_pages::{fetched, run};
use crate::clients::{must_be_content, on_both, source};
use std::path::{Path, PathBuf};
use std::process::Command;

const PYTHON: [&str; 7] = [
    "Django==5.2.19",
    "django-redis==7.0.0",
    "Flask-Limiter==4.1.1",
    "limits==5.8.0",
    "pymemcache==4.0.0",
    "python-memcached==1.62",
    "redis==8.1.0",
];
const NODE: [&str; 6] = [
    "connect-redis@9.0.0",
    "express-session@1.19.0",
    "ioredis@6.0.0",
    "rate-limiter-flexible@11.4.0",
    "redis@6.3.1",
    "redlock@4.2.0",
];
const GO: [&str; 3] = [
    "github.com/go-redsync/redsync/v4@v4.18.1",
    "github.com/redis/go-redis/v9@v9.23.0",
    "github.com/redis/rueidis@v1.0.79",
];
/// Apart from the others, as it is made of libmemcached: where that cannot be, the others can.
const PYLIBMC: &str = "pylibmc==1.6.3";
const JAVA: &str = "io.lettuce:lettuce-core:7.2.3.RELEASE";

/// Fails unless docs/compatibility.md has each of these with the release that is tried.
pub(crate) fn must_be_listed<'a>(all: impl IntoIterator<Item = &'a &'static str>) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility.md");
    let page = std::fs::read_to_string(page).expect("the page");
    for wanted in all {
        let (name, release) = wanted.rsplit_once(['=', '@', ':']).expect("a name and a release");
        // Paths of Go's modules may end with their major version.
        let is_name = |part: &&str| part.len() > 2 || !part.starts_with('v');
        let name = name.trim_end_matches('=').rsplit([':', '/']).find(is_name);
        let (name, release) = (name.expect("a name"), release.trim_start_matches('v'));
        let is_listed = |line: &str| {
            line.to_lowercase().contains(&name.to_lowercase()) && line.contains(release)
        };
        assert!(page.lines().any(is_listed), "docs/compatibility.md lacks {name} {release}");
    }
}

/// An environment of Python's own in `place`, with what is `wanted`.
pub(crate) fn pip(place: &Path, wanted: &[&str]) -> Result<(), String> {
    run(Command::new("python3").args(["-m", "venv"]).arg(place.join("venv")))?;
    let mut pip = Command::new(place.join("venv/bin/python"));
    run(pip.args(["-m", "pip", "install", "--quiet"]).args(wanted)).map(drop)
}

/// Node's modules in `place`.
pub(crate) fn npm(place: &Path, wanted: &[&str]) -> Result<(), String> {
    let manifest = place.join("package.json");
    std::fs::write(manifest, "{\"private\": true}\n").map_err(|e| e.to_string())?;
    let install = ["install", "--no-audit", "--no-fund"];
    run(Command::new("npm").current_dir(place).args(install).args(wanted)).map(drop)
}

/// A module of Go in `place`, with those that it needs.
pub(crate) fn go_get(place: &Path, wanted: &[&str]) -> Result<(), String> {
    run(Command::new("go").current_dir(place).args(["mod", "init", "programs"]))?;
    run(Command::new("go").current_dir(place).arg("get").args(wanted)).map(drop)
}

/// Java's libraries in `place`, with those that they need, below `lib`.
pub(crate) fn maven(place: &Path, wanted: &[&str]) -> Result<(), String> {
    let dependency = |wanted: &&str| {
        let [group, artifact, version] = parts_of(wanted);
        format!(
            "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
             <version>{version}</version></dependency>"
        )
    };
    let project = format!(
        "<project><modelVersion>4.0.0</modelVersion><groupId>example</groupId>\
         <artifactId>example</artifactId><version>1</version><dependencies>{}</dependencies>\
         </project>",
        wanted.iter().map(dependency).collect::<String>()
    );
    std::fs::write(place.join("pom.xml"), project).map_err(|e| e.to_string())?;
    let copy = ["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"];
    run(Command::new("mvn").current_dir(place).args(copy)).map(drop)
}

/// Builds a program of Go in `place`.
pub(crate) fn go_build(place: &Path, name: &str) -> PathBuf {
    std::fs::copy(source(name), place.join("main.go")).expect("copied");
    let built = run(Command::new("go").current_dir(place).args(["mod", "tidy"]))
        .and_then(|_| run(Command::new("go").current_dir(place).args(["build", "-o", "programs"])));
    built.unwrap_or_else(|said| panic!("go build: {said}"));
    place.join("programs")
}

#[test]
fn the_page_lists_what_is_tested() {
    must_be_listed(PYTHON.iter().chain(&NODE).chain(&GO).chain([&JAVA, &PYLIBMC]));
}

#[test]
fn programs_in_python() {
    let Some(place) = fetched("programs.py", |place| pip(place, &PYTHON)) else { return };
    let python = place.join("venv/bin/python");
    on_both("programs-py", |server| {
        let program = source("programs/programs.py");
        must_be_content(Command::new(&python).arg(program).arg(server.port.to_string()));
    });
}

#[test]
fn pylibmc() {
    let Some(place) = fetched("pylibmc.py", |place| pip(place, &[PYLIBMC])) else { return };
    on_both("programs-pylibmc", |server| {
        let mut python = Command::new(place.join("venv/bin/python"));
        python.arg(source("programs/pylibmc_job.py")).arg(server.port.to_string());
        must_be_content(&mut python);
    });
}

#[test]
fn programs_in_node() {
    let Some(place) = fetched("programs.mjs", |place| npm(place, &NODE)) else { return };
    // Modules are looked for beside the program.
    let program = place.join("programs.mjs");
    std::fs::copy(source("programs/programs.mjs"), &program).expect("copied");
    on_both("programs-mjs", |server| {
        must_be_content(Command::new("node").arg(&program).arg(server.port.to_string()));
    });
}

#[test]
fn programs_in_go() {
    let Some(place) = fetched("programs.go", |place| go_get(place, &GO)) else { return };
    let program = go_build(&place, "programs/programs.go");
    on_both("programs-go", |server| {
        must_be_content(Command::new(&program).arg(server.port.to_string()));
    });
}

#[test]
fn programs_in_java() {
    let Some(place) = fetched("Programs.java", |place| maven(place, &[JAVA])) else { return };
    on_both("programs-java", |server| {
        let mut java = Command::new("java");
        java.current_dir(&place).args(["-Xmx128m", "-cp", "lib/*"]);
        must_be_content(java.arg(source("programs/Programs.java")).arg(server.port.to_string()));
    });
}

fn parts_of(wanted: &str) -> [&str; 3] {
    let parts: Vec<&str> = wanted.split(':').collect();
    parts.try_into().expect("group, artifact and version")
}
