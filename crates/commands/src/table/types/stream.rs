//! Commands on streams.

use crate::resp::types::stream as of;
use crate::table::Run::{Session, Type};
use crate::table::{Command, NO, ONE, SECOND};

pub(super) static COMMANDS: &[Command] = table! {
    "xack" -4 "write fast / blind" ONE "stream" "5.0.0" Type(&of::XACK),
        "Removes entries from what a group has pending.";
    "xadd" -5 "write denyoom fast / blind" ONE "stream" "5.0.0" Type(&of::XADD),
        "Adds an entry to a stream.";
    "xautoclaim" -6 "write fast / blind" ONE "stream" "6.2.0" Type(&of::XAUTOCLAIM),
        "Gives a consumer what was pending for long.";
    "xclaim" -6 "write fast / blind" ONE "stream" "5.0.0" Type(&of::XCLAIM),
        "Gives a consumer pending entries.";
    "xdel" -3 "write fast / blind" ONE "stream" "5.0.0" Type(&of::XDEL),
        "Deletes entries of a stream.";
    "xgroup" -2 "" NO "stream" "5.0.0" Session(of::group_help),
        "Manages groups of consumers.", GROUP;
    "xinfo" -2 "" NO "stream" "5.0.0" Session(of::info_help),
        "Tells of a stream, its groups and their consumers.", INFO;
    "xlen" 2 "readonly fast / looks" ONE "stream" "5.0.0" Type(&of::XLEN),
        "Counts the entries of a stream.";
    "xpending" -3 "readonly" ONE "stream" "5.0.0" Type(&of::XPENDING),
        "Tells what consumers have not acknowledged.";
    "xrange" -4 "readonly" ONE "stream" "5.0.0" Type(&of::XRANGE),
        "Returns a range of entries.";
    "xread" -4 "readonly blocking movablekeys / streams" NO "stream" "5.0.0" Type(&of::XREAD),
        "Returns entries behind given ids of streams.";
    "xreadgroup" -7 "write blocking movablekeys / streams" NO "stream" "5.0.0"
        Type(&of::XREADGROUP), "Gives a consumer entries of streams.";
    "xrevrange" -4 "readonly" ONE "stream" "5.0.0" Type(&of::XREVRANGE),
        "Returns a range of entries, the last one first.";
    "xsetid" -3 "write denyoom fast / blind" ONE "stream" "5.0.0" Type(&of::XSETID),
        "Sets the last id of a stream.";
    "xtrim" -4 "write / blind" ONE "stream" "5.0.0" Type(&of::XTRIM),
        "Removes the first entries of a stream.";
};

static GROUP: &[Command] = table! {
    "xgroup|create" -5 "write denyoom / blind" SECOND "stream" "5.0.0" Type(&of::CREATE),
        "Makes a group.";
    "xgroup|createconsumer" 5 "write denyoom / blind" SECOND "stream" "6.2.0"
        Type(&of::CREATECONSUMER), "Makes a consumer of a group.";
    "xgroup|delconsumer" 5 "write / blind" SECOND "stream" "5.0.0" Type(&of::DELCONSUMER),
        "Removes a consumer and what it has pending.";
    "xgroup|destroy" 4 "write / blind" SECOND "stream" "5.0.0" Type(&of::DESTROY),
        "Removes a group.";
    "xgroup|help" 2 "loading stale" NO "stream" "5.0.0" Session(of::group_help),
        "Lists the subcommands.";
    "xgroup|setid" -5 "write / blind" SECOND "stream" "5.0.0" Type(&of::SETID),
        "Sets the id that a group has read up to.";
};

static INFO: &[Command] = table! {
    "xinfo|consumers" 4 "readonly" SECOND "stream" "5.0.0" Type(&of::CONSUMERS),
        "Lists the consumers of a group.";
    "xinfo|groups" 3 "readonly" SECOND "stream" "5.0.0" Type(&of::GROUPS),
        "Lists the groups of a stream.";
    "xinfo|help" 2 "loading stale" NO "stream" "5.0.0" Session(of::info_help),
        "Lists the subcommands.";
    "xinfo|stream" -3 "readonly" SECOND "stream" "5.0.0" Type(&of::STREAM),
        "Describes a stream.";
};
