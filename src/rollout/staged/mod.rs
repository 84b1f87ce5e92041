//! Staged update runs: the stages of a strategy, the gates between them, and how a run moves through both.
//!
//! [`stages()`] puts clusters into stages. [`advance`] moves a run as far as it goes at one instant and [`catch_up`] does
//! what an ended run still owes; both change the record and answer with what is to be done. [`approve`] and [`reject`] take
//! people's words at gates. Which phase may follow which is written down in [`phases`], and drawn in docs/rollouts.md.
//!
//! Source: KubeFleet's update run controller; what is different on purpose is said where it is carried out.

mod gates;
mod machine;
mod messages;
mod pass;
pub mod phases;
mod stages;
#[cfg(test)]
mod tests;

pub use gates::{Approved, GateName, approve, named_request, reject, waits_for_person};
pub use machine::{Note, Seen, Situation, Step, advance, catch_up, forgive, owes, reached, retry};
pub use stages::{PlannedStage, StageError, stages};
