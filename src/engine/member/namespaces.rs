//! The namespaces that a member has: pure.

use std::collections::BTreeSet;

use super::reconciler::Reconciler;
use crate::MemberEvent;

/// What is known of a member's namespaces in this connection.
#[derive(Debug, Default)]
pub(super) struct Namespaces {
    /// What the watch of an API server saw, or why there is none, for people.
    watched: Option<Result<BTreeSet<String>, String>>,
    /// What the core was told last.
    reported: Option<Result<BTreeSet<String>, String>>,
}

impl Namespaces {
    /// Forgets what the core was told.
    pub(super) fn report_again(&mut self) {
        self.reported = None;
    }
}

impl Reconciler {
    /// Takes in the namespaces as a watch saw them, or why they cannot be listed.
    pub fn see_namespaces(&mut self, namespaces: Result<BTreeSet<String>, String>) {
        self.namespaces.watched = Some(namespaces);
    }

    /// Tells whether the watch of the namespaces has said nothing yet.
    pub fn awaits_namespaces(&self) -> bool {
        self.namespaces.watched.is_none()
    }

    /// Returns the namespaces where they have changed since they were told last.
    ///
    /// A folder has those that are delivered there. On an API server those count too: the answer to a write comes before the
    /// watch tells of it. Of an API server that was not asked nothing is said.
    pub fn take_namespaces(&mut self) -> Option<MemberEvent> {
        let delivered = self.live.namespaces().map(str::to_owned);
        let namespaces = match &self.namespaces.watched {
            Some(Ok(watched)) => Ok(watched.iter().cloned().chain(delivered).collect()),
            Some(Err(reason)) => Err(reason.clone()),
            None if !self.has_health => Ok(delivered.collect()),
            None => return None,
        };
        if self.namespaces.reported.as_ref() == Some(&namespaces) {
            return None;
        }
        self.namespaces.reported = Some(namespaces.clone());
        Some(MemberEvent::Namespaces { cluster: self.cluster.clone(), namespaces })
    }
}
