//! In a cluster: which requests of a burst this node runs.
//!
//! A burst is routed when it begins, and again each time that others may have changed the map
//! meanwhile: requests that another node runs are answered with its address. A request for a slot
//! that is handed over stops its connection's others; it runs alone, under the lock that whoever
//! hands keys over takes, as whether its keys are here decides who runs it.

use super::telling::writes;
use super::{Executor, Guard, Output, next_part};
use crate::burst::{Burst, Input, Request};
use crate::cluster::{Asked, Cluster, KeySlots, Map, Route, TRY_AGAIN, are_there, slot_of};
use crate::engine_calls::error_text;
use crate::errors;
use crate::push::Kind;
use crate::resp::Keyspace;
use crate::resp::topics::kind_of;
use crate::table::{Run, Trait, find_called};
use silica_proto::Reply;
use std::sync::Arc;

/// The error of a write while a primary hands its slots over.
const HANDING_OVER: &str = "TRYAGAIN a replica of this node is about to take its slots over";

/// Where the connections of a burst stop.
#[derive(Default)]
pub(super) struct Stops {
    /// The map under which the burst runs; `None` outside of a cluster.
    map: Option<Arc<Map>>,
    /// Where they would stop without the map.
    ends: Vec<usize>,
}

impl Stops {
    /// Lets all connections go on to their ends.
    pub(super) fn lift(&self, outputs: &mut [Output]) {
        if self.map.is_some() {
            outputs.iter_mut().zip(&self.ends).for_each(|(output, end)| output.end = *end);
        }
    }
}

impl Executor {
    /// Routes what is left of a burst, and lets each connection stop before a request for a slot
    /// that is handed over.
    pub(super) fn route(&self, burst: &mut Burst, stops: &mut Stops) {
        let Some(cluster) = &self.service.cluster else { return };
        stops.lift(&mut burst.outputs);
        stops.ends.clear();
        stops.ends.extend(burst.outputs.iter().map(|output| output.end));
        let map = cluster.map();
        for (input, output) in burst.inputs.iter_mut().zip(&mut burst.outputs) {
            let end = output.end;
            self.route_part(cluster, &map, (input, output), end);
        }
        stops.map = Some(map);
    }

    fn route_part(
        &self,
        cluster: &Cluster,
        map: &Map,
        (input, output): (&mut Input, &mut Output),
        end: usize,
    ) {
        output.end = end;
        if input.removes_lost {
            return self.keep_own(map, (input, output), end);
        }
        if input.is_internal || input.is_primary {
            return;
        }
        let yields = cluster.yields(&self.service);
        let starts = cluster.is_starting(&self.service, map);
        for index in output.next..end {
            match route_of(cluster, map, input, &input.requests[index]) {
                Route::Here if yields && may_write(input, &input.requests[index]) => {
                    self.answer_unrun(input, index, HANDING_OVER);
                }
                Route::Here if starts.is_some() && has_keys(input, &input.requests[index]) => {
                    self.answer_unrun(input, index, starts.unwrap_or_default());
                }
                Route::Here if input.requests[index].asking => {
                    if let Err(text) = cluster.keep_slots() {
                        self.answer_unrun(input, index, &text);
                    }
                }
                Route::Here => {}
                Route::Refuse(text) => self.answer_unrun(input, index, &text),
                Route::Leaving(_) | Route::Arriving => {
                    output.end = index;
                    break;
                }
            }
        }
    }

    /// Leaves keys alone that are this node's, or about to be.
    fn keep_own(&self, map: &Map, (input, output): (&mut Input, &mut Output), end: usize) {
        for index in output.next..end {
            let mut is_own = map.me().primary.is_some();
            each_key(input, &input.requests[index], &mut |key| {
                let slot = slot_of(key);
                is_own |= map.is_mine(slot) || map.importing.contains_key(&slot);
            });
            if is_own {
                self.answer_unrun(input, index, "ERR the slot is this node's");
            }
        }
    }

    /// Answers a request that does not run with an error.
    fn answer_unrun(&self, input: &mut Input, index: usize, text: &str) {
        self.service.count_error(errors::word(text.as_bytes()));
        let request = &mut input.requests[index];
        let start = input.ready.len();
        Reply::new(&mut input.ready, request.version).error(text);
        let (first, len) = (start as u32, (input.ready.len() - start) as u32);
        *request = Request { run: Run::Ready, first, len, ..*request };
    }

    /// Runs a request for a slot that is handed over, if one is next on a connection; the places
    /// that may have been written, a bit each. `None` if there is none.
    pub(super) fn run_handed_over(
        &mut self,
        burst: &mut Burst,
        stops: &Stops,
        entered: &mut Option<Guard<'_>>,
    ) -> Option<u32> {
        let map = stops.map.as_ref()?;
        let service = Arc::clone(&self.service);
        let cluster = service.cluster.as_ref()?;
        let is_next = |at: &usize| {
            let output = &burst.outputs[*at];
            output.next == output.end && output.end < stops.ends[*at] && !output.is_over()
        };
        let at = (0..burst.outputs.len()).find(is_next)?;
        let index = burst.outputs[at].next;
        let mut dirty = 0;
        {
            let _held = service.databases.lock(cluster.handover());
            match self.look(cluster, map, &burst.inputs[at], index) {
                Some(text) => self.answer_unrun(&mut burst.inputs[at], index, &text),
                None => {
                    burst.outputs[at].end = index + 1;
                    let (inputs, outputs) = (&burst.inputs[at..=at], &mut burst.outputs[at..=at]);
                    while next_part(inputs, outputs).is_some() {
                        let (wrote, _) = self.waves(&service, (inputs, outputs), entered);
                        dirty |= wrote;
                    }
                }
            }
        }
        let part = (&mut burst.inputs[at], &mut burst.outputs[at]);
        self.route_part(cluster, map, part, stops.ends[at]);
        Some(dirty)
    }

