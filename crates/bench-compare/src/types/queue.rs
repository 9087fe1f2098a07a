//! A queue on the durable store: elements pass through a list from one end to the other and back.

use super::memory::trains;
use super::pair::{CONNECTIONS, Side};
use super::report::QueueRow;
use super::{Course, TypesRequest};
use crate::peers::Kept;
use crate::usage;
use silica::Result;

/// Elements of the list.
const LENGTH: u64 = 1000;
/// Times that rate and disk are looked at.
const SLICES: u64 = 10;
/// Bytes of an element.
const ELEMENT_BYTES: usize = 64;
const MIB: f64 = 1048576.0;

/// Passes `elements` through a list, half of them from each end.
pub(super) fn measure(
    course: &Course<'_>,
    request: &TypesRequest,
    elements: u64,
) -> Result<QueueRow> {
    let mut side = Side::ours(course, Kept::Buffered, request.memory(LENGTH))?;
    let fill = trains(LENGTH, |train, nth| train.push(&[b"LPUSH", b"queue", &element(nth)]));
    side.run(&fill)?;
    let each = elements / SLICES;
    let (mut rates, mut disk) = (Vec::new(), Vec::new());
    let reads = side.told(&["db0_device_reads"])?;
    for slice in 0..SLICES {
        if !course.goes_on() {
            break;
        }
        // A train is of one connection: pushes and pops of both ends are in each.
        let trains = trains(2 * each, |train, nth| {
            let way = (nth / 2 / CONNECTIONS as u64) % 2;
            let word = element(slice * each + nth);
            match (nth % 2, way) {
                (0, 0) => train.push(&[b"LPUSH", b"queue", &word]),
                (0, _) => train.push(&[b"RPUSH", b"queue", &word]),
                (_, 0) => train.push(&[b"RPOP", b"queue"]),
                (_, _) => train.push(&[b"LPOP", b"queue"]),
            }
        });
        let took = side.run(&trains)?;
        rates.push(each as f64 / took.seconds);
        disk.push(usage::space_bytes(&side.directory) as f64 / MIB);
    }
    let reads = side.told(&["db0_device_reads"])?.saturating_sub(reads);
    let middle = super::rates::median(rates.clone()).unwrap_or(f64::NAN);
    let off = |rate: &f64| (rate / middle - 1.0).abs();
    Ok(QueueRow {
        elements: each * rates.len() as u64,
        rate: middle,
        spread: rates.iter().map(off).fold(0.0, f64::max),
        disk_mib_max: disk.iter().copied().fold(0.0, f64::max),
        live_mib: (LENGTH as usize * ELEMENT_BYTES) as f64 / MIB,
        device_reads: reads,
        rates,
        disk_mib: disk,
    })
}

fn element(nth: u64) -> Vec<u8> {
    format!("{nth:0width$}", width = ELEMENT_BYTES).into_bytes()
}
