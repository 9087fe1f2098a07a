//! What travels between loops and engines: planned requests, their bytes and their replies.

use crate::acl::User;
use crate::budget::{Claim, SMALL_BYTES, resident_bytes};
use crate::lane::Lane;
use crate::memcached::{self, Marks};
use crate::push::Owner;
use crate::resp::scripts::ScriptCall;
use crate::resp::sql::SqlCall;
use crate::table::Run;
use crate::transaction::Transaction;
use crate::waiters::{Wait, Waited};
use crate::watch::Watches;
use silica_proto::memcached::Request as Head;
use silica_proto::{Reply, Span, Version};
use std::sync::Arc;

/// A request's arguments, command name included.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
    /// What a request of memcached's protocols says besides its keys and data.
    head: Option<&'a Head>,
    /// What is noted about entries by memcached's clients.
    marks: Option<&'a Arc<Marks>>,
    /// Which of its keys is asked about.
    nth: usize,
    /// When it was planned or, later, run.
    now_ms: u64,
    /// What its memory is claimed from.
    claim: Option<&'a Claim>,
}

impl<'a> Args<'a> {
    pub(crate) fn new(bytes: &'a [u8], spans: &'a [Span]) -> Self {
        Args { bytes, spans, head: None, marks: None, nth: 0, now_ms: 0, claim: None }
    }

    /// These arguments, with `claim` for the memory that the command needs.
    pub fn within(self, claim: &'a Claim) -> Self {
        Args { claim: Some(claim), ..self }
    }

    /// Claims memory for `bytes` bytes that the request is about to allocate, or says why it may
    /// not have them. Few bytes are not counted.
    pub(crate) fn claim(&self, bytes: usize) -> Result<(), String> {
        match self.claim {
            Some(claim) if bytes > SMALL_BYTES => claim.grow(bytes),
            _ => Ok(()),
        }
    }

    /// Claims memory for a value of `bytes` bytes, or says why there is none.
    pub(crate) fn claim_value(&self, bytes: usize) -> Result<(), String> {
        match self.claim.and_then(|claim| claim.budget().refuse_value(bytes)) {
            Some(text) => Err(text),
            None => self.claim(bytes),
        }
    }

    /// Why an answer cannot hold a value of `bytes` bytes, where that is so.
    pub(crate) fn refuse_value(&self, bytes: usize) -> Option<String> {
        self.claim.and_then(|claim| claim.budget().refuse_value(bytes))
    }

    /// Bytes of all arguments.
    pub(crate) fn bytes(&self) -> usize {
        self.spans.iter().map(|span| span.len as usize).sum()
    }

    /// These arguments, asking about their key `nth`.
    pub fn at_key(self, nth: usize) -> Self {
        Args { nth, ..self }
    }

    /// The key that is asked about.
    pub fn key(&self) -> &'a [u8] {
        self.get(1 + self.nth)
    }

    /// What a request of memcached's protocols says.
    pub(crate) fn head(&self) -> Head {
        self.head.copied().unwrap_or_default()
    }

    /// What a request of memcached's protocols says; `None` of another protocol.
    pub(crate) fn memcached(&self) -> Option<&'a Head> {
        self.head
    }

    /// What is noted about entries.
    pub(crate) fn marks(&self) -> Option<&'a Marks> {
        self.marks.map(|marks| &**marks)
    }

    /// The time of a request of memcached's protocols, in Unix milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Answers with an error in the client's protocol.
    pub(crate) fn refuse(&self, text: &str, reply: &mut Reply<'_>) {
        match self.head {
            None => reply.error(text),
            Some(head) => memcached::refuse(head, text, reply),
        }
    }

    /// The arguments from `first` on.
    pub(crate) fn skip(self, first: usize) -> Self {
        Args { spans: &self.spans[first..], ..self }
    }

    /// Number of arguments.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Copies the arguments to the end of `bytes` and `spans`, to travel with these; of a request
    /// of `many` keys only the one that is asked about.
    pub fn pack(&self, many: bool, bytes: &mut Vec<u8>, spans: &mut Vec<Span>) -> Parcel {
        let first = spans.len();
        let mut copy = |arg: &[u8]| {
            spans.push(Span { start: bytes.len() as u32, len: arg.len() as u32 });
            bytes.extend_from_slice(arg);
        };
        if many {
            copy(self.get(0));
            copy(self.key());
        } else {
            self.from(0).for_each(copy);
        }
        let len = spans.len() - first;
        let (head, marks) = (self.head.copied(), self.marks.cloned());
        Parcel { first, len, head, marks, now_ms: self.now_ms }
    }

    /// Argument `index`, which must be there.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> &'a [u8] {
        self.spans[index].of(self.bytes)
    }

    /// Arguments from `first` on.
    pub(crate) fn from(&self, first: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        self.spans[first.min(self.spans.len())..].iter().map(move |s| s.of(bytes))
    }

    /// True where argument `index` is `word`, in whatever case.
    pub(crate) fn is(&self, index: usize, word: &str) -> bool {
        self.get(index).eq_ignore_ascii_case(word.as_bytes())
    }
}

