//! What is handed out: an archive, a package for Debian, a wheel, and what they consist of.
//!
//! The program is linked with everything it needs (glibc too, so that it has that one's allocator
//! and its copies by the processor's widest instructions), so the archive and the package run on
//! any Linux of its architecture.

mod check;
mod container;
mod package;
mod parts;

use crate::setup;
use crate::step::{cargo, target};
use package::{Effort, Stage};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Everything inside; and random bytes by the system call, which a program without shared libraries
/// would otherwise not find, and read a device instead that a bare root does not have.
///
/// Relocations in the packed form: each is 24 bytes without it, a megabyte in all. Names of the
/// newer form do not depend on the crate that a generic function is made in, so it is there once.
const FLAGS: &str = concat!(
    "-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs ",
    r#"--cfg getrandom_backend="linux_getrandom" -C symbol-mangling-version=v0"#
);

/// Nothing unwinds through what is compiled from C, and of Zstandard's searches for matches only
/// those of the level that tables use are there.
const C_FLAGS: &str = "-fno-asynchronous-unwind-tables -fno-unwind-tables \
    -DZSTD_EXCLUDE_GREEDY_BLOCK_COMPRESSOR -DZSTD_EXCLUDE_LAZY_BLOCK_COMPRESSOR \
    -DZSTD_EXCLUDE_LAZY2_BLOCK_COMPRESSOR -DZSTD_EXCLUDE_BTLAZY2_BLOCK_COMPRESSOR \
    -DZSTD_EXCLUDE_BTOPT_BLOCK_COMPRESSOR -DZSTD_EXCLUDE_BTULTRA_BLOCK_COMPRESSOR";

/// What the program may weigh: it is fetched over lines that are not always fast.
const BYTES_MAX: u64 = 20_000_000;

/// The release of the program that lists what a build consists of.
const CYCLONEDX: &str = "cargo-cyclonedx@0.5.7";

/// Runs a command to its end; an error has what it said.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(said) } else { Err(format!("{command:?}: {said}")) }
}

/// Runs a build, whose progress is shown.
fn build(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("{command:?}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} fails")) }
}

/// The program, optimised, without symbols, with everything it needs inside.
fn program(root: &Path) -> Result<PathBuf, String> {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let args = ["build", "--locked", "--profile", "dist", "--package", "silica-cli"];
    let mut command = cargo(&args);
    // With a target the flags do not reach what runs while others compile. Cargo would put that
    // into `target/dist`, by the profile's name, among what is handed out.
    let built = target(root).join("xtask/program");
    command.args(["--bin", "silica", "--target", &triple]).current_dir(root);
    command.arg("--target-dir").arg(&built);
    build(command.env("RUSTFLAGS", FLAGS).env("CFLAGS", C_FLAGS))?;
    Ok(built.join(triple).join("dist/silica"))
}

/// Makes everything and returns the directory where it lies.
pub fn make(root: &Path) -> Result<PathBuf, String> {
    let out = target(root).join("dist");
    parts::emptied(&out)?;
    let program = program(root)?;
    let stage = Stage::new(root, &program, &target(root).join("xtask/dist"), Effort::Small)?;
    let (archive, deb) = (stage.archive(&out)?, stage.deb(&out)?);
    checked(root, &stage, &archive, deb.as_deref())?;
    let wheel = crate::bindings::python(root, &stage.program())?;
    parts::copied(&wheel, &out.join(wheel.file_name().unwrap_or(OsStr::new("silica.whl"))))?;
    bill_of_materials(root, &out)?;
    checksums(&out)?;
    let program = stage.program();
    let bytes = std::fs::metadata(&program).map_err(|e| parts::failed(&program, e))?.len();
    println!("the program: {bytes} bytes");
    match bytes <= BYTES_MAX {
        true => Ok(out),
        false => Err(format!("the program has {bytes} bytes, and should have {BYTES_MAX} at most")),
    }
}

/// Packs the program that the tests were built with, and installs it on nothing.
pub fn of_tests(root: &Path) -> Result<(), String> {
    let target = target(root);
    let (program, out) = (target.join("debug/silica"), target.join("xtask/packages"));
    parts::emptied(&out)?;
    let stage = Stage::new(root, &program, &target.join("xtask/dist"), Effort::Quick)?;
    checked(root, &stage, &stage.archive(&out)?, stage.deb(&out)?.as_deref())
}

/// Installs the packages, and runs the container, in directories that have nothing else.
fn checked(root: &Path, stage: &Stage, archive: &Path, deb: Option<&Path>) -> Result<(), String> {
    let bare = target(root).join("xtask/bare");
    check::archive(archive, &bare)?;
    check::deb(deb, &bare)?;
    let (dockerfile, context) = stage.container();
    container::check(&dockerfile, context, &bare)
}

/// The crates that the program consists of, with versions and licences (CycloneDX).
fn bill_of_materials(root: &Path, out: &Path) -> Result<(), String> {
    let tools = target(root).join("tools");
    let tool = tools.join("bin/cargo-cyclonedx");
    if !tool.is_file() {
        let mut install = cargo(&["install", "--locked", CYCLONEDX, "--root"]);
        build(install.arg(&tools))?;
    }
    let mut list = Command::new(tool);
    list.args(["cyclonedx", "--format", "json", "--describe", "binaries"]);
    list.args(["--manifest-path", "crates/cli/Cargo.toml", "--quiet"]).current_dir(root);
    run(&mut list)?;
    // It writes beside each manifest of the workspace.
    let mut found = Vec::new();
    for entry in parts::entries(&root.join("crates"))? {
        let made = parts::entries(&entry)?.into_iter();
        found.extend(made.filter(|p| p.to_string_lossy().ends_with(".cdx.json")));
    }
    for path in &found {
        if path.ends_with("crates/cli/silica_bin.cdx.json") {
            parts::copied(path, &out.join("silica.cdx.json"))?;
        }
        std::fs::remove_file(path).map_err(|e| parts::failed(path, e))?;
    }
    match out.join("silica.cdx.json").is_file() {
        true => Ok(()),
        false => Err(format!("{CYCLONEDX} listed {found:?}, and not what `silica` consists of")),
    }
}

fn checksums(out: &Path) -> Result<(), String> {
    let files = parts::entries(out)?;
    let names = files.iter().filter_map(|path| path.file_name());
    let sums = run(Command::new("sha256sum").args(names).current_dir(out))?;
    parts::written(&out.join("SHA256SUMS"), sums.as_bytes())
}

/// True where Debian's packages can be made.
fn has_dpkg() -> bool {
    setup::is_there("dpkg-deb")
}
