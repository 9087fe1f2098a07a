//! Requests per second that a server answers: `rate HOST:PORT [KEYS] [SECONDS]`.
//!
//! Puts KEYS entries of 8 + 8 bytes (100,000) and gets them at random for SECONDS (5), in bursts of
//! 4,096 requests. The server is started apart, on another core:
//!
//! ```text
//! taskset -c 1 silica serve --cache 1GiB --loops 1 --datagrams 127.0.0.1:6380 --listen 127.0.0.1:0
//! taskset -c 0 cargo run --release -p silica-client --example rate 127.0.0.1:6380
//! ```

use silica_base::{Clock, Prng, SystemClock};
use silica_client::{Client, Reply, Request};

const BURST: usize = 4096;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let address = args.next().ok_or("rate HOST:PORT [KEYS] [SECONDS]")?.parse()?;
    let keys: u64 = args.next().map_or(Ok(100_000), |text| text.parse())?;
    let seconds: u64 = args.next().map_or(Ok(5), |text| text.parse())?;
    let mut client = Client::connect(address)?;
    let clock = SystemClock::default();
    let all: Vec<[u8; 8]> = (0..keys).map(u64::to_le_bytes).collect();
    for part in all.chunks(BURST) {
        let put = |key| Request::Put { key, value: key, expires_unix_ms: 0 };
        let requests: Vec<Request<'_>> = part.iter().map(|key| put(key.as_slice())).collect();
        client.exchange(&requests, |_, _| {})?;
    }
    let mut random = Prng::new(1);
    let (mut hits, mut done) = (0u64, 0u64);
    let started = clock.monotonic_ns();
    let mut requests = Vec::with_capacity(BURST);
    let elapsed = loop {
        requests.clear();
        let key = |_| Request::Get(&all[random.below(keys) as usize]);
        requests.extend((0..BURST).map(key));
        client
            .exchange(&requests, |_, reply| hits += u64::from(matches!(reply, Reply::Done(_))))?;
        done += BURST as u64;
        let elapsed = clock.monotonic_ns() - started;
        if elapsed >= seconds * 1_000_000_000 {
            break elapsed;
        }
    };
    let rate = done as f64 * 1e9 / elapsed as f64;
    let again = client.sent_again();
    println!("{rate:.0} gets/s, {hits} of {done} found, {again} datagrams sent again");
    Ok(())
}
