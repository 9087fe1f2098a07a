//! The commands behind a container such as CLIENT.

use super::Run::{Apart, Read, Session, Type, Whole};
use super::{Command, NO, SECOND};
use crate::resp::{
    acl, client, clients, cluster, cluster::replicas, cluster::show, config, dump, function,
    introspect, memory, object, roles, script, slowlog, topics, tracking, types::generic,
};

pub(super) static ACL: &[Command] = table! {
    "acl|cat" -2 "noscript loading stale" NO "server" "6.0.0"
        Session(acl::cat), "Lists categories, or the commands of one.";
    "acl|deluser" -3 "admin noscript loading stale" NO "server" "6.0.0"
        Session(acl::deluser), "Removes users and closes their connections.";
    "acl|dryrun" -4 "admin noscript loading stale" NO "server" "7.0.0"
        Session(acl::dryrun), "Says whether a user may run a command.";
    "acl|genpass" -2 "noscript loading stale" NO "server" "6.0.0"
        Session(acl::genpass), "Returns a random password.";
    "acl|getuser" 3 "admin noscript loading stale" NO "server" "6.0.0"
        Session(acl::getuser), "Describes a user.";
    "acl|help" 2 "loading stale" NO "server" "6.0.0"
        Session(acl::help), "Lists the subcommands.";
    "acl|list" 2 "admin noscript loading stale" NO "server" "6.0.0"
        Session(acl::list), "Describes all users, as the file of users does.";
    "acl|load" 2 "admin noscript loading stale" NO "server" "6.0.0"
        Session(acl::load), "Takes the users of the file.";
    "acl|log" -2 "admin noscript loading stale" NO "server" "6.0.0"
        Session(acl::log), "Returns, or forgets, what was refused to whom.";
    "acl|save" 2 "admin noscript loading stale" NO "server" "6.0.0"
        Session(acl::save), "Writes all users to the file.";
    "acl|setuser" -3 "admin noscript loading stale" NO "server" "6.0.0"
        Session(acl::setuser), "Makes or changes a user.";
    "acl|users" 2 "admin noscript loading stale" NO "server" "6.0.0"
        Session(acl::users), "Lists the names of all users.";
    "acl|whoami" 2 "noscript loading stale" NO "server" "6.0.0"
        Session(acl::whoami), "Returns the name of the connection's user.";
};

pub(super) static CLIENT: &[Command] = table! {
    "client|caching" 3 "noscript loading stale / own" NO "connection" "6.0.0"
        Session(tracking::caching), "Chooses whether what the next request reads is tracked.";
    "client|getname" 2 "noscript loading stale" NO "connection" "2.6.9" Session(client::getname),
        "Returns the connection's name.";
    "client|getredir" 2 "noscript loading stale" NO "connection" "6.0.0"
        Session(tracking::getredir), "Returns who is told which keys were written.";
    "client|help" 2 "loading stale" NO "connection" "5.0.0" Session(client::help),
        "Lists the subcommands.";
    "client|id" 2 "noscript loading stale" NO "connection" "5.0.0" Session(client::id),
        "Returns the connection's number.";
    "client|info" 2 "noscript loading stale" NO "connection" "6.2.0" Session(client::info),
        "Describes this connection.";
    "client|kill" -3 "admin noscript loading stale / queued" NO "connection" "2.4.0"
        Session(clients::kill), "Closes connections.";
    "client|list" -2 "admin noscript loading stale / long" NO "connection" "2.4.0"
        Whole(clients::list), "Describes all connections.";
    "client|no-evict" 3 "admin noscript loading stale" NO "connection" "7.0.0"
        Session(client::no_evict), "Keeps the connection when memory for clients is short.";
    "client|no-touch" 3 "noscript loading stale" NO "connection" "7.2.0"
        Session(client::no_touch), "Accepted; there is no access time that reads could touch.";
    "client|pause" -3 "admin noscript loading stale" NO "connection" "3.0.0"
        Session(client::pause), "Lets the requests of all clients wait.";
    "client|reply" 3 "noscript loading stale / own" NO "connection" "3.2.0" Session(client::reply),
        "Switches replies on or off.";
    "client|setinfo" 4 "noscript loading stale" NO "connection" "7.2.0" Session(client::setinfo),
        "Tells the client library's name or version.";
    "client|setname" 3 "noscript loading stale" NO "connection" "2.6.9" Session(client::setname),
        "Names the connection.";
    "client|tracking" -3 "noscript loading stale" NO "connection" "6.0.0"
        Session(tracking::tracking), "Tells the connection which keys were written.";
    "client|trackinginfo" 2 "noscript loading stale" NO "connection" "6.2.0"
        Session(tracking::info), "Returns what the connection is told.";
    "client|unblock" -3 "admin noscript loading stale" NO "connection" "5.0.0"
        Session(client::unblock), "Ends the wait of a client's request.";
    "client|unpause" 2 "admin noscript loading stale" NO "connection" "6.2.0"
        Session(client::unpause), "Ends the wait of CLIENT PAUSE.";
};

