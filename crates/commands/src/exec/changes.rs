//! Bursts of updates: read-modify-writes of many keys, as far as their answers have room.

use super::{Wave, WaveKind};
use crate::budget::{Claim, SMALL_BYTES};
use crate::burst::Args;
use crate::effect::Effect;
use crate::engine_calls::{atomic, error_text};
use crate::owners::Owners;
use crate::table::{Answer, BurstLimits, Judged, Modify};
use silica::engine::{Durability, Engine, Sharded, Update};

/// Updates that are handed to the owners of their keys at first; while their answers hold fewer
/// bytes of values than these, twice as many the next time.
const UPDATES_FIRST: usize = 32;
const UPDATES_BYTES: usize = 64 << 10;

/// A key of a burst of updates.
pub struct Change<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The arguments of its request.
    pub args: Args<'a>,
    /// The command, which decides what becomes of the key.
    pub modify: &'static Modify,
    /// Its place among the keys of its request.
    pub nth: usize,
    /// The first key of its request.
    pub(super) request: usize,
}

/// Owners of partitions that change keys of theirs for others.
pub trait OwnedUpdates: Owners {
    /// Makes `changes` in the database in place `place`, each by the owner of its key; the answers,
    /// and what was done. Does nothing and returns `None` if the calling thread is no owner.
    fn update(
        &self,
        place: usize,
        sharded: &dyn Sharded,
        changes: &[Change<'_>],
        burst_limits: &BurstLimits,
    ) -> Option<Vec<Judged>>;
}

/// The answers of updates, and what these have done to their keys.
#[derive(Default)]
pub(super) struct Answers {
    pub(super) list: Vec<Answer>,
    pub(super) effects: Vec<Effect>,
}

/// Updates the keys of `changes` as far as their answers have room; the answers of those requests
/// that are done, and why the others are not.
pub(super) fn change(
    engine: &dyn Engine,
    changes: &[Change<'_>],
    burst_limits: &BurstLimits,
    claim: &Claim,
) -> (Answers, Option<String>) {
    let mut answers = vec![Answer::Null; changes.len()];
    let mut effects = vec![Effect::default(); changes.len()];
    let keys: Vec<&[u8]> = changes.iter().map(|change| change.key).collect();
    let (mut done, mut held_bytes, mut failed) = (0, 0, None);
    let mut of_request = 0;
    while has_room(changes, done, held_bytes, burst_limits) {
        let claimed = claim.bytes();
        let result = atomic(engine).and_then(|atomic| {
            atomic.update_many(&keys[done..], Durability::Buffered, &mut |index, current| {
                if index == 0 {
                    // The engine begins, or begins anew.
                    claim.set(claimed);
                }
                let change = &changes[done + index];
                let (mut update, (mut answer, mut effect)) =
                    change.modify.judge(change.args.at_key(change.nth), current, burst_limits);
                of_request = answer.held_bytes() + if change.nth == 0 { 0 } else { of_request };
                let many = of_request.max(SMALL_BYTES) - SMALL_BYTES;
                let copies = 2 * many.min(answer.held_bytes());
                let refused = burst_limits.refuse_reply(of_request);
                if let Some(text) = refused.or_else(|| claim.grow(copies).err()) {
                    (update, answer) = (Update::Keep, Answer::Error(text.into()));
                    effect = Effect::default();
                }
                answers[done + index] = answer;
                effects[done + index] = effect;
                update
            })
        });
        match result {
            Ok(many) => {
                held_bytes += held_bytes_of(&answers[done..done + many]);
                done += many;
            }
            Err(error) => {
                failed = Some(error_text(&error));
                break;
            }
        }
    }
    let finished = changes.get(done).map_or(done, |change| change.request);
    answers.truncate(finished);
    effects.truncate(finished);
    (Answers { list: answers, effects }, failed)
}

/// Updates the keys of `changes` through the threads that own them; `None` if the calling thread
/// is no owner.
pub(super) fn change_by_owners(
    owners: &dyn OwnedUpdates,
    (place, wave): (usize, &Wave<'_, '_>),
    changes: &[Change<'_>],
    burst_limits: &BurstLimits,
) -> Option<Answers> {
    // Of several keys whose values are answered, nobody but the engine knows how many bytes
    // they are together.
    let adds_up = |change: &Change<'_>| change.nth > 0 && change.args.memcached().is_some();
    if wave.kind != WaveKind::Burst || changes.iter().any(adds_up) {
        return None;
    }
    let sharded = wave.engine.as_sharded()?;
    let mut answers = Answers::default();
    let (mut held_bytes, mut many) = (0, UPDATES_FIRST);
    while has_room(changes, answers.list.len(), held_bytes, burst_limits) {
        let rest = &changes[answers.list.len()..];
        let some = owners.update(place, sharded, &rest[..many.min(rest.len())], burst_limits)?;
        let (some, effects): (Vec<Answer>, Vec<Effect>) = some.into_iter().unzip();
        let bytes = held_bytes_of(&some);
        many = if bytes < UPDATES_BYTES { 2 * many } else { UPDATES_FIRST };
        held_bytes += bytes;
        answers.list.extend(some);
        answers.effects.extend(effects);
    }
    Some(answers)
}

/// True where more of `changes` may be made after those that are done. A request that has begun is
/// finished.
fn has_room(
    changes: &[Change<'_>],
    done: usize,
    held_bytes: usize,
    burst_limits: &BurstLimits,
) -> bool {
    changes.get(done).is_some_and(|next| held_bytes < burst_limits.room || next.nth > 0)
}

fn held_bytes_of(answers: &[Answer]) -> usize {
    answers.iter().map(Answer::held_bytes).sum()
}
