//! Two servers that take turns: ours and Redis.

use super::Course;
use super::talk::{Talk, Train};
use crate::peers::{Kept, Typed};
use silica::Result;
use silica_bench::memory;
use std::path::PathBuf;

/// Connections of a load.
pub(super) const CONNECTIONS: usize = 16;

/// A server and its client.
pub(super) struct Side {
    server: Typed,
    talk: Talk,
    /// The directory of the server.
    pub(super) directory: PathBuf,
}

/// What a load took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Took {
    pub(super) seconds: f64,
    /// That the server's threads ran.
    pub(super) cpu_seconds: f64,
}

impl Side {
    fn of(server: Typed, directory: PathBuf) -> Result<Self> {
        let talk = Talk::connect(server.name(), server.address(), CONNECTIONS)?;
        Ok(Side { server, talk, directory })
    }

    /// Starts ours.
    pub(super) fn ours(course: &Course<'_>, kept: Kept, memory_bytes: u64) -> Result<Self> {
        let directory = course.place("silica")?;
        Self::of(Typed::ours(&directory, kept, memory_bytes)?, directory)
    }

    /// Starts Redis.
    pub(super) fn redis(course: &Course<'_>, kept: Kept) -> Result<Self> {
        let directory = course.place("redis")?;
        Self::of(Typed::redis(&directory, kept)?, directory)
    }

    /// Sends `trains` and hears the replies.
    pub(super) fn run(&mut self, trains: &[Train]) -> Result<Took> {
        let before = cpu_seconds(self.process());
        let ran = self.talk.run(trains);
        let seconds = self.server.check().and(ran)?;
        Ok(Took { seconds, cpu_seconds: cpu_seconds(self.process()) - before })
    }

    /// The reply to one request.
    pub(super) fn ask(&mut self, words: &[&[u8]]) -> Result<Vec<u8>> {
        self.talk.ask(words)
    }

    /// The server's process.
    pub(super) fn process(&self) -> memory::Process {
        self.server.process()
    }

    /// The sum of the numbers that INFO tells under these names; 0 of a name that it does not
    /// tell.
    pub(super) fn told(&mut self, names: &[&str]) -> Result<u64> {
        let text = self.ask(&[b"INFO", b"everything"])?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let of = |name: &&str| {
            let line = text.lines().find_map(|line| line.strip_prefix(*name)?.strip_prefix(':'));
            line.and_then(|number| number.trim().parse::<f64>().ok()).unwrap_or(0.0)
        };
        Ok(names.iter().map(of).sum::<f64>() as u64)
    }
}

/// Both servers.
pub(super) struct Pair {
    pub(super) ours: Side,
    pub(super) redis: Side,
}

impl Pair {
    /// Starts both.
    pub(super) fn start(course: &Course<'_>, kept: Kept, memory_bytes: u64) -> Result<Self> {
        let ours = Side::ours(course, kept, memory_bytes)?;
        Ok(Pair { ours, redis: Side::redis(course, kept)? })
    }
}

/// Seconds that the threads of `process` have run, those that have ended not counted.
pub(crate) fn cpu_seconds(process: memory::Process) -> f64 {
    let Ok(threads) = std::fs::read_dir(process.file("task")) else { return 0.0 };
    let of = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    };
    threads.flatten().filter_map(of).sum::<f64>() / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_how_long_threads_have_run() {
        let grows = || {
            let before = cpu_seconds(memory::Process::This);
            let started = std::time::Instant::now();
            let mut sum = 0_u64;
            while started.elapsed().as_millis() < 20 {
                sum = std::hint::black_box(sum.wrapping_mul(3) + 1);
            }
            cpu_seconds(memory::Process::This) > before
        };
        // Threads of other tests take their time with them when they end.
        assert!((0..50).any(|_| grows()));
    }
}
