//! Where the reads of a burst spend their time: of all bursts if `CONFIG SET slowlog-stages 1` asks
//! for it, of a sample if the server is observed.

use super::noting::Living;
use crate::burst::Burst;
use crate::service::Service;
use silica::engine::{Engine, GetSink, Result, Stage, StageTimes, Stages};

/// Adds up the stages of a burst's reads.
#[derive(Default)]
pub(super) struct Staged {
    /// What they took, where somebody asks.
    times: Option<StageTimes>,
    /// How long the burst waited for a worker.
    queued_ns: u64,
}

impl Staged {
    /// Begins with a burst.
    pub(super) fn start(service: &Service, burst: &Burst) -> Self {
        // The burst belongs to the sample if it was noted when it was queued.
        let is_on = service.slowlog.shows_stages() || burst.queued_ns > 0;
        let queued_ns = match burst.queued_ns {
            0 => 0,
            queued_ns => service.monotonic_ns().saturating_sub(queued_ns),
        };
        Staged { times: is_on.then(StageTimes::default), queued_ns }
    }

    /// Reads `keys` of `engine`, as one burst.
    pub(super) fn get_many(
        &mut self,
        service: &Service,
        engine: &dyn Engine,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
    ) -> Result<()> {
        let mut living;
        let sink: &mut dyn GetSink = match service.databases.holds_expired() {
            false => sink,
            true => {
                living = Living::new(service, sink);
                &mut living
            }
        };
        let Some(times) = &mut self.times else { return engine.get_many(keys, sink) };
        let mut stages = Stages::start(service.clock(), Stage::Other);
        let result = engine.get_many_staged(keys, sink, &mut stages);
        times.add(&stages.stop());
        result
    }

    /// Adds the stages to those of the sample, if the server is observed.
    pub(super) fn sum(&self, service: &Service) {
        if let Some(times) = &self.times
            && service.stage_sums.is_observed()
            && times.iter().next().is_some()
        {
            service.stage_sums.add(times, self.queued_ns);
        }
    }

    /// The stages of reads and what each took, in words, where somebody asks and there were some.
    pub(super) fn text(&self) -> Option<String> {
        let queued = (Stage::Queue, self.queued_ns);
        let mut times: Vec<(Stage, u64)> =
            self.times?.iter().map(|(stage, time)| (stage, time.nanoseconds)).collect();
        match times.first_mut() {
            Some((Stage::Queue, nanoseconds)) => *nanoseconds += self.queued_ns,
            _ if self.queued_ns > 0 => times.insert(0, queued),
            _ => {}
        }
        let shown = |(stage, nanoseconds): &(Stage, u64)| {
            format!("{} {:.1} us", stage.name(), *nanoseconds as f64 / 1e3)
        };
        let shown: Vec<String> = times.iter().map(shown).collect();
        (!shown.is_empty()).then(|| format!("... (stages: {})", shown.join(", ")))
    }
}