/// Arguments that were copied.
#[derive(Debug, Clone)]
pub struct Parcel {
    /// The first span, and how many there are.
    first: usize,
    len: usize,
    head: Option<Head>,
    marks: Option<Arc<Marks>>,
    now_ms: u64,
}

impl Parcel {
    /// The arguments, which lie in what they were copied to.
    pub fn args<'a>(&'a self, bytes: &'a [u8], spans: &'a [Span]) -> Args<'a> {
        let args = Args::new(bytes, &spans[self.first..self.first + self.len]);
        let (head, marks) = (self.head.as_ref(), self.marks.as_ref());
        Args { head, marks, now_ms: self.now_ms, ..args }
    }
}

/// One planned request of a connection.
#[derive(Clone, Copy)]
pub struct Request {
    /// What runs it.
    pub(crate) run: Run,
    /// First argument among the input's spans; for a ready reply its first byte.
    pub(crate) first: u32,
    /// Number of arguments; for a ready reply its number of bytes.
    pub(crate) len: u32,
    /// Place of its head among the input's heads, counted from 1; 0 where it has none.
    pub(crate) head: u32,
    /// Database it is for.
    pub db: u8,
    /// Dialect of the reply.
    pub(crate) version: Version,
    /// The client wants no reply.
    pub(crate) silent: bool,
    /// It may take long, so it runs apart from everybody else's.
    pub long: bool,
    /// The client is told if a key that it reads is changed later.
    pub(crate) tracked: bool,
    /// In a cluster: ASKING came before it, or it says so itself.
    pub(crate) asking: bool,
    /// In a cluster: its connection also reads from replicas.
    pub(crate) read_only: bool,
}

impl Request {
    /// True if it was answered while it was planned.
    pub fn is_ready(&self) -> bool {
        self.run.is_ready()
    }

    /// True if it may change the store.
    pub fn changes(&self) -> bool {
        self.run.changes()
    }

    /// True if it only reads keys, together with other requests.
    pub fn reads(&self) -> bool {
        matches!(self.run, Run::Read(_))
    }

    /// True if it is a statement of SQL.
    pub fn is_sql(&self) -> bool {
        matches!(self.run, Run::Sql(..))
    }

    /// A request that is answered in the oldest dialect, for the first database.
    #[inline]
    pub(crate) fn new(run: Run, first: usize, len: usize) -> Self {
        Request {
            run,
            first: first as u32,
            len: len as u32,
            head: 0,
            db: 0,
            version: Version::Resp2,
            silent: false,
            long: false,
            tracked: false,
            asking: false,
            read_only: false,
        }
    }
}

/// Requests of one connection in their order, with the bytes that their arguments lie in.
#[derive(Default)]
pub struct Input {
    /// What arguments lie in.
    pub bytes: Vec<u8>,
    pub(crate) spans: Vec<Span>,
    /// The requests in their order.
    pub requests: Vec<Request>,
    /// What requests of memcached's protocols say.
    pub(crate) heads: Vec<Head>,
    /// What is noted about entries, where it speaks one of these.
    pub(crate) marks: Option<Arc<Marks>>,
    /// When it was planned, in Unix milliseconds.
    pub(crate) now_ms: u64,
    /// Replies that were known while planning.
    pub ready: Vec<u8>,
    /// Each request has a reply of its own: neighbours do not share one.
    pub(crate) apart: bool,
    /// What EXEC runs, by number.
    pub(crate) transactions: Vec<Transaction>,
    /// What requests of many arguments take.
    pub claim: Option<Claim>,
    /// Where WATCH notes what its keys hold.
    pub(crate) watches: Vec<Arc<Watches>>,
    /// By the number of a request, for whom it tells names of keys, if that is not everybody.
    pub(crate) readers: Vec<(usize, Arc<User>)>,
    /// Who asks for statements of SQL, by number.
    pub(crate) sql: Vec<SqlCall>,
    /// For whom scripts run, by number.
    pub(crate) scripts: Vec<ScriptCall>,
    /// What has become of the wait of its first request that has not run.
    pub waited: Waited,
    /// Its requests may wait until there is something for them.
    pub may_wait: bool,
    /// It is the server's own, and not a client's.
    pub(crate) is_internal: bool,
    /// It is the stream of our primary.
    pub(crate) is_primary: bool,
    /// It removes keys of slots that are handed over to other nodes.
    pub(crate) hands_over: bool,
    /// It removes keys of slots that other nodes have taken.
    pub(crate) removes_lost: bool,
    /// The number of the connection that asks; 0 if it is none.
    pub(crate) client: u64,
}

