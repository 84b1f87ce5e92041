//! D7: members that are restored from a backup come to hold what their orders say, and no inventory claims what is not there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use deliver::health::HealthRules;
use deliver::inventory::{Held, Parent, applyset_id};
use deliver::live::LiveObject;
use engine::store::records::snapshot_key;
use jiff::Timestamp;
use model::id::{ClusterName, Digest, ObjectKey, PlacementKey};
use model::records::Availability;
use model::work::{Desired, WorkOrder};
use plan::simulate::Dice;
use simulated::{Fact, MachineFact, SimulatedFleet};

use super::check::{Checker, Spot, Verdict, Wish, owned};
use super::timeline::CLUSTERS_MAX;

/// Of a thousand seeds so many restore a member.
const SHARE: u64 = 300;
/// Faults end after so many seconds: see `END`.
const UNTIL_S: u64 = 600;

/// When a member is saved, and put back to that.
pub struct Plan {
    pub cluster: ClusterName,
    pub backed_up: Duration,
    /// Somebody gives all objects new content, or changes something else.
    pub written: Duration,
    pub restored: Duration,
    /// The daemon is down at that moment.
    pub unseen: bool,
    /// It happens once more when everything has come to rest.
    pub again: bool,
}

impl Plan {
    /// Makes a plan for a seed; most have none. Dice of its own leave all other seeds as they are.
    pub fn of(seed: u64) -> Option<Self> {
        let mut dice = Dice::new(seed ^ 0xbac);
        if !dice.chance(SHARE) {
            return None;
        }
        let backed_up = dice.between(5, UNTIL_S / 2);
        let written = dice.between(backed_up, backed_up + 60);
        Some(Self {
            cluster: ClusterName::new(format!("c{}", dice.below(CLUSTERS_MAX))),
            backed_up: Duration::from_secs(backed_up),
            written: Duration::from_secs(written),
            restored: Duration::from_secs(dice.between(written + 5, UNTIL_S)),
            unseen: dice.chance(300),
            again: dice.chance(500),
        })
    }

    /// Saves the member. What somebody changed before is not seen to be changed when it comes back: docs/design/003 says so.
    pub fn back_up(&self, simulation: &mut SimulatedFleet) {
        let is_whole = |live: &LiveObject| Some(&live.owned) == live.manifest.as_ref().map(owned).as_ref();
        let member = simulation.members.get(&self.cluster);
        if member.is_some_and(|member| member.objects.values().all(is_whole)) {
            simulation.back_up(&self.cluster);
        }
    }

    /// Puts the member back.
    pub fn restore(&self, simulation: &mut SimulatedFleet) {
        if self.unseen {
            simulation.crash();
        }
        simulation.restore_member(&self.cluster);
    }
}

/// 6: a member that is said to hold an order has all objects of it.
pub fn has_all(order: &WorkOrder, objects: &BTreeMap<ObjectKey, LiveObject>) -> Verdict {
    let has = |desired: &&Desired| {
        let live = objects.get(&*desired.key);
        live.is_some_and(|live| live.manifest.as_ref() == Some(&desired.digest))
    };
    match order.manifests.iter().find(|desired| !has(desired)) {
        None => Ok(()),
        Some(lacking) => Err(format!(
            "6: the inventory of {} on {} claims snapshot {} and the member lacks {}",
            order.placement, order.cluster, order.snapshot, lacking.key
        )),
    }
}

/// What a member holds.
pub struct Holding<'a> {
    pub objects: &'a BTreeMap<ObjectKey, LiveObject>,
    pub inventories: &'a BTreeMap<PlacementKey, Parent>,
}

/// What the members of a fleet hold.
pub type Fleet<'a> = BTreeMap<&'a ClusterName, Holding<'a>>;

/// Returns what the members of a simulation hold.
pub fn fleet(simulation: &SimulatedFleet) -> Fleet<'_> {
    let members = simulation.members.iter();
    members
        .map(|(name, member)| (name, Holding { objects: &member.objects, inventories: &member.inventories }))
        .collect()
}

