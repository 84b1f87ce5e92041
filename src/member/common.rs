//! What the tasks of all members share.

use std::sync::Arc;

use crate::decryption::Decryption;
use crate::limits::SharedLimits;
use deliver::health::HealthRules;
use deliver::live::KnownContents;
use system::telemetry::metrics::Metrics;

/// What all members have in common.
#[derive(Debug, Default)]
pub struct Common {
    /// When an object is available.
    pub health: HealthRules,
    /// What decrypts their objects.
    pub decryption: Decryption,
    /// What was read of their objects.
    pub known: KnownContents,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What all of them do at once.
    pub limits: SharedLimits,
}
