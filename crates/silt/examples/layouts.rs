//! Space and reads by layout and by the size up to which values stay inside their entries: the
//! paper's Figure 7 for our files.
//!
//! ```text
//! cargo run --release -p silica-silt --example layouts
//! ```
//!
//! Sizes of values follow a Zipf distribution over 4 bytes to 1 MiB. Values over the limit lie in
//! the value log; their entries hold a pointer. Files are written to a simulated device.

use silica_base::{Prng, Result};
use silica_device::sim::{SimDevice, SimOptions};
use silica_parts::frame::{Frame, POINTER};
use silica_silt::packed::{CHUNK_BYTES, FileKind, Layout, PackedWriter};

/// Bytes of a pointer into the value log, and of its record's header there.
const POINTER_BYTES: usize = 20;
const SIZE_MIN: f64 = 4.0;
const SIZE_MAX: f64 = 1048576.0;

/// A size whose probability falls with the power `exponent` of the size.
fn size(prng: &mut Prng, exponent: f64) -> usize {
    let (low, high, at) = (SIZE_MIN, SIZE_MAX, prng.unit());
    let size = if (exponent - 1.0).abs() < 1e-9 {
        low * (high / low).powf(at)
    } else {
        let power = 1.0 - exponent;
        (low.powf(power) + at * (high.powf(power) - low.powf(power))).powf(1.0 / power)
    };
    size as usize
}

/// What a file came to.
struct Outcome {
    space: f64,
    reads: f64,
    chunks: f64,
}

fn measure(
    sizes: &[usize],
    inline_max: usize,
    layout: Option<Layout>,
) -> Result<(Layout, Outcome)> {
    let device = SimDevice::new(1, SimOptions::default());
    let (mut frames, mut plain, mut outside, mut outside_chunks) = (Vec::new(), 0, 0, 0);
    let zeroes = vec![0; inline_max.max(POINTER_BYTES)];
    for (i, bytes) in sizes.iter().enumerate() {
        let key = (i as u64).to_le_bytes();
        plain += key.len() + bytes;
        let mut frame = Vec::new();
        if *bytes <= inline_max {
            Frame::put(&key, &zeroes[..*bytes]).encode(&mut frame);
        } else {
            let pointer = &zeroes[..POINTER_BYTES];
            Frame { flags: POINTER, ..Frame::put(&key, pointer) }.encode(&mut frame);
            outside += bytes + POINTER_BYTES;
            outside_chunks += bytes / CHUNK_BYTES + 1;
        }
        frames.push(frame);
    }
    let total: usize = frames.iter().map(Vec::len).sum();
    let max = frames.iter().map(Vec::len).max().unwrap_or(0);
    let chosen = Layout::choose((total / frames.len()) as u64, max as u64);
    let layout = layout.unwrap_or(chosen);
    let mut writer = PackedWriter::create(&device, "f", 1, FileKind::SortedStore, layout)?;
    for frame in &frames {
        writer.append(frame)?;
    }
    let reader = writer.finish(&[], &[])?;
    let footer = reader.footer();
    let count = sizes.len() as f64;
    let chunks_of_lookups = f64::from(footer.straddle_usual + 1) * count;
    let beyond = sizes.iter().filter(|s| **s > inline_max).count() as f64;
    let outcome = Outcome {
        space: (reader.file_bytes() as usize + outside) as f64 / plain as f64,
        reads: 1.0 + beyond / count,
        chunks: (chunks_of_lookups + outside_chunks as f64) / count,
    };
    Ok((layout, outcome))
}

fn main() -> Result<()> {
    println!("| sizes | inline up to | layout | space | reads per get | chunks per get |");
    println!("|---|---|---|---|---|---|");
    for exponent in [0.5, 1.0, 1.5, 2.0] {
        let mut prng = Prng::new(7);
        let count = if exponent < 1.0 { 2_000 } else { 20_000 };
        let sizes: Vec<usize> = (0..count).map(|_| size(&mut prng, exponent)).collect();
        for inline_max in [64, 256, 1024, 4096, 16 << 10, 64 << 10] {
            let (layout, o) = measure(&sizes, inline_max, None)?;
            println!(
                "| Zipf {exponent} | {inline_max} | {layout:?} | {:.3} | {:.3} | {:.2} |",
                o.space, o.reads, o.chunks
            );
        }
    }
    println!("\n| value bytes | aligned: space | straddling: space | chosen |\n|---|---|---|---|");
    for bytes in [16, 64, 100, 256, 512, 700, 1000, 1024, 1500, 2000, 3000, 4000, 4100, 9000] {
        let sizes = vec![bytes; 4_000_000 / bytes];
        let (_, aligned) = measure(&sizes, bytes, Some(Layout::Aligned))?;
        let (_, straddling) = measure(&sizes, bytes, Some(Layout::Straddling))?;
        let (chosen, _) = measure(&sizes, bytes, None)?;
        println!("| {bytes} | {:.3} | {:.3} | {chosen:?} |", aligned.space, straddling.space);
    }
    Ok(())
}
