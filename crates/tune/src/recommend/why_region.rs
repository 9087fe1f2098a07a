//! What `why` adds for engines in a region of mapped bytes: what the region survives, bytes that
//! persistent memory writes and reads inside for each operation, and when to take which engine.

use super::engines::{Media, Settings, model_of};
use super::prediction::Prediction;
use super::search::{Question, predict};
use super::why::{Figure, Measured};
use super::work::Work;
use crate::Mix;
use silica_base::Result;
use silica_engine::OptionValues;

/// The metric of the region's class.
const CLASS: &str = "durability_class";
/// A saving of bytes that is worth words.
const WORTH: f64 = 0.9;

impl Media {
    /// Bytes written for a write of the mix, deletes as overwrites; `None` without writes.
    pub fn written_by(&self, mix: &Mix) -> Option<f64> {
        let others = mix.overwrites + mix.modifies + mix.deletes;
        let all = mix.inserts + others;
        (all > 0.0).then(|| (mix.inserts * self.insert + others * self.overwrite) / all)
    }

    /// Bytes read by a get of the mix; `None` without gets.
    pub fn read_by(&self, mix: &Mix) -> Option<f64> {
        let all = mix.get_hits + mix.get_misses;
        (all > 0.0).then(|| (mix.get_hits * self.hit + mix.get_misses * self.miss) / all)
    }

    /// True if the engine's bytes are on such a medium.
    pub fn is_there(&self) -> bool {
        self.insert > 0.0
    }
}

/// Figures of the medium. They are measured if the region counts what its medium does, as the
/// simulated one does; processors tell programs nothing of it.
pub(super) fn figures(
    work: &Work<'_>,
    prediction: &Prediction,
    measured: &Measured,
) -> Vec<Figure> {
    let media = &prediction.cost.media;
    if !media.is_there() {
        return Vec::new();
    }
    // A region that does not count says 0.
    let get = |name: &str| measured.get(name).copied().filter(|value| *value > 0.0);
    let share = |bytes: &str, of: f64| get(bytes).filter(|_| of > 0.0).map(|bytes| bytes / of);
    let writes = get("puts").unwrap_or(0.0) + get("deletes").unwrap_or(0.0);
    let mix = &work.mix;
    let written = media.written_by(mix).map(|predicted| Figure {
        name: "media bytes of a write".into(),
        predicted,
        measured: share("media_bytes_written", writes),
    });
    // Writes read, too, so only a store that was but read tells what a get reads.
    let read = media.read_by(mix).map(|predicted| Figure {
        name: "media bytes of a get".into(),
        predicted,
        measured: share("media_bytes_read", get("gets").unwrap_or(0.0)).filter(|_| writes == 0.0),
    });
    written.into_iter().chain(read).collect()
}

/// What there is to know of an engine in a region, in words.
///
/// # Errors
/// Those of a prediction.
pub(super) fn advice(
    question: &Question<'_>,
    work: &Work<'_>,
    engine: &str,
    options: &OptionValues,
    prediction: &Prediction,
    measured: &Measured,
) -> Result<Vec<String>> {
    let media = &prediction.cost.media;
    if !media.is_there() {
        return Ok(Vec::new());
    }
    let class = measured.get(CLASS).copied();
    let mut advice: Vec<String> = class.map(|class| survives(class).into()).into_iter().collect();
    let now = media.written_by(&work.mix);
    let has_order = work.mix.scans > 0.0;
    if engine == "sptree" {
        let mut with = options.clone();
        with.set("buffers", 100);
        let other = predict(question, engine, &with)?;
        if let (Some(now), Some(then)) = (now, other.cost.media.written_by(&work.mix))
            && then < now * WORTH
        {
            let more = other.cost.memory_bytes_min - prediction.cost.memory_bytes_min;
            advice.push(format!(
                "buffers=100 would have the medium write {then:.0} bytes a write instead of \
                 {now:.0}, for {:.1} MiB of memory and a log that an opening after a crash \
                 replays; worth it where the medium's writes are what is scarce",
                more / 1_048_576.0
            ));
        }
    }
    let other = if engine == "sptree" { "turbo" } else { "sptree" };
    let settings = |values| Settings {
        options: &[],
        values,
        memory_bytes: question.workload.memory_bytes as f64,
    };
    let none = OptionValues::default();
    let its = model_of(other).map(|model| model.cost(work, settings(&none), &question.calibration));
    if let (Some(now), Some(its)) = (now, its.and_then(|cost| cost.media.written_by(&work.mix))) {
        advice.push(match (engine, has_order) {
            ("sptree", false) => format!(
                "nothing asks for ranges: turbo keeps no order and writes {its:.0} bytes of the \
                 medium for a write, this {now:.0}; `silica migrate` changes the engine"
            ),
            ("sptree", true) => "ranges are asked for: turbo has none".into(),
            (_, true) => format!(
                "ranges are asked for: sptree keeps the order of keys, at {its:.0} bytes of the \
                 medium for a write instead of {now:.0}"
            ),
            _ => format!(
                "without ranges turbo is the right one of the two: sptree would write {its:.0} \
                 bytes of the medium for a write, this writes {now:.0}"
            ),
        });
    }
    Ok(advice)
}

