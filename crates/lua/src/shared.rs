//! What an interpreter shares with the functions in it.

use crate::host::{Dialect, Stop};
use crate::library::LibraryFunction;
use mlua::{Function, Lua};
use std::cell::{Cell, RefCell};

/// Asked now and then while a script runs, with the bytes that its interpreter holds: why the
/// script is to end, if it is.
pub type Poll = dyn Fn(usize) -> Option<Stop>;

/// What an interpreter shares with the functions in it.
pub(crate) struct Shared {
    pub(crate) dialect: Cell<Dialect>,
    /// The last reply of the host.
    pub(crate) reply: RefCell<Vec<u8>>,
    /// State of the generator of random numbers.
    pub(crate) random: Cell<u64>,
    /// Where the last error happened: source and line.
    pub(crate) error_place: RefCell<Option<(String, usize)>>,
    /// Functions that the library being loaded registers.
    pub(crate) registered: RefCell<Option<Vec<(LibraryFunction, Function)>>>,
    pub(crate) poll: Box<Poll>,
}

impl Shared {
    pub(crate) fn poll(&self, lua: &Lua) -> Option<Stop> {
        (self.poll)(lua.used_memory())
    }
}
