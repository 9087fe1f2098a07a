//! Every workload. Sizes and shares are those of the source; what a source does not tell is a
//! choice of ours and says so.

use super::Workload;
use crate::distribution::Distribution;
use crate::generator::{Layout, Shape, Sizes};

const DB_BENCH: &str = "db_bench";
const YCSB: &str = "YCSB";
const MICA: &str = "MICA, dissertation 5.4.1 and Figure 5.10";
const TURBOHASH: &str = "TurboHash, dissertation Figure 3.4";
const SILT: &str = "SILT, dissertation 2.6 (workload generation)";
const SQLITEKV: &str = "SQLiteKV, dissertation Table 4.1 and Figure 4.15";
const SQLITEKV_INSERT: &str = "SQLiteKV, dissertation Figure 4.10";
const SQLITEKV_QUERY: &str = "SQLiteKV, dissertation Figure 4.11";
const SQLITEKV_SIZES: &str = "SQLiteKV, dissertation Figure 4.13";

const fn shape(key_bytes: usize, value_bytes: usize) -> Shape {
    Shape { key_bytes, value_bytes }
}

const BASE: Workload = Workload {
    name: "",
    aliases: &[],
    doc: "",
    source: "Silica",
    reads: 0,
    misses: 0,
    updates: 0,
    inserts: 0,
    modifies: 0,
    deletes: 0,
    scans: 0,
    scan_entries: (0, 0),
    distribution: Distribution::Uniform,
    shape: shape(16, 100),
    sizes: Sizes::Fixed,
    layout: Layout::Hashed,
    from_empty: false,
    split_roles: false,
    readers_end: false,
    read_through: false,
    rate: 0,
};
const ZIPF: Workload = Workload { distribution: Distribution::ZIPFIAN, source: YCSB, ..BASE };
/// What stands in a plan whose operations come from a trace.
pub(crate) const REPLAY: Workload =
    Workload { name: "replay", doc: "the operations of a trace", source: "a trace", ..BASE };
const WIPDB_RATE: u64 = 150_000;

