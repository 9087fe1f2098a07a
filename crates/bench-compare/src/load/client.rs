//! The client: its connections in one ring, so that all that is ready is sent and received by one
//! system call.

use super::Done;
use super::script::{Heard, Script, nonsense};
use io_uring::types::Fd;
use io_uring::{EnterFlags, IoUring, opcode, squeue};
use silica::{Error, ErrorKind, Result};
use std::io;
use std::mem::take;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// A server that is silent for so long hangs.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// In the number of an entry that sends; the others receive.
const SENDS: u64 = 1 << 32;

/// One connection.
struct Lane {
    end: TcpStream,
    script: Script,
    /// The train under way, or the next.
    train: usize,
    input: Box<[u8]>,
    /// Bytes that came in answer to the train.
    came: usize,
    /// Some of them are not what was expected.
    strange: bool,
    busy: bool,
    sent: Instant,
}

/// When to begin no more trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// After this time.
    Time(Duration),
    /// When all scripts were said once.
    Once,
}

/// Connections of one thread.
///
/// Invariant: an entry of the ring points to the script or the input of its lane, neither of which
/// is moved, and both of which are given back only when the completions of all entries were seen.
pub(crate) struct Client {
    name: &'static str,
    ring: IoUring,
    lanes: Vec<Lane>,
    /// Entries whose completion was not seen.
    under_way: usize,
    done: Done,
    /// The time at the last look.
    now: Instant,
}

impl Client {
    /// A client that says one of `scripts` over each of `ends`.
    pub(crate) fn new(
        name: &'static str,
        ends: Vec<TcpStream>,
        scripts: Vec<Script>,
    ) -> Result<Self> {
        let failed = |e| Error::io("setting up io_uring, which the load takes", e);
        // Each has one entry that sends and one that receives.
        let entries = (2 * ends.len()).next_power_of_two() as u32;
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
        let ring = builder.build(entries).map_err(failed)?;
        let now = Instant::now();
        let lane = |(end, script): (TcpStream, Script)| {
            let input = vec![0; script.reply_bytes_max()].into_boxed_slice();
            let (train, came, strange, busy) = (0, 0, false, false);
            Lane { end, script, train, input, came, strange, busy, sent: now }
        };
        let lanes = ends.into_iter().zip(scripts).map(lane).collect();
        Ok(Client { name, ring, lanes, under_way: 0, done: Done::default(), now })
    }

    /// Says every script once; what that did.
    pub(crate) fn once(&mut self) -> Result<Done> {
        self.go_on(Until::Once)
    }

    /// Goes on for `time`, or longer until something is done, and waits for what is under way then;
    /// what was done within the time.
    pub(crate) fn slice(&mut self, time: Duration) -> Result<Done> {
        self.go_on(Until::Time(time))
    }

    fn go_on(&mut self, until: Until) -> Result<Done> {
        let began = Instant::now();
        self.now = began;
        self.done = Done::default();
        for lane in 0..self.lanes.len() {
            if self.lanes[lane].script.trains() > 0 {
                self.send(lane);
            }
        }
        let mut over = None;
        let mut heard = began;
        while self.under_way > 0 {
            self.submit().map_err(|e| Error::io("entering io_uring", e))?;
            let before = self.now;
            self.now = Instant::now();
            let came = self.take_completions(over.is_none(), until)?;
            if came == 0 {
                self.done.idle_seconds += (self.now - before).as_secs_f64();
                if self.now - heard > SILENCE_MAX {
                    let message = format!("{} does not answer", self.name);
                    return Err(Error::new(ErrorKind::Io, message));
                }
                std::hint::spin_loop();
            } else {
                heard = self.now;
            }
            let something = self.done.operations > 0;
            if over.is_none() && something && until.is_over(self.now - began) {
                self.done.seconds = (self.now - began).as_secs_f64();
                over = Some(take(&mut self.done));
            }
        }
        self.done.seconds = began.elapsed().as_secs_f64();
        Ok(over.unwrap_or(take(&mut self.done)))
    }

