//! What it takes to empty a cluster: an eviction for each placement that is there.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use model::api::annotations::OCM_PLACEMENT;
use model::api::placement::PlacementType;
use model::api::table::PLACEMENT_GROUP;
use model::id::{ClusterName, CommitId};
use model::records::{Binding, BindingState, PlacementRecord};

/// Characters that tell the evictions of one drain from those of the next.
///
/// Source: KubeFleet, its tool to drain a cluster, which draws them by lot.
const SUFFIX_DIGITS: usize = 8;

/// What moves placements off a cluster, and what does not.
#[derive(Debug, Default, PartialEq)]
pub struct Drain {
    /// The ClusterResourcePlacementEvictions, in the order of the placements.
    pub evictions: Vec<Value>,
    /// Why placements stay, for people.
    pub stays: Vec<String>,
}

/// Finds out what empties a cluster: `held` is every placement with its binding there. Names follow from placement, cluster and
/// `commit`, so that a drain that is made again at the same state is the same, and a later one is evaluated again.
pub fn drain<'a>(
    held: impl IntoIterator<Item = (&'a PlacementRecord, &'a Binding)>,
    cluster: &ClusterName,
    commit: &CommitId,
) -> Drain {
    let mut drain = Drain::default();
    for (placement, binding) in held.into_iter().filter(|(placement, binding)| !placement.removed && !binding.deleting)
    {
        if let Some(why) = why_it_stays(placement, binding) {
            drain.stays.push(format!("{} {} stays on {cluster}: {why}", placement.key.kind(), placement.key));
            continue;
        }
        let name = &placement.key.name;
        let digest = format!("{:x}", Sha256::digest(format!("{name}\0{cluster}\0{commit}")));
        drain.evictions.push(json!({
            "apiVersion": format!("{PLACEMENT_GROUP}/v1beta1"),
            "kind": "ClusterResourcePlacementEviction",
            "metadata": {"name": format!("drain-eviction-{name}-{cluster}-{}", &digest[..SUFFIX_DIGITS])},
            "spec": {"placementName": name, "clusterName": cluster},
        }));
    }
    drain
}

fn why_it_stays(placement: &PlacementRecord, binding: &Binding) -> Option<&'static str> {
    let type_ = placement.spec.policy.as_ref().map(|policy| policy.placement_type);
    let has_arrived = binding.state == BindingState::Bound || binding.previous_state == Some(BindingState::Bound);
    if placement.key.namespace.is_some() {
        Some("evictions are of ClusterResourcePlacements only; change its policy")
    } else if type_ == Some(PlacementType::PickFixed) {
        Some("its policy names its clusters; take the cluster out of clusterNames")
    } else if placement.annotations.contains_key(OCM_PLACEMENT) {
        Some("an OCM Placement picks its clusters; taint the ManagedCluster with NoSelect")
    } else if !has_arrived {
        Some("it has not arrived there yet; drain again when it has")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::PlacementKey;
    use testkit::records::Case;

    #[test]
    fn each_placement_that_can_go_gets_an_eviction() {
        let case = Case::of(&["east"]);
        let record = case.record.clone();
        let binding = Binding::clone(&case.bindings[0]);
        let found =
            |record: &PlacementRecord, binding: &Binding| drain([(record, binding)], &"east".into(), &"c".into());
        let plain = found(&record, &binding);
        assert_eq!(plain.stays, Vec::<String>::new());
        assert_eq!(plain.evictions[0]["spec"], json!({"placementName": "web", "clusterName": "east"}));
        let name = plain.evictions[0]["metadata"]["name"].as_str().expect("a name");
        assert!(name.starts_with("drain-eviction-web-east-") && name.len() == 32, "{name}");
        assert_eq!(plain, found(&record, &binding), "the same state, the same names");
        assert_ne!(plain, drain([(&record, &binding)], &"east".into(), &"d".into()), "a later drain is another");

        let mut fixed = record.clone();
        fixed.spec.policy =
            serde_json::from_value(json!({"placementType": "PickFixed", "clusterNames": ["east"]})).expect("a policy");
        let mut namespaced = record.clone();
        namespaced.key = PlacementKey::namespaced("app", "web");
        let mut delegated = record.clone();
        delegated.annotations.insert(OCM_PLACEMENT.into(), "ns/p".into());
        let early = Binding { state: BindingState::Scheduled, ..binding.clone() };
        let parting =
            Binding { state: BindingState::Unscheduled, previous_state: Some(BindingState::Bound), ..binding.clone() };
        for (record, binding, text) in [
            (&fixed, &binding, "out of clusterNames"),
            (&namespaced, &binding, "ResourcePlacement app/web stays on east"),
            (&delegated, &binding, "an OCM Placement picks"),
            (&record, &early, "has not arrived"),
        ] {
            let found = found(record, binding);
            assert!(found.evictions.is_empty() && found.stays[0].contains(text), "{found:?}");
        }
        assert_eq!(found(&record, &parting).evictions.len(), 1);
        let going = Binding { deleting: true, ..binding };
        assert_eq!(found(&record, &going), Drain::default());
    }
}
