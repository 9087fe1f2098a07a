//! The archive, and the package for Debian and what is made of it.

use super::{has_dpkg, parts, run};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What an installed Silica consists of, made and ready to be packed.
pub struct Stage {
    root: PathBuf,
    version: String,
    directory: PathBuf,
    effort: Effort,
}

/// How hard packing tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Small files, as xz makes them by itself.
    Small,
    /// A ninth of the time: whoever only looks at what was packed needs no small files.
    Quick,
}

impl Effort {
    /// The level of xz.
    fn level(self) -> u32 {
        match self {
            Effort::Small => 6,
            Effort::Quick => 0,
        }
    }
}

/// Shells, and where the package puts what they want to know.
const COMPLETIONS: [(&str, &str, &str); 3] = [
    ("bash", "silica.bash", "usr/share/bash-completion/completions/silica"),
    ("zsh", "_silica", "usr/share/zsh/vendor-completions/_silica"),
    ("fish", "silica.fish", "usr/share/fish/vendor_completions.d/silica.fish"),
];

impl Stage {
    /// Makes the parts with `program` in `directory`.
    pub fn new(
        root: &Path,
        program: &Path,
        directory: &Path,
        effort: Effort,
    ) -> Result<Self, String> {
        parts::emptied(directory)?;
        let said = run(Command::new(program).arg("--version"))?;
        let version = said.split_whitespace().last().ok_or("a program without a version")?;
        let stage = Stage {
            root: root.to_path_buf(),
            version: version.to_string(),
            directory: directory.to_path_buf(),
            effort,
        };
        let mut strip = Command::new("strip");
        run(strip.arg("-o").arg(stage.part("silica")).arg(program))?;
        let silica = stage.part("silica");
        run(Command::new(&silica).arg("man").arg(stage.part("man")))?;
        for (shell, name, _) in COMPLETIONS {
            let text = run(Command::new(&silica).args(["completions", shell]))?;
            parts::written(&stage.part("completions").join(name), text.as_bytes())?;
        }
        Ok(stage)
    }

    /// The program as it is packed.
    pub fn program(&self) -> PathBuf {
        self.part("silica")
    }

    fn part(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn of_root(&self, name: &str, to: &Path) -> Result<(), String> {
        parts::copied(&self.root.join(name), to)
    }

    /// The Dockerfile, and the directory with what it copies.
    pub fn container(&self) -> (PathBuf, &Path) {
        (self.root.join("contrib/docker/Dockerfile"), &self.directory)
    }

    /// Packs the archive into `out`.
    pub fn archive(&self, out: &Path) -> Result<PathBuf, String> {
        let name = format!("silica-{}-{}-linux", self.version, std::env::consts::ARCH);
        let directory = self.part("archive").join(&name);
        parts::emptied(&directory)?;
        parts::copied(&self.part("silica"), &directory.join("silica"))?;
        for page in parts::entries(&self.part("man"))? {
            parts::copied(&page, &directory.join("man").join(name_of(&page)))?;
        }
        for (_, name, _) in COMPLETIONS {
            let to = directory.join("completions").join(name);
            parts::copied(&self.part("completions").join(name), &to)?;
        }
        for name in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            self.of_root(name, &directory.join(name))?;
        }
        let contrib =
            ["silica.toml", "systemd/silica.service", "systemd/silica.socket", "docker/Dockerfile"];
        for name in contrib {
            let name = format!("contrib/{name}");
            self.of_root(&name, &directory.join(&name))?;
        }
        let archive = out.join(format!("{name}.tar.xz"));
        let mut tar = Command::new("tar");
        tar.args(["--create", "--xz", "--owner=0", "--group=0", "--sort=name", "--file"]);
        tar.env("XZ_OPT", format!("-{}", self.effort.level()));
        run(tar.arg(&archive).arg("--directory").arg(self.part("archive")).arg(name))?;
        Ok(archive)
    }

    /// Packs the package into `out`; `None` where the machine cannot.
    pub fn deb(&self, out: &Path) -> Result<Option<PathBuf>, String> {
        if !has_dpkg() {
            println!("no package for Debian: dpkg-deb is missing; install dpkg");
            return Ok(None);
        }
        let tree = self.part("deb");
        parts::emptied(&tree)?;
        parts::copied(&self.part("silica"), &tree.join("usr/bin/silica"))?;
        for page in parts::entries(&self.part("man"))? {
            let to = tree.join("usr/share/man/man1").join(name_of(&page));
            parts::copied(&page, &to)?;
            parts::zipped(&to)?;
        }
        for (_, name, place) in COMPLETIONS {
            parts::copied(&self.part("completions").join(name), &tree.join(place))?;
        }
        self.of_root("contrib/silica.toml", &tree.join("etc/silica/silica.toml"))?;
        for name in ["silica.service", "silica.socket"] {
            let to = tree.join("usr/lib/systemd/system").join(name);
            self.of_root(&format!("contrib/systemd/{name}"), &to)?;
        }
        let doc = tree.join("usr/share/doc/silica");
        self.of_root("README.md", &doc.join("README.md"))?;
        self.of_root("LICENSE-MIT", &doc.join("copyright"))?;
        self.of_root("CHANGELOG.md", &doc.join("changelog"))?;
        parts::zipped(&doc.join("changelog"))?;
        let architecture = run(Command::new("dpkg").arg("--print-architecture"))?;
        let architecture = architecture.trim();
        let size = run(Command::new("du").args(["-sk"]).arg(&tree))?;
        let size = size.split_whitespace().next().unwrap_or("0");
        let version = &self.version;
        let control = format!(
            "Package: silica\nVersion: {version}\nArchitecture: {architecture}\n\
             Maintainer: Silica <silica@localhost>\nInstalled-Size: {size}\nSection: database\n\
             Priority: optional\nDescription: key-value store for data larger than memory\n \
             A server that speaks the protocols of Redis and memcached, a command line,\n and an \
             SQL database. After the installation:\n .\n  systemctl enable --now silica\n"
        );
        parts::written(&tree.join("DEBIAN/control"), control.as_bytes())?;
        parts::written(&tree.join("DEBIAN/conffiles"), b"/etc/silica/silica.toml\n")?;
        let deb = out.join(format!("silica_{version}_{architecture}.deb"));
        let mut pack = Command::new("dpkg-deb");
        pack.args(["--root-owner-group", "-Zxz", &format!("-z{}", self.effort.level())]);
        run(pack.arg("--build").arg(&tree).arg(&deb))?;
        Ok(Some(deb))
    }
}

fn name_of(path: &Path) -> &std::ffi::OsStr {
    path.file_name().expect("an entry of a directory has a name")
}
