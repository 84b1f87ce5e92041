//! The rollout step: how many clusters change at once, and in which order.
//!
//! [`health`] evaluates a binding's conditions: whether it is ready, whether it failed, and when time alone changes that.
//! [`Limits`] are the resolved numbers of a strategy. [`roll`] picks the bindings to move now; for External placements
//! [`staged`] does, run by run.
//!
//! Source: KubeFleet's rolling update; the functions restate its rules.

mod health;
mod limits;
mod rolling;
pub mod staged;
#[cfg(test)]
mod tests;

pub use health::{Health, Heard, Readiness, failed, health, readiness};
pub use limits::{Error, Limits, MaxFailures};
pub use rolling::{BindingView, Roll, roll};
