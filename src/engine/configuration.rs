//! A configuration that changes while the daemon runs: its members are used at once, everything else at the next start.

use std::sync::Arc;

use jiff::Timestamp;

use super::{ConfigurationEvent, Core};
use config::{Configuration, Member};
use model::id::ClusterName;
use model::names::first_of;

/// Clusters that a message names.
const NAMED_MAX: usize = 10;

impl Core {
    /// Handles what the file of the configuration says now.
    pub(super) fn reconfigure(&mut self, event: ConfigurationEvent, now: Timestamp) {
        let complaint = match event {
            ConfigurationEvent::Unusable(why) => Some(format!("it cannot be used, and changes nothing: {why}")),
            ConfigurationEvent::Read { members, at_restart } => {
                let complaint = self.use_members(members, now).err();
                let waits = || format!("{} changed: restart the daemon to use it", at_restart.join(", "));
                let waits = (!at_restart.is_empty()).then(waits);
                complaint.into_iter().chain(waits).reduce(|one, other| format!("{one}; {other}"))
            }
        };
        if let Some(complaint) = &complaint {
            tracing::warn!(about = %complaint, "the configuration changed");
        } else {
            tracing::info!("the configuration changed and is used");
        }
        self.source.record.configuration = complaint;
    }

    /// Reaches members as another list says.
    ///
    /// # Errors
    /// Names clusters that would leave the fleet. They leave at a start only: a file that is half written may lack any entry.
    fn use_members(&mut self, members: Vec<Member>, now: Timestamp) -> Result<(), String> {
        let new = Configuration { members, ..self.members.configuration.clone() };
        let old = std::mem::replace(&mut self.members.configuration, new);
        let tree = Arc::clone(&self.fleet.tree);
        let differs = |name: &&ClusterName| old.member(name) != self.members.configuration.member(name);
        let differing: Vec<&ClusterName> = tree.clusters.keys().filter(differs).collect();
        let is_lost = |name: &&&ClusterName| self.members.configuration.member(name).is_none();
        let lost: Vec<&str> = differing.iter().filter(is_lost).map(|name| name.as_str()).collect();
        if !lost.is_empty() {
            let names = first_of(lost.into_iter(), NAMED_MAX);
            self.members.configuration = old;
            return Err(format!(
                "no entry of `members:` names {names} any more: restart the daemon if they are to leave the fleet"
            ));
        }
        for name in differing {
            // Placements that were not allowed there may be now.
            self.queue.clusters.insert(name.clone());
            self.queue.concerns_holders(name);
        }
        self.note_members(&tree, now);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
