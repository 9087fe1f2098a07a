//! Entries of a range, a page at a time.

use super::pool::{Answer, Call, Pool, gone};
use futures_channel::oneshot::Receiver;
use silica_engine::Result;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Entries of a page at most, and bytes of keys and values after which it ends.
const PAGE_ENTRIES: usize = 256;
const PAGE_BYTES: usize = 1 << 20;

type Entry = Result<(Vec<u8>, Vec<u8>)>;

/// The entries of a range as they were when it was made, in order. It keeps what was there on the
/// device until it is dropped.
pub struct Range {
    pool: Pool,
    /// Here also while a thread fetches, so that a future that is dropped loses no place.
    range: Arc<Mutex<crate::Range>>,
    /// A page that was asked for, whoever asked.
    fetched: Option<Receiver<Result<Vec<Entry>>>>,
    page: VecDeque<Entry>,
    is_over: bool,
}

impl Range {
    pub(super) fn new(pool: Pool, range: crate::Range) -> Self {
        let range = Arc::new(Mutex::new(range));
        Range { pool, range, fetched: None, page: VecDeque::new(), is_over: false }
    }

    /// The next entry; `None` after the last, and after an error. A future that is dropped has
    /// taken none.
    pub async fn next(&mut self) -> Option<Entry> {
        if self.page.is_empty() && !self.is_over {
            match self.fetch().await {
                Ok(page) => self.page = page.into(),
                Err(error) => self.page.push_back(Err(error)),
            }
            // Nothing more to fetch, or nothing that could be relied upon.
            self.is_over = !matches!(self.page.back(), Some(Ok(_)));
        }
        self.page.pop_front()
    }

    async fn fetch(&mut self) -> Result<Vec<Entry>> {
        if self.fetched.is_none() {
            let range = Arc::clone(&self.range);
            let work = move |answer: Answer<Vec<Entry>>| drop(answer.send(Ok(page(&range))));
            let sent = self.pool.send(|answer| Call::Run(Box::new(move || work(answer))));
            self.fetched = Some(sent.await?);
        }
        let answer = match &mut self.fetched {
            Some(fetched) => fetched.await,
            None => return Err(gone()),
        };
        self.fetched = None;
        answer.map_err(|_| gone())?
    }
}

fn page(range: &Mutex<crate::Range>) -> Vec<Entry> {
    let mut range = range.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut page, mut bytes) = (Vec::new(), 0);
    while page.len() < PAGE_ENTRIES
        && bytes < PAGE_BYTES
        && let Some(entry) = range.next()
    {
        bytes += entry.as_ref().map_or(0, |(key, value)| key.len() + value.len());
        page.push(entry);
    }
    page
}

impl std::fmt::Debug for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Range({} entries at hand)", self.page.len())
    }
}
