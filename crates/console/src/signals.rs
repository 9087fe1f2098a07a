//! Signals that ask a command to end: the first gently, a later one at once.

use silica::{Error, Result};
use std::time::{Duration, Instant};

/// Signals that come within this time are one wish: the terminal sends Ctrl-C to a whole group of
/// processes, and a parent that ends by it passes it on.
const ECHO: Duration = Duration::from_secs(1);

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// To end what is under way, and leave.
    Stop,
    /// Nothing: it repeats what was asked for just now.
    Nothing,
    /// To leave at once.
    Leave,
}

/// Tells a second wish from the echo of the first.
#[derive(Debug, Default)]
pub struct Wishes {
    first: Option<Instant>,
}

impl Wishes {
    /// What a signal at `now` asks for.
    pub fn hear(&mut self, now: Instant) -> Wish {
        match self.first {
            None => {
                self.first = Some(now);
                Wish::Stop
            }
            Some(first) if now.saturating_duration_since(first) < ECHO => Wish::Nothing,
            Some(_) => Wish::Leave,
        }
    }
}

/// A flag that the first SIGINT sets; a second one, later, ends the program at once. Whoever has
/// heard the first and goes on clears the flag: then the next one is a first one again.
pub fn interruption() -> Result<std::sync::Arc<std::sync::atomic::AtomicBool>> {
    use signal_hook::{consts::SIGINT, iterator::Signals};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    let mut signals =
        Signals::new([SIGINT]).map_err(|e| Error::io("installing the signal handler", e))?;
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    let listen = move || {
        let mut wishes = Wishes::default();
        for signal in signals.forever() {
            if !set.load(Ordering::Relaxed) {
                wishes = Wishes::default();
            }
            match wishes.hear(Instant::now()) {
                Wish::Stop => set.store(true, Ordering::Relaxed),
                Wish::Nothing => {}
                Wish::Leave => std::process::exit(128 + signal),
            }
        }
    };
    spawn(listen)?;
    Ok(flag)
}

/// Starts the thread that waits for signals.
pub fn spawn(listen: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = std::thread::Builder::new().name("silica-signals".to_string()).spawn(listen);
    let what = "starting the thread that waits for signals (raise the limits of processes, \
                ulimit -u, and of memory, ulimit -v)";
    thread.map(drop).map_err(|e| Error::io(what, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_signals_within_a_second_are_one() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let mut wishes = Wishes::default();
        assert_eq!(wishes.hear(at(0)), Wish::Stop);
        assert_eq!(wishes.hear(at(0)), Wish::Nothing);
        assert_eq!(wishes.hear(at(999)), Wish::Nothing);
        assert_eq!(wishes.hear(at(1000)), Wish::Leave);
    }
}
