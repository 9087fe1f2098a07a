//! Commands on counters of distinct elements.

use crate::resp::types::hyperloglog as of;
use crate::table::{ALL, Command, NO, ONE, Run, SECOND};

pub(super) static COMMANDS: &[Command] = table! {
    "pfadd" -2 "write denyoom fast / blind" ONE "hyperloglog" "2.8.9" Run::Type(&of::PFADD),
        "Counts elements, each of them once.";
    "pfcount" -2 "readonly" ALL "hyperloglog" "2.8.9" Run::Type(&of::PFCOUNT),
        "Estimates how many elements were counted.";
    "pfdebug" 3 "write denyoom admin" SECOND "hyperloglog" "2.8.9" Run::Type(&of::PFDEBUG),
        "Tells how a counter is kept.";
    "pfmerge" -2 "write denyoom / merges" ALL "hyperloglog" "2.8.9" Run::Type(&of::PFMERGE),
        "Counts what other counters have counted.";
    "pfselftest" 1 "admin" NO "hyperloglog" "2.8.9" Run::Session(of::pfselftest),
        "Counts random elements and looks whether the estimates are right.";
};
