//! The end of bursts: what they have written is synced, then they are timed and told of.
//!
//! A burst whose writes must survive a power cut has run when its writes are in the engine, and
//! ends when they are synced: until then none of its replies may leave. Bursts that wait at the
//! same time share one sync of each database (group commit).

use super::count_failed;
use super::staged::Staged;
use super::timer::BurstTimer;
use crate::burst::Burst;
use crate::engine_calls::error_text;
use crate::service::Service;

/// What is left to do for a burst whose requests have run: see [`commit`].
#[must_use]
pub struct Uncommitted {
    pub(super) timer: BurstTimer,
    pub(super) staged: Staged,
    /// Requests that have run.
    pub(super) requests: usize,
    /// Places of databases that must be synced before its replies leave, a bit each.
    pub(super) dirty: u32,
}

impl Uncommitted {
    /// True if what the burst wrote must be synced before its replies leave.
    pub(super) fn must_sync(&self) -> bool {
        self.dirty != 0
    }

    /// Ends the burst; `failed` says of each place whose sync failed why.
    fn end(self, service: &Service, burst: &mut Burst, failed: &[(usize, String)]) {
        let of_this = failed.iter().find(|(place, _)| self.dirty >> place & 1 == 1);
        for (input, output) in burst.inputs.iter().zip(&mut burst.outputs) {
            if let Some((_, text)) = of_this {
                output.withdraw(input, text);
            }
            output.acknowledgements.clear();
            count_failed(service, input, output);
        }
        let Uncommitted { timer, staged, requests, .. } = self;
        staged.sum(service);
        // Slow requests tell their stages only to those who asked for it.
        let text = || staged.text().filter(|_| service.slowlog.shows_stages());
        timer.stop(service, burst, requests, text);
        burst.outputs.iter_mut().for_each(|output| output.begun = output.next);
    }
}

/// Syncs what `bursts` have written, each database once, and ends them: their replies may leave.
pub fn commit<'b>(
    service: &Service,
    bursts: impl IntoIterator<Item = (&'b mut Burst, Uncommitted)>,
) {
    let bursts: Vec<_> = bursts.into_iter().collect();
    let dirty = bursts.iter().fold(0, |all, (_, uncommitted)| all | uncommitted.dirty);
    let failed = sync(service, dirty);
    for (burst, uncommitted) in bursts {
        uncommitted.end(service, burst, &failed);
    }
}

/// Syncs the databases in the places of `dirty`; the places where that failed, with the reason.
fn sync(service: &Service, dirty: u32) -> Vec<(usize, String)> {
    let mut failed = Vec::new();
    for place in (0..u32::BITS as usize).filter(|place| dirty >> place & 1 == 1) {
        let synced = service.databases.at_place(place).map_or(Ok(()), |engine| engine.sync());
        if let Err(error) = synced {
            log::error!("sync of the database in place {place}: {error}");
            failed.push((place, error_text(&error)));
        }
    }
    failed
}
