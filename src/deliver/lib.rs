//! The deliver step: what must change on a member.
//!
//! It only decides: [`plan::plan`] returns steps, and a member's delivery executes them and plans again. gitfleet may remove
//! only objects with its ApplySet's label ([`inventory`]). The fields that gitfleet owns tell whether somebody changed an
//! object ([`live`]). [`guard`] decides whether deletions need an approval.

pub mod by_object;
pub mod claim;
pub mod drift;
pub mod guard;
pub mod health;
pub mod holdings;
pub mod inventory;
pub mod kept;
mod left_overs;
pub mod lists;
pub mod live;
pub mod plan;
pub mod progress;
pub mod step;
pub mod waves;
