//! What calls took that are too quick to be timed one by one: one of [`SAMPLE_EVERY`] is timed by
//! itself and stands for those behind it, which are timed together so that none that waited is
//! missed.

/// One of this many quick calls is timed by itself.
pub(crate) const SAMPLE_EVERY: usize = 64;
/// Calls that were timed together and took longer than so many calls do, by this in nanoseconds,
/// hide one that waited.
const STALL: u64 = 20_000;

/// Bursts that were timed together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lap {
    pub(crate) first: usize,
    pub(crate) bursts: usize,
    pub(crate) nanos: u64,
}

impl Lap {
    /// What the one call among them that waited took, in nanoseconds, if the others took `usual`
    /// each; `None` where none waited.
    fn stalled(self, usual: u64) -> Option<u64> {
        let others = usual.saturating_mul(self.bursts as u64 - 1);
        let longest = self.nanos.saturating_sub(others);
        (longest > usual.saturating_add(STALL)).then_some(longest)
    }
}

/// What half of the calls that were timed by themselves took at most, in nanoseconds.
///
/// Half of them, and not their mean: a few that waited must not hide others that did.
fn usual(laps: &[Lap], scratch: &mut Vec<u64>) -> u64 {
    scratch.clear();
    scratch.extend(laps.iter().filter(|lap| lap.bursts == 1).map(|lap| lap.nanos));
    if scratch.is_empty() {
        return 0;
    }
    let middle = scratch.len() / 2;
    *scratch.select_nth_unstable(middle).1
}

/// Tells `note` what `laps` say of their operations: the lap, nanoseconds, and the number of
/// operations that took so long. `operations` says how many a lap has.
pub(crate) fn count(
    laps: &[Lap],
    scratch: &mut Vec<u64>,
    operations: impl Fn(&Lap) -> u64,
    mut note: impl FnMut(&Lap, u64, u64),
) {
    let usual = usual(laps, scratch);
    let mut stands_for = 0;
    for lap in laps.iter().rev() {
        let of_lap = operations(lap);
        if lap.bursts == 1 {
            note(lap, lap.nanos, of_lap + std::mem::take(&mut stands_for));
        } else if let Some(nanos) = lap.stalled(usual) {
            stands_for = of_lap - 1;
            note(lap, nanos, 1);
        } else {
            stands_for = of_lap;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows of calls of `nanos` each, `waits` of which take so much longer: (number, more).
    fn noted(nanos: u64, calls: usize, waits: &[(usize, u64)]) -> Vec<(u64, u64)> {
        let took = |call: usize| {
            nanos + waits.iter().filter(|(at, _)| *at == call).map(|(_, more)| more).sum::<u64>()
        };
        let mut laps = Vec::new();
        let mut first = 0;
        while first < calls {
            let bursts = if first % SAMPLE_EVERY == 0 { 1 } else { SAMPLE_EVERY - 1 };
            let bursts = bursts.min(calls - first);
            laps.push(Lap { first, bursts, nanos: (first..first + bursts).map(took).sum() });
            first += bursts;
        }
        let mut noted = Vec::new();
        count(
            &laps,
            &mut Vec::new(),
            |lap| lap.bursts as u64,
            |_, nanos, count| {
                noted.push((nanos, count));
            },
        );
        noted
    }

    #[test]
    fn many_quick_calls_together_are_not_one_that_waited() {
        // 63 calls of 320 ns take more than a stall does, and none of them waited.
        for nanos in [1, 100, 317, 318, 320, 400, 999] {
            let noted = noted(nanos, 64 * 100, &[]);
            assert_eq!(noted.iter().map(|(_, count)| count).sum::<u64>(), 6400);
            assert!(noted.iter().all(|(took, _)| *took == nanos), "{nanos}: {noted:?}");
        }
    }

    #[test]
    fn a_call_that_waited_is_one_call_whatever_the_others_take() {
        for nanos in [1, 100, 320, 999] {
            for at in [0, 1, 63, 64, 100, 6399] {
                let noted = noted(nanos, 64 * 100, &[(at, 50_000)]);
                assert_eq!(noted.iter().map(|(_, count)| count).sum::<u64>(), 6400);
                let long: Vec<_> = noted.iter().filter(|(took, _)| *took > nanos).collect();
                let stands_for = if at % SAMPLE_EVERY == 0 { 64 } else { 1 };
                assert_eq!(long, [&(nanos + 50_000, stands_for)], "{nanos}, {at}");
            }
        }
    }

    #[test]
    fn calls_that_wait_again_and_again_do_not_hide_each_other() {
        let waits: Vec<_> = (0..100).map(|lap| (lap * 64 + 5, 30_000)).collect();
        let noted = noted(300, 64 * 100, &waits);
        assert_eq!(noted.iter().filter(|(took, _)| *took == 30_300).count(), 100);
    }
}
