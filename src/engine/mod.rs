//! The hall: events in, decisions made by the rooms, effects out.

pub mod clock;
pub mod commit;
pub mod console;
pub mod core;
pub mod decide;
pub mod disruptions;
pub mod explain;
#[cfg(test)]
mod fixtures;
pub mod follow;
pub mod hall;
pub mod hand_over;
pub mod hub;
pub mod member;
pub mod obey;
pub mod ocm;
pub mod overrides;
pub mod persist;
pub mod plan;
pub mod schedule;
pub mod simulation;
pub mod staged;
pub mod step;
pub mod supervise;
pub mod waits;
pub mod world;
