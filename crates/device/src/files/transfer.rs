//! Reads and writes that go on by themselves: a few threads perform them.

use super::directory::Shared;
use super::failed;
use super::plain::PlainFile;
use super::pool::{Kind, Single};
use super::{InodeId, plain::poisoned};
use super::{Lifetime, Transfer};
use silica_base::{AlignedBuf, Result};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// A read, a write, or a write and a sync of a [`PlainFile`] that goes on by itself.
pub struct FileTransfer {
    kind: Kind,
    path: PathBuf,
    inode: InodeId,
    lifetime: Option<Lifetime>,
    shared: Arc<Shared>,
    /// `None` once it was waited for.
    under_way: Option<Single>,
}

impl FileTransfer {
    pub(super) fn begin(kind: Kind, file: &PlainFile, offset: u64, buf: AlignedBuf) -> Self {
        file.check_alignment(offset, &buf);
        let (path, shared) = (file.path.clone(), file.shared.clone());
        let (inode, lifetime) = (file.inode, file.lifetime);
        let single = Single::start(&shared.transfers, kind, file, offset, buf);
        FileTransfer { kind, path, inode, lifetime, shared, under_way: Some(single) }
    }

    /// Counts what came of it; a failed sync is final for its inode.
    fn settle(&self, result: io::Result<usize>) -> Result<usize> {
        let (counters, poisons) = (&self.shared.counters, &self.shared.poisoned);
        let syncs = matches!(self.kind, Kind::WriteAndSync);
        if syncs && poisons.contains(self.inode) {
            return Err(poisoned(&self.path));
        }
        let bytes = result.map_err(|e| {
            if syncs {
                poisons.insert(self.inode);
            }
            failed(self.kind.verb(), &self.path, e)
        })?;
        match self.kind {
            Kind::Read => counters.add_read(bytes as u64),
            Kind::Write | Kind::WriteAndSync => {
                counters.add_write(bytes as u64, self.lifetime);
            }
            Kind::Touch(_) | Kind::Close => {}
        }
        if syncs {
            counters.add_sync();
        }
        Ok(bytes)
    }
}

impl Transfer for FileTransfer {
    fn is_done(&self) -> bool {
        self.under_way.as_ref().is_none_or(Single::is_done)
    }

    fn wait(mut self) -> (AlignedBuf, Result<usize>) {
        let single = self.under_way.take().expect("it is waited for once");
        let (buf, result) = single.wait(&self.shared.transfers);
        (buf, self.settle(result))
    }
}

impl Drop for FileTransfer {
    fn drop(&mut self) {
        if let Some(single) = self.under_way.take() {
            // Nobody asks what became of it, but a failed sync is to be known.
            let (_, result) = single.wait(&self.shared.transfers);
            drop(self.settle(result));
        }
    }
}
