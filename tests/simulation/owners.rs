//! 4: what belongs to somebody else is written only where that is allowed, and never deleted; what a placement abandons stays.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use deliver::health::HealthRules;
use deliver::live::LiveObject;
use jiff::{SignedDuration, Timestamp};
use model::id::{ClusterName, CommitId, Digest, ObjectKey, PlacementKey};
use model::records::Availability;
use model::work::WorkOrder;
use plan::simulate::Dice;
use simulated::{Fact, MachineFact};

use super::Run;
use super::check::{Checker, Verdict};
use super::forged::Row;
use super::hand_over::is_same_thing;
use super::records::PlacementRecord;
use super::timeline::{CLUSTERS_MAX, PLACEMENTS_MAX};
use super::twists::CONTENT;

/// Who else owns objects.
const OWNER: &str = "Deployment operator";
/// A write or a deletion may have been under way when somebody came to own its object; for no longer than that.
const UNDER_WAY: SignedDuration = SignedDuration::from_secs(30);

/// Objects that somebody else came to own while they were ours, and when.
pub type Owned = BTreeMap<(ClusterName, ObjectKey), Timestamp>;

impl Checker {
    /// Somebody else owns an object of ours from now on.
    pub(super) fn note_owner(&mut self, cluster: &ClusterName, key: &ObjectKey) {
        self.disturbed.insert(cluster.clone());
        self.owned.insert((cluster.clone(), key.clone()), self.now);
    }

