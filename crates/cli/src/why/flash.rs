//! `silica why` of a server's cache on flash.

use super::{Told, figure_json};
use crate::text::object_of;
use crate::tune::{Asked, flash_json};
use serde_json::{Value, json};
use silica::Result;
use silica::tune::recommend::why_flash_cache;
use silica_console::Output;

/// Shows what the cache told beside what its model says.
pub(super) fn show(told: &Told, asked: &Asked, output: &mut Output) -> Result<()> {
    let answer = why_flash_cache(&asked.workload, &told.measured)?;
    output.line(format!("a cache of memory and flash, {} keys asked for", asked.workload.keys))?;
    answer.to_string().lines().try_for_each(|line| output.line(line))?;
    asked.notes.iter().try_for_each(|note| output.line(format!("note: {note}")))?;
    let figures: Vec<Value> = answer.figures.iter().map(figure_json).collect();
    let told_of = answer.told.iter().map(|(name, value)| (name.to_string(), json!(value)));
    let told_of = object_of(told_of);
    let what_if: Vec<Value> = answer
        .what_if
        .iter()
        .map(|other| json!({ "option": other.option, "prediction": flash_json(&other.advice) }))
        .collect();
    let object = output.object();
    object.insert("engine".into(), told.engine.clone().into());
    object.insert("figures".into(), figures.into());
    object.insert("told".into(), told_of.into());
    object.insert("verdicts".into(), answer.verdicts.clone().into());
    object.insert("what_if".into(), what_if.into());
    object.insert("notes".into(), asked.notes.clone().into());
    Ok(())
}
