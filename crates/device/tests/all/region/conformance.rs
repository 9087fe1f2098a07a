//! What every region does.

use super::*;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering, fence};

const BYTES: u64 = 16 << 10;

/// A region that can be closed and opened again.
trait Medium {
    type Region: Region;
    fn fresh() -> Self;
    fn region(&self) -> &Self::Region;
    fn reopened(self) -> Self;
}

struct Mapped {
    region: FileRegion,
    path: PathBuf,
    dir: tempfile::TempDir,
}

impl Mapped {
    fn below(parent: &Path) -> Mapped {
        let dir = tempfile::tempdir_in(parent).unwrap();
        let path = dir.path().join("region");
        Mapped { region: FileRegion::create(&path, BYTES).unwrap(), path, dir }
    }

    fn again(self) -> Mapped {
        let Mapped { region, path, dir } = self;
        drop(region);
        Mapped { region: FileRegion::open(&path, Some(BYTES)).unwrap(), path, dir }
    }
}

struct OnDisk(Mapped);

impl Medium for OnDisk {
    type Region = FileRegion;
    fn fresh() -> Self {
        OnDisk(Mapped::below(&std::env::temp_dir()))
    }
    fn region(&self) -> &FileRegion {
        &self.0.region
    }
    fn reopened(self) -> Self {
        OnDisk(self.0.again())
    }
}

struct InMemory(Mapped);

impl Medium for InMemory {
    type Region = FileRegion;
    fn fresh() -> Self {
        InMemory(Mapped::below("/dev/shm".as_ref()))
    }
    fn region(&self) -> &FileRegion {
        &self.0.region
    }
    fn reopened(self) -> Self {
        InMemory(self.0.again())
    }
}

struct Sim(SimRegion);

impl Medium for Sim {
    type Region = SimRegion;
    fn fresh() -> Self {
        Sim(SimRegion::new(3, BYTES, RegionClass::Lines))
    }
    fn region(&self) -> &SimRegion {
        &self.0
    }
    fn reopened(self) -> Self {
        Sim(self.0.reopen())
    }
}