pub(super) static CLUSTER: &[Command] = table! {
    "cluster|addslots" -3 "admin noscript stale / long queued" NO "cluster" "3.0.0"
        Apart(cluster::addslots), "Lets this node serve slots that nobody serves.";
    "cluster|addslotsrange" -4 "admin noscript stale / long queued" NO "cluster" "7.0.0"
        Apart(cluster::addslots), "Lets this node serve ranges of slots that nobody serves.";
    "cluster|bumpepoch" 2 "admin noscript stale / long queued" NO "cluster" "3.0.0"
        Apart(cluster::bumpepoch), "Gives this node an epoch above all others.";
    "cluster|count-failure-reports" 3 "admin noscript loading stale" NO "cluster" "3.0.0"
        Session(replicas::count_failure_reports), "Counts the nodes that a node does not answer.";
    "cluster|countkeysinslot" 3 "stale / long queued" NO "cluster" "3.0.0"
        Apart(cluster::countkeysinslot), "Counts the keys of a slot on this node.";
    "cluster|delslots" -3 "admin noscript stale / long queued" NO "cluster" "3.0.0"
        Apart(cluster::delslots), "Forgets who serves slots.";
    "cluster|delslotsrange" -4 "admin noscript stale / long queued" NO "cluster" "7.0.0"
        Apart(cluster::delslots), "Forgets who serves ranges of slots.";
    "cluster|failover" -2 "admin noscript loading stale / long" NO "cluster" "3.0.0"
        Apart(replicas::failover), "Takes the slots of this replica's primary over.";
    "cluster|flushslots" 2 "admin noscript stale / long queued" NO "cluster" "3.0.0"
        Apart(cluster::flushslots), "Lets this node serve no slot.";
    "cluster|forget" 3 "admin noscript stale / long queued" NO "cluster" "3.0.0"
        Apart(cluster::forget), "Removes a node from the map.";
    "cluster|getkeysinslot" 4 "stale / long queued" NO "cluster" "3.0.0"
        Apart(cluster::getkeysinslot), "Returns keys of a slot on this node.";
    "cluster|help" 2 "loading stale" NO "cluster" "5.0.0"
        Session(cluster::help), "Lists the subcommands.";
    "cluster|info" 2 "loading stale" NO "cluster" "3.0.0"
        Session(show::info), "Tells the state of the cluster.";
    "cluster|keyslot" 3 "loading stale" NO "cluster" "3.0.0"
        Session(show::keyslot), "Returns the slot of a key.";
    "cluster|links" 2 "loading stale" NO "cluster" "7.0.0"
        Session(show::links), "Lists the connections to other nodes.";
    "cluster|meet" -4 "admin noscript stale / long queued" NO "cluster" "3.0.0"
        Apart(cluster::meet), "Introduces this node and another one to each other.";
    "cluster|myid" 2 "loading stale" NO "cluster" "3.0.0"
        Session(show::myid), "Returns the id of this node.";
    "cluster|nodes" 2 "loading stale" NO "cluster" "3.0.0"
        Session(show::nodes), "Lists the nodes and their slots.";
    "cluster|replicas" 3 "admin noscript loading stale" NO "cluster" "5.0.0"
        Session(show::replicas), "Lists the replicas of a node.";
    "cluster|replicate" 3 "admin noscript stale / long queued" NO "cluster" "3.0.0"
        Apart(replicas::replicate), "Makes this node a replica of another one.";
    "cluster|reset" -2 "admin noscript stale / long queued" NO "cluster" "3.0.0"
        Apart(cluster::reset), "Forgets all other nodes and all slots.";
    "cluster|saveconfig" 2 "admin noscript stale / long queued" NO "cluster" "3.0.0"
        Apart(cluster::saveconfig), "Writes the map to its file.";
    "cluster|set-config-epoch" 3 "admin noscript stale / long queued" NO "cluster" "3.0.0"
        Apart(cluster::set_config_epoch), "Sets the epoch of a node that knows no other.";
    "cluster|setslot" -4 "admin noscript stale / long queued" NO "cluster" "3.0.0"
        Apart(cluster::setslot), "Hands a slot over, takes it over, or says whose it is.";
    "cluster|shards" 2 "loading stale" NO "cluster" "7.0.0"
        Session(show::shards), "Lists the nodes by the slots that they serve.";
    "cluster|slaves" 3 "admin noscript loading stale" NO "cluster" "3.0.0"
        Session(show::replicas), "Lists the replicas of a node.";
    "cluster|slots" 2 "loading stale" NO "cluster" "3.0.0"
        Session(show::slots), "Lists ranges of slots and who serves them.";
};

