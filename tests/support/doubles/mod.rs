//! What unit tests put in the stead of a git host, and what every store and git host is held to. No build of the library or the
//! program has any of it.

pub mod forge;
#[path = "../forge_contract.rs"]
pub mod forge_contract;
pub mod store;
