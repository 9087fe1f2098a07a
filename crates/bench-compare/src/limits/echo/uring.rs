//! TCP by io_uring: many connections, each with one message or one train of them under way, served
//! by one system call for all that is ready.

use super::super::Probe as Slices;
use super::super::cores::{cores, pin, with_server};
use super::streams::connect;
use super::{MESSAGE_BYTES, absent, failed};
use crate::load::{Client, Script};
use io_uring::{IoUring, Probe, opcode, squeue, types};
use silica::Result;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Twice the connections at most, since an echo is two entries.
const ENTRIES: u32 = 64;

/// Finds out whether this kernel serves sockets through io_uring.
pub(super) fn probe() -> Result<()> {
    let probed = || {
        let ring = IoUring::new(ENTRIES)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let able = probe.is_supported(opcode::Send::CODE) && probe.is_supported(opcode::Recv::CODE);
        if able { Ok(()) } else { Err(io::Error::from(io::ErrorKind::Unsupported)) }
    };
    probed().map_err(|e: io::Error| {
        absent(format!(
            "io_uring is refused here ({e}); it takes Linux 5.6, and a system (see the sysctl \
             kernel.io_uring_disabled) or a container that allows it"
        ))
    })
}

/// Echoes per second over `depth` connections.
pub(super) fn rate(depth: usize, seconds: f64) -> Result<f64> {
    let ends: io::Result<Vec<_>> = (0..depth).map(|_| connect()).collect();
    let ends = ends.map_err(|e| failed("connect over TCP", e))?;
    let (client, server) = ends.into_iter().unzip();
    with_server(
        |_| exchange(client, seconds).map_err(|e| failed("exchange messages by io_uring", e)),
        |_| serve(server, MESSAGE_BYTES).map_err(|e| failed("serve echoes by io_uring", e)),
    )
}

/// Messages that come back over `connections` connections with `depth` of each under way, which
/// leave together: the load of the servers that are measured beside it.
pub(super) struct Trains {
    client: Client,
    _server: Server,
}

/// Ends when the client closes its connections, which goes before it.
struct Server(Option<JoinHandle<()>>);

impl Trains {
    pub(super) fn new(connections: usize, depth: usize) -> Result<Self> {
        let ends: io::Result<Vec<_>> = (0..connections).map(|_| connect()).collect();
        let ends = ends.map_err(|e| failed("connect over TCP", e))?;
        let (client, server): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
        let serve = move || {
            pin(&cores(), 1);
            // The client tells what went wrong: nobody answers it any more.
            let _ = serve(server, depth * MESSAGE_BYTES);
        };
        let thread = std::thread::Builder::new().name("echo".to_string()).spawn(serve);
        let thread = thread.map_err(|e| failed("start a thread", e))?;
        pin(&cores(), 0);
        let scripts = Script::of_echo(connections, depth, MESSAGE_BYTES);
        let client = Client::new("the echo", client, scripts)?;
        Ok(Trains { client, _server: Server(Some(thread)) })
    }
}