    /// Looks whether the keys of a request are here; the answer, if this node does not run it.
    fn look(&self, cluster: &Cluster, map: &Map, input: &Input, index: usize) -> Option<String> {
        let request = &input.requests[index];
        let ask = match route_of(cluster, map, input, request) {
            Route::Here => return None,
            Route::Refuse(text) => return Some(text),
            _ if request.run.is_across() => return Some(TRY_AGAIN.into()),
            Route::Leaving(ask) => Some(ask),
            Route::Arriving => None,
        };
        // Nobody is sent to the other node, and nothing is written here for it, before the file
        // says that the slot is under way.
        if let Err(text) = cluster.keep_slots() {
            return Some(text);
        }
        let mut keys = Vec::new();
        each_key(input, request, &mut |key| keys.push(key));
        let db = usize::from(request.db);
        let engine = match self.service.databases.engine(db) {
            Ok(engine) => engine,
            Err(error) => return Some(error_text(&error)),
        };
        let keyspace = Keyspace::of_step((&self.service, &self.claim), (engine, db), None);
        let there = match are_there(&keyspace, &keys) {
            Ok(there) => there,
            Err(error) => return Some(error_text(&error)),
        };
        let changes = request.run.changes();
        let is_moving =
            |(key, is_there): (&&[u8], &bool)| cluster.moving.holds(key, changes, *is_there);
        let is_held = keys.iter().zip(&there).any(is_moving);
        match there.iter().filter(|is_there| **is_there).count() {
            _ if is_held => Some(TRY_AGAIN.into()),
            count if count == keys.len() => None,
            0 => ask.or_else(|| Some(TRY_AGAIN.into())),
            _ => Some(TRY_AGAIN.into()),
        }
    }
}

/// True if one of the requests of database `db` that come next needs it to be there: all others
/// read, and answer what they would for an empty one.
pub(super) fn needs_database((inputs, outputs): (&[Input], &[Output]), db: usize) -> bool {
    inputs.iter().zip(outputs).any(|(input, output)| {
        let mut next = input.requests[output.next..output.limit().max(output.next)].iter();
        next.any(|request| usize::from(request.db) == db && may_write(input, request))
    })
}

/// True if `request` may write keys, scripts included.
fn may_write(input: &Input, request: &Request) -> bool {
    match request.run {
        Run::Script(..) => true,
        // A statement opens what it names.
        Run::Sql(..) => false,
        Run::Transaction(number) | Run::AcrossTransaction(number) => {
            let queued = &input.transactions[number].input;
            queued.requests.iter().any(|request| may_write(queued, request))
        }
        _ => writes(input, request),
    }
}

fn has_keys(input: &Input, request: &Request) -> bool {
    let mut has_some = false;
    let of_channels = each_key(input, request, &mut |_| has_some = true);
    has_some && !of_channels
}

/// True if `request` changes keys, as far as a replica that clients may read is concerned: a
/// transaction does if one of its requests does.
fn changes(input: &Input, request: &Request) -> bool {
    match request.run {
        Run::Transaction(_) => may_write(input, request),
        run => run.changes(),
    }
}

/// Who runs `request` of `input`.
fn route_of(cluster: &Cluster, map: &Map, input: &Input, request: &Request) -> Route {
    // Clients of memcached know no other node.
    if request.run.is_ready() || request.head != 0 {
        return Route::Here;
    }
    let mut slots = KeySlots::default();
    let of_channels = each_key(input, request, &mut |key| slots.add(key));
    let &Request { asking, read_only, .. } = request;
    let changes = changes(input, request);
    let asked = Asked { asking, read_only, changes, of_channels };
    cluster.route(map, &slots, asked)
}

/// Calls `visit` with each key of `request`; true if they are channels.
fn each_key<'i>(input: &'i Input, request: &Request, visit: &mut dyn FnMut(&'i [u8])) -> bool {
    let args = input.args(request);
    match request.run {
        Run::Ready | Run::Session(_) | Run::Sql(..) | Run::Apart(_) | Run::Choose(_) => {}
        Run::Read(read) => read.keys(args).for_each(visit),
        Run::Write(write) if write.value_at == 0 => args.from(1).step_by(2).for_each(visit),
        Run::Write(_) => visit(args.get(1)),
        Run::Update(modify) => modify.keys(args).for_each(visit),
        Run::Watch(_) => args.from(1).for_each(visit),
        Run::Transaction(number) | Run::AcrossTransaction(number) => {
            let queued = &input.transactions[number].input;
            for request in &queued.requests {
                each_key(queued, request, visit);
            }
        }
        Run::Type(_) | Run::UpdateAll(_) | Run::Script(..) | Run::Whole(_) | Run::Across(_) => {
            let Some(command) = (args.len() > 0).then(|| find_called(args)).flatten() else {
                return false;
            };
            if command.is(Trait::ToChannel) && kind_of(args) == Kind::Shard {
                visit(args.get(1));
                return true;
            }
            command.keys(args).for_each(visit);
        }
    }
    false
}
