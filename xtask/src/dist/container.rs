//! The container that the Dockerfile describes, made and run without Docker: its root directory is
//! a bare one, and its command runs there as it would in a container.

use super::check::{as_root, borrow_libraries};
use super::parts;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the server may take to start, to answer or to stop.
const LIMIT: Duration = Duration::from_secs(60);

/// What a Dockerfile comes to.
#[derive(Debug, Default, PartialEq)]
struct Image {
    /// What is copied, from beside the Dockerfile, and to where.
    copies: Vec<(String, String)>,
    /// Directories that outlive a container.
    volumes: Vec<String>,
    /// The command, with its arguments.
    command: Vec<String>,
    /// The signal that stops it.
    stop_signal: String,
}

impl Image {
    /// Reads the text of a Dockerfile; instructions that are not tried here are errors.
    fn of(text: &str) -> Result<Image, String> {
        let mut image = Image { stop_signal: "SIGTERM".into(), ..Image::default() };
        let (mut entry, mut arguments) = (Vec::new(), Vec::new());
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (instruction, rest) = line.split_once(' ').unwrap_or((line, ""));
            match instruction {
                "FROM" if rest == "scratch" => {}
                "EXPOSE" => {}
                "COPY" => match rest.split_once(' ') {
                    Some((from, to)) => image.copies.push((from.into(), to.into())),
                    None => return Err(format!("{line}: from where to where?")),
                },
                "VOLUME" => image.volumes.push(rest.into()),
                "STOPSIGNAL" => image.stop_signal = rest.into(),
                "ENTRYPOINT" => entry = words(rest)?,
                "CMD" => arguments = words(rest)?,
                _ => return Err(format!("{line}: this instruction is not tried")),
            }
        }
        image.command = [entry, arguments].concat();
        match image.command.is_empty() {
            true => Err("the Dockerfile has no command".into()),
            false => Ok(image),
        }
    }
}

/// The words of `["a", "b"]`.
fn words(text: &str) -> Result<Vec<String>, String> {
    serde_json::from_str(text).map_err(|e| format!("{text}: not a list of words in quotes: {e}"))
}

/// Makes the image of `dockerfile` in `bare`, with the files beside which it would be built in
/// `context`, and runs it twice: what was written the first time is there the second time.
pub fn check(dockerfile: &Path, context: &Path, bare: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(dockerfile).map_err(|e| parts::failed(dockerfile, e))?;
    let image = Image::of(&text)?;
    parts::emptied(bare)?;
    let within = |path: &str| bare.join(path.trim_start_matches('/'));
    for (from, to) in &image.copies {
        parts::copied(&context.join(from), &within(to))?;
    }
    for volume in &image.volumes {
        parts::emptied(&within(volume))?;
    }
    borrow_libraries(bare, &image.command[0])?;
    let refused = started(bare, &image, None);
    if !refused.as_ref().is_err_and(|why| why.contains("without a password")) {
        return Err(format!("without a password the container has not refused: {refused:?}"));
    }
    let mut first = started(bare, &image, Some("secret"))?;
    first.ask("SET greeting hello\r\nGET greeting\r\n", "+OK\r\n$5\r\nhello\r\n")?;
    first.stop(&image.stop_signal)?;
    let mut second = started(bare, &image, Some("secret"))?;
    second.ask("GET greeting\r\n", "$5\r\nhello\r\n")?;
    second.stop(&image.stop_signal)
}

/// A container that runs; killed when dropped.
#[derive(Debug)]
struct Container {
    child: Child,
    port: u16,
    log: PathBuf,
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the image's command on a free port, and waits until it serves.
fn started(bare: &Path, image: &Image, password: Option<&str>) -> Result<Container, String> {
    let log = bare.with_extension("log");
    let errors = std::fs::File::create(&log).map_err(|e| parts::failed(&log, e))?;
    // A container's ports are its own; here somebody may listen on the usual one.
    let any_port = |word: &String| word.replace(":6379", ":0");
    let mut command = as_root("chroot");
    command.arg(bare).args(image.command.iter().map(any_port)).env_clear();
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.envs(password.map(|password| ("SILICA_PASSWORD", password)));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
    let mut child = command.spawn().map_err(|e| format!("{command:?}: {e}"))?;
    let mut said = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut container = Container { child, port: 0, log };
    let mut line = String::new();
    said.read_line(&mut line).map_err(|e| format!("{command:?}: {e}"))?;
    let port = line.split("0.0.0.0:").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    container.port = port.ok_or_else(|| format!("{command:?}: {line}{}", container.log()))?;
    Ok(container)
}

impl Container {
    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Gives the password, asks, and compares the answers.
    fn ask(&mut self, requests: &str, wanted: &str) -> Result<(), String> {
        let io = |e: std::io::Error| format!("ask the container: {e}");
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(io)?;
        stream.set_read_timeout(Some(LIMIT)).map_err(io)?;
        stream.write_all(format!("AUTH secret\r\n{requests}").as_bytes()).map_err(io)?;
        let wanted = format!("+OK\r\n{wanted}");
        let mut got = vec![0; wanted.len()];
        stream.read_exact(&mut got).map_err(io)?;
        match got == wanted.as_bytes() {
            true => Ok(()),
            false => Err(format!("the container says {:?}", String::from_utf8_lossy(&got))),
        }
    }

    /// Stops it as `docker stop` does.
    fn stop(mut self, signal: &str) -> Result<(), String> {
        let signal = format!("-{}", signal.trim_start_matches("SIG"));
        let pid = self.child.id().to_string();
        super::run(Command::new("kill").args([&signal, &pid]))?;
        let begun = Instant::now();
        while begun.elapsed() < LIMIT {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(20)),
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("stopped: {status}: {}", self.log())),
                Err(e) => return Err(format!("wait for the container: {e}")),
            }
        }
        Err(format!("the container does not stop: {}", self.log()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dockerfile_is_read_and_what_is_not_known_is_refused() {
        let text = "# said\nFROM scratch\nCOPY a /b\nVOLUME /data\nEXPOSE 1\nSTOPSIGNAL SIGINT\n\
                    ENTRYPOINT [\"/b\"]\nCMD [\"x\", \"y z\"]\n";
        let image = Image::of(text).unwrap();
        assert_eq!(image.copies, [("a".to_string(), "/b".to_string())]);
        assert_eq!((image.volumes, image.command.len()), (vec!["/data".to_string()], 3));
        assert_eq!((image.command[2].as_str(), image.stop_signal.as_str()), ("y z", "SIGINT"));
        assert!(Image::of("FROM debian\n").unwrap_err().contains("not tried"));
        assert!(Image::of("FROM scratch\nRUN x\n").unwrap_err().contains("not tried"));
        assert!(Image::of("FROM scratch\n").unwrap_err().contains("no command"));
        assert!(Image::of("FROM scratch\nCMD x\n").unwrap_err().contains("in quotes"));
    }
}
