//! Sockets through io_uring: what comes lies in buffers that the kernel fills as bytes arrive, and
//! everything that is to be sent, on however many sockets, leaves with one system call.
//!
//! Invariants:
//!
//! 1. The kernel may write to a buffer of the group between its entry in the group's ring and the
//!    completion that names it; [`SocketRing::next`] shows it from then until the next call, and
//!    only then gives it back. Buffers, the group's ring and bytes that are being sent stay where
//!    they are until no entry of ours is under way; where that cannot be reached, they are leaked.
//! 2. Each entry that was pushed counts as under way until its last completion was seen.

use io_uring::types::{self, BufRingEntry, CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use memmap2::MmapMut;
use std::any::Any;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// Entries that are submitted at once; more are submitted in several calls.
const ENTRIES: u32 = 1024;
/// Buffers for what comes, and bytes of each. A socket takes one whenever something comes on it,
/// and may take them all before anybody can pause it.
const BUFFERS: u16 = 128;
const BUFFER_BYTES: usize = 8 << 10;
/// The group that the buffers are.
const GROUP: u16 = 0;
/// Tokens have so many bits.
const TOKEN_BITS: u32 = 60;
const TOKEN_MASK: u64 = (1 << TOKEN_BITS) - 1;
/// How long the end waits for what is under way.
const END_WAIT: Duration = Duration::from_millis(50);
const END_WAITS_MAX: usize = 100;

/// What an entry does, in the bits above its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Receive,
    /// The token is the place of its bytes.
    Send,
    Watch,
    Cancel,
}

/// What happened on a socket.
#[derive(Debug)]
pub enum SocketEvent<'a> {
    /// These bytes came. Where no more follow, the socket must be received from again.
    Received {
        /// What [`SocketRing::receive`] was told.
        token: u64,
        /// What came.
        bytes: &'a [u8],
        /// More will be told without being asked for.
        more: bool,
    },
    /// Nothing more comes until the socket is received from again: the other side has sent its
    /// last byte (`Ok`), or why.
    Stopped {
        /// What [`SocketRing::receive`] was told.
        token: u64,
        /// `ENOBUFS` where buffers ran out, `ECANCELED` after [`SocketRing::pause`].
        result: io::Result<()>,
    },
    /// These bytes were sent up to this place.
    Sent {
        /// What [`SocketRing::send`] was told.
        token: u64,
        /// The bytes, given back.
        bytes: Vec<u8>,
        /// How many were sent, from where it began.
        result: io::Result<usize>,
    },
    /// The descriptor that was watched has something to read.
    Ready {
        /// What [`SocketRing::watch`] was told.
        token: u64,
    },
}

/// Bytes that are being sent.
struct Flight {
    bytes: Vec<u8>,
    token: u64,
}

/// A ring for the sockets of one thread.
///
/// Sockets are named by tokens of up to 60 bits. A socket that is used here must stay open until
/// [`SocketRing::wait`] was called: [`SocketRing::release`] keeps it for as long.
pub struct SocketRing {
    ring: ManuallyDrop<IoUring>,
    /// Where the kernel finds free buffers.
    group: ManuallyDrop<MmapMut>,
    buffers: ManuallyDrop<MmapMut>,
    /// Buffers ever put into the group.
    tail: u16,
    /// The buffer that was shown last.
    shown: Option<u16>,
    sends: Vec<Option<Flight>>,
    free: Vec<usize>,
    under_way: usize,
    released: Vec<Box<dyn Any + Send>>,
}

impl std::fmt::Debug for SocketRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SocketRing").field("under_way", &self.under_way).finish_non_exhaustive()
    }
}

