//! How loops wait, and who reads and writes partitions.

use clap::ValueEnum;
use silica_server::{EventLoopKind, Mode};

#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
pub(crate) enum EventLoopArg {
    /// By io_uring where the kernel has all that it takes (Linux 6.1 has), else by epoll.
    Auto,
    /// By epoll and a system call for each read and write.
    Epoll,
    /// By io_uring, or an error where that is refused.
    #[value(name = "io_uring")]
    IoUring,
}

impl From<EventLoopArg> for EventLoopKind {
    fn from(arg: EventLoopArg) -> Self {
        match arg {
            EventLoopArg::Auto => EventLoopKind::Auto,
            EventLoopArg::Epoll => EventLoopKind::Epoll,
            EventLoopArg::IoUring => EventLoopKind::IoUring,
        }
    }
}

#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
pub(crate) enum ModeArg {
    /// One event loop each, which alone reads and writes them; others hand their requests to it.
    Erew,
    /// One event loop each writes them, and all read.
    Crew,
    /// All; writers of one take turns.
    Crcw,
}

impl From<ModeArg> for Mode {
    fn from(arg: ModeArg) -> Self {
        match arg {
            ModeArg::Erew => Mode::Erew,
            ModeArg::Crew => Mode::Crew,
            ModeArg::Crcw => Mode::Crcw,
        }
    }
}
