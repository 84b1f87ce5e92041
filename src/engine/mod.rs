//! The hall: events in, decisions made by the rooms, effects out.
