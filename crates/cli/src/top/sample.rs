//! One look at a server: what it says in INFO, CLIENT LIST, SLOWLOG and LATENCY.
//!
//! Everything is asked for as Redis has it, so that a Redis server can be looked at, too; what only
//! one of the two has is left out for the other.

use crate::resp::{Reply, Resp};
use silica::Result;
use std::collections::BTreeMap;
use std::time::Instant;

/// Slow requests that are asked for.
const SLOW_MAX: &str = "32";

/// A connection of the server.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Client {
    pub(super) address: String,
    pub(super) name: String,
    pub(super) command: String,
    pub(super) db: u64,
    pub(super) age_s: u64,
    pub(super) idle_s: u64,
    pub(super) bytes: u64,
}

/// A request of the slow log.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Slow {
    pub(super) unix_s: u64,
    pub(super) micros: u64,
    pub(super) request: String,
}

/// What a server said at one moment.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) at: Instant,
    /// Every field of INFO, as it is written there.
    pub(super) fields: BTreeMap<String, String>,
    pub(super) clients: Vec<Client>,
    pub(super) slow: Vec<Slow>,
    /// Bursts (of Redis: commands) that took up to so many microseconds, all up to then together.
    pub(super) times: BTreeMap<u64, u64>,
    /// What the server refused to tell.
    pub(super) refused: Vec<String>,
}

/// A database of the server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Database {
    pub(super) number: u64,
    /// Empty for Redis.
    pub(super) engine: String,
    pub(super) keys: f64,
}

impl Sample {
    /// Asks the server.
    ///
    /// # Errors
    /// What INFO fails with; what else may not be asked is noted in `refused`.
    pub(super) fn take(resp: &mut Resp) -> Result<Self> {
        let info = resp.ask(&["INFO"])?;
        let (fields, at) = (fields(&String::from_utf8_lossy(&info)), Instant::now());
        let mut refused = Vec::new();
        let mut ask = |words: &[&str]| match resp.reply(words) {
            Ok(reply) => Ok(Some(reply)),
            // The connection is fine: the server has answered with an error.
            Err(error) if error.kind() == silica::ErrorKind::Config => {
                refused.push(format!("{}: {error}", words.join(" ")));
                Ok(None)
            }
            Err(error) => Err(error),
        };
        let clients = ask(&["CLIENT", "LIST"])?.map(|reply| clients(&reply)).unwrap_or_default();
        let slow = ask(&["SLOWLOG", "GET", SLOW_MAX])?.map(|reply| slow(&reply));
        let times = ask(&["LATENCY", "HISTOGRAM"])?.map(|reply| times(&reply));
        let (slow, times) = (slow.unwrap_or_default(), times.unwrap_or_default());
        Ok(Sample { at, fields, clients, slow, times, refused })
    }

    /// A field of INFO as text; empty if there is none.
    pub(super) fn text(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// A field of INFO that is a number.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.fields.get(name)?.parse().ok()
    }

    /// A metric of all databases together, if any has it.
    pub(super) fn total(&self, metric: &str) -> Option<f64> {
        let of = |number: u64| self.number(&format!("db{number}_{metric}"));
        self.numbers().into_iter().filter_map(of).reduce(|a, b| a + b)
    }

    /// The databases that there are, whichever of the two sections tells.
    pub(super) fn databases(&self) -> Vec<Database> {
        let database = |number| Database {
            number,
            engine: self.text(&format!("db{number}_engine")).to_string(),
            keys: self.keys(number),
        };
        self.numbers().into_iter().map(database).collect()
    }

    fn keys(&self, number: u64) -> f64 {
        let counted = self.text(&format!("db{number}")).strip_prefix("keys=");
        let counted = counted.and_then(|text| text.split(',').next()?.parse().ok());
        counted.or_else(|| self.number(&format!("db{number}_entries_estimate"))).unwrap_or(0.0)
    }

