//! Members and their tasks: agents have some, lists fail or show an earlier state, watches end, and somebody else changes objects.

use std::collections::BTreeSet;
use std::time::Duration;

use config::MemberAccess;
use deliver::live::LiveObject;
use engine::{Effect, MemberEvent};
use model::id::{ClusterName, ObjectKey};
use model::kinds::WatchedKind;
use plan::simulate::{Happening, Sight, is_listed, later};

use super::agents::{add_own, add_remote, has_agents, remove_remote};
use super::fact::{Fact, MachineFact};
use super::{Sim, SimulatedFleet, What, push_at};

/// First pause before a failed list is retried.
const LIST_RETRY_FIRST: Duration = Duration::from_secs(1);
/// Longest such pause.
const LIST_RETRY_MAX: Duration = Duration::from_mins(1);
/// HTTP statuses of failed lists; 0 is an interrupted answer.
const LIST_FAILURES: [u16; 5] = [0, 403, 404, 410, 500];
/// A failing list names fewer objects than this.
const LIST_CUT_MAX: u64 = 4;

/// Begins to have a member delivered to, by agents or by the acting daemon.
pub(crate) fn start(sim: &mut Sim, cluster: ClusterName, access: MemberAccess) {
    if let MemberAccess::Agent { agent, .. } = &access {
        sim.members.entry(cluster.clone()).or_default();
        return add_remote(sim, &cluster, agent);
    }
    if has_agents(sim) {
        return add_own(sim, &cluster);
    }
    sim.carry_out(Effect::StartMember(cluster, access));
}

/// The daemon gives a member up.
pub(crate) fn give_up(sim: &mut Sim, cluster: &ClusterName) {
    if !remove_remote(sim, cluster) {
        sim.stop_task(cluster);
    }
}

/// A task cannot connect to a member from here.
pub(crate) fn fail_to_connect(sim: &mut Sim, cluster: &ClusterName, connection: u64) {
    if sim.process.links.get(cluster).is_some_and(|link| link.connection == connection) {
        sim.disconnect(cluster, "it is away");
    }
}

/// Lists a kind, or fails: at the start, or after some objects. A list may show an earlier state; later changes arrive
/// afterwards. It shows nothing older than its connection: gitfleet asks for what is there then, not for what a cache has.
pub(crate) fn list(sim: &mut Sim, cluster: &ClusterName, kind: &WatchedKind, failures: u32) {
    let fails = sim.dice.chance(sim.deployment.faults.list_fails);
    let cut = if fails { sim.dice.below(LIST_CUT_MAX) } else { u64::MAX };
    let code = *sim.dice.pick(&LIST_FAILURES).expect("there are some");
    let is_stale = sim.dice.chance(sim.deployment.faults.stale_list);
    let (Some(member), Some(link)) = (sim.members.get(cluster), sim.process.links.get_mut(cluster)) else { return };
    let (connection, Some(reconciler)) = (link.connection, &mut link.reconciler) else { return };
    let earlier = sim.deployment.earlier.entry(cluster.clone()).or_default();
    let over = (sim.process.life, connection);
    if sim.deployment.faults.stale_list > 0 && sim.deployment.listed_over.insert(cluster.clone(), over) != Some(over) {
        earlier.clone_from(&member.objects);
    }
    let listed = if is_stale { &*earlier } else { &member.objects };
    let there = listed.iter().filter(|(key, live)| is_listed(kind, key, live));
    reconciler.list_begun(kind);
    for (_, live) in there.take(usize::try_from(cut).unwrap_or(usize::MAX)) {
        reconciler.see(live.clone());
    }
    if fails {
        reconciler.list_failed(kind, format!("the list of {}: the API server refused it ({code})", kind.kind));
        sim.facts.push(Fact::Own(MachineFact::ListFailed { cluster: cluster.clone(), kind: kind.kind.clone(), code }));
        let at = later(sim.now, LIST_RETRY_FIRST.saturating_mul(1 << failures.min(6)).min(LIST_RETRY_MAX));
        return push_at(sim, at, What::List(cluster.clone(), connection, kind.clone(), failures + 1));
    }
    reconciler.list_done(kind);
    let of_kind = |key: &&ObjectKey| is_stale && key.group == kind.group && key.kind == kind.kind;
    let keys = earlier.keys().chain(member.objects.keys()).filter(of_kind);
    let unseen: BTreeSet<ObjectKey> =
        keys.filter(|key| earlier.get(*key) != member.objects.get(*key)).cloned().collect();
    for key in unseen {
        if let Some(sight) = sim.members.get(cluster).map(|member| member.sight(&key)) {
            sim.observe_here(cluster, sight);
        }
    }
}

/// Retries a failed list.
pub(crate) fn list_again(sim: &mut Sim, cluster: &ClusterName, connection: u64, kind: &WatchedKind, failures: u32) {
    if sim.process.connected(cluster, connection).is_some() {
        list(sim, cluster, kind, failures);
        sim.pump(cluster);
    }
}

/// A watch says what became of an object, or ends: its kind is listed again on the same connection.
pub(crate) fn see(sim: &mut Sim, cluster: ClusterName, connection: u64, sight: Sight) {
    let is_current = sim.process.connected(&cluster, connection).is_some();
    if !is_current || !sim.dice.chance(sim.deployment.faults.watch_ends) {
        return sim.happen(Happening::See(cluster, connection, sight));
    }
    let (group, kind) = match sight {
        Sight::There(live) => (live.id.group.clone(), live.id.kind.clone()),
        Sight::Gone(key, _) => (key.group.to_string(), key.kind.to_string()),
    };
    list(sim, &cluster, &WatchedKind { group, kind }, 0);
    sim.pump(&cluster);
}

/// A member's task reports; some reports arrive twice.
pub(crate) fn report(sim: &mut Sim, cluster: &ClusterName, connection: u64) {
    let Some(events) = sim.take_reports(cluster, connection) else { return };
    for event in events {
        if sim.dice.chance(sim.deployment.faults.report_twice) && matches!(event, MemberEvent::Work { .. }) {
            sim.report_event(cluster, event.clone());
        }
        sim.report_event(cluster, event);
    }
    sim.arrange(cluster);
}

impl SimulatedFleet {
    /// Deletes an object on a member without the daemon; watches report it.
    pub fn steal(&mut self, cluster: &ClusterName, key: &ObjectKey) {
        let Some(member) = self.members.get_mut(cluster) else { return };
        member.version += 1;
        member.objects.remove(key);
        let sight = member.sight(key);
        self.observe(cluster, &sight);
    }

    /// Changes or creates an object on a member without the daemon; watches report it. The daemon need not know the member yet.
    pub fn meddle(&mut self, cluster: &ClusterName, mut object: LiveObject) {
        let member = self.members.entry(cluster.clone()).or_default();
        let key = object.id.key();
        let before = member.objects.get(&key).map(|live| live.resource_version);
        member.version += 1;
        object.resource_version = member.version;
        member.objects.insert(key.clone(), object);
        let (version, sight) = (member.version, member.sight(&key));
        // What becomes available does so whoever owns it.
        for happening in self.queue.iter_mut() {
            if let Happening::Ripen(of, named, ripens) = happening
                && (&*of, &*named, Some(*ripens)) == (cluster, &key, before)
            {
                *ripens = version;
            }
        }
        self.observe(cluster, &sight);
    }
}
