//! Room 4: in which order, and how fast?
//!
//! [`health`] reads a binding's conditions: is it ready, did it fail, when does time alone change that. [`Limits`] are the
//! numbers a strategy allows. [`roll`] picks which bindings move now; of External placements [`staged`] does, run by run.
//!
//! Source: KubeFleet's rolling update; its rules are restated where they are carried out.

mod health;
mod limits;
pub mod rights;
mod rolling;
pub mod staged;
#[cfg(test)]
mod tests;

pub use health::{Health, Heard, Readiness, failed, health, readiness};
pub use limits::{Error, Limits, MaxFailures};
pub use rolling::{BindingView, Roll, roll};