impl Checker {
    /// A member is restored: it holds what it held then, and nothing else. What it holds of placements that are gone there by now
    /// may stay: docs/security.md says so.
    pub(super) fn note_restored(
        &mut self,
        cluster: &ClusterName,
        objects: &BTreeMap<ObjectKey, LiveObject>,
        inventories: &BTreeMap<PlacementKey, Parent>,
    ) {
        self.calm_since = self.now;
        let is_here = |spot: &Spot| spot.1 == *cluster;
        // What is written there next is a first delivery: that it is down meanwhile is not a rollout's doing.
        self.was_complete.retain(|spot, _| !is_here(spot));
        self.down.retain(|spot| !is_here(spot));
        self.unavailable.retain(|spot, _| !is_here(spot));
        self.forgotten.retain(|spot| !is_here(spot));
        let before = std::mem::take(&mut self.written).into_iter().partition(|(spot, _)| !is_here(spot));
        let unheard: BTreeMap<Spot, (BTreeMap<ObjectKey, Digest>, Timestamp)>;
        (self.written, unheard) = before;
        self.unheard.extend(unheard);
        for placement in inventories.keys() {
            let (label, spot) = (applyset_id(placement), (placement.clone(), cluster.clone()));
            let ours = objects.iter().filter(|(_, live)| *live.applyset == *label);
            let held = ours.filter_map(|(key, live)| Some((key.clone(), live.manifest.clone()?)));
            let held: BTreeMap<ObjectKey, Digest> = held.collect();
            self.writers.extend(held.keys().map(|key| ((cluster.clone(), key.clone()), placement.clone())));
            self.written.insert(spot.clone(), (held, self.now));
            let is_late = |live: &LiveObject| {
                *live.applyset == *label && live.availability == Availability::ManifestNotAvailableYet
            };
            let late = objects.iter().filter(|(_, live)| is_late(live)).map(|(key, _)| key.clone()).collect();
            self.unavailable.insert(spot.clone(), late);
            if !self.is_bound(&spot) {
                self.forgotten.insert(spot);
            }
        }
    }

    /// 6: no inventory says that a member holds a snapshot of which it lacks objects.
    pub(super) fn claims_are_true(&self, fleet: &Fleet<'_>, wish: &Wish, returned: &BTreeSet<ClusterName>) -> Verdict {
        let members = fleet.iter().filter(|(name, _)| wish.clusters.contains(**name) && !returned.contains(**name));
        for (cluster, holding) in members {
            for (placement, parent) in holding.inventories {
                let Some(holds) = &parent.holds else { continue };
                let spot = (placement.clone(), (*cluster).clone());
                // One that leaves keeps its inventory while others have objects in its Namespace, and holds no snapshot any more.
                if self.forgotten.contains(&spot) || self.binding(&spot).is_some_and(|binding| binding.deleting) {
                    continue;
                }
                let Some(snapshot) = self.snapshots.get(&snapshot_key(placement, holds.index)) else {
                    return Err(format!("6: {cluster} claims snapshot {} of {placement}, which is none", holds.index));
                };
                let overridden = wish.placements.get(placement).and_then(|want| want.overridden.get(*cluster));
                let is_there = |key: &ObjectKey, digest: &Digest| {
                    let live = holding.objects.get(key);
                    live.is_some_and(|live| overridden.is_some() || live.manifest.as_ref() == Some(digest))
                };
                let mut all = snapshot.resources.iter().map(|resource| (resource.id.key(), &resource.digest));
                if let Some((key, _)) = all.find(|(key, digest)| !is_there(key, digest)) {
                    let index = holds.index;
                    return Err(format!("6: {cluster} claims snapshot {index} of {placement}, and lacks {key}"));
                }
            }
        }
        Ok(())
    }
}

/// A member that holds what an inventory claims, or something else: `content` of the object, `claims` a snapshot.
fn holding(content: &str, claims: u64) -> (BTreeMap<ObjectKey, LiveObject>, BTreeMap<PlacementKey, Parent>) {
    let placement = PlacementKey::cluster_scoped("p");
    let object =
        serde_json::json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "o", "namespace": "n"}});
    let manifest = Digest::new(content);
    let live = LiveObject::read(&object, &HealthRules::default()).unwrap().with(|content| {
        content.applyset = applyset_id(&placement).into();
        content.owned = owned(&manifest);
        content.manifest = Some(manifest);
        content.availability = Availability::Available;
    });
    let holds = Some(Held { index: claims, commit: "3".into(), digest: "x".into() });
    let parent = Parent { placement: Some(placement.clone()), holds, ..Parent::default() };
    ([(live.id.key(), live)].into(), [(placement, parent)].into())
}

