//! Copies of whole databases, by SQLite's backup.

use super::{Result, Sql, error_of, sys};
use std::ptr::NonNull;

impl Sql {
    /// Makes `to` what this database is: what it held is gone. Either of the two may be a Silica
    /// database, a file of SQLite's, or in memory. The copy is one transaction of `to`, and what
    /// this database is at one moment.
    ///
    /// # Errors
    /// `SQLITE_BUSY` if `to` is in use, and others in SQLite's words; `to` is as it was then.
    pub fn copy_into(&self, to: &mut Sql) -> Result<()> {
        const ALL: i32 = -1;
        let (from, to) = (self.db.as_ptr(), to.db.as_ptr());
        // SAFETY: two open connections, which nobody else uses meanwhile, and static names.
        let backup = unsafe { sys::backup_init(to, c"main".as_ptr(), from, c"main".as_ptr()) };
        let Some(backup) = NonNull::new(backup) else { return Err(error_of(to, 1)) };
        // SAFETY: what was just begun, ended once.
        let (stepped, finished) = unsafe {
            let stepped = sys::backup_step(backup.as_ptr(), ALL);
            (stepped, sys::backup_finish(backup.as_ptr()))
        };
        match (stepped, finished) {
            (sys::DONE, sys::OK) => Ok(()),
            (sys::DONE | sys::OK, code) | (code, _) => Err(error_of(to, code)),
        }
    }
}