impl SocketRing {
    /// A ring of the calling thread, which alone may use it; the kernel interrupts what that thread
    /// waits for when a ring of it ends. An error where the kernel has not got all that it takes
    /// (Linux 6.1 has), or does not let us.
    pub fn new() -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
        let ring = builder.build(ENTRIES)?;
        if !ring.params().is_feature_ext_arg() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let group = MmapMut::map_anon(usize::from(BUFFERS) * size_of::<BufRingEntry>())?;
        let buffers = MmapMut::map_anon(usize::from(BUFFERS) * BUFFER_BYTES)?;
        let mut made = SocketRing {
            ring: ManuallyDrop::new(ring),
            group: ManuallyDrop::new(group),
            buffers: ManuallyDrop::new(buffers),
            tail: 0,
            shown: None,
            sends: Vec::new(),
            free: Vec::new(),
            under_way: 0,
            released: Vec::new(),
        };
        (0..BUFFERS).for_each(|buffer| made.give(buffer));
        let address = made.group.as_ptr() as u64;
        // SAFETY: the mapping is page-aligned, has room for so many entries, and stays as long as
        // the ring does (invariant 1).
        unsafe { made.ring.submitter().register_buf_ring_with_flags(address, BUFFERS, GROUP, 0)? };
        Ok(made)
    }

    /// Puts a buffer where the kernel takes them from.
    fn give(&mut self, buffer: u16) {
        let place = usize::from(self.tail % BUFFERS);
        let start = usize::from(buffer) * BUFFER_BYTES;
        let bytes = &mut self.buffers[start..start + BUFFER_BYTES];
        let address = bytes.as_mut_ptr() as u64;
        let base = self.group.as_mut_ptr().cast::<BufRingEntry>();
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the mapping is aligned and has `BUFFERS` entries, for which any bytes are a
        // value; the kernel reads an entry only once the tail has passed it. The tail lies in
        // bytes of the first entry that none of its fields is, and is used atomically only.
        unsafe {
            let entry = &mut *base.add(place);
            entry.set_addr(address);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(buffer);
            let tail = BufRingEntry::tail(base).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }

    /// Tells whatever comes on `socket` from now on, until that stops.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, token: u64) {
        let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build();
        self.push(entry, Kind::Receive, token);
    }

    /// Ends what [`SocketRing::receive`] has begun with this token; bytes may still come before.
    pub fn pause(&mut self, token: u64) {
        let entry = opcode::AsyncCancel::new(Kind::Receive.number(token)).build();
        self.push(entry, Kind::Cancel, token);
    }

    /// Sends `bytes` from place `from` on, as far as the socket takes them.
    pub fn send(&mut self, socket: BorrowedFd<'_>, bytes: Vec<u8>, from: usize, token: u64) {
        let rest = &bytes[from..];
        let entry = opcode::Send::new(
            Fd(socket.as_raw_fd()),
            rest.as_ptr(),
            u32::try_from(rest.len()).unwrap_or(u32::MAX),
        );
        let entry = entry.flags(libc::MSG_NOSIGNAL).build();
        let place = self.free.pop().unwrap_or_else(|| {
            self.sends.push(None);
            self.sends.len() - 1
        });
        self.sends[place] = Some(Flight { bytes, token });
        self.push(entry, Kind::Send, place as u64);
    }

    /// Tells once when `descriptor` has something to read.
    pub fn watch(&mut self, descriptor: BorrowedFd<'_>, token: u64) {
        let entry = opcode::PollAdd::new(Fd(descriptor.as_raw_fd()), libc::POLLIN as u32).build();
        self.push(entry, Kind::Watch, token);
    }

    /// Keeps a socket that is used no more for as long as an entry may name it.
    pub fn release(&mut self, socket: impl Any + Send) {
        self.released.push(Box::new(socket));
    }

    fn push(&mut self, entry: squeue::Entry, kind: Kind, token: u64) {
        let entry = entry.user_data(kind.number(token));
        loop {
            // SAFETY: what the entry points to stays until its completion was seen (invariant 1).
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                self.under_way += 1;
                return;
            }
            if self.ring.submit().is_err() {
                // The kernel is short of memory for the moment.
                std::thread::yield_now();
            }
        }
    }

    /// Submits all that was asked for, and waits until something happened or for `time`.
    pub fn wait(&mut self, time: Duration) -> io::Result<()> {
        self.give_back();
        let time = Timespec::from(time);
        let args = SubmitArgs::new().timespec(&time);
        let waited = self.ring.submitter().submit_with_args(1, &args);
        self.after(waited)
    }

    /// Submits all that was asked for and lets the kernel tell what happened so far, without
    /// waiting; calls it only where there is something.
    pub fn look(&mut self) -> io::Result<()> {
        self.give_back();
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
        self.after(entered)
    }

    /// Judges a call that submits.
    fn after(&mut self, entered: io::Result<usize>) -> io::Result<()> {
        if self.ring.submission().is_empty() {
            self.released.clear();
        }
        match entered.map_err(|e| (e.raw_os_error(), e)) {
            Ok(_) | Err((Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN), _)) => {
                Ok(())
            }
            Err((_, e)) => Err(e),
        }
    }

    fn give_back(&mut self) {
        if let Some(buffer) = self.shown.take() {
            self.give(buffer);
        }
    }

    /// The next thing that happened.
    #[allow(clippy::should_implement_trait, reason = "what it shows is borrowed from it")]
    pub fn next(&mut self) -> Option<SocketEvent<'_>> {
        self.give_back();
        loop {
            let completion = self.ring.completion().next()?;
            let (kind, token) = Kind::of(completion.user_data());
            let more = cqueue::more(completion.flags());
            self.under_way -= usize::from(!more);
            let result = match completion.result() {
                code if code < 0 => Err(io::Error::from_raw_os_error(-code)),
                bytes => Ok(bytes as usize),
            };
            self.shown = cqueue::buffer_select(completion.flags());
            match (kind, result) {
                (Kind::Cancel, _) => {}
                (Kind::Watch, _) => return Some(SocketEvent::Ready { token }),
                (Kind::Send, result) => {
                    let flight = self.sends.get_mut(token as usize).and_then(Option::take);
                    let Some(Flight { bytes, token: of }) = flight else { continue };
                    self.free.push(token as usize);
                    return Some(SocketEvent::Sent { token: of, bytes, result });
                }
                (Kind::Receive, Ok(bytes)) if bytes > 0 => {
                    let buffer = usize::from(self.shown.unwrap_or_default());
                    let bytes = &self.buffers[buffer * BUFFER_BYTES..][..bytes];
                    return Some(SocketEvent::Received { token, bytes, more });
                }
                (Kind::Receive, result) => {
                    return Some(SocketEvent::Stopped { token, result: result.map(drop) });
                }
            }
        }
    }

    /// Cancels everything and waits for its end; false where it does not come.
    fn end(&mut self) -> bool {
        let _ = self.ring.submit();
        for _ in 0..END_WAITS_MAX {
            if self.under_way == 0 {
                return true;
            }
            let time = types::Timespec::from(END_WAIT);
            let _ = self.ring.submitter().register_sync_cancel(Some(time), CancelBuilder::any());
            let _ = self.wait(END_WAIT);
            while self.next().is_some() {}
        }
        self.under_way == 0
    }
}