    fn numbers(&self) -> Vec<u64> {
        let number = |name: &String| {
            let name = name.strip_prefix("db")?;
            name.strip_suffix("_engine").unwrap_or(name).parse().ok()
        };
        let mut all: Vec<u64> = self.fields.keys().filter_map(number).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// The fields of INFO.
fn fields(info: &str) -> BTreeMap<String, String> {
    let lines = info.lines().filter(|line| !line.starts_with('#'));
    let field = |line: &str| line.split_once(':').map(|(n, v)| (n.to_string(), v.to_string()));
    silica_base::compact_map(lines.filter_map(field))
}

fn text_of(reply: &Reply) -> String {
    match reply {
        Reply::Text(text) => String::from_utf8_lossy(text).into_owned(),
        Reply::Array(_) => String::new(),
    }
}

fn number_of(reply: Option<&Reply>) -> u64 {
    reply.and_then(|reply| text_of(reply).parse().ok()).unwrap_or(0)
}

/// The connections that CLIENT LIST tells, one a line of `field=value`.
fn clients(reply: &Reply) -> Vec<Client> {
    let text = text_of(reply);
    let client = |line: &str| {
        let mut client = Client::default();
        for (name, value) in line.split(' ').filter_map(|field| field.split_once('=')) {
            let number = || value.parse().unwrap_or(0);
            match name {
                "addr" => client.address = value.into(),
                "name" => client.name = value.into(),
                "cmd" => client.command = value.into(),
                "db" => client.db = number(),
                "age" => client.age_s = number(),
                "idle" => client.idle_s = number(),
                "tot-mem" => client.bytes = number(),
                _ => {}
            }
        }
        client
    };
    text.lines().filter(|line| !line.is_empty()).map(client).collect()
}

fn slow(reply: &Reply) -> Vec<Slow> {
    let Reply::Array(all) = reply else { return Vec::new() };
    let entry = |entry: &Reply| {
        let Reply::Array(parts) = entry else { return None };
        let Some(Reply::Array(args)) = parts.get(3) else { return None };
        let request = args.iter().map(text_of).collect::<Vec<_>>().join(" ");
        let (unix_s, micros) = (number_of(parts.get(1)), number_of(parts.get(2)));
        Some(Slow { unix_s, micros, request })
    };
    all.iter().filter_map(entry).collect()
}

/// The sums of all histograms. Each is a list of a name and of `calls`, a number,
/// `histogram_usec`, and pairs of microseconds and how many took at most so long.
fn times(reply: &Reply) -> BTreeMap<u64, u64> {
    let Reply::Array(events) = reply else { return BTreeMap::new() };
    let mut counts = BTreeMap::<u64, u64>::new();
    for event in events {
        let Reply::Array(parts) = event else { continue };
        let Some(Reply::Array(pairs)) = parts.last() else { continue };
        let mut before = 0;
        for pair in pairs.chunks_exact(2) {
            let (micros, sum) = (number_of(pair.first()), number_of(pair.get(1)));
            *counts.entry(micros).or_default() += sum.saturating_sub(before);
            before = sum;
        }
    }
    let mut sum = 0;
    counts
        .into_iter()
        .map(|(micros, count)| {
            sum += count;
            (micros, sum)
        })
        .collect()
}

/// What happened between two samples.
pub(super) struct Span<'s> {
    pub(super) before: &'s Sample,
    pub(super) after: &'s Sample,
}

impl Span<'_> {
    /// Growth a second of what `of` says of a sample.
    pub(super) fn rate(&self, of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        let seconds = self.after.at.duration_since(self.before.at).as_secs_f64();
        let grown = of(self.after)? - of(self.before)?;
        (seconds > 0.0).then(|| grown.max(0.0) / seconds)
    }

    /// Part of the keys read that were found.
    pub(super) fn hit_ratio(&self) -> Option<f64> {
        let grown = |name| Some(self.after.number(name)? - self.before.number(name)?);
        let (hits, misses) = (grown("keyspace_hits")?, grown("keyspace_misses")?);
        (hits + misses > 0.0).then(|| hits / (hits + misses))
    }

