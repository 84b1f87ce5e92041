//! Edge: the daemon's HTTP interface.