impl Input {
    /// Arguments of `request`.
    #[inline]
    pub fn args(&self, request: &Request) -> Args<'_> {
        let first = request.first as usize;
        let args = Args::new(&self.bytes, &self.spans[first..first + request.len as usize]);
        let head = (request.head as usize).checked_sub(1).map(|at| &self.heads[at]);
        Args { head, marks: self.marks.as_ref(), now_ms: self.now_ms, ..args }
    }

    /// For whom request `number` tells names of keys, if that is not everybody.
    pub(crate) fn reader(&self, number: usize) -> Option<&User> {
        let found = self.readers.iter().find(|(request, _)| *request == number);
        found.map(|(_, user)| &**user)
    }

    /// The reply of a request that was answered while planning.
    pub(crate) fn ready(&self, request: &Request) -> &[u8] {
        &self.ready[request.first as usize..(request.first + request.len) as usize]
    }

    /// Memory held.
    pub fn held_bytes(&self) -> usize {
        resident_bytes(&self.bytes)
            + self.ready.capacity()
            + self.spans.capacity() * size_of::<Span>()
            + self.requests.capacity() * size_of::<Request>()
            + self.heads.capacity() * size_of::<Head>()
    }

    /// Forgets everything but small allocations, for the next use.
    pub fn recycle(&mut self) {
        self.bytes = Vec::new();
        self.spans.clear();
        self.spans.shrink_to(1024);
        self.requests.clear();
        self.requests.shrink_to(512);
        self.heads.clear();
        self.marks = None;
        self.apart = false;
        self.heads.shrink_to(512);
        self.ready.clear();
        self.ready.shrink_to(4096);
        self.transactions = Vec::new();
        self.claim = None;
        self.watches = Vec::new();
        self.readers = Vec::new();
        self.sql = Vec::new();
        self.scripts = Vec::new();
        self.client = 0;
        (self.is_internal, self.is_primary) = (false, false);
        (self.hands_over, self.removes_lost) = (false, false);
        (self.waited, self.may_wait) = (Waited::Not, false);
    }
}

/// The first byte of a reply that is an error, and of no other reply.
pub(crate) const ERROR: u8 = b'-';

/// Progress through an [`Input`] and the replies so far.
#[derive(Default)]
pub struct Output {
    /// The replies so far.
    pub out: Vec<u8>,
    /// First request that has not run.
    pub next: usize,
    /// First request that this burst has run, or will.
    pub(crate) begun: usize,
    /// First request that does not run in this burst.
    pub(crate) end: usize,
    /// What acknowledges writes: false if the sync after them fails.
    pub(crate) acknowledgements: Vec<Acknowledgement>,
    /// Requests of this burst that were answered with an error, and its first word.
    pub(crate) failed: Vec<(usize, String)>,
    /// Where the reply of each request that has run ends, if somebody wants to know.
    pub ends: Option<Vec<usize>>,
    /// Counts large replies until their connection does.
    pub claim: Option<Claim>,
    /// The next request waits for this.
    pub waits: Option<Wait>,
    /// The next request has to run on a thread for long requests.
    pub(crate) is_postponed: bool,
}

impl Output {
    /// For the requests from number `next` up to `end`; replies go behind what `out` has.
    pub fn new(out: Vec<u8>, next: usize, end: usize) -> Self {
        Output { out, next, begun: next, end, ..Output::default() }
    }

    /// Marks the next request of `input` as one that takes long, if that has turned out.
    pub fn mark_postponed(&self, input: &mut Input) {
        if self.is_postponed
            && let Some(request) = input.requests.get_mut(self.next)
        {
            request.long = true;
        }
    }

    /// The output itself, which also notes in `ends` where the reply of each request ends.
    pub fn with_ends(self, ends: Vec<usize>) -> Self {
        Output { ends: Some(ends), ..self }
    }
}

/// A range of replies that acknowledges a write; an empty one where silence does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The request among those of its input.
    pub(crate) request: usize,
}

/// Requests of several connections that run together.
pub struct Burst {
    /// The loop that gets it back.
    pub from: usize,
    /// The workers' queue that it waits in.
    pub lane: Lane,
    /// When it was handed to the workers, in nanoseconds of the service's clock, if somebody wants
    /// to know; else 0.
    pub queued_ns: u64,
    /// Running it went wrong; its replies are worth nothing.
    pub broken: bool,
    /// Whose connection's each part is.
    pub owners: Vec<Owner>,
    // Three lists of the same length, apart so that replies can be written while requests of
    // all connections are borrowed.
    /// The requests of each part.
    pub inputs: Vec<Input>,
    /// The replies of each part.
    pub outputs: Vec<Output>,
}

impl Burst {
    /// An empty burst of the event loop `from`.
    pub fn new(from: usize, lane: Lane) -> Self {
        let (owners, inputs, outputs) = (vec![], vec![], vec![]);
        Burst { from, lane, queued_ns: 0, broken: false, owners, inputs, outputs }
    }

    /// Moves the parts that have requests left to run to the end of `into`.
    pub fn move_unfinished(&mut self, into: &mut Burst) {
        let mut index = 0;
        while index < self.outputs.len() {
            if self.outputs[index].next >= self.outputs[index].end {
                index += 1;
                continue;
            }
            // The order of connections does not matter.
            let owner = self.owners.swap_remove(index);
            into.push(owner, self.inputs.swap_remove(index), self.outputs.swap_remove(index));
        }
    }

    /// Adds a part.
    pub fn push(&mut self, owner: Owner, input: Input, output: Output) {
        self.owners.push(owner);
        self.inputs.push(input);
        self.outputs.push(output);
    }
}