/// What a class of regions means.
fn survives(class: f64) -> &'static str {
    match class as u64 {
        2 => "class power: a write survives a power cut when it returns; it waits for fences",
        1 => {
            "class process: everything survives the process and nothing a power cut; the medium is \
             ordinary memory, and bytes of it count on persistent memory only"
        }
        _ => {
            "class buffered: a power cut leaves the region as it was last closed cleanly, or \
             refused if it was in use (`silica repair`); take wip or silt if that may not be"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::work::Needs;
    use super::super::{Candidate, describe, why};
    use super::*;
    use crate::{Machine, Survival};

    const CANDIDATES: [Candidate; 2] = [
        Candidate { engine: "turbo", options: silica_pmem::turbo::OPTIONS },
        Candidate { engine: "sptree", options: silica_pmem::sptree::OPTIONS },
    ];

    fn told(engine: &str, words: &str, measured: &[(&str, f64)]) -> (Vec<Figure>, String) {
        let (workload, needs): (_, Needs) = describe(words).unwrap();
        let machine = Machine { survival: Survival::Power, ..Machine::default() };
        let question = Question::new(&workload, &machine, needs, &CANDIDATES);
        let measured: Measured =
            measured.iter().map(|(name, value)| (name.to_string(), *value)).collect();
        let answer = why(&question, engine, &OptionValues::default(), &measured).unwrap();
        (answer.figures, answer.advice.join("\n"))
    }

    const SMALL: &str = "keys=1M key=8 value=8 uniform puts=100 memory=1GiB";

    #[test]
    fn media_bytes_stand_beside_what_the_region_counts() {
        let counted = [("puts", 1000.0), ("media_bytes_written", 260_000.0)];
        let (figures, _) = told("turbo", SMALL, &counted);
        let figure = figures.iter().find(|figure| figure.name == "media bytes of a write").unwrap();
        assert_eq!(figure.measured, Some(260.0));
        assert!((200.0..350.0).contains(&figure.predicted), "{figure:?}");
        assert!(told("turbo", SMALL, &[]).0.iter().any(|f| f.name.starts_with("media")));
    }

    #[test]
    fn the_class_is_told_and_when_to_take_which_engine() {
        for (class, words) in [(2.0, "class power"), (1.0, "class process"), (0.0, "buffered")] {
            let advice = told("sptree", SMALL, &[(CLASS, class)]).1;
            assert!(advice.contains(words), "{advice}");
        }
        let advice = told("sptree", SMALL, &[]).1;
        assert!(advice.contains("buffers=100") && advice.contains("turbo keeps no order"));
        let scans = "keys=1M key=8 value=8 uniform puts=50 scans=50 memory=1GiB";
        assert!(told("sptree", scans, &[]).1.contains("ranges are asked for"));
        assert!(told("turbo", scans, &[]).1.contains("sptree keeps the order"));
        let reads = "keys=1M key=8 value=8 uniform gets=100 memory=1GiB";
        assert!(!told("sptree", reads, &[]).1.contains("buffers=100"), "nothing is written");
    }
}