    /// Microseconds that this part of the bursts kept within, by the histogram's steps.
    pub(super) fn percentile_us(&self, part: f64) -> Option<u64> {
        let before = |micros: &u64| {
            let up_to = self.before.times.range(..=micros).next_back();
            up_to.map_or(0, |(_, count)| *count)
        };
        let grown = |(micros, count): (&u64, &u64)| (*micros, count.saturating_sub(before(micros)));
        let all: Vec<(u64, u64)> = self.after.times.iter().map(grown).collect();
        let calls = all.last().map_or(0, |(_, count)| *count) as f64;
        let found = all.iter().find(|(_, count)| *count as f64 >= part * calls);
        found.filter(|_| calls > 0.0).map(|(micros, _)| *micros)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::time::Duration;

    /// A sample with these fields of INFO, `second` seconds after `start`.
    pub(crate) fn sample(start: Instant, second: u64, info: &str) -> Sample {
        let at = start + Duration::from_secs(second);
        let (clients, slow, times, refused) = Default::default();
        Sample { at, fields: fields(info), clients, slow, times, refused }
    }

    #[test]
    fn servers_of_both_kinds_tell_their_databases() {
        let silica = sample(
            Instant::now(),
            0,
            "# Silica\r\ndb0_engine:wip\r\ndb0_gets:5\r\n\
            db0_entries_estimate:7\r\ndb3_engine:mica\r\ndb3_gets:6\r\n",
        );
        assert_eq!(silica.total("gets"), Some(11.0));
        let engines: Vec<_> =
            silica.databases().into_iter().map(|d| (d.number, d.engine, d.keys)).collect();
        assert_eq!(engines, [(0, "wip".into(), 7.0), (3, "mica".into(), 0.0)]);
        let redis = sample(Instant::now(), 0, "db0:keys=12,expires=3,avg_ttl=0\r\n");
        assert_eq!((redis.total("gets"), redis.databases()[0].keys), (None, 12.0));
    }

    #[test]
    fn replies_are_read() {
        let text = |text: &str| Reply::Text(text.as_bytes().to_vec());
        let list = "id=3 addr=1.2.3.4:5 name=web db=2 age=9 idle=1 tot-mem=77 cmd=get\n";
        let client = &clients(&text(list))[0];
        assert_eq!((&*client.address, &*client.name, client.db), ("1.2.3.4:5", "web", 2));
        assert_eq!((client.age_s, client.idle_s, client.bytes), (9, 1, 77));
        let entry = Reply::Array(vec![
            text("1"),
            text("1700000000"),
            text("12345"),
            Reply::Array(vec![text("keys"), text("*")]),
        ]);
        let (unix_s, request) = (1_700_000_000, "keys *".to_string());
        assert_eq!(slow(&Reply::Array(vec![entry])), [Slow { unix_s, micros: 12_345, request }]);
    }

    #[test]
    fn percentiles_are_those_of_the_span() {
        let number = |n: u64| Reply::Text(n.to_string().into_bytes());
        let event = |pairs: &[(u64, u64)]| {
            let pairs = pairs.iter().flat_map(|(us, n)| [number(*us), number(*n)]).collect();
            Reply::Array(vec![number(0), number(0), number(0), Reply::Array(pairs)])
        };
        let name = || Reply::Text(b"get".to_vec());
        let reply = |get: &[(u64, u64)], set: &[(u64, u64)]| {
            times(&Reply::Array(vec![name(), event(get), name(), event(set)]))
        };
        let start = Instant::now();
        let mut before = sample(start, 0, "");
        before.times = reply(&[(4, 10)], &[]);
        let mut after = sample(start, 2, "");
        after.times = reply(&[(4, 30), (16, 90)], &[(8, 10)]);
        assert_eq!(after.times, BTreeMap::from([(4, 30), (8, 40), (16, 100)]));
        let span = Span { before: &before, after: &after };
        // 20 up to 4 us, 10 up to 8, 60 up to 16.
        let of = |part| span.percentile_us(part);
        assert_eq!([of(0.2), of(0.3), of(0.5), of(1.0)], [Some(4), Some(8), Some(16), Some(16)]);
        assert_eq!(Span { before: &after, after: &after }.percentile_us(0.5), None);
    }
}
