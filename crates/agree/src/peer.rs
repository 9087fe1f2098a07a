//! Calls to other members.

use crate::core::Core;
use crate::database::LOAD_BYTES;
use crate::effects::encode_op;
use crate::stream::{Stream, connect};
use crate::types::{Id, Member, SnapshotData, Types, Vote};
use crate::wire::{Answer, Ask, Hello, Who, invalid, of_append, proof, receive, send};
use openraft::error::{
    Fatal, NetworkError, RPCError, RaftError, ReplicationClosed, StreamingError, Unreachable,
};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{OptionalSend, Snapshot};
use silica::engine::{KeyRange, Snapshot as EngineSnapshot, WriteBatch};
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a member that was not reached is left alone.
const REST: Duration = Duration::from_millis(100);
/// How long the first words of a connection may take.
const HELLO_MAX: Duration = Duration::from_millis(500);

/// A connection to a member.
pub(crate) struct Link(Stream);

impl Link {
    /// Connects to the member at `address`, which must be `to` if that is known; who it is.
    pub(crate) async fn open(
        core: &Core,
        address: &str,
        to: Option<Id>,
    ) -> io::Result<(Self, Who)> {
        let open = async {
            let mut stream = connect(address, core.tls.as_ref()).await?;
            let (Answer::Nonce(nonce), _) = receive(&mut stream).await? else {
                return Err(invalid("no member answers there"));
            };
            let proof = proof(&nonce, &core.password);
            let from = core.member.address.clone();
            let hello = Hello { from, to, group: core.identity().group, proof };
            let mut link = Link(stream);
            match link.ask(&Ask::Hello(hello), &[]).await? {
                Answer::Who(who) => Ok((link, who)),
                other => Err(unexpected(other)),
            }
        };
        let opened = tokio::time::timeout(HELLO_MAX, open).await;
        let opened = opened.map_err(|_| match core.tls {
            Some(_) => timed_out(),
            None => io::Error::new(
                io::ErrorKind::TimedOut,
                "it says nothing; if it speaks TLS, give --tls-members here, too",
            ),
        })?;
        // A certificate that the other side refuses is told by it behind the handshake.
        opened.map_err(|error| match &core.tls {
            Some(tls) => tls.certificates.explain(error),
            None => error,
        })
    }

    /// Asks, and waits for the answer.
    pub(crate) async fn ask(&mut self, ask: &Ask, blob: &[u8]) -> io::Result<Answer> {
        send(&mut self.0, ask, blob).await?;
        receive(&mut self.0).await.map(|(answer, _)| answer)
    }
}

fn timed_out() -> io::Error {
    io::ErrorKind::TimedOut.into()
}

pub(crate) fn unexpected(answer: Answer) -> io::Error {
    match answer {
        Answer::Refused(text) => io::Error::other(text),
        other => invalid(format!("an answer to something else: {other:?}")),
    }
}

/// Makes the callers of members.
pub(crate) struct Peers(pub(crate) Arc<Core>);

impl RaftNetworkFactory<Types> for Peers {
    type Network = Peer;

    async fn new_client(&mut self, target: Id, node: &Member) -> Peer {
        let address = node.address.clone();
        Peer { core: Arc::clone(&self.0), target, address, link: None }
    }
}

/// Calls one member.
pub(crate) struct Peer {
    core: Arc<Core>,
    target: Id,
    address: String,
    link: Option<Link>,
}

impl Peer {
    async fn call(&mut self, ask: &Ask, blob: &[u8], within: Duration) -> io::Result<Answer> {
        let kept = self.link.take();
        let (core, target, address) = (&self.core, self.target, &self.address);
        let call = async {
            let mut link = match kept {
                Some(link) => link,
                None => {
                    let opened = Link::open(core, address, Some(target)).await;
                    core.note_reached(address, opened.as_ref().err());
                    opened?.0
                }
            };
            let answer = link.ask(ask, blob).await?;
            Ok::<_, io::Error>((link, answer))
        };
        // A connection whose answer did not come in time is not used again.
        let (link, answer) =
            tokio::time::timeout(within, call).await.map_err(|_| timed_out())??;
        self.link = Some(link);
        Ok(answer)
    }

