//! Option texts that nobody meant well.

use silica_base::{CountingAllocator, hammer, test_size};
use silica_engine::{OptionKind, OptionSpec, OptionValues};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const fn spec(name: &'static str, kind: OptionKind) -> OptionSpec {
    OptionSpec { name, kind, default: 1, fixed: false, tunable: false, doc: "" }
}

const SPECS: &[OptionSpec] = &[
    spec("count", OptionKind::Count(1, u64::MAX)),
    spec("size", OptionKind::Size(1, u64::MAX)),
    spec("flag", OptionKind::Bool),
    spec("choice", OptionKind::Choice(&["auto", "sparse", "dense"])),
];

#[test]
fn option_texts() {
    let corpus: Vec<Vec<u8>> = [
        "count=18446744073709551615",
        "count=1_000",
        "size=64MiB",
        "size= 2 kB",
        "size=16777216T",
        "size=1_7gib",
        "flag=true",
        "flag=off",
        "choice=dense",
        "choice=ä",
        "=",
        "unknown=1",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    let inputs = test_size(5_000, 100_000, 100_000_000);
    let parse = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let (name, value) = text.split_once('=').unwrap_or((&text, ""));
        let Ok(values) = OptionValues::parse(SPECS, [(name, value)]) else { return false };
        let spec = SPECS.iter().find(|spec| spec.name == name).expect("a known name");
        let number = values.value(SPECS, name);
        assert_eq!(spec.parse(&spec.show(number)).expect("its own text"), number);
        true
    };
    let (accepted, refused) = hammer(inputs, 16 << 10, &corpus, |_| (), parse);
    assert!(accepted + refused == 1 || (accepted > 20 && refused > 20), "{accepted}, {refused}");
}
