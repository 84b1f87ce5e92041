//! What tests put in the stead of a git host, and what every store and git host is held to. No build of the program has any of it.

pub mod forge;
pub mod forge_contract;
pub mod store;
