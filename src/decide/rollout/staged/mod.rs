//! Staged update runs: the stages of a strategy, the gates between them, and the state machine of a run.
//!
//! [`stages()`] assigns clusters to stages. [`advance`] advances a run as far as possible at one instant and [`catch_up`]
//! completes the remaining work of an ended run; both change the record and return the actions. [`approve`] and [`reject`]
//! record people's decisions at gates; [`queries()`] says what a waiting stage asks, and [`record_replies`] records the answers. [`phases`] defines the allowed transitions, which docs/rollouts.md draws.
//!
//! Source: KubeFleet's update run controller; comments name the intended differences.

mod checks;
mod gates;
mod machine;
mod messages;
mod pass;
pub mod phases;
mod stages;
#[cfg(test)]
mod tests;

pub use checks::{checks_again, failed_checks, queries, record_replies};
pub use gates::{Approved, GateName, approve, named_request, reject, waits_for_person};
pub use machine::{Note, Seen, Situation, Step, advance, catch_up, forgive, owes, reached, retry};
pub use stages::{IN_NO_STAGE_NAMED_MAX, PlannedStage, StageError, is_in_a_stage, stages};
