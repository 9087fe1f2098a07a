//! What our datagram protocol does on this machine: what is lost and how long it takes at a rate,
//! and how many datagrams a port gets together where some keys are asked for more than others.

use crate::load::{Get, Offer, Offered};
use crate::peers::{Cache, pin_client};
use serde::Serialize;
use silica::{Error, ErrorKind, Result};
use silica_base::Prng;
use silica_bench::charts::{Panel, Series, draw};
use silica_proto::datagram::direction;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Memory of each server.
const MEMORY_BYTES: u64 = 64 << 20;
/// Gets that are drawn before the time begins.
const GETS: usize = 1 << 17;
/// Gets under way while a server's peak is looked for.
const PEAK_WINDOW: u64 = 256;
/// Parts of the peak that are offered.
const PARTS: [f64; 11] = [0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
/// How much more is offered from one rate to the next beyond it, and how often at most.
const BEYOND: f64 = 1.15;
const BEYOND_MAX: i32 = 8;
/// There is no more to see when so much is lost, or the client sends less than this part.
const LOSS_PERCENT_END: f64 = 20.0;
const SENT_PART_END: f64 = 0.95;
/// Servers with a port each that share a core, and gets under way to all of them.
const PORTS: usize = 8;
const PORTS_WINDOW: u64 = 128;
/// How unlike keys are.
const EXPONENTS: [f64; 6] = [0.0, 0.4, 0.7, 0.9, 0.99, 1.2];
/// Of the datagrams of a rate that is stated, fewer are lost.
const LOSS_PERCENT_MAX: f64 = 1.0;

/// How much is done.
#[derive(Debug, Clone, Copy)]
pub struct DatagramsSize {
    /// Keys of 8 bytes, with values of as many.
    pub keys: u64,
    /// Time for each figure.
    pub seconds: f64,
}

/// What came of gets at a rate.
#[derive(Debug, Clone, Serialize)]
pub struct AtRate {
    /// Gets sent in a second.
    pub offered_ops: f64,
    /// Gets answered in a second.
    pub answered_ops: f64,
    /// Of those sent, what was not answered.
    pub loss_percent: f64,
    /// From when a get was due to its reply.
    pub p50_us: f64,
    /// The 99th percentile of that time.
    pub p99_us: f64,
}

/// What ports got whose keys follow Zipf's law.
#[derive(Debug, Clone, Serialize)]
pub struct AtSkew {
    /// The law's exponent; 0 where all keys are alike.
    pub exponent: f64,
    /// Of all datagrams, those of the port with most.
    pub busiest_percent: f64,
    /// Datagrams that this port gets together.
    pub busiest_burst: f64,
    /// Datagrams that a port gets together, over all ports.
    pub burst: f64,
}

/// All of it.
#[derive(Debug, Clone, Serialize)]
pub struct DatagramsReport {
    /// Gets answered in a second, as many as there are under way at once.
    pub peak_ops: f64,
    /// The highest rate up to which less than one in a hundred is lost.
    pub rate_ops: f64,
    /// By rising rate.
    pub rates: Vec<AtRate>,
    /// By rising exponent.
    pub skews: Vec<AtSkew>,
    /// What was drawn.
    pub files: Vec<PathBuf>,
}

/// Measures and draws into `out`.
pub fn datagrams(size: &DatagramsSize, out: &Path) -> Result<DatagramsReport> {
    let directory = out.join(format!("datagrams-servers-{}", std::process::id()));
    let made = std::fs::create_dir_all(&directory);
    made.map_err(|e| Error::io(format!("making {}", directory.display()), e))?;
    let measured = measure(size, &directory);
    let _ = std::fs::remove_dir_all(&directory);
    let mut report = measured?;
    report.draw(out)?;
    Ok(report)
}

fn measure(size: &DatagramsSize, directory: &Path) -> Result<DatagramsReport> {
    let _pinned = pin_client();
    let (peak_ops, rates) = at_rates(size, directory)?;
    let is_kept = |rate: &&AtRate| rate.loss_percent < LOSS_PERCENT_MAX;
    let rate_ops =
        rates.iter().take_while(is_kept).map(|rate| rate.offered_ops).fold(0.0, f64::max);
    let skews = at_skews(size, directory)?;
    Ok(DatagramsReport { peak_ops, rate_ops, rates, skews, files: Vec::new() })
}

/// A server's peak, and what comes of parts of it.
fn at_rates(size: &DatagramsSize, directory: &Path) -> Result<(f64, Vec<AtRate>)> {
    let cache = Cache::start(directory, MEMORY_BYTES)?;
    cache.fill(&(0..size.keys).map(u64::to_le_bytes).collect::<Vec<_>>())?;
    let gets = drawn(size.keys, 0.0, 1);
    let mut client = Offered::connect(&[cache.address()], gets)?;
    let time = Duration::from_secs_f64(size.seconds);
    let peak = client.run(Offer::Window(PEAK_WINDOW), time)?;
    let peak = peak.answered as f64 / peak.seconds;
    let mut rates: Vec<AtRate> = Vec::new();
    for part in PARTS.into_iter().chain((1..=BEYOND_MAX).map(|n| BEYOND.powi(n))) {
        let done = client.run(Offer::Rate(part * peak), time)?;
        let us = |quantile| done.latencies.quantile(quantile) as f64 / 1e3;
        let rate = AtRate {
            offered_ops: done.sent as f64 / done.seconds,
            answered_ops: done.answered as f64 / done.seconds,
            loss_percent: 100.0 * (done.sent - done.answered) as f64 / done.sent.max(1) as f64,
            p50_us: us(0.5),
            p99_us: us(0.99),
        };
        let is_end = rate.loss_percent > LOSS_PERCENT_END
            || part > 1.0 && rate.offered_ops < SENT_PART_END * part * peak;
        rates.push(rate);
        if is_end {
            break;
        }
    }
    Ok((peak, rates))
}

/// What ports of servers that share a core get together. A datagram has one get.
fn at_skews(size: &DatagramsSize, directory: &Path) -> Result<Vec<AtSkew>> {
    let mut caches = Vec::new();
    for port in 0..PORTS {
        let directory = directory.join(format!("{port}"));
        let made = std::fs::create_dir_all(&directory);
        made.map_err(|e| Error::io(format!("making {}", directory.display()), e))?;
        let cache = Cache::start(&directory, MEMORY_BYTES)?;
        let keys = (0..size.keys).map(u64::to_le_bytes);
        cache.fill(&keys.filter(|key| direction(key, PORTS) == port).collect::<Vec<_>>())?;
        caches.push(cache);
    }
    let addresses: Vec<_> = caches.iter().map(Cache::address).collect();
    let mut skews = Vec::new();
    for exponent in EXPONENTS {
        let gets = drawn(size.keys, exponent, PORTS);
        let mut client = Offered::connect(&addresses, gets)?;
        let before = told(&mut caches)?;
        client.run(Offer::Window(PORTS_WINDOW), Duration::from_secs_f64(size.seconds))?;
        let after = told(&mut caches)?;
        let came: Vec<(u64, u64)> =
            after.iter().zip(&before).map(|(a, b)| (a.0 - b.0, a.1 - b.1)).collect();
        skews.push(AtSkew::of(exponent, &came)?);
    }
    Ok(skews)
}

fn told(caches: &mut [Cache]) -> Result<Vec<(u64, u64)>> {
    caches.iter_mut().map(Cache::batches).collect()
}

impl AtSkew {
    /// By the datagrams and batches of each port.
    fn of(exponent: f64, ports: &[(u64, u64)]) -> Result<AtSkew> {
        let all = ports.iter().fold((0, 0), |sum, port| (sum.0 + port.0, sum.1 + port.1));
        let busiest = ports.iter().max().filter(|busiest| busiest.1 > 0);
        let busiest = busiest.ok_or_else(|| Error::new(ErrorKind::Io, "no datagrams came"))?;
        let burst = |port: (u64, u64)| port.0 as f64 / port.1 as f64;
        Ok(AtSkew {
            exponent,
            busiest_percent: 100.0 * busiest.0 as f64 / all.0 as f64,
            busiest_burst: burst(*busiest),
            burst: burst(all),
        })
    }
}

/// Gets of keys that follow Zipf's law, each to the port that it belongs to.
fn drawn(keys: u64, exponent: f64, ports: usize) -> Vec<Get> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=keys)
        .map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        })
        .collect();
    let mut random = Prng::new(1);
    let mut draw = || {
        let at = random.unit() * sum;
        let key = (sums.partition_point(|sum| *sum <= at) as u64).min(keys - 1).to_le_bytes();
        Get { key, port: direction(&key, ports) }
    };
    (0..GETS).map(|_| draw()).collect()
}

