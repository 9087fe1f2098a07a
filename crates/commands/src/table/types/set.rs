//! Commands on sets.

use crate::resp::types::{set, set_algebra};
use crate::table::{ALL, Command, NUMBERED, ONE, Run, TWO};

pub(super) static COMMANDS: &[Command] = table! {
    "sadd" -3 "write denyoom fast" ONE "set" "1.0.0" Run::Type(&set::SADD),
        "Adds members to a set.";
    "scard" 2 "readonly fast" ONE "set" "1.0.0" Run::Type(&set::SCARD),
        "Returns how many members a set has.";
    "sdiff" -2 "readonly" ALL "set" "1.0.0" Run::Type(&set_algebra::SDIFF),
        "Returns the members of a set that are in no other one.";
    "sdiffstore" -3 "write denyoom / into-first" ALL "set" "1.0.0"
        Run::Type(&set_algebra::SDIFFSTORE),
        "Stores the members of a set that are in no other one.";
    "sinter" -2 "readonly" ALL "set" "1.0.0" Run::Type(&set_algebra::SINTER),
        "Returns the members that several sets have in common.";
    "sintercard" -3 "readonly / numbered-first" NUMBERED "set" "7.0.0"
        Run::Type(&set_algebra::SINTERCARD),
        "Returns how many members several sets have in common.";
    "sinterstore" -3 "write denyoom / into-first" ALL "set" "1.0.0"
        Run::Type(&set_algebra::SINTERSTORE),
        "Stores the members that several sets have in common.";
    "sismember" 3 "readonly fast" ONE "set" "1.0.0" Run::Type(&set::SISMEMBER),
        "Returns whether a set has a member.";
    "smembers" 2 "readonly" ONE "set" "1.0.0" Run::Type(&set::SMEMBERS),
        "Returns all members of a set.";
    "smismember" -3 "readonly fast" ONE "set" "6.2.0" Run::Type(&set::SMISMEMBER),
        "Returns of each of several members whether a set has it.";
    "smove" 4 "write fast" TWO "set" "1.0.0" Run::Type(&set::SMOVE),
        "Moves a member from one set to another.";
    "spop" -2 "write fast" ONE "set" "1.0.0" Run::Type(&set::SPOP),
        "Removes members of a set by chance and returns them.";
    "srandmember" -2 "readonly" ONE "set" "1.0.0" Run::Type(&set::SRANDMEMBER),
        "Returns members of a set by chance.";
    "srem" -3 "write fast" ONE "set" "1.0.0" Run::Type(&set::SREM),
        "Removes members of a set.";
    "sscan" -3 "readonly" ONE "set" "2.8.0" Run::Type(&set::SSCAN),
        "Returns some members of a set, and the cursor for the next ones.";
    "sunion" -2 "readonly" ALL "set" "1.0.0" Run::Type(&set_algebra::SUNION),
        "Returns the members of several sets.";
    "sunionstore" -3 "write denyoom / into-first" ALL "set" "1.0.0"
        Run::Type(&set_algebra::SUNIONSTORE),
        "Stores the members of several sets.";
};
