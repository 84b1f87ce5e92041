//! What holds of every hub and every placement.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::select;

use super::naive::{self, Decided, decided};
use super::reads::Readers;
use super::worlds::{self, NAMES, World, ago};
use super::*;

fn shuffled() -> impl Strategy<Value = (World, Vec<Value>)> {
    worlds::world().prop_flat_map(|world| {
        let documents = Just(world.documents.clone()).prop_shuffle();
        (Just(world), documents)
    })
}

proptest! {
    /// Whatever the order of documents, what is decided is what the rules say of each cluster.
    #[test]
    fn what_is_fast_decides_what_is_plain((world, documents) in shuffled()) {
        let (first, second) = (Hub::read(&world.documents).unwrap(), Hub::read(&documents).unwrap());
        let outcome = run(&first, world.spec.clone());
        prop_assert_eq!(&outcome, &run(&second, world.spec.clone()));
        prop_assert_eq!(&outcome.misconfigured, &None);
        prop_assert_eq!(decided(&first, &outcome), naive::decide(&world));
        let explanation = explained(&first, world.spec.clone());
        let picks = explanation.clusters.iter().filter(|cluster| cluster.picked).count();
        prop_assert_eq!(picks, outcome.selected.count_ones(..));
        for &(slot, total) in &outcome.scores {
            let terms = &of(&explanation, first.names()[slot as usize].as_str()).scores;
            prop_assert_eq!(terms.iter().map(|term| term.score).sum::<i64>(), total);
        }
        for cluster in explanation.clusters.iter().filter(|cluster| cluster.rank.is_none()) {
            prop_assert!(cluster.rejected.is_some(), "{:?}", cluster);
        }
    }

    #[test]
    fn totals_do_not_depend_on_the_order_of_prioritizers(world in worlds::world(), turn in 0..5_usize) {
        let hub = Hub::read(&world.documents).unwrap();
        let mut turned = world.spec.clone();
        let configurations = turned["prioritizerPolicy"]["configurations"].as_array_mut().unwrap();
        let len = configurations.len().max(1);
        configurations.rotate_left(turn % len);
        if turn % 2 == 1 {
            configurations.reverse();
        }
        let (first, second) = (run(&hub, world.spec), run(&hub, turned));
        prop_assert_eq!(first.scores, second.scores);
        prop_assert_eq!(first.selected, second.selected);
    }

    #[test]
    fn pages_are_small_and_disjoint_and_hold_every_pick(
        clusters in 0..350_usize,
        number in prop::option::of(0..400_usize),
        length in prop_oneof![(1..200_usize).prop_map(|n| json!(n)), (1..=100_usize).prop_map(|p| json!(format!("{p}%")))],
        groups in 0..3_usize,
    ) {
        let cloud = |n: usize| json!({"cloud": format!("g{}", n * 7 % 5)});
        let hub = hub((0..clusters).map(|n| member(&format!("c{n}"), cloud(n), json!({}))));
        let group = |n: usize| json!({"groupName": format!("g{n}"), "groupClusterSelector": {"labelSelector": {"matchLabels": {"cloud": format!("g{n}")}}}});
        let spec = json!({"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": length,
            "decisionGroups": (0..groups).map(group).collect::<Vec<_>>()}}});
        let mut spec = spec;
        if let Some(number) = number {
            spec["numberOfClusters"] = json!(number);
        }
        let outcome = run(&hub, spec);
        let pages = outcome.pages(&key(), &hub).unwrap();
        let mut seen = BTreeSet::new();
        let mut last = 0;
        for (position, page) in pages.iter().enumerate() {
            prop_assert!(page.clusters.len() <= model::api::ocm::PAGE_CLUSTERS_MAX && page.clusters.is_sorted());
            prop_assert_eq!(&page.name, &format!("demo-decision-{}", position + 1));
            let index: usize = page.labels[GROUP_INDEX_LABEL].parse().unwrap();
            prop_assert!(index == last || index == last + 1);
            last = index;
            for cluster in &page.clusters {
                prop_assert!(seen.insert(cluster.to_string()), "{} twice", cluster);
            }
        }
        prop_assert!(!pages.is_empty() && pages[0].labels[GROUP_INDEX_LABEL] == "0");
        prop_assert_eq!(seen, picked(&hub, &outcome).into_iter().collect::<BTreeSet<_>>());
        let statuses = outcome.status(&key(), &[], now()).decision_groups.unwrap();
        let named: Vec<&String> = statuses.iter().flat_map(|group| &group.decisions).collect();
        prop_assert_eq!(named, pages.iter().map(|page| &page.name).collect::<Vec<_>>());
        prop_assert_eq!(statuses.iter().map(|group| group.cluster_count).sum::<usize>(), outcome.selected.count_ones(..));
    }

    /// With Steady 3, one resource of weight 1 and Balance off: whatever becomes of resources, who is there stays.
    #[test]
    fn holders_never_lose_to_resources(
        before in prop::collection::vec(0..50_u32, 1..12),
        after in prop::collection::vec(prop::option::weighted(0.8, 0..1000_u32), 20),
        number in 1..8_usize,
    ) {
        let amounts: Vec<(String, String)> =
            before.iter().enumerate().map(|(n, amount)| (format!("c{n:02}"), amount.to_string())).collect();
        let clusters: Vec<(&str, &str)> = amounts.iter().map(|(name, amount)| (&**name, &**amount)).collect();
        let spec = additive(
            i32::try_from(number).unwrap(),
            &[("Balance", 0), ("Steady", 3), ("ResourceAllocatableMemory", 1)],
        );
        let first = with_memory(&clusters);
        let holders = picked(&first, &run(&first, spec.clone()));
        // Newcomers sort before everybody else, and resources change or vanish.
        let mut later: BTreeMap<ClusterName, OcmMember> = BTreeMap::new();
        for (n, amount) in after.iter().enumerate() {
            let name = if n < before.len() { format!("c{n:02}") } else { format!("a{n:02}") };
            let (name, member) = match amount {
                Some(amount) => with_resource(&name, "memory", &amount.to_string()),
                None => (ClusterName::from(name.as_str()), OcmMember::default()),
            };
            later.insert(name, member);
        }
        let mut second = hub(later);
        second.set_decisions(&key(), holders.iter().map(String::as_str));
        let kept: BTreeSet<String> = picked(&second, &run(&second, spec)).into_iter().collect();
        prop_assert!(holders.iter().all(|holder| kept.contains(holder)), "{:?} became {:?}", holders, kept);
    }

    /// A cluster that no placement can bear is as if it were not there.
    #[test]
    fn a_cluster_that_fails_the_filters_changes_no_score(world in worlds::world(), memory in 0..1000_u32) {
        let hub = Hub::read(&world.documents).unwrap();
        let before = decided(&hub, &run(&hub, world.spec.clone()));
        let quantities = json!({"memory": format!("{memory}Gi"), "cpu": memory.to_string()});
        let labels = json!({SET_LABEL: "s1", "env": "a"});
        let taint = json!([{"key": "unheard-of", "value": "x", "effect": "NoSelect", "timeAdded": ago(1000)}]);
        let rest = json!({"spec": {"taints": taint}, "status": {"allocatable": quantities, "capacity": quantities}});
        let (name, member) = member("bb", labels, rest);
        let mut more = hub;
        more.set_cluster(&name, Some(member));
        // Who tolerates everything for ever bears this one, too.
        let tolerations = world.spec["tolerations"].as_array().unwrap().iter();
        prop_assume!(!tolerations.into_iter().any(|t| t.get("key").is_none() && t.get("tolerationSeconds").is_none()));
        prop_assert_eq!(decided(&more, &run(&more, world.spec)), before);
    }

    #[test]
    fn tolerations_end_exactly(since in 0..1_000_000_000_i64, seconds in 1..1_000_000_i64) {
        let added = now().checked_sub(jiff::SignedDuration::from_nanos(since)).unwrap();
        let taint = json!([{"key": "k", "effect": "NoSelect", "timeAdded": added.to_string()}]);
        let hub = hub([member("c1", json!({}), json!({"spec": {"taints": taint}}))]);
        let end = added.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap();
        let just_before = end.checked_sub(jiff::SignedDuration::from_nanos(1)).unwrap();
        let spec = json!({"tolerations": [{"operator": "Exists", "tolerationSeconds": seconds}]});
        prop_assert!(run_at(&hub, spec.clone(), just_before).selected.contains(0));
        prop_assert!(!run_at(&hub, spec, end).selected.contains(0));
    }
}

