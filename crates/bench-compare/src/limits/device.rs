//! What the device allows, by our own probe and by fio beside it.

use super::{Limit, LimitSetup, Probe, Reading};
use silica::{Error, ErrorKind, Result};
use silica_bench::{Access, DeviceProbe};
use std::process::Command;
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// Both probes are asked so many times, in turns.
const ROUNDS: u32 = 2;
/// Shorter than this fio measures its own start.
const FIO_SECONDS_MIN: f64 = 0.1;
/// Probes that are further apart than this do not measure the same: percent.
const APART_MAX: f64 = 15.0;

/// One way to read or write.
struct Figure {
    metric: &'static str,
    access: Access,
    depth: usize,
    unit: &'static str,
}

/// One or more figures of the device.
pub(super) struct OfDevice {
    name: &'static str,
    doc: &'static str,
    figures: &'static [Figure],
}

const fn reads(metric: &'static str, depth: usize) -> Figure {
    Figure { metric, access: Access::RandomReads, depth, unit: "1/s" }
}

const fn stream(metric: &'static str, access: Access) -> Figure {
    Figure { metric, access, depth: 4, unit: "bytes/s" }
}

pub(super) static READS: OfDevice = OfDevice {
    name: "device-reads",
    doc: "direct reads of 4 KiB in random order, so many of them in flight",
    figures: &[
        reads("reads_depth_1", 1),
        reads("reads_depth_8", 8),
        reads("reads_depth_32", 32),
        reads("reads_depth_64", 64),
        reads("reads_depth_128", 128),
    ],
};

pub(super) static STREAMS: OfDevice = OfDevice {
    name: "device-streams",
    doc: "direct reads and writes of 1 MiB in order, four of them in flight",
    figures: &[stream("read", Access::Reads), stream("write", Access::Writes)],
};

pub(super) static SYNCS: OfDevice = OfDevice {
    name: "device-syncs",
    doc: "writes of 4 KiB one after the other, each synced before the next",
    figures: &[Figure { metric: "syncs", access: Access::SyncedWrites, depth: 1, unit: "1/s" }],
};

impl Limit for OfDevice {
    fn name(&self) -> &'static str {
        self.name
    }

    fn doc(&self) -> &'static str {
        self.doc
    }

    fn version(&self) -> Result<String> {
        let fio = Command::new("fio").arg("--version").output();
        let fio = fio.ok().and_then(|output| String::from_utf8(output.stdout).ok());
        Ok(match fio {
            Some(version) => format!("own probe and {}", version.trim()),
            None => "own probe; fio, to check it with, is not installed".to_string(),
        })
    }

    fn figures(&self) -> usize {
        // Each by two probes.
        2 * self.figures.len()
    }

    fn measure(&self, setup: &LimitSetup) -> Result<Vec<Reading>> {
        let probe = DeviceProbe::new(&setup.directory, setup.bytes.max(MIB))?;
        let mut readings = Vec::new();
        for figure in self.figures {
            let (own, fio) = figure.measure(&probe, setup.seconds)?;
            readings.extend(figure.readings(own, fio));
        }
        Ok(readings)
    }

    fn has_probe(&self, metric: &str) -> bool {
        self.figures.iter().any(|figure| figure.metric == metric)
    }

    /// By our own probe: fio takes longer to start than a slice is.
    fn probe(&'static self, setup: &LimitSetup, metric: &str) -> Result<Box<dyn Probe>> {
        let figure = self.figures.iter().find(|f| f.metric == metric).ok_or_else(|| {
            Error::new(ErrorKind::Config, format!("limit {} has no figure {metric}", self.name))
        })?;
        let device = DeviceProbe::new(&setup.directory, setup.bytes.max(MIB))?;
        Ok(Box::new(InSlices { figure, device }))
    }
}

/// A figure with the files that it is measured on.
struct InSlices {
    figure: &'static Figure,
    device: DeviceProbe,
}

impl Probe for InSlices {
    fn slice(&mut self, time: Duration) -> Result<f64> {
        let Figure { access, depth, .. } = *self.figure;
        Ok(self.device.rate(access, depth, time)? * self.figure.scale())
    }
}

impl Figure {
    /// By our own probe, and by fio where it is there, each for `seconds`.
    fn measure(&self, probe: &DeviceProbe, seconds: f64) -> Result<(f64, Option<f64>)> {
        let period = Duration::from_secs_f64(seconds / f64::from(ROUNDS));
        let (mut own, mut fio) = (0.0, Some(0.0));
        for _ in 0..ROUNDS {
            own += probe.rate(self.access, self.depth, period)?;
            let more = || probe.fio_rate(self.access, self.depth, period);
            fio = fio.filter(|_| seconds >= FIO_SECONDS_MIN).and_then(|sum| Some(sum + more()?));
        }
        let scale = self.scale() / f64::from(ROUNDS);
        Ok((own * scale, fio.map(|sum| sum * scale)))
    }

    /// From reads or writes to the unit.
    fn scale(&self) -> f64 {
        if self.unit == "bytes/s" { self.access.bytes() as f64 } else { 1.0 }
    }

    /// What no store can pass is the larger one of both.
    fn readings(&self, own: f64, fio: Option<f64>) -> Vec<Reading> {
        let reading =
            |suffix, value| Reading::new(format!("{}{suffix}", self.metric), self.unit, value);
        let Some(fio) = fio else { return vec![reading("", own)] };
        let mut readings =
            vec![reading("", own.max(fio)), reading("_own", own), reading("_fio", fio)];
        let apart = 100.0 * (own - fio).abs() / own.max(fio);
        if apart > APART_MAX {
            let metric = format!("warning_{}_own_and_fio_apart", self.metric);
            readings.push(Reading::new(metric, "%", apart));
        }
        readings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_that_disagree_are_told() {
        let figure = reads("reads_depth_8", 8);
        let metrics = |own, fio| {
            let readings = figure.readings(own, fio);
            readings.iter().map(|r| format!("{}={}", r.metric, r.value)).collect::<Vec<_>>()
        };
        assert_eq!(metrics(10.0, None), ["reads_depth_8=10"]);
        let agree = ["reads_depth_8=100", "reads_depth_8_own=100", "reads_depth_8_fio=85"];
        assert_eq!(metrics(100.0, Some(85.0)), agree);
        let apart = metrics(80.0, Some(100.0));
        assert_eq!(apart[0], "reads_depth_8=100");
        assert_eq!(apart[3], "warning_reads_depth_8_own_and_fio_apart=20");
    }

    #[test]
    fn bandwidth_is_in_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let probe = DeviceProbe::new(directory.path(), 2 * MIB).unwrap();
        let (own, fio) = stream("read", Access::Reads).measure(&probe, 0.02).unwrap();
        assert!(own > 1e6 && fio.is_none(), "{own} {fio:?}");
    }
}
