//! Requests on objects of every type, whose outcome depends on nothing but what is there.

use silica_base::Prng;

/// What happens at once: a request, or a transaction.
pub(super) type Step = Vec<Vec<String>>;

/// The keys that steps use, the first letter of which says what they hold at first.
pub(super) const KEYS: [&str; 14] =
    ["h", "h2", "l", "l2", "s", "s2", "s3", "z", "z2", "x", "p", "p2", "g", "g2"];

/// Fields of hashes.
pub(super) fn field(n: u64) -> String {
    format!("field:{n:04}")
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(String::from).collect()
}

/// `line`, with what `each` says of each of `range` behind it.
fn many(line: &str, range: std::ops::Range<u64>, each: &dyn Fn(u64) -> String) -> Vec<String> {
    let mut all = words(line);
    all.extend(range.flat_map(|n| words(&each(n))));
    all
}

fn script(text: &str, keys: &[&str], args: &[&str]) -> Vec<String> {
    let mut all = vec!["EVAL".to_string(), text.into(), keys.len().to_string()];
    all.extend(keys.iter().chain(args).map(|arg| arg.to_string()));
    all
}

fn padded(name: &str, n: u64) -> String {
    format!("{name}:{n:04}:{}", "v".repeat(n as usize % 50))
}

const ADD_ENTRIES: &str = "for n = tonumber(ARGV[1]), tonumber(ARGV[2]) do \
    redis.call('XADD', KEYS[1], n .. '-1', 'field', n, 'other', string.rep('e', n % 40)) end";
const MOVE_ALL: &str = "local all = redis.call('LRANGE', KEYS[1], 0, -1) \
    for at, value in ipairs(all) do redis.call('ZADD', KEYS[2], at, value) \
    redis.call('HSET', KEYS[3], 'at:' .. at, value) end \
    redis.call('DEL', KEYS[1]) return #all";

/// Objects are made, and grow into pages.
fn growing() -> Vec<Step> {
    let pair = |n| format!("{} {}", field(n), padded("value", n));
    let scored = |n: u64| format!("{}.5 {}", n * 7 % 90, padded("member", n));
    let place = |n: u64| format!("{}.25 {}.75 place:{n:03}", n % 180, n % 80);
    let groups: Step = ["XGROUP CREATE x readers 0", "XGROUP CREATE x others $"].map(words).into();
    let mut steps = vec![
        vec![many("HSET h", 0..12, &pair)],
        vec![many("HSET h", 8..70, &pair)],
        vec![many("HPEXPIREAT h 4000000000000 FIELDS 20", 10..30, &field)],
        vec![many("RPUSH l", 0..70, &|n| padded("value", n))],
        vec![words("LINSERT l BEFORE value:0034:vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv between")],
        vec![many("SADD s", 0..90, &|n| padded("member", n))],
        vec![many("SADD s2", 0..40, &|n| (n * 3).to_string())],
        vec![many("ZADD z", 0..60, &scored)],
        vec![script(ADD_ENTRIES, &["x"], &["1", "60"])],
    ];
    steps.extend(groups.into_iter().map(|line| vec![line]));
    steps.extend([
        vec![words("XREADGROUP GROUP readers ann COUNT 40 STREAMS x >")],
        vec![many("XACK x readers", 1..15, &|n| format!("{n}-1"))],
        vec![words("XCLAIM x readers bob 0 20-1 21-1 22-1")],
        vec![many("PFADD p", 0..60, &|n| padded("counted", n))],
        vec![many("PFADD p2", 50..70, &|n| padded("counted", n))],
        vec![many("GEOADD g", 0..40, &place)],
    ]);
    steps
}

/// They are copied, renamed, overwritten and deleted, alone and together.
fn moving() -> Vec<Step> {
    let together: Step = [
        "MULTI",
        "HSET h2 together 1",
        "LPUSH l together",
        "ZADD z2 4.5 together",
        "SADD s3 together",
        "XADD x 1000-1 together 1",
        "DEL z",
        "PFMERGE p p2",
        "EXEC",
    ]
    .map(words)
    .into();
    let lines = [
        "RENAME h h2",
        "COPY l l2",
        "COPY z z2",
        "COPY s2 s3 REPLACE",
        "PEXPIREAT l2 4000000000000",
        "GEOSEARCHSTORE g2 g FROMLONLAT 20.5 20.5 BYRADIUS 2000 km ASC STOREDIST",
        "SUNIONSTORE s3 s s2",
        "SMOVE s s2 member:0003:vvv",
        "RENAME z2 s",
        "ZUNIONSTORE z2 2 z g WEIGHTS 2 3",
        "LMOVE l l2 LEFT RIGHT",
        "SET l2 overwritten",
        "PFMERGE p p2",
        "HSET h field:0001 again",
    ];
    let mut steps: Vec<Step> = lines.iter().map(|line| vec![words(line)]).collect();
    steps.push(together);
    steps.push(vec![script(MOVE_ALL, &["l", "z", "h"], &[])]);
    steps
}

