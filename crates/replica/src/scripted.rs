//! A connection for tests: what comes is written down, what is sent is kept.

use silica_commands::Wire;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What one read brings.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Bytes(Vec<u8>),
    /// The time of a read is over.
    Nothing,
    Interrupted,
    Closed,
}

#[derive(Debug, Default)]
struct State {
    steps: VecDeque<Step>,
    sent: Vec<u8>,
}

/// A connection whose reads bring one step after the other, and then that it is closed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scripted(Arc<Mutex<State>>);

impl Scripted {
    pub(crate) fn new(steps: Vec<Step>) -> Self {
        Scripted(Arc::new(Mutex::new(State { steps: steps.into(), sent: Vec::new() })))
    }

    /// What was sent so far.
    pub(crate) fn sent(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).sent.clone()
    }
}

impl Read for Scripted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match state.steps.pop_front() {
            Some(Step::Bytes(mut bytes)) => {
                let count = bytes.len().min(out.len());
                out[..count].copy_from_slice(&bytes[..count]);
                let rest = bytes.split_off(count);
                if !rest.is_empty() {
                    state.steps.push_front(Step::Bytes(rest));
                }
                Ok(count)
            }
            Some(Step::Nothing) => Err(ErrorKind::WouldBlock.into()),
            Some(Step::Interrupted) => Err(ErrorKind::Interrupted.into()),
            Some(Step::Closed) | None => Ok(0),
        }
    }
}

impl Write for Scripted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).sent.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Wire for Scripted {
    fn local_ip(&self) -> Option<IpAddr> {
        None
    }

    fn set_timeout(&mut self, _: Duration) -> io::Result<()> {
        Ok(())
    }

    fn set_read_timeout(&mut self, _: Duration) -> io::Result<()> {
        Ok(())
    }

    fn is_quiet(&mut self) -> bool {
        true
    }
}
