//! Commands on strings, on any type, and on what is no key.

use super::Run::{Choose, Session, UpdateAll, Whole};
use super::subcommands::{
    ACL, CLIENT, CLUSTER, COMMAND, CONFIG, DEBUG, FUNCTION, LATENCY, MEMORY, MODULE, OBJECT,
    PUBSUB, SCRIPT, SLOWLOG,
};
use super::{ALL, Command, NO, ONE, OTHERS, PAIRS, Run, TWO};
use crate::cluster::migrate;
use crate::resp::scripts::ScriptKind;
use crate::resp::sql::SqlKind;
use crate::resp::{
    acl, across, bitfield, bits, client, cluster, config, dump, expiry, function, introspect, jobs,
    lcs, members, memory, moving, object, read, record, replicaof, replicas, roles, script,
    session, slowlog, topics, transaction, update, whole,
};

/// They, sorted by name.
pub(super) static COMMANDS: &[Command] = table! {
    "acl" -2 "" NO "server" "6.0.0" Session(acl::help),
        "Commands about users.", ACL;
    "append" 3 "write denyoom fast / blind" ONE "string" "2.0.0" Run::Update(&update::APPEND),
        "Appends to the value of a key, or stores it.";
    "asking" 1 "fast / own connection" NO "cluster" "3.0.0" Session(cluster::asking),
        "Lets the next request have keys of a slot that this node takes over.";
    "auth" -2 "noscript loading stale fast no_auth" NO "connection" "1.0.0" Session(session::auth),
        "Gives the password.";
    "bgsave" -1 "admin noscript" NO "server" "1.0.0" Whole(jobs::bgsave),
        "Begins to make what is served survive the process.";
    "bitcount" -2 "readonly" ONE "bitmap" "2.6.0" Run::Read(&bits::BITCOUNT),
        "Counts the bits that are set in a value or a part of it.";
    "bitfield" -2 "write denyoom / writes-with-set" ONE "bitmap" "3.2.0"
        Run::Update(&bitfield::BITFIELD),
        "Reads, sets and adds to integers of any width inside a value.";
    "bitfield_ro" -2 "readonly fast" ONE "bitmap" "6.0.0" Run::Read(&bitfield::BITFIELD_RO),
        "Reads integers of any width inside a value.";
    "bitop" -4 "write denyoom / into-first" OTHERS "bitmap" "2.6.0" UpdateAll(bits::bitop),
        "Combines the bits of several values and stores the result.";
    "bitpos" -3 "readonly" ONE "bitmap" "2.8.7" Run::Read(&bits::BITPOS),
        "Finds the first bit that is set or clear in a value.";
    "client" -2 "" NO "connection" "2.4.0" Session(client::help),
        "Commands about connections.", CLIENT;
    "cluster" -2 "" NO "cluster" "3.0.0" Session(cluster::help),
        "Commands about the nodes of a cluster and their slots.", CLUSTER;
    "clusterx" -2 "admin noscript / long" NO "cluster" "7.2.0" Run::Apart(cluster::clusterx),
        "Sets the nodes of a cluster from outside, and tells other nodes.";
    "command" -1 "loading stale / connection" NO "server" "2.8.13" Session(introspect::command),
        "Describes all commands.", COMMAND;
    "config" -2 "" NO "server" "2.0.0" Session(config::help),
        "Commands about settings.", CONFIG;
    "copy" -3 "write denyoom / into-second" TWO "generic" "6.2.0" Choose(moving::choose_copy),
        "Copies a key's value and expiry to another key, of another database if it is asked for.";
    "datagrams" 1 "admin" NO "connection" "7.2.0" Session(session::datagrams),
        "Returns the first port for datagrams and a pass for it.";
    "dbsize" 1 "readonly fast / keyspace queued" NO "server" "1.0.0" Whole(whole::dbsize),
        "Tells how many keys the database has; a large store estimates that.";
    "debug" -2 "admin noscript loading stale" NO "server" "1.0.0" Session(roles::debug_help),
        "Commands for tests of clients.", DEBUG;
    "decr" 2 "write denyoom fast" ONE "string" "1.0.0" Run::Update(&update::DECR),
        "Takes one from the number at a key.";
    "decrby" 3 "write denyoom fast" ONE "string" "1.0.0" Run::Update(&update::DECRBY),
        "Takes a number from the number at a key.";
    "del" -2 "write / blind" ALL "generic" "1.0.0" Run::Update(&update::DEL),
        "Removes keys.";
    "discard" 1 "noscript loading stale fast / own unqueued" NO "transactions" "2.0.0"
        Session(transaction::discard), "Forgets a transaction.";
    "dump" 2 "readonly" ONE "generic" "2.6.0" Run::Type(&dump::DUMP),
        "Returns a value in the form that RESTORE takes.";
    "echo" 2 "loading stale fast / own immediate" NO "connection" "1.0.0" Session(session::echo),
        "Returns its argument.";
    "eval" -3 "noscript stale / counted-keys" NO "scripting" "2.6.0"
        Run::Script(ScriptKind::Text, 0), "Runs a script as one step.";
    "eval_ro" -3 "noscript readonly stale / counted-keys" NO "scripting" "7.0.0"
        Run::Script(ScriptKind::Text, 0), "Runs a script that writes nothing.";
    "evalsha" -3 "noscript stale / counted-keys" NO "scripting" "2.6.0"
        Run::Script(ScriptKind::Name, 0), "Runs a script that the server knows, by its SHA-1.";
    "evalsha_ro" -3 "noscript readonly stale / counted-keys" NO "scripting" "7.0.0"
        Run::Script(ScriptKind::Name, 0),
        "Runs a script that the server knows and that writes nothing.";
    "exec" 1 "noscript loading stale / own unqueued runs-queue" NO "transactions" "1.2.0"
        Session(transaction::exec), "Runs a transaction.";
    "exists" -2 "readonly fast / looks" ALL "generic" "1.0.0" Run::Read(&read::EXISTS),
        "Counts how many of the keys are there.";
    "expire" -3 "write fast / blind" ONE "generic" "1.0.0" Run::Update(&expiry::EXPIRE),
        "Sets after how many seconds a key expires.";
    "expireat" -3 "write fast / blind" ONE "generic" "1.2.0" Run::Update(&expiry::EXPIRE),
        "Sets the Unix time in seconds at which a key expires.";
    "expiretime" 2 "readonly fast" ONE "generic" "7.0.0" Run::Read(&expiry::EXPIRETIME),
        "Returns the Unix time in seconds at which a key expires.";
    "failover" -1 "admin noscript stale" NO "server" "6.2.0" Session(replicas::failover),
        "Lets a replica take the place of this primary, without a lost write.";
    "fcall" -3 "noscript stale / counted-keys" NO "scripting" "7.0.0"
        Run::Script(ScriptKind::Function, 0), "Runs a function of a library as one step.";
    "fcall_ro" -3 "noscript readonly stale / counted-keys" NO "scripting" "7.0.0"
        Run::Script(ScriptKind::Function, 0), "Runs a function that writes nothing.";
    "flushall" -1 "write / long keyspace dangerous clears queued" NO "server" "1.0.0"
        Run::Across(whole::flushall), "Removes every key of every database.";
    "flushdb" -1 "write / long keyspace dangerous clears queued" NO "server" "1.0.0"
        Whole(whole::flushdb), "Removes every key of the database.";
    "function" -2 "" NO "scripting" "7.0.0" Session(function::help),
        "Commands about libraries of functions.", FUNCTION;
    "get" 2 "readonly fast" ONE "string" "1.0.0" Run::Read(&read::GET),
        "Returns the value of a key.";
    "getbit" 3 "readonly fast" ONE "bitmap" "2.2.0" Run::Read(&bits::GETBIT),
        "Returns a bit of a value.";
    "getdel" 2 "write fast" ONE "string" "6.2.0" Run::Update(&update::GETDEL),
        "Returns the value of a key and removes the key.";
    "getex" -2 "write fast" ONE "string" "6.2.0" Choose(expiry::choose_getex),
        "Returns the value of a key and sets when it expires.";
    "getrange" 4 "readonly" ONE "string" "2.4.0" Run::Read(&read::GETRANGE),
        "Returns a part of the value of a key.";
    "getset" 3 "write denyoom fast" ONE "string" "1.0.0" Run::Update(&update::GETSET),
        "Returns the value of a key and stores another.";
    "hello" -1 "noscript loading stale fast no_auth" NO "connection" "6.0.0"
        Session(session::hello), "Chooses the protocol version and may give the password.";
    "incr" 2 "write denyoom fast" ONE "string" "1.0.0" Run::Update(&update::INCR),
        "Adds one to the number at a key.";
    "incrby" 3 "write denyoom fast" ONE "string" "1.0.0" Run::Update(&update::INCRBY),
        "Adds a number to the number at a key.";
    "incrbyfloat" 3 "write denyoom fast" ONE "string" "2.6.0" Run::Update(&update::INCRBYFLOAT),
        "Adds a floating-point number to the number at a key.";
    "info" -1 "loading stale / dangerous" NO "server" "1.0.0" Whole(whole::info),
        "Tells about the server, its clients and its engines.";
    "keys" 2 "readonly / long dangerous names queued" NO "generic" "1.0.0" Whole(whole::keys),
        "Returns all keys that match a pattern.";
    "lastsave" 1 "admin loading stale fast" NO "server" "1.0.0" Whole(jobs::lastsave),
        "Returns the Unix time of the last save.";
    "latency" -2 "" NO "server" "2.8.13" Session(slowlog::latency_help),
        "Commands about what took long.", LATENCY;
    "lcs" -3 "readonly / long" TWO "string" "7.0.0" Run::Read(&lcs::LCS),
        "Finds the longest common subsequence of two values.";
    "memory" -2 "" NO "server" "4.0.0" Session(memory::help),
        "Commands about memory.", MEMORY;
    "mget" -2 "readonly fast" ALL "string" "1.0.0" Run::Read(&read::MGET),
        "Returns the values of several keys.";
    "migrate" -6 "write / long dangerous behind-keys" (3, 3, 1) "generic" "2.6.0"
        Run::Apart(migrate::migrate), "Moves keys to another server.";
    "module" -2 "" NO "server" "4.0.0" Session(roles::module_help),
        "Commands about modules, of which there are none.", MODULE;
    "monitor" 1 "admin noscript loading stale" NO "server" "1.0.0" Session(session::monitor),
        "Shows the requests of all clients.";
    "move" 3 "write fast / long" ONE "generic" "1.0.0" Run::Across(across::move_key),
        "Moves a key to another database, if it is not there yet.";
    "mset" -3 "write denyoom / blind" PAIRS "string" "1.0.1" Run::Write(&update::MSET),
        "Stores several keys in one step.";
    "msetnx" -3 "write denyoom / blind" PAIRS "string" "1.0.1" UpdateAll(update::msetnx),
        "Stores several keys in one step if none of them is there yet.";
    "multi" 1 "noscript loading stale fast / own unqueued" NO "transactions" "1.2.0"
        Session(transaction::multi), "Begins a transaction.";
    "object" -2 "" NO "generic" "2.2.3" Session(object::help),
        "Commands about entries.", OBJECT;
    "persist" 2 "write fast / blind" ONE "generic" "2.2.0" Run::Update(&expiry::PERSIST),
        "Lets a key live for ever.";
    "pexpire" -3 "write fast / blind" ONE "generic" "2.6.0" Run::Update(&expiry::EXPIRE),
        "Sets after how many milliseconds a key expires.";
    "pexpireat" -3 "write fast / blind" ONE "generic" "2.6.0" Run::Update(&expiry::EXPIRE),
        "Sets the Unix time in milliseconds at which a key expires.";
    "pexpiretime" 2 "readonly fast" ONE "generic" "7.0.0" Run::Read(&expiry::EXPIRETIME),
        "Returns the Unix time in milliseconds at which a key expires.";
    "ping" -1 "fast / own immediate listening" NO "connection" "1.0.0" Session(session::ping),
        "Answers, so that the client knows that the server is there.";
    "psetex" 4 "write denyoom / blind" ONE "string" "2.6.0" Run::Write(&expiry::SETEX),
        "Stores the value of a key that expires after some milliseconds.";
    "psync" -3 "admin noscript" NO "server" "2.8.0" Session(replicas::psync),
        "Makes the connection a replica's: all data, or what is missing, and then all writes.";
    "psubscribe" -2 "pubsub noscript loading stale / listening patterns confirms" NO "pubsub"
        "2.0.0" Session(topics::psubscribe), "Listens to the channels that match patterns.";
    "pttl" 2 "readonly fast" ONE "generic" "2.6.0" Run::Read(&expiry::TTL),
        "Returns after how many milliseconds a key expires.";
    "publish" 3 "pubsub loading stale fast / deferred to-channel" NO "pubsub" "2.0.0"
        Whole(topics::publish), "Sends a message to all who listen to a channel.";
    "pubsub" -2 "" NO "pubsub" "2.8.0" Session(topics::numpat),
        "Commands about channels.", PUBSUB;
    "punsubscribe" -1 "pubsub noscript loading stale / listening confirms" NO "pubsub" "2.0.0"
        Session(topics::punsubscribe), "Listens no more to the channels that match patterns.";
    "quit" -1 "noscript loading stale fast no_auth / own unqueued listening" NO "connection" "1.0.0"
        Session(session::quit), "Ends the connection.";
    "randomkey" 1 "readonly / names queued" NO "generic" "1.0.0" Whole(whole::randomkey),
        "Returns a key from somewhere in the database.";
    "readonly" 1 "fast loading stale / own connection" NO "cluster" "3.0.0"
        Session(cluster::readonly), "Lets the connection read from a replica.";
    "readwrite" 1 "fast loading stale / own connection" NO "cluster" "3.0.0"
        Session(cluster::readwrite), "Lets the connection read from primaries only.";
    "rename" 3 "write / moves" TWO "generic" "1.0.0" UpdateAll(moving::rename),
        "Gives a key another name; what had that name is gone.";
    "renamenx" 3 "write fast / moves" TWO "generic" "1.0.0" UpdateAll(moving::rename),
        "Gives a key another name if nothing has that name yet.";
    "replicaof" 3 "admin noscript stale / long" NO "server" "5.0.0"
        Run::Across(replicaof::replicaof), "Lets the server follow another one, or nobody.";
    "replconf" -1 "admin noscript loading stale" NO "server" "3.0.0" Session(replicas::replconf),
        "Tells what a replica is, can do, and has.";
    "reset" 1 "noscript loading stale fast no_auth / unqueued listening" NO "connection" "6.2.0"
        Session(session::reset), "Makes the connection as new.";
    "restore" -4 "write denyoom / blind dangerous" ONE "generic" "2.6.0"
        Run::Type(&dump::RESTORE), "Stores a value that DUMP has returned.";
    "restore-asking" -4 "write denyoom asking / keyspace blind dangerous" ONE "server" "3.0.0"
        Run::Type(&dump::RESTORE), "Stores a value that another node hands over.";
    "role" 1 "noscript loading stale fast / admin" NO "server" "2.8.12" Session(replicas::role),
        "Tells whether the server is a primary, and its replicas, or whom it follows.";
    "save" 1 "admin noscript / long" NO "server" "1.0.0" Whole(jobs::save),
        "Makes what is served survive the process, and waits for it.";
    "scan" -2 "readonly / names queued" NO "generic" "2.8.0" Whole(whole::scan),
        "Returns some keys and a cursor to go on with.";
    "script" -2 "" NO "scripting" "2.6.0" Session(script::help),
        "Commands about scripts.", SCRIPT;
    "select" 2 "loading stale fast / own" NO "connection" "1.0.0" Session(session::select),
        "Chooses the database.";
    "set" -3 "write denyoom / reads-with-get" ONE "string" "1.0.0" Choose(update::choose_set),
        "Stores the value of a key.";
    "setbit" 4 "write denyoom" ONE "bitmap" "2.2.0" Run::Update(&bits::SETBIT),
        "Sets or clears a bit of a value and returns what it was.";
    "setex" 4 "write denyoom / blind" ONE "string" "2.0.0" Run::Write(&expiry::SETEX),
        "Stores the value of a key that expires after some seconds.";
    "setnx" 3 "write denyoom fast / blind" ONE "string" "1.0.0" Run::Update(&update::SETNX),
        "Stores the value of a key that is not there yet.";
    "setrange" 4 "write denyoom / blind" ONE "string" "2.2.0" Run::Update(&update::SETRANGE),
        "Overwrites a part of the value of a key.";
    "shutdown" -1 "admin noscript loading stale" NO "server" "1.0.0" Session(session::shutdown),
        "Stops the server gracefully.";
    "silica.count" -1 "admin noscript / long" NO "server" "7.2.0" Whole(jobs::count),
        "Counts the keys of the database, about or exactly.";
    "silica.entries" -2 "admin noscript" NO "server" "7.2.0" Whole(jobs::entries),
        "Returns some entries with expiry and user bits, and a cursor to go on with.";
    "silica.inspect" 1 "admin noscript" NO "server" "7.2.0" Whole(jobs::inspect),
        "Describes the engines and structures of all databases.";
    "silica.job" -2 "admin noscript" NO "server" "7.2.0" Whole(jobs::job),
        "Begins a backup, a check or a compaction, says how far it is, or ends it.";
    "silica.members" -1 "admin noscript / long" NO "server" "7.2.0" Whole(members::members),
        "Shows the servers that agree about the database, takes one in or lets one go.";
    "silica.migrate" -2 "admin noscript" NO "server" "7.2.0" Whole(whole::migrate),
        "Begins to move a database to another engine, or says how far that is.";
    "silica.record" -3 "admin noscript" NO "server" "7.2.0" Whole(record::record),
        "Records what a database is asked, as lines of a trace.";
    "silica.sketch" 2 "admin noscript" NO "server" "7.2.0" Whole(record::sketch),
        "Returns what a database is asked, as text.";
    "silica.sql" -3 "write denyoom noscript / long dangerous" ONE "server" "7.2.0"
        Run::Sql(SqlKind::All, 0), "Runs a statement of SQL on a database of the store.";
    "silica.sql_get" 3 "readonly noscript / long" ONE "server" "7.2.0" Run::Sql(SqlKind::Row, 0),
        "Returns a row of a table, named as a key, `users/1`, as a JSON object.";
    "silica.sql_ro" -3 "readonly noscript / long" ONE "server" "7.2.0"
        Run::Sql(SqlKind::Reads, 0), "Runs a statement of SQL that changes nothing.";
    "silica.stages" 2 "readonly / long" ONE "server" "7.2.0" Whole(slowlog::stages),
        "Reads a key and returns the stages that finding it went through, and what each took.";
    "silica.stats" 1 "admin noscript" NO "server" "7.2.0" Whole(jobs::stats),
        "Returns every metric of the database.";
    "slaveof" 3 "admin noscript stale / long" NO "server" "1.0.0"
        Run::Across(replicaof::replicaof),
        "Lets the server follow another one, or nobody (older name of REPLICAOF).";
    "slowlog" -2 "" NO "server" "2.2.12" Session(slowlog::help),
        "Commands about the log of slow requests.", SLOWLOG;
    "spublish" 3 "pubsub loading stale fast / deferred to-channel" NO "pubsub" "7.0.0"
        Whole(topics::publish), "Sends a message to all who listen to a sharded channel.";
    "ssubscribe" -2 "pubsub noscript loading stale / listening channels confirms" NO "pubsub"
        "7.0.0" Session(topics::ssubscribe), "Listens to sharded channels.";
    "strlen" 2 "readonly fast / looks" ONE "string" "2.2.0" Run::Read(&read::STRLEN),
        "Returns the length of the value of a key.";
    "subscribe" -2 "pubsub noscript loading stale / listening channels confirms" NO "pubsub" "2.0.0"
        Session(topics::subscribe), "Listens to channels.";
    "substr" 4 "readonly" ONE "string" "1.0.0" Run::Read(&read::GETRANGE),
        "Returns a part of the value of a key (older name of GETRANGE).";
    "sunsubscribe" -1 "pubsub noscript loading stale / listening confirms" NO "pubsub" "7.0.0"
        Session(topics::sunsubscribe), "Listens no more to sharded channels.";
    "swapdb" 3 "write fast / long keyspace dangerous clears" NO "server" "4.0.0"
        Run::Across(across::swapdb), "Lets two databases have each other's numbers.";
    "sync" 1 "admin noscript" NO "server" "1.0.0" Session(replicas::sync),
        "Sends all data, then what is written: what tools ask, where replicas ask PSYNC.";
    "time" 1 "loading stale fast / immediate" NO "server" "2.6.0" Session(session::time),
        "Returns the server's time.";
    "touch" -2 "readonly fast / looks" ALL "generic" "3.2.1" Run::Read(&read::EXISTS),
        "Counts how many of the keys are there.";
    "ttl" 2 "readonly fast" ONE "generic" "1.0.0" Run::Read(&expiry::TTL),
        "Returns after how many seconds a key expires.";
    "type" 2 "readonly fast / looks" ONE "generic" "1.0.0" Run::Read(&read::TYPE),
        "Returns the type of the value of a key.";
    "unlink" -2 "write fast / blind" ALL "generic" "4.0.0" Run::Update(&update::DEL),
        "Removes keys.";
    "unsubscribe" -1 "pubsub noscript loading stale / listening confirms" NO "pubsub" "2.0.0"
        Session(topics::unsubscribe), "Listens no more to channels.";
    "unwatch" 1 "noscript loading stale fast / own" NO "transactions" "2.2.0"
        Session(transaction::unwatch), "Watches no key any more.";
    "wait" 3 "noscript / connection" NO "generic" "3.0.0" Run::Type(&replicas::WAIT),
        "Waits until replicas have what was written, and returns how many have.";
    "waitaof" 4 "noscript / connection" NO "generic" "7.2.0" Run::Type(&replicas::WAITAOF),
        "Makes writes survive a power cut, and returns whether they do, here and on replicas.";
    "watch" -2 "noscript loading stale fast / looks own unqueued watches" ALL "transactions" "2.2.0"
        Session(transaction::watch), "Lets the next transaction run only if keys do not change.";
};
