//! Databases that several servers agree about, as far as commands need them.

/// What a command needs of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// It only reads.
    Read,
    /// It may write.
    Write,
}

/// A group of servers that agree about database 0. Writes reach it through the database's engine.
pub trait Agreement: Send + Sync + std::fmt::Debug {
    /// Why a command with the first key `key` cannot run here now: the text of an error such as
    /// `MOVED SLOT ADDRESS`. Nothing of it has taken effect then. Does not wait.
    fn refuse(&self, need: Need, key: Option<&[u8]>) -> Option<String>;

    /// The members: the address of each, that of its clients, and its role.
    fn members(&self) -> Vec<(String, String, String)>;

    /// Takes the member at `address` in. Waits until it has what the others have.
    ///
    /// # Errors
    /// Fails in words, for instance if it has somebody else's data.
    fn add(&self, address: &str) -> Result<(), String>;

    /// Lets the member at `address` go.
    ///
    /// # Errors
    /// Fails in words, for instance if it is the last one.
    fn remove(&self, address: &str) -> Result<(), String>;

    /// Lines of `name:value` for INFO.
    fn info(&self) -> String;
}
