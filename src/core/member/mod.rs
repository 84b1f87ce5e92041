//! What is known of one member and what it is to do next: the state behind its task. Pure.
//!
//! [`Reconciler`] remembers what a member was seen to hold and asks the deliver functions for the next [`Task`]s; whoever carries them
//! out hands the [`result`]s back.

mod delivery;
mod namespaces;
mod reconciler;
pub mod result;
mod seen;
mod status;

pub use reconciler::{Reconciler, Task};