impl Slices for Trains {
    fn slice(&mut self, time: Duration) -> Result<f64> {
        let done = self.client.slice(time)?;
        Ok(done.operations as f64 / done.seconds)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}

fn exchange(ends: Vec<TcpStream>, seconds: f64) -> io::Result<f64> {
    let period = Duration::from_secs_f64(seconds);
    let mut lanes = Lanes::new(ends, MESSAGE_BYTES)?;
    let started = Instant::now();
    (0..lanes.ends.len()).for_each(|lane| lanes.send_and_receive(lane));
    let mut done = 0;
    loop {
        let ready = lanes.turn()?;
        if lanes.closed {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        done += ready;
        let elapsed = started.elapsed();
        if elapsed >= period {
            // Here the connections are closed, by which the server sees that it is over.
            return Ok(done as f64 / elapsed.as_secs_f64());
        }
        lanes.answer();
    }
}

fn serve(ends: Vec<TcpStream>, message_bytes: usize) -> io::Result<()> {
    let mut lanes = Lanes::new(ends, message_bytes)?;
    (0..lanes.ends.len()).for_each(|lane| lanes.receive(lane));
    while lanes.under_way > 0 {
        lanes.turn()?;
        lanes.answer();
    }
    Ok(())
}

/// Connections of one ring, each with the bytes of one message.
///
/// Invariant: an entry of the ring points to the bytes of its lane, which nothing else refers to
/// and which are given back only when the completions of all entries were seen.
struct Lanes {
    ring: IoUring,
    ends: Vec<TcpStream>,
    bytes: Vec<*mut [u8]>,
    message_bytes: usize,
    /// Lanes that a message came on since the last look.
    ready: Vec<usize>,
    /// Entries whose completion was not seen.
    under_way: usize,
    /// True once a connection was closed.
    closed: bool,
}

impl Lanes {
    fn new(ends: Vec<TcpStream>, message_bytes: usize) -> io::Result<Self> {
        assert!(2 * ends.len() <= ENTRIES as usize, "the entries of all lanes fit");
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_coop_taskrun().setup_defer_taskrun();
        let ring = builder.build(ENTRIES).or_else(|_| IoUring::new(ENTRIES))?;
        let message = || Box::into_raw(vec![7; message_bytes].into_boxed_slice());
        let bytes = ends.iter().map(|_| message()).collect();
        let (ready, under_way, closed) = (Vec::new(), 0, false);
        Ok(Lanes { ring, ends, bytes, message_bytes, ready, under_way, closed })
    }

    fn receive(&mut self, lane: usize) {
        let fd = types::Fd(self.ends[lane].as_raw_fd());
        let entry = opcode::Recv::new(fd, self.bytes[lane].cast(), self.message_bytes as u32)
            .flags(libc::MSG_WAITALL)
            .build()
            .user_data(lane as u64);
        self.push(&entry);
    }

    /// Sends what lies in the lane, and then receives the next message.
    fn send_and_receive(&mut self, lane: usize) {
        let fd = types::Fd(self.ends[lane].as_raw_fd());
        let entry = opcode::Send::new(fd, self.bytes[lane].cast(), self.message_bytes as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .flags(squeue::Flags::IO_LINK)
            .user_data(u64::MAX);
        self.push(&entry);
        self.receive(lane);
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: the bytes of a lane and its connection stay until the entry's completion was
        // seen (invariant).
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.expect("a lane has two entries under way at most, and the ring room for them");
        self.under_way += 1;
    }

    /// Submits what was pushed and waits for messages; how many came.
    fn turn(&mut self) -> io::Result<usize> {
        while let Err(e) = self.ring.submit_and_wait(1) {
            let passing = [libc::EINTR, libc::EAGAIN, libc::EBUSY];
            if !e.raw_os_error().is_some_and(|code| passing.contains(&code)) {
                return Err(e);
            }
        }
        let before = self.ready.len();
        for completion in self.ring.completion() {
            self.under_way -= 1;
            let whole = completion.result() == self.message_bytes as i32;
            self.closed |= !whole;
            if whole && completion.user_data() != u64::MAX {
                self.ready.push(completion.user_data() as usize);
            }
        }
        Ok(self.ready.len() - before)
    }

    /// Answers all that came.
    fn answer(&mut self) {
        while let Some(lane) = self.ready.pop() {
            self.send_and_receive(lane);
        }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        for end in &self.ends {
            // What is under way ends at once.
            let _ = end.shutdown(Shutdown::Both);
        }
        while self.under_way > 0 {
            if self.turn().is_err() {
                // Better to lose the bytes than to give away what the kernel may write to.
                return;
            }
        }
        for bytes in &self.bytes {
            // SAFETY: made by `into_raw` in `new`, and no entry points to it any more.
            drop(unsafe { Box::from_raw(*bytes) });
        }
    }
}