impl Drop for SocketRing {
    fn drop(&mut self) {
        if !self.end() {
            // Better to lose the memory than to give away what the kernel may write to.
            log::error!("io_uring: entries do not end; their memory is lost");
            return std::mem::forget(std::mem::take(&mut self.sends));
        }
        // SAFETY: they are dropped once, here, and used no more. No entry is under way, and the
        // ring goes before the memory that is registered with it.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            ManuallyDrop::drop(&mut self.group);
            ManuallyDrop::drop(&mut self.buffers);
        }
    }
}

impl Kind {
    fn number(self, token: u64) -> u64 {
        debug_assert!(token <= TOKEN_MASK);
        (self as u64) << TOKEN_BITS | token
    }

    fn of(number: u64) -> (Kind, u64) {
        let kind = match number >> TOKEN_BITS {
            0 => Kind::Receive,
            1 => Kind::Send,
            2 => Kind::Watch,
            _ => Kind::Cancel,
        };
        (kind, number & TOKEN_MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    /// Where this kernel has none there is nothing to test.
    fn ring() -> Option<SocketRing> {
        SocketRing::new().inspect_err(|e| eprintln!("no ring here: {e}")).ok()
    }

    fn wait(ring: &mut SocketRing) {
        ring.wait(Duration::from_secs(5)).unwrap();
    }

    #[test]
    fn what_comes_is_told_until_the_end() {
        let Some(mut ring) = ring() else { return };
        let (mut here, there) = UnixStream::pair().unwrap();
        ring.receive(there.as_fd(), 77);
        let (mut told, mut events) = (Vec::new(), 0);
        // More than all buffers together hold.
        for byte in 0..400u32 {
            here.write_all(&vec![byte as u8; 10_000]).unwrap();
            while told.len() < (byte as usize + 1) * 10_000 {
                wait(&mut ring);
                while let Some(event) = ring.next() {
                    let SocketEvent::Received { token: 77, bytes, more: true } = event else {
                        panic!("{event:?}");
                    };
                    told.extend_from_slice(bytes);
                    events += 1;
                }
            }
        }
        assert!(events >= 400);
        assert!(told.chunks(10_000).enumerate().all(|(i, c)| c.iter().all(|b| *b == i as u8)));
        drop(here);
        wait(&mut ring);
        assert!(matches!(ring.next(), Some(SocketEvent::Stopped { token: 77, result: Ok(()) })));
        assert!(ring.next().is_none() && ring.under_way == 0);
    }

    #[test]
    fn a_socket_takes_what_it_can_and_gives_the_bytes_back() {
        let Some(mut ring) = ring() else { return };
        let (here, mut there) = UnixStream::pair().unwrap();
        let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i / 1000) as u8).collect();
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            there.read_to_end(&mut all).unwrap();
            all
        });
        let (mut rest, mut from) = (bytes.clone(), 0);
        while from < bytes.len() {
            ring.send(here.as_fd(), rest, from, 5);
            let sent = loop {
                wait(&mut ring);
                if let Some(SocketEvent::Sent { token: 5, bytes, result }) = ring.next() {
                    rest = bytes;
                    break result.unwrap();
                }
            };
            assert!(sent > 0);
            from += sent;
        }
        drop(here);
        assert!(reader.join().unwrap() == bytes);
    }

    #[test]
    fn receiving_pauses_and_goes_on() {
        let Some(mut ring) = ring() else { return };
        let (mut here, there) = UnixStream::pair().unwrap();
        ring.receive(there.as_fd(), 1);
        ring.pause(1);
        wait(&mut ring);
        let Some(SocketEvent::Stopped { token: 1, result: Err(e) }) = ring.next() else { panic!() };
        assert_eq!(e.raw_os_error(), Some(libc::ECANCELED));
        here.write_all(b"later").unwrap();
        ring.wait(Duration::from_millis(1)).unwrap();
        assert!(ring.next().is_none(), "nobody asked");
        ring.receive(there.as_fd(), 2);
        wait(&mut ring);
        let told = ring.next();
        assert!(matches!(told, Some(SocketEvent::Received { token: 2, bytes: b"later", .. })));
    }

    #[test]
    fn a_look_does_not_wait() {
        let Some(mut ring) = ring() else { return };
        let (mut here, there) = UnixStream::pair().unwrap();
        ring.receive(there.as_fd(), 1);
        ring.look().unwrap();
        assert!(ring.next().is_none());
        here.write_all(b"now").unwrap();
        // What was written has come, since nothing lies between both ends.
        ring.look().unwrap();
        let told = ring.next();
        assert!(matches!(told, Some(SocketEvent::Received { token: 1, bytes: b"now", .. })));
    }

    #[test]
    fn a_ring_ends_with_everything_under_way() {
        let Some(mut ring) = ring() else { return };
        let (here, there) = UnixStream::pair().unwrap();
        ring.receive(there.as_fd(), 1);
        // Nobody reads, so it cannot end by itself.
        ring.send(here.as_fd(), vec![7; 10 << 20], 0, 2);
        ring.send(here.as_fd(), vec![7; 10 << 20], 0, 3);
        ring.watch(here.as_fd(), 4);
        ring.wait(Duration::from_millis(1)).unwrap();
        ring.release(there);
        assert!(ring.end());
    }
}
