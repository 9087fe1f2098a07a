//! Clients of every kind, each on a thread of its own until it is told to stop.

use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Keys of the usual kind, and large values.
const KEYS: u64 = 200_000;
const LARGE_KEYS: u64 = 40;
const LARGE_BYTES: usize = 512 << 10;
/// Connections that come and go at the same time, at most.
const CROWD: usize = 200;

/// What a client does, by numbers of its own.
type Work = fn(&Load, Numbers) -> io::Result<()>;

/// What all clients share.
pub struct Load {
    pub port: u16,
    pub stop: AtomicBool,
    /// Microseconds that requests took since somebody looked.
    pub latencies_us: Mutex<Vec<u32>>,
    /// What went wrong.
    pub errors: Mutex<Vec<String>>,
}

/// A connection that reads replies and forgets them.
struct Connection {
    read: BufReader<TcpStream>,
    write: TcpStream,
}

impl Connection {
    fn open(port: u16) -> io::Result<Self> {
        let write = TcpStream::connect(("127.0.0.1", port))?;
        write.set_nodelay(true)?;
        write.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Connection { read: BufReader::new(write.try_clone()?), write })
    }

    fn ask(&mut self, words: &[&[u8]]) -> io::Result<()> {
        self.write.write_all(&request(words))?;
        self.skip()
    }

    /// Reads a reply: none of those that are asked for here is an array or an error.
    fn skip(&mut self) -> io::Result<()> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.read.read_exact(&mut byte)?;
            line.push(byte[0]);
        }
        let text = String::from_utf8_lossy(&line[1..line.len() - 2]).into_owned();
        match (line[0], text.parse::<i64>()) {
            (b'+', _) | (b':', Ok(_)) | (b'$', Ok(-1)) => Ok(()),
            (b'$', Ok(len)) => {
                let mut body = (&mut self.read).take(len as u64 + 2);
                io::copy(&mut body, &mut io::sink()).map(drop)
            }
            _ => Err(io::Error::other(format!("a reply {}", line.escape_ascii()))),
        }
    }
}

fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend(format!("${}\r\n", word.len()).bytes());
        out.extend(*word);
        out.extend(b"\r\n");
    }
    out
}

/// Numbers by xorshift: what is asked for is the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn key(&mut self) -> String {
        format!("key:{}", self.below(KEYS))
    }

    fn value(&mut self) -> Vec<u8> {
        vec![b'v'; 20 + self.below(1500) as usize]
    }
}

impl Load {
    /// Runs every client until it is time to stop.
    pub fn run(&self) {
        let clients: [(&str, Work); 8] = [
            ("one request at a time", Load::one_at_a_time),
            ("one request at a time, too", Load::one_at_a_time),
            ("pipelines", Load::pipelines),
            ("counters in pipelines", Load::counters),
            ("connections that come and go", Load::crowd),
            ("large values", Load::large),
            ("a slow reader", Load::slow_reader),
            ("another slow reader", Load::slow_reader),
        ];
        std::thread::scope(|scope| {
            for (number, (name, work)) in clients.into_iter().enumerate() {
                scope.spawn(move || {
                    let numbers = Numbers(0x9E37_79B9_7F4A_7C15 ^ (number as u64 + 1));
                    if let Err(error) = work(self, numbers) {
                        self.complain(format!("{name}: {error}"));
                    }
                });
            }
        });
    }

    fn complain(&self, what: String) {
        self.errors.lock().expect("no client panics").push(what);
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Relaxed)
    }

    fn one_at_a_time(&self, mut numbers: Numbers) -> io::Result<()> {
        let mut connection = Connection::open(self.port)?;
        while self.goes_on() {
            let (key, value) = (numbers.key(), numbers.value());
            let start = Instant::now();
            match numbers.below(10) {
                0..=2 => connection.ask(&[b"SET", key.as_bytes(), &value])?,
                3 => connection.ask(&[b"SET", key.as_bytes(), &value, b"EX", b"20"])?,
                _ => connection.ask(&[b"GET", key.as_bytes()])?,
            }
            let us = start.elapsed().as_micros() as u32;
            self.latencies_us.lock().expect("no client panics").push(us);
            sleep(Duration::from_micros(300));
        }
        Ok(())
    }

    fn pipelines(&self, mut numbers: Numbers) -> io::Result<()> {
        let mut connection = Connection::open(self.port)?;
        while self.goes_on() {
            let mut bytes = Vec::new();
            for _ in 0..64 {
                let (key, value) = (numbers.key(), numbers.value());
                bytes.extend(match numbers.below(4) {
                    0 => request(&[b"SET", key.as_bytes(), &value]),
                    1 => request(&[b"DEL", key.as_bytes()]),
                    _ => request(&[b"GET", key.as_bytes()]),
                });
            }
            connection.write.write_all(&bytes)?;
            (0..64).try_for_each(|_| connection.skip())?;
            sleep(Duration::from_millis(3));
        }
        Ok(())
    }

    fn counters(&self, mut numbers: Numbers) -> io::Result<()> {
        let mut connection = Connection::open(self.port)?;
        while self.goes_on() {
            let names: Vec<String> =
                (0..64).map(|_| format!("counter:{}", numbers.below(1000))).collect();
            let bytes: Vec<u8> =
                names.iter().flat_map(|name| request(&[b"INCR", name.as_bytes()])).collect();
            connection.write.write_all(&bytes)?;
            (0..64).try_for_each(|_| connection.skip())?;
            sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Connections that ask something, half of something, or nothing, stay a while and go.
    fn crowd(&self, mut numbers: Numbers) -> io::Result<()> {
        let mut open = Vec::new();
        while self.goes_on() {
            let mut connection = Connection::open(self.port)?;
            match numbers.below(4) {
                0 => connection.ask(&[b"PING"])?,
                1 => connection.write.write_all(b"*2\r\n$3\r\nGET\r\n$1000\r\nhalf")?,
                2 => connection.write.write_all(b"get a b c\r\nset x 0 0 100\r\n")?,
                _ => {}
            }
            open.push(connection);
            if open.len() >= CROWD {
                // Not always the oldest, and now and then all.
                let many = if numbers.below(4) == 0 { CROWD } else { CROWD / 4 };
                let first = numbers.below((CROWD - many) as u64 + 1) as usize;
                open.drain(first..first + many);
            }
            sleep(Duration::from_millis(3));
        }
        Ok(())
    }

    /// The server may drop these two kinds of clients where they hold most, so they come again.
    fn large(&self, mut numbers: Numbers) -> io::Result<()> {
        let value = vec![b'L'; LARGE_BYTES];
        while self.goes_on() {
            let mut connection = Connection::open(self.port)?;
            while self.goes_on() {
                let key = format!("large:{}", numbers.below(LARGE_KEYS));
                let asked = match numbers.below(3) {
                    0 => connection.ask(&[b"SET", key.as_bytes(), &value]),
                    _ => connection.ask(&[b"GET", key.as_bytes()]),
                };
                if asked.is_err() {
                    break;
                }
                sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// Asks for 100 MB and reads them a little at a time, for some seconds.
    fn slow_reader(&self, mut numbers: Numbers) -> io::Result<()> {
        while self.goes_on() {
            let mut connection = Connection::open(self.port)?;
            for _ in 0..200 {
                let key = format!("large:{}", numbers.below(LARGE_KEYS));
                connection.write.write_all(&request(&[b"GET", key.as_bytes()]))?;
            }
            for _ in 0..150 {
                if !self.goes_on() || connection.read.read(&mut [0; 4096]).is_err() {
                    break;
                }
                sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }
}
