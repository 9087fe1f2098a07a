//! Recovery: the log's records back into the tables.

use crate::intake::Intake;
use crate::partition::NewFrame;
use crate::state::Edit;
use silica_base::{Error, KeyHash, Result};
use silica_device::Device;
use silica_parts::frame::{Frame, RANGE};
use silica_parts::wal;

/// Entries found in the log and not yet in the tables: hash and log position.
type Burst = Vec<(KeyHash, u64)>;

/// Entries put into the tables together, so that their cache misses overlap.
const REPLAY_BURST: usize = 32;

impl<D: Device> Intake<D> {
    /// Puts the log's records back into the tables.
    pub(crate) fn replay(&self) -> Result<()> {
        let durable_end = self.journal.with_state(|state| state.durable_end);
        let segments = self.journal.log.segments();
        let mut burst = Burst::new();
        let list: Vec<_> = segments.iter().cloned().collect();
        let is_wanted = |frame: &Frame<'_>, at| {
            at >= self.partitions.partition_of(self.ground.hash(frame.key)).read().version.floor
        };
        let cut = self.journal.values.find_lost(&list, durable_end, &is_wanted)?;
        let recovered =
            wal::replay(&*self.ground.device, &list, cut, durable_end, &mut |at, payload| {
                self.replay_record(at, payload, &mut burst)
            })?;
        self.replay_burst(&mut burst)?;
        let next_sequence = recovered.next_sequence;
        self.journal.log.set_recovered(next_sequence - 1, recovered.end);
        let mut writer = self.writer.lock().expect("no panic while held");
        writer.appender.next_sequence = next_sequence;
        drop(writer);
        if cut.is_some() { self.seal_cut() } else { Ok(()) }
    }

    /// Makes a cut that only the values told of lasting: the sequence number of a new segment
    /// says from now on where it is.
    fn seal_cut(&self) -> Result<()> {
        let mut writer = self.writer.lock().expect("no panic while held");
        let register = |number| self.journal.edit(&[Edit::LogSegment(number)]);
        self.journal.log.append(
            &mut writer.appender,
            &mut vec![0; wal::RECORD_ROOM_BYTES],
            &register,
        )?;
        drop(writer);
        self.journal.sync_log()
    }

    fn replay_record(&self, at: u64, payload: &[u8], burst: &mut Burst) -> Result<()> {
        for frame in wal::frames(payload) {
            let Some((offset, frame)) = frame else {
                let detail = "a record holds what is no entry";
                return Err(Error::corruption("the log", at, detail));
            };
            if frame.flags & RANGE != 0 {
                let detail = "a range was deleted, which stores in the order of hashes cannot do";
                return Err(Error::corruption("the log", at + offset as u64, detail));
            }
            let (here, hash) = (at + offset as u64, self.ground.hash(frame.key));
            let stores = self.partitions.partition_of(hash).read();
            if here >= stores.version.floor {
                stores.active.prefetch(hash);
                burst.push((hash, here));
            }
        }
        if burst.len() >= REPLAY_BURST { self.replay_burst(burst) } else { Ok(()) }
    }

    fn replay_burst(&self, burst: &mut Burst) -> Result<()> {
        let segments = self.journal.log.segments();
        let log_end = self.journal.log.end();
        let mut writer = self.writer.lock().expect("no panic while held");
        for (hash, at) in burst.drain(..) {
            let frame = segments.bytes_from(at).and_then(Frame::decode);
            let (frame, bytes) = frame.expect("it was decoded a moment ago");
            let mut stores = self.partitions.partition_of(hash).write();
            let old = stores.find_in_log(&segments, log_end, hash, frame.key);
            old.iter().for_each(|old| stores.forget_expiry(hash, old));
            let seen = old.and_then(|o| o.active_slot);
            let frame = NewFrame::new(hash, at, bytes as u64, &frame);
            self.put_into_table(&mut stores, &mut writer, &frame, seen);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silt;
    use silica_base::{ErrorKind, HashSeed};
    use silica_device::sim::{SimDevice, SimOptions};
    use silica_engine::{Environment, OptionValues};

    #[test]
    fn a_deleted_range_in_the_log_is_corruption() {
        let environment = Environment::new(HashSeed([1; 16]));
        let open = |device| Silt::open(device, &OptionValues::default(), &environment);
        let device = SimDevice::new(1, SimOptions::default());
        for (flags, is_right) in [(0, true), (RANGE, false)] {
            let store = open(device.clone()).expect("opens");
            let mut record = vec![0; wal::RECORD_ROOM_BYTES];
            Frame { flags, ..Frame::put(b"a", b"b") }.encode(&mut record);
            let register = |number| store.journal.edit(&[Edit::LogSegment(number)]);
            let mut writer = store.intake.writer.lock().expect("no panic while held");
            store
                .journal
                .log
                .append(&mut writer.appender, &mut record, &register)
                .expect("appends");
            drop(writer);
            drop(store);
            let error = open(device.clone()).err().map(|error| error.kind());
            assert_eq!(error, (!is_right).then_some(ErrorKind::Corruption));
        }
    }
}
