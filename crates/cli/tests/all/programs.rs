//! Programs and libraries that keep strings in Redis or memcached, each doing its main job on a
//! cache and on a durable store. docs/compatibility.md lists them.

use crate::client_pages::{fetched, run};
use crate::clients::{must_be_content, on_both, source};
use std::path::Path;
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
const JAVA: &str = "io.lettuce:lettuce-core:7.2.3.RELEASE";

/// Every program that is tested is in the page, with the release that was tried.
#[test]
fn the_page_lists_what_is_tested() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let all = PYTHON.iter().chain(&NODE).chain(&GO).chain([&JAVA]);
    for wanted in all {
        let (name, release) = wanted.rsplit_once(['=', '@', ':']).expect("a name and a release");
        let name = name.trim_end_matches('=').rsplit([':', '/']).find(|part| part.len() > 2);
        let (name, release) = (name.expect("a name"), release.trim_start_matches('v'));
        let is_listed = |line: &str| line.contains(name) && line.contains(release);
        assert!(page.lines().any(is_listed), "docs/compatibility.md lacks {name} {release}");
    }
}

#[test]
fn programs_in_python() {
    let place = fetched("programs.py", |place| {
        run(Command::new("python3").args(["-m", "venv"]).arg(place.join("venv")))?;
        let mut pip = Command::new(place.join("venv/bin/python"));
        run(pip.args(["-m", "pip", "install", "--quiet"]).args(PYTHON)).map(drop)
    });
    let Some(place) = place else { return };
    let python = place.join("venv/bin/python");
    on_both("programs-py", |server| {
        let program = source("programs/programs.py");
        must_be_content(Command::new(&python).arg(program).arg(server.port.to_string()));
    });
}

#[test]
fn programs_in_node() {
    let place = fetched("programs.mjs", |place| {
        let manifest = place.join("package.json");
        std::fs::write(manifest, "{\"private\": true}\n").map_err(|e| e.to_string())?;
        let install = ["install", "--no-audit", "--no-fund"];
        run(Command::new("npm").current_dir(place).args(install).args(NODE)).map(drop)
    });
    let Some(place) = place else { return };
    // Modules are looked for beside the program.
    let program = place.join("programs.mjs");
    std::fs::copy(source("programs/programs.mjs"), &program).expect("copied");
    on_both("programs-mjs", |server| {
        must_be_content(Command::new("node").arg(&program).arg(server.port.to_string()));
    });
}

#[test]
fn programs_in_go() {
    let place = fetched("programs.go", |place| {
        run(Command::new("go").current_dir(place).args(["mod", "init", "programs"]))?;
        run(Command::new("go").current_dir(place).arg("get").args(GO)).map(drop)
    });
    let Some(place) = place else { return };
    std::fs::copy(source("programs/programs.go"), place.join("main.go")).expect("copied");
    let built = run(Command::new("go").current_dir(&place).args(["mod", "tidy"])).and_then(|_| {
        run(Command::new("go").current_dir(&place).args(["build", "-o", "programs"]))
    });
    built.unwrap_or_else(|said| panic!("go build: {said}"));
    on_both("programs-go", |server| {
        must_be_content(Command::new(place.join("programs")).arg(server.port.to_string()));
    });
}

#[test]
fn programs_in_java() {
    let place = fetched("Programs.java", |place| {
        let [group, artifact, version] = parts_of(JAVA);
        let project = format!(
            "<project><modelVersion>4.0.0</modelVersion><groupId>example</groupId>\
             <artifactId>example</artifactId><version>1</version><dependencies><dependency>\
             <groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
             <version>{version}</version></dependency></dependencies></project>"
        );
        std::fs::write(place.join("pom.xml"), project).map_err(|e| e.to_string())?;
        let copy = ["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"];
        run(Command::new("mvn").current_dir(place).args(copy)).map(drop)
    });
    let Some(place) = place else { return };
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
