use proptest::prelude::*;

use super::*;
use crate::labels::all;
use model::api::cluster::TaintEffect;

fn cluster() -> impl Strategy<Value = Cluster> {
    let taint = ("[kl]", "[vw]").prop_map(|(key, value)| Taint { key, value, effect: TaintEffect::NoSchedule });
    (
        prop::collection::btree_map("[ab]", "[xy]", 0..3),
        prop::collection::btree_map("[pq]", "[0-9x]", 0..3),
        prop::collection::vec(taint, 0..3),
        any::<bool>(),
        prop::option::of(prop::collection::btree_set("[no]", 0..2)),
    )
        .prop_map(|(labels, properties, taints, is_eligible, namespaces)| {
            let eligible = if is_eligible { Ok(()) } else { Err("dead".to_owned()) };
            Cluster { labels, taints, eligible, properties, namespaces }
        })
}

fn slots(found: &Slots, len: usize) -> FixedBitSet {
    let mut set = FixedBitSet::with_capacity(len);
    found.add_to(&mut set);
    set
}

/// Everything a fleet answers, in a form that can be compared.
fn answers(fleet: &Fleet) -> impl PartialEq + std::fmt::Debug {
    let len = fleet.len();
    let mut taints: Vec<_> = fleet.taints.iter().map(|(taint, found)| (taint.clone(), slots(found, len))).collect();
    taints.sort_by(|(a, _), (b, _)| (&a.key, &a.value).cmp(&(&b.key, &b.value)));
    let properties: Vec<_> = ["p", "q"]
        .map(|name| {
            let column = fleet.property(name)?;
            Some(((0..len).map(|slot| column.nanos(slot)).collect::<Vec<_>>(), column.extremes(), column.bad().clone()))
        })
        .into();
    let clusters: Vec<_> = fleet.iter().map(|(name, cluster)| (name.clone(), cluster.clone())).collect();
    let labels: Vec<_> = (0..len).map(|slot| fleet.labels.get(slot).clone()).collect();
    (clusters, labels, properties, taints, fleet.eligible.clone(), ["n", "o"].map(|name| fleet.with_namespace(name)))
}

proptest! {
    #[test]
    fn changing_a_fleet_is_as_building_it(
        first in prop::collection::btree_map("c[0-9]", cluster(), 0..8),
        steps in prop::collection::vec(("c[0-9]", prop::option::weighted(0.8, cluster())), 0..12),
    ) {
        let mut plain: BTreeMap<ClusterName, Cluster> =
            first.into_iter().map(|(name, cluster)| (name.as_str().into(), cluster)).collect();
        let mut fleet: Fleet = plain.clone().into_iter().collect();
        for (name, cluster) in steps {
            let expected = FleetChange::between(plain.get(name.as_str()), cluster.as_ref());
            let change = if let Some(cluster) = cluster {
                plain.insert(name.as_str().into(), cluster.clone());
                fleet.set(name.as_str().into(), cluster)
            } else {
                plain.remove(name.as_str());
                fleet.remove(&name)
            };
            prop_assert_eq!(change, expected);
            let fresh: Fleet = plain.clone().into_iter().collect();
            prop_assert_eq!(answers(&fleet), answers(&fresh));
        }
        for (name, cluster) in &plain {
            prop_assert_eq!(fleet.get(name.as_str()), Some(cluster));
            let slot = fleet.slot(name.as_str()).unwrap();
            prop_assert_eq!(fleet.slot_near(slot + 1, name), Some(slot));
            for (taint, found) in fleet.taints() {
                prop_assert_eq!(slots(found, fleet.len()).contains(slot), cluster.taints.contains(taint));
            }
        }
        prop_assert_eq!(fleet.len(), plain.len());
        prop_assert!(fleet.eligible().is_subset(&all(fleet.len())));
    }
}

#[test]
fn a_change_says_what_it_is() {
    let with = |pairs: &[(&str, &str)]| Cluster {
        labels: pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        ..Cluster::default()
    };
    let mut fleet: Fleet = [("a".into(), with(&[("env", "dev"), ("tier", "1")]))].into_iter().collect();
    let change = fleet.set("a".into(), with(&[("env", "prod"), ("tier", "1")]));
    assert_eq!(change, FleetChange { labels: BTreeSet::from(["env".to_owned()]), ..FleetChange::default() });
    let dead = |why: &str| Cluster { eligible: Err(why.to_owned()), ..with(&[("env", "prod"), ("tier", "1")]) };
    assert_eq!(fleet.set("a".into(), dead("silent")), FleetChange { eligibility: true, ..FleetChange::default() });
    assert!(fleet.set("a".into(), dead("silent since noon")).is_empty());
    assert_eq!(fleet.get("a").unwrap().eligible, Err("silent since noon".to_owned()));
    assert!(fleet.remove("b").is_empty());
    let mut both = fleet.remove("a");
    assert!(both.membership && both.labels.contains("env"));
    both.merge(FleetChange { taints: true, ..FleetChange::default() });
    assert!(both.taints && both.membership);
}
