//! The hall: events in, decisions made by the rooms, effects out.

pub mod clock;
pub mod decide;
pub mod member;
mod step;
pub mod world;