    async fn stream(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<Types>,
    ) -> io::Result<SnapshotResponse<Id>> {
        let SnapshotData::Here(here) = *snapshot.snapshot else {
            return Err(invalid("this snapshot has nothing to send"));
        };
        let (mut link, _) = Link::open(&self.core, &self.address, Some(self.target)).await?;
        let begun = link.ask(&Ask::SnapshotBegin(snapshot.meta), &[]).await?;
        let Answer::Done = begun else { return Err(unexpected(begun)) };
        let mut key = None;
        loop {
            let (part, next) = part_of(Arc::clone(&here), key)?;
            let answer = link.ask(&Ask::SnapshotPart, &part).await?;
            let Answer::Done = answer else { return Err(unexpected(answer)) };
            key = next;
            if key.is_none() {
                break;
            }
        }
        match link.ask(&Ask::SnapshotEnd(vote), &[]).await? {
            Answer::Snapshot(vote) => Ok(SnapshotResponse::new(vote)),
            other => Err(unexpected(other)),
        }
    }
}

/// Some entries of a snapshot from `from` on, encoded as effects; where the next ones begin.
fn part_of(
    snapshot: Arc<dyn EngineSnapshot>,
    from: Option<Vec<u8>>,
) -> io::Result<(Vec<u8>, Option<Vec<u8>>)> {
    let failed = |e: silica::engine::Error| io::Error::other(e.to_string());
    let mut iterator = snapshot.iterate(&KeyRange::ALL).map_err(failed)?;
    let mut is_there = match &from {
        Some(key) => iterator.seek(key),
        None => iterator.seek_to_first(),
    }
    .map_err(failed)?;
    let mut part = Vec::new();
    while is_there && part.len() < LOAD_BYTES {
        let mut one = WriteBatch::new();
        one.put_entry(iterator.key(), iterator.entry());
        one.ops().iter().for_each(|op| encode_op(op, &mut part));
        is_there = iterator.next().map_err(failed)?;
    }
    let next = is_there.then(|| iterator.key().to_vec());
    Ok((part, next))
}

type Failed = RPCError<Id, Member, RaftError<Id>>;

fn unreachable(error: &io::Error) -> Failed {
    RPCError::Unreachable(Unreachable::new(error))
}

impl RaftNetwork<Types> for Peer {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Id>, Failed> {
        let (ask, blob) = of_append(&rpc).map_err(|e| unreachable(&e))?;
        let sent = Instant::now();
        // What is large needs its time, and no lease hangs on how long it takes.
        let within = option.hard_ttl().max(Duration::from_millis(blob.len() as u64 / 1000));
        let answer = self.call(&ask, &blob, within).await.map_err(|e| unreachable(&e))?;
        let Answer::Append(answer) = answer else { return Err(unreachable(&unexpected(answer))) };
        if !matches!(answer, AppendEntriesResponse::HigherVote(_)) {
            self.core.lease.accepted(&rpc.vote, self.target, sent);
        }
        Ok(answer)
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Id>,
        option: RPCOption,
    ) -> Result<VoteResponse<Id>, Failed> {
        let answer = self.call(&Ask::Vote(rpc), &[], option.hard_ttl()).await;
        match answer.map_err(|e| unreachable(&e))? {
            Answer::Vote(answer) => Ok(answer),
            other => Err(unreachable(&unexpected(other))),
        }
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<Types>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Id>, StreamingError<Types, Fatal<Id>>> {
        tokio::select! {
            closed = cancel => Err(StreamingError::Closed(closed)),
            sent = self.stream(vote, snapshot) => {
                sent.map_err(|e| StreamingError::Network(NetworkError::new(&e)))
            }
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(REST))
    }
}
