//! What entering the kernel, and waking a thread through it, cost at least.

use super::cores::{on_cores, per_second, with_server};
use super::{Limit, LimitSetup, Reading, kernel};
use silica::{Error, Result};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

const STEPS: u64 = 1000;

/// Calls of the kernel.
pub(super) struct Syscalls;

impl Limit for Syscalls {
    fn name(&self) -> &'static str {
        "syscalls"
    }

    fn doc(&self) -> &'static str {
        "calls of the kernel that do next to nothing, and threads woken through an eventfd"
    }

    fn version(&self) -> Result<String> {
        Ok(format!("own probe on {}", kernel()))
    }

    fn figures(&self) -> usize {
        2
    }

    fn measure(&self, setup: &LimitSetup) -> Result<Vec<Reading>> {
        let threads = vec![(); setup.threads.max(1)];
        let calls = on_cores(threads, |()| {
            per_second(setup.seconds, || {
                for _ in 0..STEPS {
                    // SAFETY: getppid takes no argument and cannot fail.
                    unsafe { libc::syscall(libc::SYS_getppid) };
                }
                STEPS
            })
        });
        Ok(vec![
            Reading::new("getppid", "1/s", calls),
            Reading::new("eventfd_wakes", "1/s", wakes(setup.seconds)?),
        ])
    }
}

/// Two threads that wake each other in turns.
fn wakes(seconds: f64) -> Result<f64> {
    let failed = |e| Error::io("wake a thread through an eventfd", e);
    let (there, back) = (event().map_err(failed)?, event().map_err(failed)?);
    let client = |over: &AtomicBool| {
        let mut outcome = Ok(());
        let rounds = per_second(seconds, || {
            if outcome.is_ok() {
                outcome = wake(&there).and_then(|()| wait(&back));
            }
            1
        });
        // The server waits for the next round, which is none.
        over.store(true, Ordering::Release);
        outcome.and(wake(&there)).map_err(failed)?;
        Ok(2.0 * rounds)
    };
    let server = |over: &AtomicBool| {
        while !over.load(Ordering::Acquire) {
            wait(&there).and_then(|()| wake(&back)).map_err(failed)?;
        }
        Ok(())
    };
    with_server(client, server)
}

fn event() -> io::Result<File> {
    // SAFETY: eventfd takes two numbers and no memory.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
}

fn wake(mut event: &File) -> io::Result<()> {
    // Any count but zero wakes, so the order of its bytes does not matter.
    event.write_all(&1u64.to_le_bytes())
}

fn wait(mut event: &File) -> io::Result<()> {
    event.read_exact(&mut [0; 8])
}
