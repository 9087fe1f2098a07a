//! What members say to each other: docs/formats/agreement.md.

use crate::log_store::{decode_entry, encode_entry};
use crate::stream::Stream;
use crate::types::{Entry, Id, LogIdOf, Member, Meta, Types, Vote};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest, VoteResponse};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Bytes of a message at most.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// What a member that calls says first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// The address of the member that calls.
    pub(crate) from: String,
    /// The member that it wants, if it knows.
    pub(crate) to: Option<Id>,
    /// The group that it is in, if it is in one.
    pub(crate) group: Option<u64>,
    /// Shows that it knows the password.
    pub(crate) proof: String,
}

/// Who a member is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Who {
    pub(crate) id: Id,
    pub(crate) group: Option<u64>,
    pub(crate) member: Member,
}

/// A request of one member to another.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    Hello(Hello),
    /// Entries follow, each so many bytes long.
    Append {
        vote: Vote,
        prev: Option<LogIdOf>,
        committed: Option<LogIdOf>,
        lens: Vec<u32>,
    },
    Vote(VoteRequest<Id>),
    /// A snapshot follows in parts.
    SnapshotBegin(Meta),
    /// Some of its entries follow.
    SnapshotPart,
    SnapshotEnd(Vote),
    /// A member without data asks to be taken in in the place of the one that had its address.
    Join(Who),
}

/// The answer of a member.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// The first word on a connection, which the proof is made of.
    Nonce(String),
    Who(Who),
    Append(AppendEntriesResponse<Id>),
    Vote(VoteResponse<Id>),
    Snapshot(Vote),
    Done,
    Refused(String),
}

/// What shows that somebody knows the password.
pub(crate) fn proof(nonce: &str, password: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(nonce.as_bytes());
    hash.update(password);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// Sends a message, with what follows it.
pub(crate) async fn send<T: Serialize>(
    stream: &mut Stream,
    message: &T,
    blob: &[u8],
) -> io::Result<()> {
    let json = serde_json::to_vec(message).map_err(|e| invalid(e.to_string()))?;
    let mut frame = Vec::with_capacity(8 + json.len() + blob.len());
    frame.extend_from_slice(&((4 + json.len() + blob.len()) as u32).to_le_bytes());
    frame.extend_from_slice(&(json.len() as u32).to_le_bytes());
    frame.extend_from_slice(&json);
    frame.extend_from_slice(blob);
    stream.write_all(&frame).await?;
    // TLS keeps what it has encrypted until then.
    stream.flush().await
}

/// Receives a message, and what follows it.
pub(crate) async fn receive<T: DeserializeOwned>(stream: &mut Stream) -> io::Result<(T, Vec<u8>)> {
    let mut head = [0; 8];
    stream.read_exact(&mut head).await?;
    let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|n| head[at + n])) as usize;
    let (whole, json) = (number(0), number(4));
    if !(4..=MESSAGE_BYTES_MAX).contains(&whole) || json > whole - 4 {
        return Err(invalid("these bytes are no message of a member"));
    }
    let mut bytes = Vec::new();
    let mut rest = tokio::io::AsyncReadExt::take(&mut *stream, (whole - 4) as u64);
    rest.read_to_end(&mut bytes).await?;
    if bytes.len() != whole - 4 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let blob = bytes.split_off(json);
    let message = serde_json::from_slice(&bytes).map_err(|e| invalid(e.to_string()))?;
    Ok((message, blob))
}

/// Openraft's request as a message.
pub(crate) fn of_append(rpc: &AppendEntriesRequest<Types>) -> io::Result<(Ask, Vec<u8>)> {
    let (mut lens, mut blob) = (Vec::new(), Vec::new());
    for entry in &rpc.entries {
        let bytes = encode_entry(entry).map_err(|e| invalid(e.to_string()))?;
        lens.push(bytes.len() as u32);
        blob.extend_from_slice(&bytes);
    }
    let (vote, prev, committed) = (rpc.vote, rpc.prev_log_id, rpc.leader_commit);
    Ok((Ask::Append { vote, prev, committed, lens }, blob))
}

/// The entries that follow a message.
pub(crate) fn entries(lens: &[u32], mut blob: &[u8]) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::with_capacity(lens.len().min(1024));
    for len in lens {
        let cut = || invalid("a message is shorter than it says");
        let (head, rest) = blob.split_at_checked(*len as usize).ok_or_else(cut)?;
        entries.push(decode_entry(head).map_err(|e| invalid(e.to_string()))?);
        blob = rest;
    }
    Ok(entries)
}