macro_rules! suite {
    ($($test:ident),* $(,)?) => {
        mod on_disk { $( #[test] fn $test() { super::$test::<super::OnDisk>() } )* }
        mod in_memory { $( #[test] fn $test() { super::$test::<super::InMemory>() } )* }
        mod sim { $( #[test] fn $test() { super::$test::<super::Sim>() } )* }
    };
}

suite!(
    bytes_and_words_are_the_same_memory,
    everything_stored_survives_the_process,
    calls_beyond_the_end_are_our_bugs,
    readers_check_a_sequence_number,
    threads_flush_side_by_side,
);

fn bytes_and_words_are_the_same_memory<M: Medium>() {
    let medium = M::fresh();
    let region = medium.region();
    assert_eq!((region.len(), region.is_empty()), (BYTES, false));
    assert_eq!(region.load(BYTES - 8), 0);
    region.write(13, b"0123456789abcdef");
    let mut bytes = [0xFF; 24];
    region.read(8, &mut bytes);
    assert_eq!(&bytes, b"\0\0\0\0\x000123456789abcdef\0\0\0");
    assert_eq!(region.load(16), u64::from_le_bytes(*b"3456789a"));
    region.store(16, u64::from_le_bytes(*b"PERSISTS"));
    region.read(13, &mut bytes[..16]);
    assert_eq!(&bytes[..16], b"012PERSISTSbcdef");
    region.write(18, b"x");
    region.write(22, b"yz");
    region.read(13, &mut bytes[..16]);
    assert_eq!(&bytes[..16], b"012PExSISyzbcdef");
    region.write(BYTES - 3, b"end");
    assert_eq!(region.load(BYTES - 8) >> 40, u64::from(u32::from_le_bytes(*b"end\0")));
    region.write(BYTES, b"");
    region.read(BYTES, &mut []);
    region.flush(BYTES, 0);
    region.flush(13, 16);
    region.fence().unwrap();
    region.fence().unwrap();
    region.stream(1021, b"streamed");
    region.fence().unwrap();
    region.read(1020, &mut bytes[..10]);
    assert_eq!(&bytes[..10], b"\0streamed\0");
}

fn everything_stored_survives_the_process<M: Medium>() {
    let medium = M::fresh();
    medium.region().store(128, 7);
    medium.region().flush(128, 8);
    medium.region().fence().unwrap();
    medium.region().write(9000, b"not fenced");
    let medium = medium.reopened();
    let mut bytes = [0; 10];
    medium.region().read(9000, &mut bytes);
    assert_eq!((medium.region().load(128), &bytes), (7, b"not fenced"));
}

fn calls_beyond_the_end_are_our_bugs<M: Medium>() {
    let medium = M::fresh();
    let region = medium.region();
    let panics =
        |call: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err();
    assert!(panics(&|| assert_eq!(region.load(BYTES), 0)));
    assert!(panics(&|| assert_eq!(region.load(4), 0)), "not aligned");
    assert!(panics(&|| region.store(BYTES, 1)));
    assert!(panics(&|| region.write(BYTES - 2, b"abc")));
    assert!(panics(&|| region.read(BYTES - 2, &mut [0; 3])));
    assert!(panics(&|| region.read(u64::MAX - 1, &mut [0; 3])));
    assert!(panics(&|| region.flush(BYTES - 1, 2)));
    assert!(panics(&|| region.flush(u64::MAX, 2)));
}

/// A writer changes 40 bytes under a sequence number; readers see whole versions.
fn readers_check_a_sequence_number<M: Medium>() {
    let medium = M::fresh();
    let region = medium.region();
    let (done, versions) = (AtomicBool::new(false), 3_000u64);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for version in 1..=versions {
                region.store(0, 2 * version - 1);
                // The odd number comes before the bytes, for readers that see any of them.
                fence(Ordering::Release);
                region.write(64, &[version as u8; 40]);
                region.store(0, 2 * version);
            }
            done.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            let mut seen = 0;
            loop {
                let is_last = done.load(Ordering::Acquire);
                let before = region.load(0);
                let mut bytes = [0; 40];
                region.read(64, &mut bytes);
                fence(Ordering::Acquire);
                let is_same = region.load(0) == before && before.is_multiple_of(2);
                if is_same {
                    assert_eq!(bytes, [(before / 2) as u8; 40]);
                    seen += 1;
                }
                if is_last && is_same {
                    break;
                }
            }
            assert!(seen > 0);
        });
    });
    assert_eq!(region.load(0), 2 * versions);
}

fn threads_flush_side_by_side<M: Medium>() {
    let medium = M::fresh();
    let region = medium.region();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            scope.spawn(move || {
                for i in 0..8 {
                    let at = 4096 * thread + 64 * i;
                    region.store(at, thread + 1);
                    region.flush(at, 8);
                    region.fence().unwrap();
                }
            });
        }
    });
    let words = (0..4).flat_map(|thread| (0..8).map(move |i| (thread, 4096 * thread + 64 * i)));
    assert!(words.into_iter().all(|(thread, at)| region.load(at) == thread + 1));
}

#[test]
fn classes_are_found_out() {
    assert_eq!(InMemory::fresh().region().class(), RegionClass::Process);
    let class = OnDisk::fresh().region().class();
    // The directory of temporary files may be in memory itself.
    assert!([RegionClass::Pages, RegionClass::Process].contains(&class), "{class}");
    let classes = [RegionClass::Lines, RegionClass::Pages, RegionClass::Process];
    assert_eq!(classes.map(RegionClass::name), ["power", "buffered", "process"]);
    assert_eq!(classes.map(RegionClass::survives_power_cut), [true, false, false]);
}
