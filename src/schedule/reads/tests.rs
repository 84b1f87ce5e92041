use serde_json::{Value, json};

use super::*;

fn change(words: &str) -> FleetChange {
    let mut change = FleetChange::default();
    for word in words.split(' ') {
        match word.split_once('=') {
            Some(("label", key)) => change.labels.extend([key.to_owned()]),
            Some((_, name)) => change.properties.extend([name.to_owned()]),
            None => match word {
                "taints" => change.taints = true,
                "eligibility" => change.eligibility = true,
                "namespaces" => change.namespaces = true,
                "membership" => change.membership = true,
                other => panic!("{other}"),
            },
        }
    }
    change
}

#[test]
fn a_change_reaches_those_that_read_it() {
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [{
        "labelSelector": {"matchLabels": {"env": "prod"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]},
        "propertySelector": {"matchExpressions": [{"name": "nodes", "operator": "Ge", "values": ["3"]}]},
    }]}});
    let mut ranked = required.clone();
    ranked["preferredDuringSchedulingIgnoredDuringExecution"] = json!([
        {"weight": 5, "preference": {"propertySorter": {"name": "cost", "sortOrder": "Ascending"}}},
        {"weight": 0, "preference": {"labelSelector": {"matchLabels": {"unread": "x"}}}},
    ]);
    let n = json!({"placementType": "PickN", "numberOfClusters": 1, "affinity": {"clusterAffinity": ranked},
        "topologySpreadConstraints": [{"topologyKey": "zone"}]});
    let all = json!({"affinity": {"clusterAffinity": required}});
    let fixed = json!({"placementType": "PickFixed", "clusterNames": ["a"]});
    let mut readers = Readers::default();
    for (name, policy, settled) in [
        ("none", Value::Null, true),
        ("all", all, true),
        ("n", n.clone(), false),
        ("n-settled", n, true),
        ("fixed", fixed.clone(), false),
        ("fixed-settled", fixed, true),
        ("app/spaced", Value::Null, false),
    ] {
        let key: PlacementKey = name.parse().unwrap();
        let policy: Option<PlacementPolicy> = serde_json::from_value(policy).unwrap();
        readers.set(key.clone(), Reads::of(&key, policy.as_ref(), settled));
    }
    let rows = [
        ("label=env", "all n"),
        ("label=tier", "all n"),
        ("label=zone", "n"),
        ("label=unread", ""),
        ("property=nodes", "all n"),
        ("property=cost label=env", "all n"),
        ("property=cost", "n"),
        ("taints", "all n none app/spaced"),
        ("eligibility", "all fixed n none app/spaced"),
        ("namespaces", "app/spaced"),
        ("membership", "all fixed fixed-settled n n-settled none app/spaced"),
        ("taints label=zone", "all n none app/spaced"),
    ];
    for (words, expected) in rows {
        let found = readers.affected(&change(words));
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "), expected, "{words}");
        let touched = readers.reads.iter().filter(|(_, reads)| reads.touches(&change(words)));
        assert_eq!(touched.map(|(key, _)| key.clone()).collect::<BTreeSet<_>>(), found, "{words}");
    }
    readers.remove(&"n".parse().unwrap());
    readers.set("all".parse().unwrap(), Reads::default());
    assert!(readers.affected(&change("label=env property=cost")).is_empty());
    assert!(readers.labels.is_empty() && readers.properties.is_empty());
}
