//! Room 5: what must change on this member?
//!
//! Decides only: [`plan::plan`] answers with steps, a member's delivery carries them out and asks again. What we may remove
//! is what carries our ApplySet's label, and nothing else ([`inventory`]); whether an object is as we left it is told by the
//! fields we own ([`live`]); whether a commit deletes so much that a person must look is [`guard`]'s.

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
