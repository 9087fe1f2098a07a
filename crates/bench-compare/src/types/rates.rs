//! How fast each command is.

use super::loads::{Command, Shape};
use super::pair::{Pair, Took};
use super::report::RateRow;
use super::{Amounts, Course};
use crate::peers::Kept;
use silica::Result;

/// Of the elements of a round, so many where every write waits for the device.
const SYNCED_SHARE: u64 = 10;

/// What was measured in a round.
struct Turn {
    requests: u64,
    ours: Took,
    redis: Took,
}

/// Measures every command, on one object of each type and on many.
pub(super) fn measure(
    course: &Course<'_>,
    mut pair: Pair,
    kept: Kept,
    amounts: &Amounts,
) -> Result<Vec<RateRow>> {
    let elements = match kept {
        Kept::Memory | Kept::Buffered => amounts.elements,
        Kept::Synced => (amounts.elements / SYNCED_SHARE).max(100),
    };
    let mut rows = Vec::new();
    for shape in Shape::ALL {
        let mut turns: Vec<Vec<Turn>> = Command::ALL.iter().map(|_| Vec::new()).collect();
        for round in 0..amounts.rounds as u64 {
            if !course.goes_on() {
                break;
            }
            for (nth, command) in Command::ALL.into_iter().enumerate() {
                let trains = command.trains(shape, elements, round);
                let ours_first = (round + nth as u64).is_multiple_of(2);
                let first = ours_first.then(|| pair.ours.run(&trains)).transpose()?;
                let redis = pair.redis.run(&trains)?;
                let ours = match first {
                    Some(ours) => ours,
                    None => pair.ours.run(&trains)?,
                };
                let requests = command.requests(elements);
                turns[nth].push(Turn { requests, ours, redis });
            }
            pair.ours.ask(&[b"FLUSHALL"])?;
            pair.redis.ask(&[b"FLUSHALL"])?;
        }
        for (command, turns) in Command::ALL.into_iter().zip(&turns) {
            rows.extend(row(kept, shape, command, turns));
        }
    }
    Ok(rows)
}

fn row(kept: Kept, shape: Shape, command: Command, turns: &[Turn]) -> Option<RateRow> {
    let of = |figure: &dyn Fn(&Turn) -> f64| median(turns.iter().map(figure).collect());
    let rate = |turn: &Turn, took: Took| turn.requests as f64 / took.seconds;
    let cpu = |turn: &Turn, took: Took| 1e6 * took.cpu_seconds / turn.requests as f64;
    let ratios: Vec<f64> =
        turns.iter().map(|turn| turn.redis.seconds / turn.ours.seconds).collect();
    let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let high = ratios.iter().copied().fold(0.0, f64::max);
    Some(RateRow {
        setting: kept.name().to_string(),
        shape: shape.name().to_string(),
        command: command.name().to_string(),
        rounds: turns.len(),
        ours: of(&|turn| rate(turn, turn.ours))?,
        redis: of(&|turn| rate(turn, turn.redis))?,
        ratio: median(ratios)?,
        low,
        high,
        ours_cpu_us: of(&|turn| cpu(turn, turn.ours))?,
        redis_cpu_us: of(&|turn| cpu(turn, turn.redis))?,
    })
}

/// The median of `values`, which are changed in their order.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len().checked_sub(1)? / 2;
    Some(f64::midpoint(values[middle], values[values.len() / 2]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_medians_of_rounds() {
        let took = |seconds| Took { seconds, cpu_seconds: seconds / 2.0 };
        let turn = |ours, redis| Turn { requests: 100, ours: took(ours), redis: took(redis) };
        let turns = [turn(1.0, 1.0), turn(2.0, 6.0), turn(4.0, 8.0)];
        let row = row(Kept::Memory, Shape::One, Command::Sadd, &turns).unwrap();
        assert_eq!((row.ours, row.redis), (50.0, 100.0 / 6.0));
        assert_eq!((row.ratio, row.low, row.high), (2.0, 1.0, 3.0));
        assert_eq!((row.ours_cpu_us, row.redis_cpu_us), (1e4, 3e4));
        assert_eq!(median(Vec::new()), None);
    }
}
