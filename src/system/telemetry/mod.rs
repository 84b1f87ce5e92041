//! Logs, metrics and health.

pub mod health;
pub mod log;
pub mod metrics;
