//! Installs the packages into directories that have nothing, and uses the program there.

use super::{parts, run};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The archive, unpacked: its program, its pages and its completions.
pub fn archive(archive: &Path, bare: &Path) -> Result<(), String> {
    parts::emptied(bare)?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--strip-components=1", "--directory"]).arg(bare);
    run(tar.arg("--file").arg(archive))?;
    first_success(bare, "/silica")?;
    for name in ["man/silica-serve.1", "completions/_silica", "contrib/docker/Dockerfile"] {
        is_there(&bare.join(name))?;
    }
    Ok(())
}

/// The package, installed and purged: nothing stays.
pub fn deb(deb: Option<&Path>, bare: &Path) -> Result<(), String> {
    let Some(deb) = deb else { return Ok(()) };
    parts::emptied(bare)?;
    for directory in ["info", "updates", "triggers"] {
        let path = bare.join("var/lib/dpkg").join(directory);
        std::fs::create_dir_all(&path).map_err(|e| parts::failed(&path, e))?;
    }
    parts::written(&bare.join("var/lib/dpkg/status"), b"")?;
    let dpkg = |args: &[&std::ffi::OsStr]| {
        let mut dpkg = as_root("dpkg");
        dpkg.arg(format!("--root={}", bare.display())).arg("--log=/dev/null").args(args);
        run(&mut dpkg)
    };
    dpkg(&["--install".as_ref(), deb.as_ref()])?;
    for name in ["silica.service", "silica.socket"] {
        is_there(&bare.join("usr/lib/systemd/system").join(name))?;
    }
    is_there(&bare.join("usr/share/man/man1/silica.1.gz"))?;
    first_success(bare, "/usr/bin/silica")?;
    within(bare, &["/usr/bin/silica", "config", "check", "/etc/silica/silica.toml"])?;
    dpkg(&["--purge".as_ref(), "silica".as_ref()])?;
    for name in ["usr/bin/silica", "etc/silica/silica.toml"] {
        if bare.join(name).exists() {
            return Err(format!("the package leaves /{name} behind"));
        }
    }
    Ok(())
}

/// What a newcomer does first.
fn first_success(bare: &Path, program: &str) -> Result<(), String> {
    borrow_libraries(bare, program)?;
    within(bare, &[program, "put", "greeting", "hello", "--path", "/notes"])?;
    let said = within(bare, &[program, "get", "greeting", "--path", "/notes"])?;
    let read = within(bare, &[program, "sql", "/app.db", "-c", "SELECT 6 * 7"])?;
    match (said.as_str(), read.as_str()) {
        ("hello\n", "42\n") => Ok(()),
        _ => Err(format!("on nothing {program} says {said:?} and {read:?}")),
    }
}

/// A program of the tests needs the libraries of this machine; what is handed out needs none.
pub fn borrow_libraries(bare: &Path, program: &str) -> Result<(), String> {
    let program = bare.join(program.trim_start_matches('/'));
    let Ok(needed) = run(Command::new("ldd").arg(program)) else { return Ok(()) };
    let paths = needed.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from);
    for path in paths.filter(|path| path.is_file() && !path.starts_with(bare)) {
        let to = bare.join(path.strip_prefix("/").unwrap_or(&path));
        parts::copied(&path, &to)?;
    }
    Ok(())
}

/// Runs a command that sees `bare` and nothing else.
fn within(bare: &Path, words: &[&str]) -> Result<String, String> {
    let path = "/usr/sbin:/usr/bin:/sbin:/bin";
    run(as_root("chroot").arg(bare).args(words).env_clear().env("PATH", path))
}

/// As root, or as what looks like it.
pub fn as_root(program: &str) -> Command {
    let id = Command::new("id").arg("-u").output();
    if id.is_ok_and(|output| output.stdout.trim_ascii() == b"0") {
        return Command::new(program);
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", program]);
    command
}

fn is_there(path: &Path) -> Result<(), String> {
    if path.is_file() { Ok(()) } else { Err(format!("{} is missing", path.display())) }
}
