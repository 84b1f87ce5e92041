//! The store in PostgreSQL, and the daemons on it, on a real server.

mod certificates;
mod commands;
mod failures;
mod faults;
mod leases;
mod outcomes;
mod remote;
mod replicas;
mod rewritten;
mod server;
mod store;

use testservers::doubles::store as promises;
use testservers::{fleet, scratch};
