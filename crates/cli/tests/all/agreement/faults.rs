//! What befalls members.

use super::group::Group;
use super::proxy::Weather;
use silica_base::Prng;
use std::time::Duration;

/// What befalls a member for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is killed, and started again.
    Killed,
    /// All members are killed at once, and started again.
    AllKilled,
    /// It stands still.
    Stopped,
    /// Nothing reaches it, and nothing that it sends arrives.
    CutOff,
    /// What it sends does not arrive.
    Unheard,
    /// Its connections are cut.
    Interrupted,
    /// All that it sends and gets is late.
    Late,
}

/// All of them.
pub(crate) const FAULTS: [Fault; 7] = [
    Fault::Killed,
    Fault::Stopped,
    Fault::CutOff,
    Fault::Unheard,
    Fault::Interrupted,
    Fault::Late,
    Fault::AllKilled,
];

impl Fault {
    /// Lets it befall `number` for about `last`.
    pub(crate) fn befall(self, group: &mut Group, number: usize, last: Duration, prng: &mut Prng) {
        let pause = || std::thread::sleep(last);
        let others: Vec<String> = (0..group.members.len())
            .filter(|other| *other != number)
            .map(|other| group.members[other].address.clone())
            .collect();
        let own = group.members[number].address.clone();
        let both = |weather: Weather| {
            others.iter().for_each(|other| {
                group.links.set(&own, other, weather);
                group.links.set(other, &own, weather);
            });
        };
        match self {
            Fault::Stopped => {
                group.signal(number, "-STOP");
                pause();
                group.signal(number, "-CONT");
            }
            Fault::CutOff => {
                both(Weather::Lost);
                pause();
            }
            Fault::Unheard => {
                others.iter().for_each(|other| group.links.set(&own, other, Weather::Lost));
                pause();
            }
            Fault::Interrupted => {
                both(Weather::Cut);
                pause();
            }
            Fault::Late => {
                both(Weather::Slow(Duration::from_millis(20 + prng.below(60))));
                pause();
            }
            Fault::Killed => {
                group.kill(number);
                pause();
                group.spawn(number);
            }
            Fault::AllKilled => {
                let count = group.members.len();
                (0..count).for_each(|one| group.kill(one));
                (0..count).for_each(|one| group.spawn(one));
            }
        }
        group.links.heal();
    }
}
