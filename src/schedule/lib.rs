//! The schedule step: which clusters a placement goes to. Filter, score, pick, bind.
//!
//! [`schedule`] evaluates one placement's bindings and picks clusters for it. Bindings of the current policy are never evaluated
//! again; a changed policy evaluates all of them from scratch.
//!
//! Source: KubeFleet's scheduler; the functions restate its rules.

mod bindings;
pub mod cel;
mod column;
mod decided;
pub mod eligibility;
pub mod eviction;
pub mod explain;
mod filter;
pub mod fleet;
pub mod labels;
pub mod ocm;
mod pick;
mod properties;
mod rank;
pub mod reads;
mod request;
mod scheduling;
mod score;
mod spread;
#[cfg(test)]
mod tests;

pub use bindings::binding_name;
pub use decided::schedule_decided;
pub use explain::{differences, explain};
pub use fleet::{Fleet, FleetChange};
pub use reads::{Readers, Reads};
pub use request::{
    Action, BadValues, BindingChange, DECISIONS_MAX, Error, Outcome, Request, UNSELECTED_DECISIONS_MAX, target,
};
pub use scheduling::schedule;