/// D7: a restored member that keeps the old content at rest is caught, whatever its inventory claims.
#[test]
fn d07_a_restored_member_that_stays_as_it_was_is_caught() {
    let (new, old) = (holding("d", 0), holding("before", 0));
    let rows = [
        ("everything is there", &new, &new, None),
        ("one keeps the old content", &new, &old, Some("6: p on b is not as declared")),
        (
            "one is restored and holds nothing",
            &new,
            &(BTreeMap::new(), new.1.clone()),
            Some("6: p on b is not as declared"),
        ),
        ("the inventory claims an earlier snapshot", &new, &holding("d", 7), Some("6: the inventory of p on b")),
    ];
    for (name, on_a, on_b, wanted) in rows {
        let mut checker = super::forged::at_rest();
        let restored = |cluster: &str, held: &(BTreeMap<ObjectKey, LiveObject>, BTreeMap<PlacementKey, Parent>)| {
            let (objects, inventories) = (Arc::new(held.0.clone()), Arc::new(held.1.clone()));
            Fact::Own(MachineFact::Restored { cluster: cluster.into(), objects, inventories })
        };
        checker.see(&restored("b", on_b)).unwrap();
        let names = [ClusterName::from("a"), ClusterName::from("b")];
        let holding = |(objects, inventories)| Holding { objects, inventories };
        let fleet = [(&names[0], holding((&on_a.0, &on_a.1))), (&names[1], holding((&on_b.0, &on_b.1)))].into();
        let verdict = checker.is_at_rest(&fleet, &"3".into(), &BTreeSet::new());
        match (verdict, wanted) {
            (Ok(()), None) => {}
            (Err(why), Some(wanted)) => assert!(why.starts_with(wanted), "{name}: {why}"),
            (verdict, wanted) => panic!("{name}: {verdict:?}, wanted {wanted:?}"),
        }
    }
}

/// D7: an inventory that claims what is not there is caught, also where nobody wants the placement to be; and what a restored
/// member keeps of a placement that is gone may stay, of any other it may not.
#[test]
fn d07_what_a_restored_member_may_keep() {
    let (checker, b) = (super::forged::at_rest(), ClusterName::from("b"));
    let (objects, inventories) = holding("d", 0);
    let nothing = BTreeMap::new();
    let wish = Wish { clusters: [b.clone()].into(), ..checker.wishes["1"].clone() };
    let claims = |checker: &Checker, objects: &BTreeMap<ObjectKey, LiveObject>| {
        checker.claims_are_true(&[(&b, Holding { objects, inventories: &inventories })].into(), &wish, &BTreeSet::new())
    };
    assert_eq!(claims(&checker, &objects), Ok(()));
    assert!(claims(&checker, &nothing).unwrap_err().starts_with("6: b claims snapshot 0 of p, and lacks"));
    let (old, _) = holding("before", 0);
    assert!(claims(&checker, &old).unwrap_err().starts_with("6: b claims snapshot 0 of p, and lacks"));

    let key = objects.keys().next().unwrap();
    let id = objects[key].id.clone();
    let desired = Desired {
        id,
        key: Arc::new(key.clone()),
        object: Arc::new(serde_json::Value::Null),
        digest: "d".into(),
        wave: 0,
        encrypted: None,
    };
    let order = WorkOrder { manifests: [desired].into(), ..WorkOrder::clone(&super::forged::order("b", 1)) };
    assert_eq!(has_all(&order, &objects), Ok(()));
    let why = has_all(&order, &old).unwrap_err();
    assert!(why.starts_with("6: the inventory of p on b claims snapshot 0"), "{why}");

    let spot = (PlacementKey::cluster_scoped("p"), b.clone());
    for (name, bound) in [("a placement that is there", true), ("a placement that left it", false)] {
        let mut checker = super::forged::at_rest();
        if !bound {
            checker.see(&Fact::Kept { key: "binding/p/b".to_owned(), value: None }).unwrap();
        }
        checker.note_restored(&b, &old, &inventories);
        assert_eq!(checker.forgotten.contains(&spot), !bound, "{name}");
        assert_eq!(claims(&checker, &old).is_ok(), !bound, "{name}");
    }
}

/// A stage counts what a restored member holds, and nothing that it held before it was.
#[test]
fn a_stage_is_done_with_what_a_restored_member_holds() {
    let nothing = (BTreeMap::new(), holding("d", 0).1);
    let rows = [
        ("it holds all", holding("d", 0), true),
        ("it holds another content", holding("before", 0), false),
        ("it holds nothing", nothing, false),
    ];
    for (name, held, is_done) in rows {
        // It was told and held it all before it was restored, or it was never told in this life of the binding.
        for was_written in [true, false] {
            let mut checker = super::forged::at_rest();
            if was_written {
                checker.see(&super::forged::applied("a", true)).unwrap();
            }
            checker.note_restored(&"a".into(), &held.0, &held.1);
            // What it had reported before counts until it answers again.
            assert_eq!(checker.unheard.len(), usize::from(was_written), "{name}");
            checker.see(&super::forged::answers("a")).unwrap();
            let verdict = checker.see(&super::forged::frozen("Succeeded"));
            assert_eq!(verdict.is_ok(), is_done, "{name}, written before {was_written}: {verdict:?}");
        }
    }
}
