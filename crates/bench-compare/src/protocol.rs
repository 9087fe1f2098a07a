//! What the runner and a cell tell each other: a line of JSON each over the pipes of a process, or
//! a message to a thread of this one.

use crate::cell::Outcome;
use serde::{Deserialize, Serialize};
use silica::{Error, ErrorKind, Result};
use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, Sender};

/// What the runner wants of a cell that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Go on for so many seconds, and stand still again.
    Slice(f64),
    /// Finish, and tell the outcome.
    End {
        /// Wait for background work first, as far as it belongs to the outcome.
        settle: bool,
    },
}

/// What a slice did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SliceReport {
    /// Operations.
    pub(crate) operations: f64,
    /// Time that they took.
    pub(crate) seconds: f64,
    /// True where nothing is left to do.
    pub(crate) complete: bool,
}

/// What a cell tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Message {
    /// The store is open and warm, and its threads stand still.
    Ready,
    /// The end of a slice; the threads stand still.
    Slice(SliceReport),
    /// The end. Cells without slices tell nothing else.
    Done(Box<Outcome>),
    /// The end in this process, with the reason; other processes say it on standard error.
    Failed(String),
}

/// The cell's side.
pub(crate) trait Port {
    /// Tells the runner.
    fn tell(&mut self, message: Message) -> Result<()>;
    /// Waits for what the runner wants next.
    fn hear(&mut self) -> Result<Order>;
}

/// Before each message, so that what libraries of other people print is told apart.
const MARK: &str = "@silica-cell ";

/// Pipes to another process.
pub(crate) struct Pipes<R, W> {
    input: R,
    output: W,
}

impl<R: BufRead, W: Write> Pipes<R, W> {
    pub(crate) fn new(input: R, output: W) -> Self {
        Pipes { input, output }
    }

    /// The next line of the input; an error at its end.
    pub(crate) fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let failed = |e| Error::io("reading what is wanted from standard input", e);
        match self.input.read_line(&mut line).map_err(failed)? {
            0 => Err(gone()),
            _ => Ok(line),
        }
    }
}

impl<R: BufRead, W: Write> Port for Pipes<R, W> {
    fn tell(&mut self, message: Message) -> Result<()> {
        let text = text_of(&message)?;
        // Something else may stand on the line already.
        writeln!(self.output, "\n{MARK}{text}")
            .and_then(|()| self.output.flush())
            .map_err(|e| Error::io("telling what was measured", e))
    }

    fn hear(&mut self) -> Result<Order> {
        let line = self.line()?;
        serde_json::from_str(&line).map_err(|e| {
            Error::new(ErrorKind::Config, format!("'{}' is no order: {e}", line.trim()))
        })
    }
}

/// Channels to another thread.
pub(crate) struct Channels {
    pub(crate) orders: Receiver<Order>,
    pub(crate) messages: Sender<Message>,
}

impl Port for Channels {
    fn tell(&mut self, message: Message) -> Result<()> {
        self.messages.send(message).map_err(|_| gone())
    }

    fn hear(&mut self) -> Result<Order> {
        self.orders.recv().map_err(|_| gone())
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Closed, "whoever wanted the measurement is gone")
}

/// As one line.
pub(crate) fn text_of(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|e| Error::new(ErrorKind::Unsupported, format!("a message as text: {e}")))
}

/// The message in a line of output, where there is one.
pub(crate) fn message_in(line: &str) -> Option<Message> {
    serde_json::from_str(line.strip_prefix(MARK)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_through_noise() {
        let mut output = b"noise without an end".to_vec();
        let mut pipes = Pipes::new(&b"{\"Slice\":0.5}\n"[..], &mut output);
        assert_eq!(pipes.hear().unwrap(), Order::Slice(0.5));
        assert!(pipes.hear().unwrap_err().to_string().contains("gone"));
        let report = SliceReport { operations: 7.0, seconds: 0.1, complete: false };
        pipes.tell(Message::Slice(report)).unwrap();
        pipes.tell(Message::Done(Box::default())).unwrap();
        let text = String::from_utf8(output).unwrap();
        let messages: Vec<_> = text.lines().filter_map(message_in).collect();
        assert_eq!(messages, [Message::Slice(report), Message::Done(Box::default())]);
    }
}