/// Every workload.
pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "fill",
        doc: "puts every key once, in random order",
        inserts: 100,
        from_empty: true,
        ..BASE
    },
    Workload {
        name: "overwrite",
        doc: "puts existing keys",
        source: DB_BENCH,
        updates: 100,
        ..BASE
    },
    Workload {
        name: "read",
        aliases: &["readrandom"],
        doc: "gets existing keys",
        source: DB_BENCH,
        reads: 100,
        ..BASE
    },
    Workload {
        name: "read-missing",
        aliases: &["readmissing"],
        doc: "gets keys that are not there",
        source: DB_BENCH,
        misses: 100,
        ..BASE
    },
    Workload { name: "mixed", doc: "half gets, half puts", reads: 50, updates: 50, ..BASE },
    Workload {
        name: "fillrandom",
        doc: "puts random keys into an empty store, some more than once",
        source: DB_BENCH,
        updates: 100,
        from_empty: true,
        ..BASE
    },
    Workload {
        name: "seekrandom",
        doc: "seeks an existing key and reads the next 50",
        source: DB_BENCH,
        scans: 100,
        scan_entries: (51, 51),
        ..BASE
    },
    Workload {
        name: "readwhilewriting",
        doc: "one thread puts existing keys while the others get them",
        source: DB_BENCH,
        reads: 100,
        updates: 100,
        split_roles: true,
        readers_end: true,
        ..BASE
    },
    Workload { name: "ycsb-a", doc: "half gets, half puts", reads: 50, updates: 50, ..ZIPF },
    Workload { name: "ycsb-b", doc: "95 % gets, 5 % puts", reads: 95, updates: 5, ..ZIPF },
    Workload { name: "ycsb-c", doc: "gets only", reads: 100, ..ZIPF },
    Workload {
        name: "ycsb-d",
        doc: "95 % gets of recent keys, 5 % new keys",
        reads: 95,
        inserts: 5,
        distribution: Distribution::Latest,
        ..ZIPF
    },
    Workload {
        name: "ycsb-e",
        doc: "95 % scans of 1 to 100 entries, 5 % new keys",
        scans: 95,
        inserts: 5,
        scan_entries: (1, 100),
        ..ZIPF
    },
    Workload {
        name: "ycsb-f",
        doc: "half gets, half read-modify-writes",
        reads: 50,
        modifies: 50,
        ..ZIPF
    },
    Workload {
        name: "timeline",
        doc: "one thread inserts new keys while the others get existing ones",
        source: "SILT, dissertation Figures 2.9 and 2.10",
        reads: 100,
        inserts: 100,
        split_roles: true,
        ..BASE
    },
    Workload { name: "silt-10-90", doc: "10 % puts, 90 % gets of 1 KiB", ..silt(10, 90, 1000) },
    Workload { name: "silt-50-50", doc: "half puts, half gets of 64 B", ..silt(50, 50, 44) },
    Workload { name: "silt-10-90-small", doc: "10 % puts, 90 % gets of 64 B", ..silt(10, 90, 44) },
    Workload {
        name: "silt-50-50-large",
        doc: "half puts, half gets of 1 KiB",
        ..silt(50, 50, 1000)
    },
    Workload { name: "mica-tiny-50", doc: "half gets, half puts of 8 + 8 B", ..mica(50, 8, 8) },
    Workload { name: "mica-tiny-95", doc: "95 % gets, 5 % puts of 8 + 8 B", ..mica(95, 8, 8) },
    Workload {
        name: "mica-small-50",
        doc: "half gets, half puts of 16 + 64 B",
        ..mica(50, 16, 64)
    },
    Workload { name: "mica-small-95", doc: "95 % gets, 5 % puts of 16 + 64 B", ..mica(95, 16, 64) },
    Workload {
        name: "mica-large-50",
        doc: "half gets, half puts of 128 + 1024 B",
        ..mica(50, 128, 1024)
    },
    Workload {
        name: "mica-large-95",
        doc: "95 % gets, 5 % puts of 128 + 1024 B",
        ..mica(95, 128, 1024)
    },
    Workload {
        name: "wipdb-regions",
        doc: "new keys whose density changes: exponential, normal, uniform, exponential reversed",
        source: "WipDB, dissertation Figure 2.7",
        inserts: 100,
        layout: Layout::Regions,
        from_empty: true,
        ..BASE
    },
    Workload {
        name: "wipdb-readwhilewriting",
        doc: "one thread puts at 150 000 a second while the others get",
        source: "WipDB, dissertation Figure 2.8(a)",
        ..WIPDB_READS
    },
    Workload {
        name: "wipdb-readwhilewriting-exponential",
        doc: "the same, keys chosen exponentially in the order of the keys",
        source: "WipDB, dissertation Figure 2.8(b)",
        distribution: Distribution::Exponential,
        layout: Layout::Ordered,
        ..WIPDB_READS
    },
    Workload {
        name: "turbohash-insert",
        doc: "puts every key once",
        inserts: 100,
        from_empty: true,
        ..TURBO
    },
    Workload { name: "turbohash-positive", doc: "gets existing keys", reads: 100, ..TURBO },
    Workload { name: "turbohash-negative", doc: "gets missing keys", misses: 100, ..TURBO },
    Workload { name: "turbohash-update", doc: "puts existing keys", updates: 100, ..TURBO },
    Workload { name: "turbohash-delete", doc: "deletes all keys", deletes: 100, ..TURBO },
    Workload {
        name: "facebook-get",
        doc: "gets of entries of Facebook's sizes, popularity moves; what is missing is put back",
        source: "DIDACache, dissertation Figures 2.10 and 2.11",
        reads: 100,
        read_through: true,
        ..FACEBOOK
    },
    Workload {
        name: "facebook-set",
        doc: "puts of entries of Facebook's sizes, popularity moves",
        source: "DIDACache, dissertation Table 2.1",
        updates: 100,
        ..FACEBOOK
    },
    Workload {
        name: "sqlitekv-update-heavy",
        doc: "half gets, half puts of rows of 64 to 4096 B",
        reads: 50,
        updates: 50,
        ..ROWS
    },
    Workload {
        name: "sqlitekv-read-most",
        doc: "95 % gets, 5 % puts of rows of 64 to 4096 B",
        reads: 95,
        updates: 5,
        ..ROWS
    },
    Workload {
        name: "sqlitekv-read-heavy",
        doc: "gets of rows of 64 to 4096 B",
        reads: 100,
        ..ROWS
    },
    Workload {
        name: "sqlitekv-read-latest",
        doc: "95 % gets of recent rows of 64 to 4096 B, 5 % new rows",
        reads: 95,
        inserts: 5,
        distribution: Distribution::Latest,
        ..ROWS
    },
    Workload {
        name: "sqlitekv-insert-random",
        doc: "puts every row of 64 B once, in random order",
        layout: Layout::Hashed,
        ..inserts(ROWS_64, SQLITEKV_INSERT)
    },
    Workload {
        name: "sqlitekv-insert-sequential",
        doc: "puts every row of 64 B once, in the order of the keys",
        ..inserts(ROWS_64, SQLITEKV_INSERT)
    },
    Workload {
        name: "sqlitekv-query-random",
        doc: "gets rows of 64 B in random order",
        ..queries(ROWS_64, Distribution::Uniform, SQLITEKV_QUERY)
    },
    Workload {
        name: "sqlitekv-query-sequential",
        doc: "gets rows of 64 B in the order of the keys",
        ..queries(ROWS_64, Distribution::Sequential, SQLITEKV_QUERY)
    },
    Workload {
        name: "sqlitekv-delete",
        doc: "deletes all rows of 64 B",
        source: "SQLiteKV, dissertation Figure 4.12",
        deletes: 100,
        ..ROWS_64
    },
    Workload {
        name: "sqlitekv-insert-random-sizes",
        doc: "puts every row of 64 to 4096 B once, in random order",
        layout: Layout::Hashed,
        ..inserts(ROWS, SQLITEKV_SIZES)
    },
    Workload {
        name: "sqlitekv-insert-sequential-sizes",
        doc: "puts every row of 64 to 4096 B once, in the order of the keys",
        ..inserts(ROWS, SQLITEKV_SIZES)
    },
    Workload {
        name: "sqlitekv-query-random-sizes",
        doc: "gets rows of 64 to 4096 B in random order",
        ..queries(ROWS, Distribution::Uniform, SQLITEKV_SIZES)
    },
    Workload {
        name: "sqlitekv-query-sequential-sizes",
        doc: "gets rows of 64 to 4096 B in the order of the keys",
        ..queries(ROWS, Distribution::Sequential, SQLITEKV_SIZES)
    },
];