/// They shrink, lose their pages, and go.
fn shrinking() -> Vec<Step> {
    let lines = [
        "PERSIST l2",
        "XTRIM x MAXLEN 20",
        "XDEL x 50-1 1000-1",
        "XGROUP DELCONSUMER x readers bob",
        "XGROUP DESTROY x readers",
        "ZREMRANGEBYRANK z2 5 -1",
        "ZREMRANGEBYSCORE g2 0 900",
        "DEL s3",
        "DEL x h z2",
        "RENAME s2 s3",
        "SET s3 string",
        "LPUSH l one two three",
        "HSET h last 1",
    ];
    let mut steps = vec![
        vec![many("HPERSIST h2 FIELDS 3", 27..30, &field)],
        vec![many("HDEL h2", 0..60, &field)],
        vec![many("SREM s2", 0..35, &|n| (n * 3).to_string())],
    ];
    steps.extend(lines.iter().map(|line| vec![words(line)]));
    steps
}

/// A script over all types.
pub(super) fn fixed() -> Vec<Step> {
    [growing(), moving(), shrinking()].concat()
}

/// A random step.
fn random_step(random: &mut Prng) -> Step {
    let from = random.below(60);
    let range = from..from + 1 + random.below(30);
    let copies = [["h", "h2"], ["l", "l2"], ["s", "s2"], ["s2", "s3"], ["z", "z2"], ["g", "g2"]];
    let [one, other] = copies[random.below(6) as usize];
    let score = 1 + random.below(50);
    vec![match random.below(22) {
        0 | 1 => many("HSET h", range, &|n| format!("{} {}", field(n), padded("value", n + from))),
        2 => {
            let count = range.end - range.start;
            many(&format!("HPEXPIREAT h 4{from:012} FIELDS {count}"), range, &field)
        }
        3 => many("HDEL h", range, &field),
        4 | 5 => many(["LPUSH l", "RPUSH l"][from as usize % 2], range, &|n| padded("value", n)),
        6 => words(&format!("LTRIM l {} -{}", random.below(20), 1 + random.below(20))),
        7 => words(&format!("LREM l 1 {}", padded("value", from))),
        8 => many("SADD s", range, &|n| padded("member", n)),
        9 => many("SREM s", range, &|n| padded("member", n)),
        10 => words(["SUNIONSTORE s3 s s2", "SDIFFSTORE s3 s s2"][from as usize % 2]),
        11 | 12 => many("ZADD z", range, &|n| format!("{} {}", n * score % 70, padded("one", n))),
        13 => words(&format!("ZREMRANGEBYRANK z {from} {}", from + random.below(20))),
        14 => words("ZUNIONSTORE z2 2 z g"),
        15 => script(ADD_ENTRIES, &["x"], &[&(2000 + from).to_string(), "2090"]),
        16 => words("DEL x"),
        17 => many("PFADD p", range, &|n| padded("counted", n)),
        18 => many("GEOADD g", range, &|n| format!("{n}.5 {}.5 place:{n}", n % 80)),
        19 => words(&format!("DEL {one} {other}")),
        20 => words(&format!("COPY {one} {other} REPLACE")),
        _ => script(MOVE_ALL, &["l", "z", "h"], &[]),
    }]
}

/// A script of `steps` random steps, some of which are transactions. A step may be refused: the
/// stream has later ids, say.
pub(super) fn random(steps: u64, random: &mut Prng) -> Vec<Step> {
    let step = |random: &mut Prng| match random.one_in(5) {
        true => {
            let mut all = vec![words("MULTI")];
            (0..1 + random.below(5)).for_each(|_| all.extend(random_step(random)));
            all.push(words("EXEC"));
            all
        }
        false => random_step(random),
    };
    (0..steps).map(|_| step(random)).collect()
}
