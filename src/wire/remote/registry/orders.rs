//! Commands of the core for members that agents have.

use std::sync::Arc;

use super::super::session::{Pending, RemoteSession};
use super::{CurrentOrder, Registry, RegistryEffect, Remote};
use crate::AgentOrder;
use engine::MemberCommand;
use model::id::ClusterName;
use model::records::WorkStatus;
use model::work::WorkOrder;

impl Registry {
    /// Passes a command on to the member's agent.
    pub fn command(&mut self, cluster: &ClusterName, id: u64, command: MemberCommand) {
        let Some(remote) = self.members.get_mut(cluster).filter(|remote| remote.id == id) else { return };
        let session = self.sessions.values_mut().find(|session| session.members.contains(cluster));
        match command {
            MemberCommand::Order { order, reported } => {
                let woken = take_order(remote, session, cluster, order, reported);
                self.effects.extend(woken.map(RegistryEffect::Wake));
            }
            // The agent announces its members by itself when a session begins, and tries again when its pause is over.
            MemberCommand::Announce | MemberCommand::ReportAgain | MemberCommand::TryAgain(_) => {}
            MemberCommand::Placements(placements) => {
                // Without a session the next one begins with all of it.
                let Some(session) = session else { return };
                if let Some(orders) = session.running.get_mut(cluster) {
                    orders.clear();
                }
                session.placements.insert(cluster.clone(), placements);
                self.effects.push(RegistryEffect::Wake(session.id.clone()));
            }
            MemberCommand::Forget(placement) => {
                let earlier = remote.orders.remove(&placement);
                let Some(session) = session else { return };
                if let Some(earlier) = earlier {
                    session.content.remove(&earlier.digest);
                }
                if let Some(placements) = session.placements.get_mut(cluster) {
                    placements.remove(&placement);
                }
                session.pending.insert((cluster.clone(), placement), Pending::Forget);
                self.effects.push(RegistryEffect::Wake(session.id.clone()));
            }
        }
    }
}

/// Takes an order for a member. Returns the session whose stream has something to send now.
fn take_order(
    remote: &mut Remote,
    session: Option<&mut RemoteSession>,
    cluster: &ClusterName,
    order: Arc<WorkOrder>,
    reported: Option<Arc<WorkStatus>>,
) -> Option<String> {
    let digest = match AgentOrder::from(order.as_ref()).encode() {
        Ok((digest, _)) => digest,
        Err(error) => {
            tracing::error!(%error, %cluster, placement = %order.placement, "an order cannot be sent to an agent; please report it");
            return None;
        }
    };
    let commit = order.commit.short();
    tracing::debug!(%cluster, placement = %order.placement, commit, order = digest.short(), "order for an agent");
    let placement = order.placement.clone();
    let new = CurrentOrder { digest: digest.clone(), order };
    let Some(session) = session else {
        remote.orders.insert(placement, new);
        return None;
    };
    // An agent that has the order has its last report, too.
    let running = session.running.get_mut(cluster).and_then(|orders| orders.remove(&placement));
    let reported = if running.as_ref() == Some(&digest) { None } else { reported };
    session.content.add(&digest, &new.order);
    let earlier = remote.orders.insert(placement.clone(), new);
    if let Some(earlier) = earlier.filter(|earlier| earlier.digest != digest) {
        session.content.remove(&earlier.digest);
    }
    if let Some(placements) = session.placements.get_mut(cluster) {
        placements.insert(placement.clone());
    }
    let key = (cluster.clone(), placement);
    // An order that was not sent takes its report along.
    let unsent = match session.pending.remove(&key) {
        Some(Pending::Order { reported, .. }) => reported,
        Some(Pending::Forget) | None => None,
    };
    session.pending.insert(key, Pending::Order { digest, reported: reported.or(unsent) });
    Some(session.id.clone())
}
