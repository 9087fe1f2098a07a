//! What has expired, and the merges that free it.
//!
//! Nothing is written when an entry expires, so no young entry makes a merge due. Files say when
//! their entries expire, and log stores know it roughly: at any time the store knows without a read
//! how many bytes have expired. They may come to `merge_ratio_percent` of what has not, as young
//! entries may; the partition of which most has expired is merged then, also at rest.
//!
//! What expires in the log is dropped as the log goes on. At rest it does not go on, and values in
//! the value log may be much larger than the entries in the log that point at them: where most of
//! what has expired is in log stores, these are frozen, and so converted and merged.

use crate::partition::{Expired, Version};
use crate::partitions::Partitions;
use silica_device::Device;

/// Expired bytes that are left alone, however little else there is: one part in so many of the log
/// at its largest, and at most so many.
const FLOOR_PART: u64 = 16;
const FLOOR_BYTES_MAX: u64 = 1 << 20;
/// A merge that frees less than one part in so many of its files is not worth its writes.
const WORTH_PART: u64 = 16;
/// What has expired makes writers help, and never wait.
const PRESSURE_MAX: f64 = 1.5;

impl<D: Device> Version<D> {
    /// What has expired by `unix_ms` of hash stores and the sorted store.
    pub(crate) fn expired_at(&self, unix_ms: u64) -> Expired {
        let mut expired = Expired::default();
        let readers = self.readers().filter(|reader| reader.footer().expiries.entries() > 0);
        for reader in readers {
            let (footer, expiries) = (reader.footer(), &reader.footer().expiries);
            let share = expiries.bytes_over(unix_ms) / footer.entry_bytes.max(1) as f64;
            expired.add(Expired {
                file_bytes: (reader.file_bytes() as f64 * share.min(1.0)) as u64,
                apart_bytes: expiries.apart_bytes_over(unix_ms) as u64,
            });
        }
        expired
    }

    /// Bytes of the files of hash stores and the sorted store.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.readers().map(|reader| reader.file_bytes()).sum()
    }
}

/// The partition of which most has expired.
#[derive(Debug, Clone, Copy)]
struct Worst {
    partition: usize,
    /// Expired bytes for each byte of its files.
    share: f64,
}

/// What has expired in a store at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct View {
    /// In hash stores and sorted stores.
    pub(crate) stored: Expired,
    /// In log stores.
    pub(crate) logged: Expired,
    file_bytes: u64,
    logged_bytes: u64,
    worst: Option<Worst>,
}

impl<D: Device> Partitions<D> {
    /// Looks at what has expired in all partitions.
    pub(crate) fn view_expired(&self) -> View {
        let now = self.ground.clock.unix_ms();
        let mut view = View::default();
        for (partition, stores) in self.iter().enumerate() {
            let version = {
                let stores = stores.read();
                view.logged.add(stores.sizes.expired_at(now));
                view.logged_bytes += stores.sizes.bytes();
                stores.version.clone()
            };
            for frozen in &version.frozen {
                view.logged.add(frozen.sizes.expired_at(now));
                view.logged_bytes += frozen.sizes.bytes();
            }
            let (expired, file_bytes) = (version.expired_at(now), version.file_bytes());
            view.stored.add(expired);
            view.file_bytes += file_bytes;
            let share = expired.bytes() as f64 / file_bytes.max(1) as f64;
            if expired.bytes() > file_bytes / WORTH_PART
                && view.worst.is_none_or(|worst| share > worst.share)
            {
                view.worst = Some(Worst { partition, share });
            }
        }
        view
    }

    /// Bytes that may have expired.
    pub(crate) fn expired_bytes_max(&self, view: &View) -> u64 {
        let expired = view.stored.bytes() + view.logged.bytes();
        let all = view.file_bytes + view.logged_bytes + self.journal.values.bytes().1;
        let unexpired = all.saturating_sub(expired);
        let floor = (self.ground.log_bytes_max() / FLOOR_PART).min(FLOOR_BYTES_MAX);
        (unexpired / 100 * self.ground.config.merge_ratio_percent).max(floor)
    }

    /// How close what has expired in hash stores and sorted stores is to where a merge is due,
    /// which is 1, and the partition to merge.
    pub(crate) fn expired_pressure(&self) -> (f64, usize) {
        let view = self.view_expired();
        let Some(worst) = view.worst else { return (0.0, 0) };
        let pressure = view.stored.bytes() as f64 / self.expired_bytes_max(&view) as f64;
        (pressure.min(PRESSURE_MAX), worst.partition)
    }
}
