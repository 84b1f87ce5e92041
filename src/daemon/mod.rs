//! The running daemon: everything that waits, talks and writes, around the deciding core.
//!
//! [`run`] is the event loop. [`source_poller`] watches git, [`member`] carries deliveries out, [`hub_writer`] exports
//! decisions, [`forge_bot`] talks on the git host. They tell the core what happened (`core::event`) and do what it asks for
//! (`core::effect`).

pub mod commit_reader;
pub mod forge_bot;
pub mod hub_writer;
mod measure;
pub mod member;
mod members;
pub mod run;
pub mod source_poller;
pub mod supervise;
