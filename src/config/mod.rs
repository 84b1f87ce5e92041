//! The daemon's configuration: file, environment and flags to one checked value.
