//! Tests that need no process of their own: one binary, and a module for each.

mod across;
mod admin;
mod at_hand;
mod bursts;
mod clients;
mod commands;
mod commits;
mod connections;
mod databases;
mod datagrams;
mod differential;
mod events;
mod figures;
mod histories;
mod hostile;
mod large_values;
mod late;
mod lua;
mod lua_redis;
mod marks;
mod memcached;
mod memcached_binary;
mod memcached_clients;
mod memcached_meta;
mod monitor;
mod observe;
mod order;
mod ordered;
mod pages;
mod pieces;
mod redis;
mod replication;
#[path = "support/scripts.rs"]
mod scripts;
mod sql;
mod standalone;
#[path = "support/stories.rs"]
mod stories;
mod support;
mod tls;
mod topics;
mod tracking;
mod types;
mod udp;
mod unix;
mod watch;
