//! A cell in a fresh process: `silica-lab bench compare-cell` reads it from standard input and
//! tells what it finds. A process that dies is a failure with a reason, never the end of the suite.
//!
//! Between two slices a cell's threads stand still by themselves, so that no call is under way,
//! and then its whole process group is stopped: what a store does in the background, and a server
//! beside its client, happens in the store's own time or not at all.

use crate::cell::{Cell, Outcome, measure};
use crate::protocol::{self, Channels, Message, Order, Pipes, SliceReport};
use crate::rounds::Contestant;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, set_parent_process_death_signal, waitid,
};
use silica::{Error, ErrorKind, Result};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a process may say on standard error before it is cut.
const STDERR_BYTES_MAX: usize = 2000;
/// An interruption is noticed after so long.
const LOOK_PERIOD: Duration = Duration::from_millis(20);
/// After an interruption a slice may end, and an outcome be told, if it takes no longer.
const GRACE: Duration = Duration::from_secs(5);
/// A process that stops later than this is charged for the time: it was still at work.
const STOP_FREE: Duration = Duration::from_millis(1);
/// A process that does not stop, since the kernel works for it, is not waited for longer.
const STOP_MAX: Duration = Duration::from_secs(5);
const STOP_PERIOD: Duration = Duration::from_micros(50);

type Said<T> = std::result::Result<T, String>;

/// Reads a cell from standard input, performs it and tells what it finds: the body of the hidden
/// command `silica-lab bench compare-cell`.
pub fn serve_cell() -> Result<()> {
    // Whoever started this process and is gone does not want it any more.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let mut pipes = Pipes::new(std::io::stdin().lock(), std::io::stdout());
    let cell: Cell = serde_json::from_str(&pipes.line()?).map_err(|e| {
        let message = format!("standard input holds no cell ({e}); `silica bench compare` does it");
        Error::new(ErrorKind::Config, message)
    })?;
    let outcome = measure(&cell, &mut pipes)?;
    protocol::Port::tell(&mut pipes, Message::Done(Box::new(outcome)))
}

/// A cell that is being performed, by another process or by a thread of this one.
pub(crate) struct Player<'a> {
    orders: Orders,
    messages: Receiver<Message>,
    process: Option<Process>,
    limit: Duration,
    interrupted: &'a AtomicBool,
}

enum Orders {
    Pipe(ChildStdin),
    Channel(Sender<Order>),
}

/// A process that leads a group of its own.
struct Process {
    child: Child,
    group: Pid,
    errors: Option<JoinHandle<String>>,
    has_door: bool,
    /// It told its outcome and ends by itself.
    is_done: bool,
}

/// What a cell that was started tells first.
pub(crate) enum Started<'a> {
    /// It waits for slices.
    Ready(Player<'a>),
    /// It has no slices, and this is its outcome.
    Done(Box<Outcome>),
}

/// Starts `cell` with `command` (a program and its arguments), in this process where it is empty.
/// None of its steps may take longer than `limit`. The error is for people.
pub(crate) fn start<'a>(
    command: &[OsString],
    cell: &Cell,
    limit: Duration,
    interrupted: &'a AtomicBool,
) -> Said<Started<'a>> {
    let (orders, messages, process) = match command.split_first() {
        Some((program, arguments)) => spawn(program, arguments, cell)?,
        None => in_thread(cell.clone()),
    };
    let mut player = Player { orders, messages, process, limit, interrupted };
    match player.receive(Duration::ZERO)? {
        Message::Ready => {
            player.stop();
            Ok(Started::Ready(player))
        }
        Message::Done(outcome) => {
            player.is_done();
            Ok(Started::Done(outcome))
        }
        Message::Slice(_) => Err("it told of a slice that nobody wanted".to_string()),
        Message::Failed(why) => Err(why),
    }
}

type Ends = (Orders, Receiver<Message>, Option<Process>);

fn in_thread(cell: Cell) -> Ends {
    let ((orders_in, orders), (messages_in, messages)) = (channel(), channel());
    std::thread::spawn(move || {
        let mut port = Channels { orders, messages: messages_in };
        let last = match measure(&cell, &mut port) {
            Ok(outcome) => Message::Done(Box::new(outcome)),
            Err(e) => Message::Failed(e.to_string()),
        };
        // Whoever does not listen any more does not want it.
        let _ = port.messages.send(last);
    });
    (Orders::Channel(orders_in), messages, None)
}

fn spawn(program: &OsString, arguments: &[OsString], cell: &Cell) -> Said<Ends> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|e| format!("starting {}: {e}", program.display()))?;
    let group = Pid::from_child(&child);
    let mut stdin = child.stdin.take().expect("it is piped");
    let (stdout, mut stderr) =
        (child.stdout.take().expect("it is piped"), child.stderr.take().expect("it is piped"));
    let (messages_in, messages) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).split(b'\n').map_while(std::result::Result::ok) {
            if let Some(message) = protocol::message_in(&String::from_utf8_lossy(&line))
                && messages_in.send(message).is_err()
            {
                return;
            }
        }
    });
    let errors = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stderr.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let text = protocol::text_of(cell).map_err(|e| e.to_string())?;
    // A child that died before it read is told of by its exit status.
    let _ = stdin.write_all((text + "\n").as_bytes());
    let process = Process {
        child,
        group,
        errors: Some(errors),
        has_door: cell.door.is_some(),
        is_done: false,
    };
    Ok((Orders::Pipe(stdin), messages, Some(process)))
}

