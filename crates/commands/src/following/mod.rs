//! The side that follows: what a replica does with what its primary sends.
//!
//! [`Follower::load`] takes a primary's data as a whole, [`Follower::feed`] and [`Follower::run`]
//! its stream. Sockets are somebody else's (`silica-replica`).
//!
//! The stream is not idempotent (INCR, LPUSH), and a replica may die at any moment. So each
//! database keeps a mark ([`crate::marks`]) among its own entries: which position of which history
//! its data has.
//!
//! Invariants:
//!
//! 1. Requests of the stream are applied in groups, one group after the other, in their order. A
//!    transaction is never divided. A group's writes to one database are one batch, and the mark of
//!    the position behind the group is an entry of that batch. So a database's mark is never ahead
//!    of its data, nor behind it.
//! 2. A mark also says up to where each database was written then. After the death of the process
//!    the newest mark of all databases is the position, as everything before it was committed
//!    before. If a database's own mark is older than the newest one says (a power cut took the end
//!    of its log), there is no position, and all data is fetched anew.
//! 3. What cannot be one batch (FLUSHALL, SWAPDB, COPY to another database, and transactions with
//!    such) runs between two marks in all databases: first one that says that the position is not
//!    sure, last one that says it. Whoever finds the first fetches all data anew.
//! 4. A group, its mark and its bytes in the backlog become visible while the thread is in its turn
//!    of the gate: whoever is alone with the databases sees data and offset of one moment.
//! 5. Whoever stops being a replica removes the marks before it takes writes of its own.
//! 6. Data of a full synchronisation goes into a generation of the databases that nobody sees. When
//!    it is whole, it, its mark, the history and the offset take their places while nobody else
//!    uses the databases. Databases in memory have no second generation: they are emptied first.

mod apply;
mod blocks;
mod load;
mod times;

pub use self::apply::Follower;
pub use self::blocks::Summary;
pub use self::load::{Ending, Loaded, More};

use crate::marks::{self, Mark, remove_marks};
use crate::replication::Role;
use crate::service::Service;

/// Brings the history in line with what the databases hold: a replica goes on where its data
/// stands, and a primary forgets that it was one. Called once, when the settings are known and
/// before anybody is served.
///
/// # Errors
/// Those of the databases.
pub fn settle_history(service: &Service) -> silica::engine::Result<()> {
    if let Some(cluster) = &service.cluster {
        cluster.begin_role(service);
    }
    let (role, _) = service.replication.role();
    let databases = &service.databases;
    let parting = service.take_parting();
    let now_ms = service.monotonic_ms();
    if role == Role::Primary {
        // Databases are opened when somebody asks for them; only what was a replica has marks.
        if databases.owners.is_none() && marks::is_marked(databases.engine(0)?)? {
            remove_marks(&databases.held()?)?;
        }
        if let Some(parting) = parting {
            log::info!("replicas may go on at offset {}", parting.offset);
            service.replication.go_on_from(parting, now_ms);
        }
        return Ok(());
    }
    let mark = marks::read(&databases.held()?)?;
    let at = mark.as_ref().map(|Mark { id, offset, db, .. }| (id, *offset, Some(*db)));
    let left = parting.as_ref().map(|left| (&left.history.id, left.offset, left.selected));
    // A primary has no mark; it follows another one from now on.
    let left = left.filter(|(id, offset, _)| at.is_none_or(|at| (at.0, at.1) == (*id, *offset)));
    if let Some((id, offset, selected)) = at.or(left) {
        log::info!("the data is at offset {offset} of {id}");
        service.replication.set_position(id, offset, selected);
    }
    let goes_on = left.is_some();
    if let Some(parting) = parting.filter(|_| goes_on) {
        // Those who follow this server go on, too.
        service.replication.go_on_from(parting, now_ms);
    }
    Ok(())
}