    /// Enters the kernel where it is worth it.
    fn submit(&mut self) -> io::Result<()> {
        let submission = self.ring.submission();
        let pushed = submission.len();
        if pushed == 0 && !submission.taskrun() {
            return Ok(());
        }
        drop(submission);
        // SAFETY: there is no signal mask that the call could take for something else.
        let entered = unsafe {
            let flags = EnterFlags::GETEVENTS.bits();
            self.ring.submitter().enter::<libc::sigset_t>(pushed as u32, 0, flags, None)
        };
        match entered {
            Err(e) if !matches!(e.raw_os_error(), Some(libc::EINTR | libc::EBUSY)) => Err(e),
            _ => Ok(()),
        }
    }

    /// Looks at what came, and begins the next trains where `more` may begin; how many entries
    /// were done.
    fn take_completions(&mut self, more: bool, until: Until) -> Result<usize> {
        let mut seen = 0;
        loop {
            let Some(completion) = self.ring.completion().next() else { return Ok(seen) };
            seen += 1;
            self.under_way -= 1;
            let (number, result) = (completion.user_data(), completion.result());
            let lane = (number & !SENDS) as usize;
            if result <= 0 {
                let name = self.name;
                return Err(Error::io(
                    format!("talking to {name}"),
                    match result {
                        0 => io::ErrorKind::UnexpectedEof.into(),
                        code => io::Error::from_raw_os_error(-code),
                    },
                ));
            }
            if number & SENDS == 0 && self.hear(lane, result as usize)? && more {
                let is_last = self.lanes[lane].train == 0 && until == Until::Once;
                if !is_last {
                    self.send(lane);
                }
            }
        }
    }

    /// Takes in so many bytes; true where they end a train.
    fn hear(&mut self, index: usize, bytes: usize) -> Result<bool> {
        let lane = &mut self.lanes[index];
        let wanted = lane.script.replies(lane.train);
        let before = lane.came;
        lane.came += bytes;
        let new = before..lane.came;
        lane.strange |= lane.input[new.clone()] != wanted[new];
        let whole = lane.came == wanted.len();
        let misses = match lane.strange {
            false if whole => 0,
            false => {
                self.receive(index);
                return Ok(false);
            }
            true => match lane.script.hear(lane.train, &lane.input[..lane.came]) {
                Heard::All(misses) => misses,
                Heard::Part if !whole => {
                    self.receive(index);
                    return Ok(false);
                }
                Heard::Part => return Err(nonsense(self.name, &lane.input)),
                Heard::Nonsense(at) => return Err(nonsense(self.name, &lane.input[at..lane.came])),
            },
        };
        self.done.operations += lane.script.operations(lane.train);
        self.done.misses += misses;
        self.done.latencies.record((self.now - lane.sent).as_nanos() as u64);
        lane.train = (lane.train + 1) % lane.script.trains();
        lane.busy = false;
        Ok(true)
    }

    /// Begins the lane's train.
    fn send(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        (lane.came, lane.strange, lane.busy, lane.sent) = (0, false, true, self.now);
        let requests = lane.script.requests(lane.train);
        let fd = Fd(lane.end.as_raw_fd());
        let entry = opcode::Send::new(fd, requests.as_ptr(), requests.len() as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .user_data(index as u64 | SENDS);
        self.push(&entry);
        self.receive(index);
    }

    fn receive(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        let wanted = lane.script.replies(lane.train).len();
        let room = &mut lane.input[lane.came..wanted];
        let fd = Fd(lane.end.as_raw_fd());
        let entry = opcode::Recv::new(fd, room.as_mut_ptr(), room.len() as u32)
            .build()
            .user_data(index as u64);
        self.push(&entry);
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: what the entry points to stays until its completion was seen (invariant).
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.expect("a lane has two entries under way at most, and the ring room for them");
        self.under_way += 1;
    }
}

impl Until {
    fn is_over(self, elapsed: Duration) -> bool {
        matches!(self, Until::Time(time) if elapsed >= time)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        for lane in &self.lanes {
            // What is under way ends at once.
            let _ = lane.end.shutdown(Shutdown::Both);
        }
        while self.under_way > 0 {
            if self.ring.submit_and_wait(1).is_err() {
                // Better to lose the bytes than to give away what the kernel may write to.
                take(&mut self.lanes).into_iter().for_each(std::mem::forget);
                return;
            }
            self.under_way -= self.ring.completion().count();
        }
    }
}