pub(super) static COMMAND: &[Command] = table! {
    "command|count" 2 "loading stale / connection" NO "server" "2.8.13" Session(introspect::count),
        "Counts the commands.";
    "command|docs" -2 "loading stale / connection" NO "server" "7.0.0" Session(introspect::docs),
        "Returns the docs of commands.";
    "command|getkeys" -3 "loading stale / connection" NO "server" "2.8.13"
        Session(introspect::getkeys), "Returns the keys of a command line.";
    "command|help" 2 "loading stale / connection" NO "server" "5.0.0"
        Session(introspect::command_help), "Lists the subcommands.";
    "command|info" -2 "loading stale / connection" NO "server" "2.8.13" Session(introspect::info),
        "Describes some commands.";
    "command|list" -2 "loading stale / connection" NO "server" "7.0.0" Session(introspect::list),
        "Returns the names of all commands.";
};

pub(super) static CONFIG: &[Command] = table! {
    "config|get" -3 "admin noscript loading stale" NO "server" "2.0.0"
        Session(config::get), "Returns settings by pattern.";
    "config|help" 2 "loading stale" NO "server" "5.0.0" Session(config::help),
        "Lists the subcommands.";
    "config|resetstat" 2 "admin noscript loading stale" NO "server" "2.0.0"
        Session(config::resetstat), "Sets the server's counters to zero.";
    "config|rewrite" 2 "admin noscript loading stale / queued" NO "server" "2.8.0"
        Whole(config::rewrite), "Writes the settings that were changed to the options file.";
    "config|set" -4 "admin noscript loading stale" NO "server" "2.0.0"
        Session(config::set), "Changes settings while the server runs.";
};

