use super::*;

fn check(document: &Value) -> Vec<String> {
    let (group, version) = document["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    let kind = match find(group, version, document["kind"].as_str().unwrap()) {
        Ok(kind) => kind.expect("one of our groups"),
        Err(error) => return vec![error.to_string()],
    };
    kind.check(document).err().into_iter().flatten().map(|e| e.to_string()).collect()
}

#[test]
fn kinds_are_read_strictly() {
    let fleet = |kind: &str, spec: Value| json!({"apiVersion": format!("{PLACEMENT_GROUP}/v1beta1"), "kind": kind, "metadata": {"name": "a"}, "spec": spec});
    let ocm = |kind: &str, version: &str, spec: Value| json!({"apiVersion": format!("{OCM_GROUP}/{version}"), "kind": kind, "metadata": {"name": "a", "namespace": "n"}, "spec": spec});
    let selectors = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "a"}]);
    let mut annotated = fleet("ClusterResourcePlacement", json!({"resourceSelectors": selectors}));
    annotated["metadata"]["annotations"] = json!({"gitfleet.io/staged-update-strategy": "s"});
    let mut both = fleet("ClusterResourcePlacement", json!({"resourceSelectors": selectors, "policy": {}}));
    both["metadata"]["annotations"] = json!({"gitfleet.io/placement": "ns/p"});
    let member = json!({"apiVersion": format!("{CLUSTER_GROUP}/v1"), "kind": "MemberCluster", "metadata": {"name": "a", "labels": {"a": "b"}}});
    let mut suspended = member.clone();
    suspended["metadata"]["annotations"] = json!({"gitfleet.io/suspend": "true"});
    let mut tainted = member.clone();
    tainted["spec"] = json!({"taints": [{"key": "a", "effect": "NoExecute"}]});
    let envelope = json!({"apiVersion": format!("{PLACEMENT_GROUP}/v1beta1"), "kind": "ClusterResourceEnvelope", "metadata": {"name": "a"},
        "data": {"x": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}}});
    let table: Vec<(Value, &str)> = vec![
        (fleet("ClusterResourcePlacement", json!({"resourceSelectors": selectors})), ""),
        (
            fleet("ClusterResourcePlacement", json!({"resourceSelectors": selectors, "polcy": {}})),
            "did you mean `policy`?",
        ),
        (fleet("ClusterResourcePlacement", json!({})), "spec.resourceSelectors: required and missing"),
        (fleet("ClusterResourcePlacment", json!({})), "did you mean `ClusterResourcePlacement`?"),
        (
            json!({"apiVersion": format!("{PLACEMENT_GROUP}/v2"), "kind": "ClusterResourcePlacement"}),
            "known: v1, v1beta1",
        ),
        (
            json!({"apiVersion": format!("{PLACEMENT_GROUP}/v1"), "kind": "MemberCluster"}),
            "did you mean `cluster.kubernetes-fleet.io/v1`?",
        ),
        (
            fleet(
                "ClusterResourcePlacement",
                json!({"resourceSelectors": [], "statusReportingScope": "NamespaceAccessible"}),
            ),
            "at least 1",
        ),
        (
            fleet(
                "ClusterResourcePlacement",
                json!({"resourceSelectors": [{"group": "", "version": "v1", "kind": "Node"}], "statusReportingScope": "NamespaceAccessible"}),
            ),
            "exactly one selector",
        ),
        (
            fleet(
                "ResourcePlacement",
                json!({"resourceSelectors": [{"group": "", "version": "v1", "kind": "Node"}], "statusReportingScope": "NamespaceAccessible"}),
            ),
            "",
        ),
        (annotated, "needs strategy.type External"),
        (both, "policy of its own"),
        (
            fleet(
                "ClusterStagedUpdateRun",
                json!({"placementName": "p", "stagedRolloutStrategyName": "s", "state": "Go"}),
            ),
            "not one of Initialize, Run, Stop",
        ),
        (fleet("ClusterResourcePlacementEviction", json!({"placementName": "p", "clusterName": "c"})), ""),
        (
            fleet("ClusterResourcePlacementDisruptionBudget", json!({"maxUnavailable": 1, "minAvailable": 1})),
            "exclude each other",
        ),
        (fleet("ClusterResourceBinding", json!({"state": "Bound", "anything": 1})), ""),
        (envelope, "does not fit into a ClusterResourceEnvelope"),
        (member, ""),
        (suspended, "did you mean `gitfleet.io/suspended`?"),
        (tainted, "spec.taints[0].effect: \"NoExecute\" is not one of NoSchedule"),
        (ocm("Placement", "v1alpha1", json!({"prioritizerPolicy": {"configurations": [{"name": "Balance"}]}})), ""),
        (
            ocm(
                "Placement",
                "v1beta1",
                json!({"prioritizerPolicy": {"mode": "Wrong", "configurations": [{"weight": 1}]}}),
            ),
            "scoreCoordinate: required",
        ),
        (ocm("Placement", "v1beta1", json!({"prioritizerPolicy": {"mode": "Wrong"}})), ""),
        (ocm("Placement", "v1beta1", json!({"numberOfClusters": -1})), "below 0"),
        (
            ocm(
                "Placement",
                "v1beta1",
                json!({"decisionStrategy": {"groupStrategy": {"decisionGroups": [{"groupName": "a", "groupClusterSelector": {}}]}}}),
            ),
            "2 to 63",
        ),
        (ocm("ManagedClusterSetBinding", "v1beta2", json!({"clusterSet": "b"})), "differs from metadata.name"),
        (
            ocm("ManagedClusterSet", "v1alpha1", json!({"clusterSelector": {"selectorType": "LegacyClusterSetLabel"}})),
            "",
        ),
    ];
    for (document, expected) in table {
        let found = check(&document);
        match expected {
            "" => assert_eq!(found, Vec::<String>::new(), "{document}"),
            _ => assert!(found.len() == 1 && found[0].contains(expected), "{document}: {found:?}"),
        }
    }
}

#[test]
fn every_name_of_a_kind_names_it() {
    for kind in KINDS {
        for name in kind.names() {
            for word in [name.clone(), name.to_uppercase(), format!("{name}.{}", kind.group)] {
                assert_eq!(
                    named(&word).map(|found| (found.group, found.kind)),
                    Some((kind.group, kind.kind)),
                    "{word}"
                );
            }
        }
    }
    for word in ["", "unicorn", "crp.apps", "clusterresourceplacements.v1"] {
        assert!(named(word).is_none(), "{word}");
    }
}
