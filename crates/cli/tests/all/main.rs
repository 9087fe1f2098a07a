//! Tests that need no process of their own: one binary, and a module for each.

mod calls;
mod cli;
mod clients;
mod databases;
mod door;
mod expiry;
mod first_contact;
mod forgetful;
mod idle;
mod image;
mod ingest;
mod kill;
mod limits;
mod main_job;
mod memory;
mod memory_growth;
mod migrate;
mod prompt;
mod readme;
mod record;
mod repair;
mod serve_options;
mod sql;
mod support;
mod transfer;
mod tune;