pub(super) static DEBUG: &[Command] = table! {
    "debug|digest-value" -3 "admin noscript loading stale" NO "server" "1.0.0"
        Type(&dump::DIGEST), "Returns a digest of each key's value, equal for equal values.";
    "debug|error" 3 "admin noscript loading stale" NO "server" "1.0.0" Session(roles::debug_error),
        "Answers an error of this text.";
    "debug|help" 2 "admin noscript loading stale" NO "server" "1.0.0" Session(roles::debug_help),
        "Lists the subcommands.";
    "debug|log" 3 "admin noscript loading stale" NO "server" "1.0.0" Session(roles::debug_log),
        "Writes a line to the log.";
    "debug|object" 3 "admin noscript loading stale" NO "server" "1.0.0" Type(&dump::DESCRIBE),
        "Returns the encoding of a value, and the bytes of what DUMP makes of it.";
    "debug|protocol" 3 "admin noscript loading stale" NO "server" "6.0.0"
        Session(roles::debug_protocol), "Answers a value of a type of RESP.";
    "debug|sleep" 3 "admin noscript loading stale / long" NO "server" "1.0.0" Whole(roles::sleep),
        "Serves nobody for some seconds.";
};

pub(super) static LATENCY: &[Command] = table! {
    "latency|doctor" 2 "admin noscript loading stale" NO "server" "2.8.13"
        Whole(slowlog::doctor), "Says in words what took long.";
    "latency|graph" 3 "admin noscript loading stale" NO "server" "2.8.13"
        Whole(slowlog::graph), "Draws the seconds in which an event took long.";
    "latency|help" 2 "loading stale" NO "server" "2.8.13" Session(slowlog::latency_help),
        "Lists the subcommands.";
    "latency|histogram" -2 "admin noscript loading stale" NO "server" "7.0.0"
        Whole(slowlog::histogram), "Returns how many calls of commands took how long.";
    "latency|history" 3 "admin noscript loading stale" NO "server" "2.8.13"
        Whole(slowlog::history), "Returns the seconds in which an event took long.";
    "latency|latest" 2 "admin noscript loading stale" NO "server" "2.8.13"
        Whole(slowlog::latest), "Returns the last second in which each event took long.";
    "latency|reset" -2 "admin noscript loading stale" NO "server" "2.8.13"
        Whole(slowlog::latency_reset), "Forgets what took long.";
};

pub(super) static MEMORY: &[Command] = table! {
    "memory|doctor" 2 "" NO "server" "4.0.0" Whole(memory::doctor),
        "Says what is wrong with the memory, if anything is.";
    "memory|help" 2 "loading stale" NO "server" "4.0.0" Session(memory::help),
        "Lists the subcommands.";
    "memory|malloc-stats" 2 "" NO "server" "4.0.0" Session(memory::allocator),
        "Refused: the allocator keeps no statistics.";
    "memory|purge" 2 "" NO "server" "4.0.0" Whole(memory::purge),
        "Gives freed memory back to the system.";
    "memory|stats" 2 "" NO "server" "4.0.0" Whole(memory::stats),
        "Returns how memory is used.";
    "memory|usage" -3 "readonly / looks" SECOND "server" "4.0.0" Type(&generic::USAGE),
        "Returns about how many bytes an entry takes.";
};

pub(super) static MODULE: &[Command] = table! {
    "module|help" 2 "loading stale" NO "server" "5.0.0" Session(roles::module_help),
        "Lists the subcommands.";
    "module|list" 2 "admin noscript" NO "server" "4.0.0" Session(roles::modules),
        "Lists the modules: none.";
};

pub(super) static OBJECT: &[Command] = table! {
    "object|encoding" 3 "readonly / looks" SECOND "generic" "2.2.3" Type(&generic::ENCODING),
        "Returns how a value is kept.";
    "object|freq" 3 "readonly / looks" SECOND "generic" "4.0.0" Read(&object::OBJECT),
        "Refused: how often a key is used is not counted.";
    "object|help" 2 "loading stale" NO "generic" "6.2.0" Session(object::help),
        "Lists the subcommands.";
    "object|idletime" 3 "readonly / looks" SECOND "generic" "2.2.3" Read(&object::OBJECT),
        "Refused: the time of the last access is not kept.";
    "object|refcount" 3 "readonly / looks" SECOND "generic" "2.2.3" Read(&object::OBJECT),
        "Returns how many keys share a value: one.";
};