/// Keys of 20 bytes; entries of 1020 or of 64 bytes.
const fn silt(updates: u8, reads: u8, value_bytes: usize) -> Workload {
    Workload { updates, reads, shape: shape(20, value_bytes), source: SILT, ..ZIPF }
}

/// Uniform; the source's skewed runs are `--distribution zipfian`.
const fn mica(reads: u8, key_bytes: usize, value_bytes: usize) -> Workload {
    let shape = shape(key_bytes, value_bytes);
    Workload { reads, updates: 100 - reads, shape, source: MICA, ..BASE }
}

const WIPDB_READS: Workload =
    Workload { reads: 100, updates: 100, split_roles: true, rate: WIPDB_RATE, ..BASE };

/// Keys and values of 8 bytes; the source's other size is `--key-size 15 --value-size 15`.
const TURBO: Workload = Workload { shape: shape(8, 8), source: TURBOHASH, ..BASE };

/// Keys of 16 bytes and a largest value of 16 KiB (7 of 100 000 are larger) are choices of ours.
const FACEBOOK: Workload = Workload {
    shape: shape(16, 16 << 10),
    sizes: Sizes::Pareto,
    distribution: Distribution::MovingNormal,
    ..BASE
};

/// Row numbers of 8 bytes; rows of powers of two, small ones more frequent.
const ROWS: Workload = Workload {
    shape: shape(8, 4096),
    sizes: Sizes::Rows,
    layout: Layout::Ordered,
    source: SQLITEKV,
    ..ZIPF
};

/// Rows of one size; the source's others, up to 4096 bytes, are `--value-size`.
const ROWS_64: Workload = Workload {
    shape: shape(8, 64),
    sizes: Sizes::Fixed,
    distribution: Distribution::Uniform,
    ..ROWS
};

const fn inserts(rows: Workload, source: &'static str) -> Workload {
    Workload { inserts: 100, from_empty: true, distribution: Distribution::Uniform, source, ..rows }
}

const fn queries(rows: Workload, distribution: Distribution, source: &'static str) -> Workload {
    Workload { reads: 100, distribution, source, ..rows }
}
