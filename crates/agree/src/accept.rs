//! Answers other members.

use crate::core::Core;
use crate::database::{Database, Staging};
use crate::members;
use crate::stream::{Stream, accept};
use crate::types::{Meta, SnapshotData, Vote};
use crate::wire::{Answer, Ask, Hello, Who, entries, invalid, proof, receive, send};
use openraft::Snapshot;
use openraft::raft::AppendEntriesRequest;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

/// What a connection is served with.
#[derive(Clone)]
pub(crate) struct Acceptor {
    pub(crate) core: Arc<Core>,
    pub(crate) database: Arc<Database>,
    /// Held by the one that sends a snapshot: there is one place to load it into.
    pub(crate) loading: Arc<Mutex<()>>,
}

/// How long a connection that has not said who it is may be silent.
const HELLO_MAX: Duration = Duration::from_secs(5);

impl Acceptor {
    /// Serves whoever connects.
    pub(crate) async fn run(self, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let acceptor = self.clone();
                    tokio::spawn(async move {
                        if let Err(error) = acceptor.serve(stream).await {
                            log::debug!("a connection from {peer} has ended: {error}");
                        }
                    });
                }
                Err(error) => {
                    log::warn!("no connection of a member is accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let tls = self.core.tls.as_ref();
        let accepted = tokio::time::timeout(HELLO_MAX, accept(stream, tls)).await;
        let mut stream = accepted.map_err(|_| invalid("no TLS"))??;
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|e| io::Error::other(e.to_string()))?;
        let nonce: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        send(&mut stream, &Answer::Nonce(nonce.clone()), &[]).await?;
        let first = tokio::time::timeout(HELLO_MAX, receive(&mut stream));
        let (Ask::Hello(hello), _) = first.await.map_err(|_| invalid("no hello"))?? else {
            return Err(invalid("no hello"));
        };
        if let Err(text) = self.let_in(&hello, &nonce) {
            log::warn!("{} is refused: {text}", hello.from);
            return send(&mut stream, &Answer::Refused(text), &[]).await;
        }
        send(&mut stream, &Answer::Who(self.who()), &[]).await?;
        loop {
            let (ask, blob) = receive(&mut stream).await?;
            if let Ask::SnapshotBegin(meta) = ask {
                self.load(&mut stream, meta).await?;
                continue;
            }
            let answer = self.answer(ask, &blob).await?;
            send(&mut stream, &answer, &[]).await?;
        }
    }

    fn who(&self) -> Who {
        let identity = self.core.identity();
        Who { id: identity.id, group: identity.group, member: self.core.member.clone() }
    }

    /// Says why a caller is refused, if it is.
    fn let_in(&self, hello: &Hello, nonce: &str) -> Result<(), String> {
        if hello.proof != proof(nonce, &self.core.password) {
            return Err("the members have different passwords; give all of them the same".into());
        }
        let own = self.core.identity();
        if hello.to.is_some_and(|to| to != own.id) {
            return Err(format!(
                "{} has other data than the member that is called: it is number {:x} now",
                self.core.member.address, own.id
            ));
        }
        match (hello.group, own.group) {
            (Some(theirs), Some(ours)) if theirs != ours => Err(format!(
                "{} is in group {ours:x}, and the caller in group {theirs:x}: one of them has \
                 somebody else's data; start it with an empty directory",
                self.core.member.address
            )),
            (Some(theirs), None) if hello.to.is_some() => {
                self.core.enter(theirs).map_err(|e| e.to_string())
            }
            _ => Ok(()),
        }
    }

    async fn answer(&self, ask: Ask, blob: &[u8]) -> io::Result<Answer> {
        let Some(raft) = self.core.raft() else {
            return Ok(Answer::Refused("the member is about to start".into()));
        };
        Ok(match ask {
            Ask::Append { vote, prev, committed, lens } => {
                let rpc = AppendEntriesRequest {
                    vote,
                    prev_log_id: prev,
                    leader_commit: committed,
                    entries: entries(&lens, blob)?,
                };
                match raft.append_entries(rpc).await {
                    Ok(answer) => Answer::Append(answer),
                    Err(error) => Answer::Refused(error.to_string()),
                }
            }
            Ask::Vote(rpc) => match raft.vote(rpc).await {
                Ok(answer) => Answer::Vote(answer),
                Err(error) => Answer::Refused(error.to_string()),
            },
            Ask::Join(who) => match members::replace(&self.core, who).await {
                Ok(()) => Answer::Done,
                Err(text) => Answer::Refused(text),
            },
            Ask::Hello(_) | Ask::SnapshotBegin(_) | Ask::SnapshotPart | Ask::SnapshotEnd(_) => {
                return Err(invalid("a message out of its order"));
            }
        })
    }

    /// Loads a snapshot into a generation of its own, and lets it take the database's place.
    async fn load(&self, stream: &mut Stream, meta: Meta) -> io::Result<()> {
        let Ok(_alone) = self.loading.try_lock() else {
            let text = "another snapshot is being received";
            return send(stream, &Answer::Refused(text.into()), &[]).await;
        };
        log::info!("receiving a snapshot up to {:?}", meta.last_log_id);
        let failed = |e: silica::engine::Error| io::Error::other(e.to_string());
        let mut staging = self.database.stage().map_err(failed)?;
        send(stream, &Answer::Done, &[]).await?;
        loop {
            let (ask, blob) = receive(stream).await?;
            match ask {
                Ask::SnapshotPart => {
                    staging.put_encoded(&blob).map_err(failed)?;
                    send(stream, &Answer::Done, &[]).await?;
                }
                Ask::SnapshotEnd(vote) => {
                    let answer = self.install(staging, meta, vote).await?;
                    return send(stream, &answer, &[]).await;
                }
                _ => return Err(invalid("a message out of its order")),
            }
        }
    }

    async fn install(&self, staging: Staging, meta: Meta, vote: Vote) -> io::Result<Answer> {
        let failed = |e: silica::engine::Error| io::Error::other(e.to_string());
        let entries = staging.finish().map_err(failed)?;
        let Some(raft) = self.core.raft() else { return Err(invalid("not started")) };
        let snapshot = Snapshot { meta, snapshot: Box::new(SnapshotData::Loaded) };
        match raft.install_full_snapshot(vote, snapshot).await {
            Ok(answer) => {
                log::info!("a snapshot of {entries} entries has taken the database's place");
                Ok(Answer::Snapshot(answer.vote))
            }
            Err(error) => Ok(Answer::Refused(error.to_string())),
        }
    }
}