    pub(super) fn respects_owners(&mut self, fact: &Fact) -> Verdict {
        match fact {
            Fact::Ordered(order) => self.may_share(order),
            Fact::Applied { order, object, was_foreign, .. } if !order.strategy.allow_co_ownership => {
                if *was_foreign || self.is_owned_for_long(&order.cluster, object) {
                    let (placement, cluster) = (&order.placement, &order.cluster);
                    return Err(format!("4: {object} is somebody else's on {cluster}, and {placement} writes it"));
                }
                Ok(())
            }
            // Who asked for it may not have known.
            Fact::Deleted { order, object, is_shared: true, .. } => {
                let key = (order.cluster.clone(), object.clone());
                let since = self.owned.remove(&key);
                if since.is_some_and(|since| self.now.duration_since(since) <= UNDER_WAY) {
                    return Ok(());
                }
                Err(format!("4: {object} was deleted on {}, and somebody else owns it, too", order.cluster))
            }
            Fact::Deleted { order, object, .. } => {
                self.owned.remove(&(order.cluster.clone(), object.clone()));
                Ok(())
            }
            // A list may show what was there a while ago; what came since is seen a moment later.
            Fact::Began => {
                self.owned.values_mut().for_each(|since| *since = self.now);
                Ok(())
            }
            Fact::Disconnected { cluster, .. } => {
                self.owned.iter_mut().filter(|((of, _), _)| of == cluster).for_each(|(_, since)| *since = self.now);
                Ok(())
            }
            Fact::Own(MachineFact::Restored { cluster, .. }) => {
                self.owned.retain(|(of, _), _| of != cluster);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Tells whether somebody else has owned an object of ours for so long that it was seen. A new life and a new connection look
    /// before they write, but for lists that show what was there a while ago.
    fn is_owned_for_long(&self, cluster: &ClusterName, key: &ObjectKey) -> bool {
        let since = self.owned.get(&(cluster.clone(), key.clone()));
        since.is_some_and(|since| self.now.duration_since(*since) > UNDER_WAY) && !self.is_stale
    }

    /// Returns what a commit wants of placements that move by staged runs.
    fn staged_objects(&self, commit: Option<&CommitId>) -> BTreeSet<&ObjectKey> {
        let wish = commit.and_then(|commit| self.wishes.get(commit));
        let placements = wish.into_iter().flat_map(|wish| &wish.placements);
        let is_staged = |of: &PlacementKey| self.placements.get(of).is_some_and(PlacementRecord::is_external);
        placements.filter(|(of, _)| is_staged(of)).flat_map(|(_, want)| want.objects.keys()).collect()
    }

    /// 4: an order lets a member own objects together with somebody else only where a commit has said so.
    fn may_share(&self, order: &WorkOrder) -> Verdict {
        // A placement that is renamed continues with what it was given under its old name.
        let is_it = |key: &PlacementKey| is_same_thing(key, &order.placement);
        let mut wants = self.wishes.values().flat_map(|wish| &wish.placements);
        if !order.strategy.allow_co_ownership || wants.any(|(key, want)| want.shares && is_it(key)) {
            return Ok(());
        }
        Err(format!("4: {} may share objects on {}, and no commit says so", order.placement, order.cluster))
    }
}

/// Returns an object that somebody else put on a member.
fn foreign(key: &ObjectKey) -> LiveObject {
    let version = match key.kind.as_str() {
        "Deployment" => "apps/v1",
        "Job" => "batch/v1",
        _ => "v1",
    };
    let mut metadata = serde_json::json!({"name": key.name, "uid": format!("foreign-{key}")});
    if !key.namespace.is_empty() {
        metadata["namespace"] = key.namespace.as_str().into();
    }
    let object = serde_json::json!({"apiVersion": version, "kind": key.kind, "metadata": metadata});
    let live = LiveObject::read(&object, &HealthRules::default()).expect("it is an object");
    live.with(|content| (content.owner, content.owned) = (Some(OWNER.into()), Digest::from("somebody's")))
}

fn pick<T: Clone>(dice: &mut Dice, of: impl IntoIterator<Item = T>) -> Option<T> {
    let all: Vec<T> = of.into_iter().collect();
    dice.pick(&all).cloned()
}

impl Run {
    /// Lets some placements share objects, before the first commit.
    pub(super) fn share_some(&mut self) {
        let Some(dice) = &mut self.twists.owners else { return };
        for number in 0..PLACEMENTS_MAX {
            self.timeline.share(number, dice.chance(300));
        }
    }

    /// Somebody puts objects there before the first commit is read.
    pub(super) fn own_some(&mut self) {
        let Some(mut dice) = self.twists.owners.take() else { return };
        for _ in 0..dice.between(1, 3) {
            let cluster = ClusterName::new(format!("c{}", dice.below(CLUSTERS_MAX)));
            self.own_first(&mut dice, &cluster);
        }
        self.twists.owners = Some(dice);
    }

    /// Somebody puts objects there that a placement is to bring, or comes to own one of ours; or a placement may share what it
    /// might not, or the other way round.
    pub(super) fn own(&mut self) {
        let Some(mut dice) = self.twists.owners.take() else { return };
        let cluster = ClusterName::new(format!("c{}", dice.below(CLUSTERS_MAX)));
        match dice.below(4) {
            0 => {
                let (number, is_so) = (dice.below(PLACEMENTS_MAX), dice.chance(500));
                self.timeline.share(number, is_so);
                self.push(true);
            }
            1 | 2 => self.own_ours(&mut dice),
            _ => self.own_first(&mut dice, &cluster),
        }
        self.twists.owners = Some(dice);
    }

    /// Somebody puts an object there before we do.
    fn own_first(&mut self, dice: &mut Dice, cluster: &ClusterName) {
        let wish = self.last.as_ref().and_then(|last| self.checker.wishes.get(last));
        let wanted = wish.into_iter().flat_map(|wish| wish.placements.values()).flat_map(|want| want.objects.keys());
        let member = self.simulation.members.get(cluster);
        let is_there = |key: &ObjectKey| member.is_some_and(|member| member.objects.contains_key(key));
        let Some(key) = pick(dice, wanted.filter(|key| !is_there(key)).cloned()) else { return };
        self.say_that(format!("somebody owns {key} on {cluster}"));
        self.checker.disturbed.insert(cluster.clone());
        self.simulation.meddle(cluster, foreign(&key));
    }

    /// Somebody comes to own an object of ours; a while later most objects get new content.
    fn own_ours(&mut self, dice: &mut Dice) {
        let members = self.simulation.members.iter();
        let held = members.flat_map(|(name, member)| member.objects.values().map(move |live| (name, live)));
        // One that is not available yet would never become so: what becomes available is the object as it was written.
        let is_ours = |live: &LiveObject| {
            let is_there = !live.terminating && live.availability == Availability::Available;
            !live.applyset.is_empty() && is_there && live.owner.is_none()
        };
        let ours = held.filter(|(_, live)| is_ours(live) && live.id.kind != "Namespace");
        let Some((cluster, live)) = pick(dice, ours.map(|(name, live)| (name.clone(), live.clone()))) else { return };
        let key = live.id.key();
        self.say_that(format!("somebody comes to own {key} on {cluster}"));
        self.checker.now = self.simulation.now;
        self.checker.note_owner(&cluster, &key);
        self.simulation.meddle(&cluster, live.with(|content| content.owner = Some(OWNER.into())));
        self.simulation.at(Duration::from_secs(dice.between(40, 100)), CONTENT);
    }

    /// How a seed with other owners comes to rest: they go, or every placement may share. A staged run applies as it was approved
    /// to, whatever a later commit allows: the owners of what it applies go in any case. Returns whether that takes a commit.
    pub(super) fn end_owners(&mut self) -> bool {
        self.checker.disturbed.clear();
        let Some(dice) = &mut self.twists.owners else { return false };
        // What a member is restored to has its owners again.
        let shares = self.restored.is_some() || dice.chance(500);
        if shares {
            (0..PLACEMENTS_MAX).for_each(|number| self.timeline.share(number, true));
        } else {
            self.checker.owned.clear();
        }
        let staged: BTreeSet<&ObjectKey> = self.checker.staged_objects(self.last.as_ref());
        let members = self.simulation.members.iter();
        let owned = members.flat_map(|(name, member)| member.objects.values().map(move |live| (name.clone(), live)));
        let goes = |live: &LiveObject| live.owner.is_some() && (!shares || staged.contains(&live.id.key()));
        let owned: Vec<(ClusterName, LiveObject)> =
            owned.filter(|(_, live)| goes(live)).map(|(name, live)| (name, live.clone())).collect();
        for (name, live) in owned {
            self.checker.owned.remove(&(name.clone(), live.id.key()));
            self.simulation.meddle(&name, live.with(|content| content.owner = None));
        }
        shares
    }

    /// Placements leave their objects behind from now on, or do not; and now and then one goes, or leaves a cluster.
    pub(super) fn abandon(&mut self) {
        let Some(dice) = &mut self.twists.abandons else { return };
        for number in 0..PLACEMENTS_MAX {
            self.timeline.abandon(number, dice.chance(700));
        }
        let (number, cluster) = (dice.below(PLACEMENTS_MAX), dice.below(CLUSTERS_MAX));
        match dice.below(4) {
            0 => self.timeline.remove(number),
            1 => self.timeline.evict(number, cluster),
            2 => self.timeline.deselect(number, cluster),
            _ => {}
        }
        self.push(true);
    }
}

/// Objects that somebody else owns, and those that stay where a placement leaves.
pub(super) fn rows() -> Vec<Row> {
    use std::sync::Arc;

    use super::forged::{binding, object, order, removed};
    let leaving = |abandon| {
        Arc::new(WorkOrder { prune: [object()].into(), remove: true, abandon, ..WorkOrder::clone(&order("a", 1)) })
    };
    let deleted = |abandon, is_shared| Fact::Deleted {
        order: leaving(abandon),
        object: object(),
        holder: Some(PlacementKey::cluster_scoped("p")),
        is_shared,
    };
    let given_up = |abandon, is_shared| Fact::Released { order: leaving(abandon), object: object(), is_shared };
    vec![
        ("what somebody else owns is deleted", vec![deleted(false, true)], Some("4:")),
        ("what is abandoned is deleted", vec![deleted(true, false)], Some("4:")),
        ("what is abandoned is given up", vec![given_up(true, false)], None),
        ("what is to go is given up", vec![given_up(false, false)], Some("4:")),
        ("what is shared is given up", vec![given_up(false, true)], None),
        (
            "a removed placement abandons without a gate",
            vec![removed(true), binding("a", 1, true), Fact::Ordered(leaving(true))],
            None,
        ),
        (
            "a removed placement that abandons has the order to delete",
            vec![removed(true), binding("a", 1, true), Fact::Ordered(leaving(false))],
            Some("4: a has the order to delete"),
        ),
        (
            "a removed placement that deletes leaves something behind",
            vec![removed(false), binding("a", 1, true), Fact::Ordered(leaving(true))],
            Some("4: a leaves behind"),
        ),
    ]
}

/// Forged violations are caught.
#[test]
fn w04_who_writes_what_is_not_his_is_caught() {
    use super::forged::{checker, object, order};
    let with = |allow| {
        let mut order = WorkOrder::clone(&order("a", 1));
        order.strategy.allow_co_ownership = allow;
        std::sync::Arc::new(order)
    };
    let applied = |allow, was_foreign| Fact::Applied {
        order: with(allow),
        object: object(),
        digest: "d".into(),
        available: true,
        was_foreign,
    };
    let deleted = || Fact::Deleted { order: with(false), object: object(), holder: None, is_shared: true };
    // Since when somebody else owns it, in seconds.
    let rows = [
        ("it is nobody else's", None, applied(false, false), None),
        ("it was somebody else's before", None, applied(false, true), Some("4:")),
        ("it was, and that is allowed", None, applied(true, true), None),
        ("it has just become somebody else's", Some(5), applied(false, false), None),
        ("it has been somebody else's for long", Some(60), applied(false, false), Some("4:")),
        ("it has been, and that is allowed", Some(60), applied(true, false), None),
        ("it is deleted as it becomes somebody else's", Some(5), deleted(), None),
        ("it is somebody else's and deleted", Some(60), deleted(), Some("4:")),
        ("it always was somebody else's, and is deleted", None, deleted(), Some("4:")),
        ("nobody allowed to share", None, Fact::Ordered(with(true)), Some("4:")),
    ];
    for (name, owned_for, fact, wanted) in rows {
        let mut checker = checker();
        if let Some(seconds) = owned_for {
            checker.note_owner(&"a".into(), &object());
            checker.now += SignedDuration::from_secs(seconds);
        }
        match (checker.respects_owners(&fact), wanted) {
            (Ok(()), None) => {}
            (Err(why), Some(wanted)) => assert!(why.starts_with(wanted), "{name}: {why}"),
            (verdict, wanted) => panic!("{name}: {verdict:?}, wanted {wanted:?}"),
        }
    }
}
