//! The console with the real core, a fake forge with real state, and time that is handed in.

mod forged;
mod gates;
mod many;
mod outages;
mod repeated;
mod sayings;
mod source_thread;
mod together;
mod votes;
mod world;
