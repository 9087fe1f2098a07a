use crate::{TableFileOptions, TableFiles, Wip};
use silica_base::HashSeed;
use silica_device::Device;
use silica_device::sim::{SimDevice, SimOptions};
use silica_engine::{
    Durability, EngineExt, EntryRef, Environment, OptionValues, Ordered, SortedFile,
};
use silica_parts::table::Compression;
use std::sync::Arc;

#[test]
fn after_a_join_no_record_from_before_comes_back_over_what_was_ingested() {
    let device = SimDevice::new(1, SimOptions::default());
    let open = || {
        let environment = Environment::new(HashSeed([1; 16]));
        let mut options = OptionValues::default();
        options.set("first_buckets", 2);
        Wip::open(device.clone(), &options, &environment).expect("it opens")
    };
    let wip = open();
    wip.put(b"key", b"old", Durability::Synced).expect("a put");
    let (one, other) = (wip.buckets().at(0).clone(), wip.buckets().at(1).clone());
    wip.flush(&one).expect("a flush");
    let options = TableFileOptions {
        memory_bytes: 1 << 20,
        file_bytes: 1 << 20,
        compression: Compression::None,
        block_bytes: 4096,
        id: 5,
    };
    let elsewhere = Arc::new(device.subdirectory("elsewhere").expect("a directory"));
    let mut files = TableFiles::new(elsewhere.clone(), options);
    files.put(b"key", EntryRef::new(b"new")).expect("an entry");
    let made = files.finish(&mut |_, _| {}).expect("a file");
    elsewhere.link_into(&made.names[0], &device, "INGEST-1").expect("linked");
    let file = SortedFile { name: "INGEST-1".into(), shown: "file".into() };
    wip.ingest(&[file], &mut |_, _| {}).expect("an ingest");
    let (one, other) =
        (wip.buckets().of(&one.lower).clone(), wip.buckets().of(&other.lower).clone());
    crate::split::join(&wip, &one, &other).expect("a join");
    assert_eq!(wip.buckets().len(), 1);
    drop(wip);
    assert_eq!(open().get(b"key").expect("a get").as_deref(), Some(&b"new"[..]));
}