/// What a client receives from the hub.
#[derive(Clone, Debug)]
enum News {
    Cluster(&'static str, Option<Value>),
    Set(&'static str, bool),
    Binding(&'static str, &'static str, bool),
    Score(&'static str, Option<Value>),
}

fn news() -> impl Strategy<Value = News> {
    let name = || select(NAMES.to_vec());
    let set = || select(vec!["s1", "s2", "everything", "a-env"]);
    let cluster = name().prop_flat_map(|name| {
        prop::option::weighted(0.9, worlds::cluster(name)).prop_map(move |document| News::Cluster(name, document))
    });
    let score = name().prop_flat_map(|name| {
        prop::option::weighted(0.9, worlds::scores(name)).prop_map(move |document| News::Score(name, document))
    });
    prop_oneof![
        5 => cluster,
        1 => (set(), any::<bool>()).prop_map(|(set, there)| News::Set(set, there)),
        1 => (select(vec!["ns1", "ns2"]), set(), any::<bool>()).prop_map(|(ns, set, there)| News::Binding(ns, set, there)),
        2 => score,
    ]
}

/// Writes news into the documents, and tells the hub.
fn apply(documents: &mut Vec<Value>, hub: &mut Hub, news: &News) -> Change {
    let (kind, namespace, name, document) = match news {
        News::Cluster(name, document) => ("ManagedCluster", None, *name, document.clone()),
        News::Set(name, there) => ("ManagedClusterSet", None, *name, there.then(|| worlds::set(name))),
        News::Binding(namespace, set, there) => {
            ("ManagedClusterSetBinding", Some(*namespace), *set, there.then(|| worlds::binding(namespace, set)))
        }
        News::Score(cluster, document) => ("AddOnPlacementScore", Some(*cluster), "demo", document.clone()),
    };
    documents.retain(|document| {
        let metadata = &document["metadata"];
        document["kind"] != kind || metadata["name"] != name || metadata["namespace"].as_str() != namespace
    });
    documents.extend(document.clone());
    match news {
        News::Cluster(name, document) => {
            let member = document.as_ref().map(|document| OcmMember::read(document).unwrap().1);
            hub.set_cluster(&ClusterName::from(*name), member)
        }
        News::Set(name, _) => {
            hub.set_set(name, document.map(|set| serde_json::from_value(set["spec"].clone()).unwrap()))
        }
        News::Binding(namespace, set, there) => hub.set_binding(namespace, set, *there),
        News::Score(cluster, _) => {
            let status = document.map(|score| serde_json::from_value(score["status"].clone()).unwrap());
            hub.set_score("demo", &ClusterName::from(*cluster), status)
        }
    }
}

/// Specs of every sort, some with an expression.
fn specs() -> impl Strategy<Value = Vec<Value>> {
    let expression = select(vec![
        "",
        "",
        "managedCluster.metadata.labels.env == 'a'",
        "managedCluster.scores('demo').exists(s, s.value > 0)",
        "managedCluster.scores('de' + 'mo').exists(s, s.name == 'two')",
        "managedCluster.scores('demo').size() == 0",
    ]);
    let spec = (worlds::spec(), expression).prop_map(|(mut spec, expression)| {
        if !expression.is_empty() {
            let predicate = json!({"requiredClusterSelector": {"celSelector": {"celExpressions": [expression]}}});
            spec["predicates"] = json!([predicate]);
        }
        spec
    });
    prop::collection::vec(spec, 1..4)
}

/// All that a placement says.
fn whole(hub: &Hub, key: &Key, policy: &OcmPolicy) -> (Decided, Vec<String>) {
    let on_misconfigured = OnMisconfigured::Withdraw;
    let outcome = schedule(&Request { key, policy, hub, now: now(), on_misconfigured }).unwrap();
    let said = [
        format!("{:?}", outcome.satisfied),
        format!("{:?}", outcome.misconfigured),
        format!("{:?}", outcome.warning),
        format!("{:?}", outcome.requeue_at),
    ];
    (decided(hub, &outcome), said.into())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// A placement that a change does not concern decides what it decided; and a hub that received changes one by one is
    /// the hub that is read again.
    #[test]
    fn whom_a_change_does_not_concern_decides_the_same(
        world in worlds::world(),
        specs in specs(),
        news in prop::collection::vec(news(), 1..6),
    ) {
        let mut documents = world.documents;
        let mut hub = Hub::read(&documents).unwrap();
        let mut readers = Readers::default();
        let placements: BTreeMap<Key, OcmPolicy> = specs
            .into_iter()
            .enumerate()
            .map(|(n, spec)| (Key::new(["ns1", "ns1", "ns2"][n], ["demo", "second", "third"][n]), policy(spec)))
            .collect();
        for (key, policy) in &placements {
            readers.set(key, Some(policy));
        }
        for news in news {
            let before: Vec<_> = placements.iter().map(|(key, policy)| whole(&hub, key, policy)).collect();
            let change = apply(&mut documents, &mut hub, &news);
            let affected = readers.affected(&hub, &change);
            let again = Hub::read(&documents).unwrap();
            for ((key, policy), before) in placements.iter().zip(before) {
                let after = whole(&hub, key, policy);
                prop_assert_eq!(&after, &whole(&again, key, policy), "{} after {:?}", key, news);
                if !affected.contains(key) {
                    prop_assert_eq!(&after, &before, "{} is not concerned by {:?}: {:?}", key, news, change);
                }
            }
        }
    }
}
