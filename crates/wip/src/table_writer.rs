//! A table that is being written, and what is learnt on the way.

use crate::names::table_name;
use crate::overlap::{Older, Overlap};
use crate::run::{Numbered, Part};
use crate::step::Step;
use silica_base::Result;
use silica_device::Device;
use silica_parts::table::{EndingTable, TableBuilder, Version as Row};
use std::sync::Arc;

/// Removes its file unless it is finished.
pub(crate) struct TableWriter<D: Device> {
    device: Arc<D>,
    number: u64,
    /// How often a filter lets a key pass by mistake.
    mistakes: f64,
    builder: Option<TableBuilder<D::File>>,
    /// What became of the builder when the last version was added.
    ending: Option<EndingTable<D::File>>,
    pub(crate) overlap: Overlap<D>,
}

impl<D: Device> TableWriter<D> {
    /// Of table `number`, whose filter lets a key pass by mistake so often.
    pub(crate) fn new(
        device: Arc<D>,
        number: u64,
        builder: TableBuilder<D::File>,
        mistakes: f64,
    ) -> Self {
        let (builder, overlap) = (Some(builder), Overlap::default());
        TableWriter { device, number, mistakes, builder, ending: None, overlap }
    }

    /// Versions added, before it began to end.
    pub(crate) fn versions(&self) -> u64 {
        self.builder.as_ref().map_or(0, TableBuilder::versions)
    }

    /// Bytes of the file so far, before it began to end.
    pub(crate) fn bytes(&self) -> u64 {
        self.builder.as_ref().map_or(0, TableBuilder::bytes)
    }

    /// True where the next version may have to wait for the device.
    #[inline]
    pub(crate) fn would_wait(&self) -> bool {
        self.builder.as_ref().is_some_and(TableBuilder::would_wait)
    }

    /// Adds a version in front of `older` runs.
    #[inline]
    pub(crate) fn add(&mut self, row: &Row<'_>, older: Older<'_, D>) -> Result<()> {
        let builder = self.builder.as_mut().expect("it is not finished");
        builder.add(row)?;
        self.overlap.count(row, older);
        if let Some(hash) = builder.new_key()
            && older.asks(hash)
        {
            self.overlap.ask(row.key, older, hash, self.mistakes);
        }
        Ok(())
    }

    /// The step of a job that has added its last version, `done` bytes after it began: where
    /// there is somebody who `goes_on` with others meanwhile, the table begins to become durable.
    pub(crate) fn end_where(&mut self, goes_on: bool, done: u64) -> Result<Step> {
        let ends = goes_on && self.versions() > 0;
        if ends {
            self.end()?;
        }
        Ok(if ends || done > 0 { Step::More(done) } else { Step::Ready })
    }

    /// Begins to make the table durable, where it has a version: no more come. Done once.
    fn end(&mut self) -> Result<()> {
        if let Some(builder) = self.builder.take_if(|builder| builder.versions() > 0) {
            let ending = builder.end();
            self.ending = Some(ending.inspect_err(|_| remove(&*self.device, self.number))?);
        }
        Ok(())
    }

    /// True where a table that was begun to be made durable is not yet.
    pub(crate) fn would_wait_to_finish(&self) -> bool {
        self.ending.as_ref().is_some_and(EndingTable::would_wait)
    }

    /// Makes the table durable; `None` where it would have no version.
    pub(crate) fn finish(self) -> Result<Option<Numbered<D>>> {
        let (device, number) = (Arc::clone(&self.device), self.number);
        let table = self.finish_unnamed()?;
        if table.is_some() {
            device.sync_dir().inspect_err(|_| remove(&*device, number))?;
        }
        Ok(table)
    }

    /// Finishes the table; its name is durable only when the directory is synced.
    pub(crate) fn finish_unnamed(mut self) -> Result<Option<Numbered<D>>> {
        self.end()?;
        let Some(ending) = self.ending.take() else { return Ok(None) };
        let table = ending.finish().inspect_err(|_| remove(&*self.device, self.number))?;
        Ok(Some(Numbered::new(self.number, table)))
    }
}

fn remove<D: Device>(device: &D, number: u64) {
    let name = table_name(number);
    if let Err(error) = device.remove(&name) {
        ::log::debug!("removing {name}: {error}");
    }
}

impl<D: Device> Drop for TableWriter<D> {
    fn drop(&mut self) {
        let is_begun = self.builder.take().is_some();
        // What is on its way to the device is waited for.
        if self.ending.take().is_some() || is_begun {
            remove(&*self.device, self.number);
        }
    }
}

/// A whole table as a part of a run at `level`.
pub(crate) fn whole<D: Device>(table: Numbered<D>, level: u8, dead_bytes: u64) -> Part<D> {
    Part::new(table, Vec::new(), None, level, dead_bytes)
}