impl DatagramsReport {
    fn draw(&mut self, out: &Path) -> Result<()> {
        const M: f64 = 1e6;
        let rates = |y: fn(&AtRate) -> f64| {
            self.rates.iter().map(move |rate| (rate.offered_ops / M, y(rate))).collect::<Vec<_>>()
        };
        let loss = vec![Series::new("lost", rates(|rate| rate.loss_percent))];
        let latency = |name, y: fn(&AtRate) -> f64| {
            // Where more is lost the length of queues would be drawn.
            let kept = self.rates.iter().filter(|rate| rate.loss_percent < LOSS_PERCENT_MAX);
            Series::new(name, kept.map(|rate| (rate.answered_ops / M, y(rate))))
        };
        let latencies = vec![
            latency("median", |rate| rate.p50_us),
            latency("99th percentile", |rate| rate.p99_us),
        ];
        let burst = |name, y: fn(&AtSkew) -> f64| {
            Series::new(name, self.skews.iter().map(|skew| (skew.exponent, y(skew))))
        };
        let bursts = vec![
            burst("busiest of 8 ports", |skew| skew.busiest_burst),
            burst("all ports", |skew| skew.burst),
        ];
        let (offered, answered) =
            ("million gets offered a second", "million gets answered a second");
        let panels = [
            ("loss", Panel::lines("Gets that are lost", offered, "percent", loss)),
            ("latency", Panel::lines("Latency", answered, "microseconds", latencies)),
            (
                "bursts",
                Panel::lines("Datagrams that come together", "exponent", "datagrams", bursts),
            ),
        ];
        for (name, panel) in panels {
            let file = out.join(format!("udp-{name}.svg"));
            draw(&[panel], &file)?;
            self.files.push(file);
        }
        Ok(())
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!(
            "peak {:.0} gets/s; less than {LOSS_PERCENT_MAX} % lost up to {:.0} gets/s\n\n",
            self.peak_ops, self.rate_ops
        );
        text.push_str("  offered/s  answered/s   lost %    p50 us    p99 us\n");
        for rate in &self.rates {
            let AtRate { offered_ops, answered_ops, loss_percent, p50_us, p99_us } = rate;
            let _ = writeln!(
                text,
                "{offered_ops:11.0} {answered_ops:11.0} {loss_percent:8.3} {p50_us:9.0} \
                 {p99_us:9.0}"
            );
        }
        text.push_str("\n  exponent  busiest port %  its burst  burst\n");
        for skew in &self.skews {
            let AtSkew { exponent, busiest_percent, busiest_burst, burst } = skew;
            let _ = writeln!(
                text,
                "{exponent:10.2} {busiest_percent:15.1} {busiest_burst:10.1} {burst:6.1}"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_follow_the_law_and_go_to_their_ports() {
        let share = |exponent| {
            let gets = drawn(1000, exponent, 4);
            assert!(gets.iter().all(|get| get.port == direction(&get.key, 4)));
            let first = gets.iter().filter(|get| get.key == 0u64.to_le_bytes()).count();
            first as f64 / gets.len() as f64
        };
        // The first of 1000 keys has 1 of 7.485 for the exponent 1.
        let (uniform, skewed) = (share(0.0), share(1.0));
        assert!((0.0005..0.002).contains(&uniform), "{uniform}");
        assert!((0.13..0.137).contains(&skewed), "{skewed}");
    }

    #[test]
    fn bursts_are_datagrams_of_batches() {
        let skew = AtSkew::of(0.5, &[(10, 5), (30, 3), (0, 0)]).unwrap();
        assert_eq!((skew.busiest_percent, skew.busiest_burst, skew.burst), (75.0, 10.0, 5.0));
        assert!(AtSkew::of(0.5, &[(0, 0)]).is_err());
    }
}
