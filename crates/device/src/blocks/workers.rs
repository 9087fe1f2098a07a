//! Threads that carry out the operations of queues on flash in a file.
//!
//! A block belongs to one thread, so its operations are carried out in the order in which they
//! were pushed; LUNs are dealt to the threads in turn.

use super::{
    Append, BlockAddress, FlashQueue, FlashResult, OPERATIONS_MAX, Operation, PageAddress, Request,
};
use silica_base::AlignedBuf;
use std::marker::PhantomData;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Threads of an image at most.
const THREADS_MAX: usize = 8;

/// Flash in a file, as its threads use it.
pub(super) trait Carrier: Send + Sync + 'static {
    fn read(&self, first: PageAddress, pages: &mut [u8], spare: &mut [u8]) -> FlashResult<()>;
    fn append(&self, append: &Append<'_>) -> FlashResult<u32>;
    fn finish(&self, block: BlockAddress) -> FlashResult<()>;
    fn reset(&self, block: BlockAddress) -> FlashResult<()>;
}

/// The threads of an image, which start with its first queue.
pub(super) struct Workers {
    image: Arc<dyn Carrier>,
    threads: Mutex<Vec<(Sender<Job>, JoinHandle<()>)>>,
}

/// An operation without what it is for.
struct Job {
    ticket: usize,
    request: Request,
    pages: AlignedBuf,
    spare: Vec<u8>,
    done: Sender<Done>,
}

struct Done {
    ticket: usize,
    pages: AlignedBuf,
    spare: Vec<u8>,
    result: FlashResult<u32>,
}

impl Workers {
    pub(super) fn new(image: Arc<dyn Carrier>) -> Self {
        Workers { image, threads: Mutex::new(Vec::new()) }
    }

    /// Starts the threads that are missing; their inboxes. Fewer than asked for if the system
    /// refuses more; with none the queue works in the caller's thread.
    fn inboxes(&self, wanted: usize) -> Vec<Sender<Job>> {
        let mut threads = self.threads.lock().expect("no panic while locked");
        while threads.len() < wanted {
            let (sender, receiver) = channel();
            let image = self.image.clone();
            let started = std::thread::Builder::new()
                .name(format!("flash-{}", threads.len()))
                .spawn(move || work(&*image, &receiver));
            match started {
                Ok(thread) => threads.push((sender, thread)),
                Err(e) => {
                    log::warn!("a flash image works with {} threads: {e}", threads.len());
                    break;
                }
            }
        }
        threads.iter().map(|(inbox, _)| inbox.clone()).collect()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for (inbox, thread) in self.threads.get_mut().expect("no panic while locked").drain(..) {
            drop(inbox);
            thread.join().expect("threads of a flash image do not panic");
        }
    }
}

fn work(image: &dyn Carrier, inbox: &Receiver<Job>) {
    for job in inbox {
        let done = job.done.clone();
        // Whoever dropped its queue has waited for all; nobody else stops listening.
        let _ = done.send(carry_out(image, job));
    }
}

fn carry_out(image: &dyn Carrier, job: Job) -> Done {
    let Job { ticket, request, mut pages, mut spare, .. } = job;
    let result = match request {
        Request::Read { first } => image.read(first, &mut pages, &mut spare).map(|()| first.page),
        Request::Append { block, expected, stream } => {
            image.append(&Append { block, expected, stream, pages: &pages, spare: &spare })
        }
        Request::Finish { block } => image.finish(block).map(|()| 0),
        Request::Reset { block } => image.reset(block).map(|()| 0),
    };
    Done { ticket, pages, spare, result }
}

/// A queue of a [`super::FlashImage`] or a [`super::FlashDrive`].
pub struct ImageQueue<'d, T> {
    image: Arc<dyn Carrier>,
    inboxes: Vec<Sender<Job>>,
    luns_per_channel: usize,
    /// What operations under way are for, by ticket.
    waiting: Vec<Option<(T, Request)>>,
    free: Vec<usize>,
    under_way: usize,
    sender: Sender<Done>,
    receiver: Receiver<Done>,
    device: PhantomData<&'d ()>,
}

impl<'d, T> ImageQueue<'d, T> {
    pub(super) fn new(workers: &'d Workers, luns_per_channel: u32, depth: usize) -> Self {
        let depth = depth.clamp(1, OPERATIONS_MAX);
        let (sender, receiver) = channel();
        ImageQueue {
            image: workers.image.clone(),
            inboxes: workers.inboxes(THREADS_MAX.min(depth)),
            luns_per_channel: luns_per_channel as usize,
            waiting: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
            under_way: 0,
            sender,
            receiver,
            device: PhantomData,
        }
    }
}

impl<T> FlashQueue<T> for ImageQueue<'_, T> {
    fn push(&mut self, operation: Operation<T>) {
        let Operation { of, request, pages, spare } = operation;
        let ticket = self.free.pop().expect("the queue is full; pop an operation first");
        self.waiting[ticket] = Some((of, request));
        self.under_way += 1;
        let job = Job { ticket, request, pages, spare, done: self.sender.clone() };
        let block = request.block();
        let lun = usize::from(block.channel) * self.luns_per_channel + usize::from(block.lun);
        match self.inboxes.len() {
            0 => {
                let done = carry_out(&*self.image, job);
                self.sender.send(done).expect("this queue has the receiver");
            }
            threads => self.inboxes[lun % threads].send(job).expect("threads outlive their queues"),
        }
    }

    fn pop(&mut self) -> Option<(Operation<T>, FlashResult<u32>)> {
        if self.under_way == 0 {
            return None;
        }
        let Done { ticket, pages, spare, result } =
            self.receiver.recv().expect("this queue has a sender");
        let (of, request) = self.waiting[ticket].take().expect("each ticket comes back once");
        self.free.push(ticket);
        self.under_way -= 1;
        Some((Operation { of, request, pages, spare }, result))
    }

    fn len(&self) -> usize {
        self.under_way
    }

    fn is_full(&self) -> bool {
        self.free.is_empty()
    }
}

impl<T> Drop for ImageQueue<'_, T> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}
