//! Our own datagram protocol, by its client.

use super::redis::RespDialect;
use super::{Counters, client, no_scan};
use ::silica::{Error, ErrorKind, Result};
use silica_bench::{Session, Sink};
use silica_client::{Client as Sender, Reply, Request};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;

/// A connection for what no datagram holds.
type Beside<'a> = client::Client<'a, RespDialect>;

/// What one thread uses: the client, and a connection for entries that no datagram holds.
pub(super) struct Client<'a> {
    sender: Sender,
    beside: Beside<'a>,
    counters: &'a Counters,
}

impl<'a> Client<'a> {
    pub(super) fn new(
        address: SocketAddr,
        beside: Beside<'a>,
        counters: &'a Counters,
    ) -> Result<Self> {
        Ok(Client { sender: Sender::connect(address)?, beside, counters })
    }

    /// Sends writes; what no datagram holds it gives back by index.
    fn write(&mut self, requests: &[Request<'_>]) -> Result<Vec<usize>> {
        let (numbers, large): (Vec<usize>, Vec<usize>) =
            (0..requests.len()).partition(|&n| requests[n].size().is_some());
        // Those of one exchange have no order, so a key may be in it once.
        for numbers in unique(&numbers, requests) {
            let part: Vec<Request<'_>> = numbers.iter().map(|&n| requests[n]).collect();
            let mut failed = false;
            self.sender.exchange(&part, |_, reply| {
                failed |= matches!(reply, Reply::Failed | Reply::TooLarge);
            })?;
            if failed {
                return Err(Error::new(ErrorKind::Io, "a write by datagrams failed"));
            }
        }
        Ok(large)
    }

    /// Tells what had to be sent again since the last time.
    fn count(&mut self, before: u64) {
        self.counters.retries.fetch_add(self.sender.sent_again() - before, Relaxed);
    }
}

/// An entry that stays.
fn put<'a>(&(key, value): &(&'a [u8], &'a [u8])) -> Request<'a> {
    Request::Put { key, value, expires_unix_ms: 0 }
}

/// Cuts `numbers` where a key comes a second time.
fn unique(numbers: &[usize], requests: &[Request<'_>]) -> Vec<Vec<usize>> {
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut keys = std::collections::BTreeSet::new();
    for &number in numbers {
        let is_new = keys.insert(requests[number].key());
        match parts.last_mut() {
            Some(part) if is_new => part.push(number),
            _ => {
                keys.clear();
                keys.insert(requests[number].key());
                parts.push(vec![number]);
            }
        }
    }
    parts
}

impl Session for Client<'_> {
    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn Sink) -> Result<()> {
        let before = self.sender.sent_again();
        let fits = |n: &usize| Request::Get(keys[*n]).size().is_some();
        let (numbers, mut large): (Vec<usize>, Vec<usize>) = (0..keys.len()).partition(fits);
        let requests: Vec<Request<'_>> = numbers.iter().map(|n| Request::Get(keys[*n])).collect();
        let mut failed = false;
        self.sender.exchange(&requests, |n, reply| match reply {
            Reply::Done(value) => sink.found(numbers[n], value),
            Reply::Missing => {}
            Reply::TooLarge => large.push(numbers[n]),
            Reply::Failed | Reply::NoRoom => failed = true,
        })?;
        self.count(before);
        if failed {
            return Err(Error::new(ErrorKind::Io, "a get by datagrams failed"));
        }
        for number in large {
            let mut one = |value: &[u8]| sink.found(number, value);
            self.beside.get_many(&[keys[number]], &mut One(&mut one))?;
        }
        Ok(())
    }

    fn put_many(&mut self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        let before = self.sender.sent_again();
        // In the order of the list, however they travel.
        let mut left = entries;
        while !left.is_empty() {
            let is_small = |entry: &(&[u8], &[u8])| put(entry).size().is_some();
            let small = left.iter().take_while(|entry| is_small(entry)).count();
            let large = left[small..].iter().take_while(|entry| !is_small(entry)).count();
            let requests: Vec<Request<'_>> = left[..small].iter().map(put).collect();
            self.write(&requests)?;
            self.counters.writes.count_puts(small);
            self.beside.put_many(&left[small..small + large])?;
            left = &left[small + large..];
        }
        self.count(before);
        Ok(())
    }

    fn delete_many(&mut self, keys: &[&[u8]]) -> Result<()> {
        let before = self.sender.sent_again();
        let requests: Vec<Request<'_>> = keys.iter().map(|key| Request::Delete(key)).collect();
        let large = self.write(&requests)?;
        self.counters.writes.count_deletes(keys.len() - large.len());
        self.count(before);
        let large: Vec<&[u8]> = large.into_iter().map(|n| keys[n]).collect();
        self.beside.delete_many(&large)
    }

    fn scan(&mut self, _: &[u8], _: usize, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        Err(no_scan("silica serve --cache"))
    }
}

/// The one value of a get.
struct One<'a>(&'a mut dyn FnMut(&[u8]));

impl Sink for One<'_> {
    fn found(&mut self, _: usize, value: &[u8]) {
        (self.0)(value);
    }
}