pub(super) static PUBSUB: &[Command] = table! {
    "pubsub|channels" -2 "pubsub loading stale" NO "pubsub" "2.8.0" Session(topics::channels),
        "Returns the channels that somebody listens to.";
    "pubsub|numpat" 2 "pubsub loading stale" NO "pubsub" "2.8.0" Session(topics::numpat),
        "Counts the patterns that somebody listens to.";
    "pubsub|numsub" -2 "pubsub loading stale" NO "pubsub" "2.8.0" Session(topics::numsub),
        "Counts those who listen to channels.";
    "pubsub|shardchannels" -2 "pubsub loading stale" NO "pubsub" "7.0.0" Session(topics::channels),
        "Returns the sharded channels that somebody listens to.";
    "pubsub|shardnumsub" -2 "pubsub loading stale" NO "pubsub" "7.0.0" Session(topics::numsub),
        "Counts those who listen to sharded channels.";
};

pub(super) static SLOWLOG: &[Command] = table! {
    "slowlog|get" -2 "admin loading stale" NO "server" "2.2.12" Whole(slowlog::get),
        "Returns the last slow requests.";
    "slowlog|help" 2 "loading stale" NO "server" "6.2.0" Session(slowlog::help),
        "Lists the subcommands.";
    "slowlog|len" 2 "admin loading stale" NO "server" "2.2.12" Whole(slowlog::len),
        "Counts the slow requests that are kept.";
    "slowlog|reset" 2 "admin loading stale" NO "server" "2.2.12" Whole(slowlog::reset),
        "Forgets the slow requests.";
};

pub(super) static FUNCTION: &[Command] = table! {
    "function|delete" 3 "write noscript" NO "scripting" "7.0.0" Session(function::delete),
        "Removes a library.";
    "function|dump" 2 "noscript" NO "scripting" "7.0.0" Session(function::dump),
        "Returns all libraries in the form that FUNCTION RESTORE takes.";
    "function|flush" -2 "write noscript" NO "scripting" "7.0.0" Session(function::flush),
        "Removes all libraries.";
    "function|help" 2 "loading stale" NO "scripting" "7.0.0" Session(function::help),
        "Lists the subcommands.";
    "function|kill" 2 "noscript" NO "scripting" "7.0.0" Session(function::kill),
        "Ends a function that takes long and has written nothing.";
    "function|list" -2 "noscript" NO "scripting" "7.0.0" Session(function::list),
        "Returns the libraries and their functions.";
    "function|load" -3 "write denyoom noscript" NO "scripting" "7.0.0" Session(function::load),
        "Adds a library.";
    "function|restore" -3 "write denyoom noscript" NO "scripting" "7.0.0"
        Session(function::restore), "Adds the libraries that FUNCTION DUMP has returned.";
    "function|stats" 2 "noscript" NO "scripting" "7.0.0" Session(function::stats),
        "Tells which function runs, and how many there are.";
};

pub(super) static SCRIPT: &[Command] = table! {
    "script|debug" 3 "noscript" NO "scripting" "3.2.0" Session(script::debug),
        "Refused but for NO: there is no debugger.";
    "script|exists" -3 "noscript" NO "scripting" "2.6.0" Session(script::exists),
        "Tells of each SHA-1 whether the server knows the script.";
    "script|flush" -2 "noscript" NO "scripting" "2.6.0" Session(script::flush),
        "Forgets all scripts.";
    "script|help" 2 "loading stale" NO "scripting" "5.0.0" Session(script::help),
        "Lists the subcommands.";
    "script|kill" 2 "noscript" NO "scripting" "2.6.0" Session(script::kill),
        "Ends scripts that take long and have written nothing.";
    "script|load" 3 "noscript stale" NO "scripting" "2.6.0" Session(script::load),
        "Keeps a script and returns its SHA-1.";
};