impl Player<'_> {
    /// The next message. After an interruption it is waited for no longer than `grace`.
    fn receive(&mut self, grace: Duration) -> Said<Message> {
        let started = Instant::now();
        let mut interrupted: Option<Instant> = None;
        loop {
            match self.messages.recv_timeout(LOOK_PERIOD) {
                Ok(message) => return Ok(message),
                Err(RecvTimeoutError::Disconnected) => return Err(self.death()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.interrupted.load(Ordering::Relaxed)
                && interrupted.get_or_insert_with(Instant::now).elapsed() >= grace
            {
                return Err(self.killed("interrupted"));
            }
            if started.elapsed() >= self.limit {
                return Err(self.killed(&format!("stopped after {} s", self.limit.as_secs())));
            }
        }
    }

    fn order(&mut self, order: Order) -> Said<()> {
        match &mut self.orders {
            Orders::Pipe(pipe) => {
                let text = protocol::text_of(&order).map_err(|e| e.to_string())?;
                // A process that died is told of when it is waited for.
                let _ = pipe.write_all((text + "\n").as_bytes());
            }
            Orders::Channel(channel) => drop(channel.send(order)),
        }
        // It finds what it is to do when it wakes.
        self.signal(Signal::CONT);
        Ok(())
    }

    fn signal(&self, signal: Signal) {
        if let Some(process) = &self.process {
            // One that is gone needs no signal.
            let _ = kill_process_group(process.group, signal);
        }
    }

    /// Stops all processes of the group; the time that it took beyond what is free.
    fn stop(&self) -> Duration {
        let Some(process) = &self.process else { return Duration::ZERO };
        let started = Instant::now();
        self.signal(Signal::STOP);
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while started.elapsed() < STOP_MAX {
            match waitid(WaitId::Pid(process.group), options) {
                Ok(None) => std::thread::sleep(STOP_PERIOD),
                _ => break,
            }
        }
        started.elapsed().saturating_sub(STOP_FREE)
    }

    /// Finishes: the outcome, with what is left in the background settled where that is wanted.
    pub(crate) fn end(mut self, settle: bool) -> Said<Outcome> {
        self.order(Order::End { settle })?;
        match self.receive(GRACE)? {
            Message::Done(outcome) => {
                self.is_done();
                Ok(*outcome)
            }
            Message::Failed(why) => Err(why),
            Message::Ready | Message::Slice(_) => Err("it did not end when it should".to_string()),
        }
    }

    fn is_done(&mut self) {
        self.process.iter_mut().for_each(|process| process.is_done = true);
    }

    /// Why the process ended without an outcome.
    fn death(&mut self) -> String {
        let Some(process) = &mut self.process else { return "its thread panicked".to_string() };
        let ended = process.child.wait();
        judge(ended, &process.said(), process.has_door)
    }

    fn killed(&mut self, reason: &str) -> String {
        let Some(process) = &mut self.process else { return reason.to_string() };
        process.kill();
        join(reason, tail(&process.said()))
    }
}

impl Contestant for Player<'_> {
    fn slice(&mut self, seconds: f64) -> Said<SliceReport> {
        self.order(Order::Slice(seconds))?;
        match self.receive(GRACE)? {
            Message::Slice(mut slice) => {
                slice.seconds += self.stop().as_secs_f64();
                Ok(slice)
            }
            Message::Failed(why) => Err(why),
            Message::Ready | Message::Done(_) => Err("it ended before it should".to_string()),
        }
    }
}

impl Process {
    fn kill(&mut self) {
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = self.child.wait();
    }

    /// What it wrote to standard error until it ended.
    fn said(&mut self) -> String {
        self.errors.take().and_then(|errors| errors.join().ok()).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let started = Instant::now();
        while self.is_done && started.elapsed() < GRACE && matches!(self.child.try_wait(), Ok(None))
        {
            std::thread::sleep(STOP_PERIOD);
        }
        self.kill();
    }
}

fn judge(ended: std::io::Result<ExitStatus>, err: &str, has_door: bool) -> String {
    let said = tail(err);
    let status = match ended {
        Ok(status) => status,
        Err(e) => return join(&format!("waiting for it: {e}"), said),
    };
    if let Some(signal) = status.signal() {
        let hint = match (signal, has_door) {
            (9, true) => " (it may have needed more memory than its group has)",
            _ => "",
        };
        return join(&format!("died of signal {signal}{hint}"), said);
    }
    match (status.success(), said.is_empty()) {
        (true, _) => join("printed no outcome", said),
        (false, true) => status.to_string(),
        (false, false) => said.to_string(),
    }
}

fn join(reason: &str, said: &str) -> String {
    if said.is_empty() { reason.to_string() } else { format!("{reason}: {said}") }
}

/// The end of what was said, where the reason usually stands.
fn tail(err: &str) -> &str {
    let err = err.trim();
    let mut from = err.len().saturating_sub(STDERR_BYTES_MAX);
    while !err.is_char_boundary(from) {
        from += 1;
    }
    err[from..].trim_start_matches("silica: ")
}

#[cfg(test)]
mod tests;
