//! The state of one member and its next steps: the state behind its task. Pure.
//!
//! [`Reconciler`] remembers the observed objects of a member and asks the functions of `deliver` for the next [`Task`]s. The
//! caller executes them and hands back the [`result`]s.

mod delivery;
mod namespaces;
mod parents;
mod reconciler;
pub mod result;
mod seen;
mod status;

pub use reconciler::{Reconciler, Task};
