//! What a script may ask for beyond computing.

/// Which of Redis's dialects replies are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// RESP2: no types beside strings, numbers, errors and arrays.
    #[default]
    Resp2,
    /// RESP3.
    Resp3,
}

/// How important a line of the log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// For who looks for a fault.
    Debug,
    /// Details.
    Verbose,
    /// What happens now and then.
    Notice,
    /// What somebody should look at.
    Warning,
}

/// Why a script ends before it has finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// Somebody asked for it.
    Killed,
    /// It took longer than it may here. Nothing is wrong with it.
    Preempted,
    /// The host cannot go on: this error is its answer.
    Failed(String),
}

/// Does what scripts ask for.
pub trait Host {
    /// Runs the command `args` and appends its reply in `dialect` to `reply`. An error is a reply,
    /// too.
    fn call(&mut self, args: &[&[u8]], dialect: Dialect, reply: &mut Vec<u8>);

    /// Writes a line to the log.
    fn log(&mut self, level: LogLevel, text: &[u8]);

    /// Whether the script's user may run the command `args`; `None` if there is no such command.
    fn permits(&mut self, args: &[&[u8]]) -> Option<bool>;
}
