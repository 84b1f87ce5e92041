use proptest::prelude::*;

use super::*;
use model::records::ClusterRecord;
use testkit::trees::{BOUND, managed, member, ocm_placement, tree};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("an instant")
}

fn key(name: &str) -> Key {
    Key::new("ns", name)
}

fn names(keys: &BTreeSet<Key>) -> Vec<&str> {
    keys.iter().map(|key| key.name.as_str()).collect()
}

fn picked(ocm: &Ocm, name: &str) -> Vec<String> {
    ocm.record(&key(name)).into_iter().flat_map(|record| record.clusters()).map(ToString::to_string).collect()
}

/// What a member of git is known by: its document alone.
fn described(tree: &Tree, name: &str, taints: &[ManagedClusterTaint], now: Timestamp) -> Facts {
    Facts { taints: dated_taints(taints, &tree.clusters[name], now), ..Facts::default() }
}

const EAST: &str =
    "{numberOfClusters: 1, predicates: [{requiredClusterSelector: {labelSelector: {matchLabels: {zone: east}}}}]}";
const BY_CPU: &str = "{numberOfClusters: 1, prioritizerPolicy: {mode: Exact, configurations: \
    [{scoreCoordinate: {builtIn: ResourceAllocatableCPU}}]}}";

#[test]
fn only_who_reads_what_changed_decides_again() {
    let placements = [ocm_placement("by-cpu", BY_CPU), ocm_placement("east", EAST)].concat();
    let west = managed("west", "{zone: west}", "[]");
    let first = |east: &str, more: &str| {
        let files = [("b.yaml", BOUND), ("e.yaml", east), ("p.yaml", placements.as_str()), ("w.yaml", west.as_str())];
        tree(&files.into_iter().chain((!more.is_empty()).then_some(("x.yaml", more))).collect::<Vec<_>>())
    };
    let east = managed("east", "{zone: east}", "[]");
    let rows: [(&str, String, String, &[&str]); 6] = [
        ("nothing", east.clone(), String::new(), &[]),
        ("a label that one reads", managed("east", "{zone: north}", "[]"), String::new(), &["east"]),
        ("a label that nobody reads", managed("east", "{zone: east, tier: gold}", "[]"), String::new(), &[]),
        (
            "a taint",
            managed("east", "{zone: east}", "[{key: k, effect: NoSelect}]"),
            String::new(),
            &["by-cpu", "east"],
        ),
        ("another Placement", east.clone(), ocm_placement("new", "{}"), &["new"]),
        ("a member that is no ManagedCluster", east.clone(), member("plain", "labels: {zone: east}"), &[]),
    ];
    for (name, changed, more, wanted) in rows {
        let mut ocm = Ocm::default();
        let all = ocm.follow(&first(&east, ""));
        assert_eq!(names(&all), ["by-cpu", "east"], "{name}");
        ocm.decide_each(all, at(0));
        assert_eq!(picked(&ocm, "east"), ["east"], "{name}");
        assert_eq!(names(&ocm.follow(&first(&changed, &more))), wanted, "{name}");
    }
}

#[test]
fn a_member_says_what_changes_whom() {
    let files =
        [BOUND, &managed("a", "{}", "[]"), &ocm_placement("any", "{}"), &ocm_placement("by-cpu", BY_CPU)].concat();
    let mut ocm = Ocm::default();
    ocm.follow(&tree(&[("f.yaml", &files)]));
    let cpu = |cpu: &str| {
        let names = ["resources.kubernetes-fleet.io/allocatable-cpu", "resources.kubernetes-fleet.io/total-cpu"];
        Facts { properties: names.map(|name| (name.to_owned(), cpu.to_owned())).into(), ..Facts::default() }
    };
    let a = ClusterName::from("a");
    assert_eq!(names(&ocm.observe(&a, Facts::default())), Vec::<&str>::new(), "nothing is known, and nothing was");
    assert_eq!(names(&ocm.observe(&a, cpu("4"))), ["by-cpu"]);
    assert_eq!(names(&ocm.observe(&a, cpu("4"))), Vec::<&str>::new());
    let silent = Facts { silent_since: Some(at(0)), ..cpu("4") };
    assert_eq!(names(&ocm.observe(&a, silent)), ["any", "by-cpu"], "silence is a taint");
    assert_eq!(names(&ocm.observe(&ClusterName::from("nobody"), cpu("4"))), Vec::<&str>::new());
}

#[test]
fn silence_takes_nothing_away_and_lets_nothing_in() {
    let files = [BOUND, &managed("a", "{}", "[]"), &ocm_placement("old", "{}")].concat();
    let mut ocm = Ocm::default();
    let all = ocm.follow(&tree(&[("f.yaml", &files)]));
    ocm.decide_each(all, at(0));
    let silent = Facts { silent_since: Some(at(0)), ..Facts::default() };
    let concerned = ocm.observe(&ClusterName::from("a"), silent);
    ocm.decide_each(concerned, at(400));
    let late = ocm_placement("young", "{}");
    let concerned = ocm.follow(&tree(&[("f.yaml", &files), ("g.yaml", &late)]));
    ocm.decide_each(concerned, at(500));
    assert_eq!((picked(&ocm, "old"), picked(&ocm, "young")), (vec!["a".to_owned()], Vec::new()));
}

#[test]
fn a_life_continues_from_the_records_of_the_one_before() {
    let files =
        [BOUND, &managed("a", "{}", "[]"), &managed("b", "{}", "[]"), &ocm_placement("p", "{numberOfClusters: 1}")];
    let files = files.concat();
    let before = tree(&[("f.yaml", &files)]);
    let mut ocm = Ocm::default();
    let all = ocm.follow(&before);
    ocm.decide_each(all, at(0));
    let records: Vec<OcmPlacementRecord> = ocm.records().map(|(_, record)| OcmPlacementRecord::clone(record)).collect();
    let gone = OcmPlacementRecord { name: "z-gone".to_owned(), ..records[0].clone() };
    let mut next = Ocm::restore(records.clone().into_iter().chain([gone]));
    let due = next.follow(&before);
    assert_eq!(names(&due), ["p", "z-gone"], "what is gone from git is decided too");
    let order: Vec<String> = next.in_order(due).iter().map(|key| key.name.clone()).collect();
    assert_eq!(order, ["z-gone", "p"], "what is gone weighs on nobody's balance");
    let removed = next.decide(&key("z-gone"), at(9));
    let events: Vec<&str> = removed.journal.iter().map(|entry| entry.event.as_str()).collect();
    assert_eq!((removed.record.is_none(), events), (true, vec!["PlacementRemoved"]));
    next.settle(removed);
    let decision = next.decide(&key("p"), at(9));
    assert_eq!((decision.record.as_ref(), decision.journal.len()), (Some(&records[0]), 0), "nothing is to be written");
}

#[test]
fn what_could_not_be_stored_is_as_before() {
    let files =
        [BOUND, &managed("a", "{}", "[]"), &managed("b", "{}", "[]"), &ocm_placement("p", "{numberOfClusters: 1}")];
    let files = files.concat();
    let other = ocm_placement("q", "{numberOfClusters: 1}");
    let mut ocm = Ocm::default();
    let all = ocm.follow(&tree(&[("f.yaml", &files), ("q.yaml", &other)]));
    ocm.decide_each(all, at(0));
    assert_eq!((picked(&ocm, "p"), picked(&ocm, "q")), (vec!["a".to_owned()], vec!["b".to_owned()]), "balanced");
    ocm.hold_again(&key("p"), None);
    ocm.hold_again(&key("q"), None);
    assert!(ocm.record(&key("p")).is_none());
    let decision = ocm.decide(&key("q"), at(0)).record.expect("git has it");
    assert_eq!(decision.clusters().collect::<Vec<_>>(), [&ClusterName::from("a")], "p counts for nothing");
}

#[test]
fn misconfigured_and_disabled_placements_keep_what_they_have() {
    let fleet = [BOUND, &managed("a", "{}", "[]")].concat();
    let rows = [
        ("misconfigured", ocm_placement("p", "{tolerations: [{operator: Equal, value: v}]}"), true),
        (
            "disabled",
            ocm_placement("p", "{numberOfClusters: 0}").replace(
                "name: p,",
                "name: p, annotations: {cluster.open-cluster-management.io/experimental-scheduling-disable: 'true'},",
            ),
            false,
        ),
    ];
    for (name, changed, says_so) in rows {
        let mut ocm = Ocm::default();
        let all = ocm.follow(&tree(&[("f.yaml", &fleet), ("p.yaml", &ocm_placement("p", "{}"))]));
        ocm.decide_each(all, at(0));
        let due = ocm.follow(&tree(&[("f.yaml", &fleet), ("p.yaml", &changed)]));
        assert_eq!(names(&due), ["p"], "{name}");
        ocm.decide_each(due, at(1));
        assert_eq!(picked(&ocm, "p"), ["a"], "{name}");
        let record = ocm.record(&key("p")).expect("it was decided");
        assert_eq!((record.generation, record.conditions[0].message.contains("operator")), (2, says_so), "{name}");
    }
}

#[test]
fn clusters_come_and_go() {
    let placement = ocm_placement("p", "{}");
    let fleet = |names: &[&str]| {
        let clusters: String = names.iter().map(|name| managed(name, "{}", "[]")).collect();
        tree(&[("b.yaml", BOUND), ("c.yaml", &clusters), ("p.yaml", &placement)])
    };
    let mut ocm = Ocm::default();
    for names in [&["a", "b"][..], &["b"], &["b", "c"], &[], &["a"]] {
        let due = ocm.follow(&fleet(names));
        ocm.decide_each(due, at(0));
        assert_eq!(picked(&ocm, "p"), names, "{names:?}");
    }
}

#[test]
fn a_toleration_counts_from_when_a_taint_was_first_seen() {
    let spec = "{tolerations: [{key: k, operator: Exists, tolerationSeconds: 60}]}";
    let commit = |taints: &str| {
        let text = [BOUND, &managed("a", "{}", taints), &ocm_placement("p", spec)].concat();
        tree(&[("f.yaml", &text)])
    };
    let a = ClusterName::from("a");
    let tainted = commit("[{key: k, effect: NoSelect}]");
    let mut record = ClusterRecord::new(a.clone(), at(0));
    record.managed_taints = dated_taints(&[], &tainted.clusters["a"], at(100));

    let mut ocm = Ocm::default();
    let mut due = ocm.follow(&tainted);
    due.extend(ocm.observe(&a, described(&tainted, "a", &record.managed_taints, at(100))));
    let decision = ocm.decide(&key("p"), at(100));
    assert_eq!(decision.wake_at, Some(at(160)));
    ocm.settle(decision);
    assert_eq!(picked(&ocm, "p"), ["a"]);

    let text = serde_json::to_string(&record).expect("a record is JSON");
    let record: ClusterRecord = serde_json::from_str(&text).expect("a record is read back");
    let mut later = Ocm::restore(ocm.records().map(|(_, record)| OcmPlacementRecord::clone(record)));
    later.follow(&tainted);
    later.observe(&a, described(&tainted, "a", &record.managed_taints, at(150)));
    assert_eq!(later.decide(&key("p"), at(150)).wake_at, Some(at(160)), "a restart is no new taint");
    let ended = later.decide(&key("p"), at(160)).record.expect("git has it");
    assert_eq!(ended.clusters().count(), 0, "its time is over");
}

#[test]
fn when_a_taint_counts_as_new() {
    let seen = |taints: &str, before: &[ManagedClusterTaint], now: i64| {
        let tree = tree(&[("f.yaml", &managed("a", "{}", taints))]);
        dated_taints(before, &tree.clusters["a"], at(now))
    };
    let before = seen("[{key: k, value: v, effect: NoSelect}]", &[], 10);
    let rows = [
        ("the same", "[{key: k, value: v, effect: NoSelect}]", at(10)),
        ("another value", "[{key: k, value: w, effect: NoSelect}]", at(99)),
        ("another effect", "[{key: k, value: v, effect: NoSelectIfNew}]", at(99)),
        ("git says when", "[{key: k, value: v, effect: NoSelect, timeAdded: '1970-01-01T00:00:05Z'}]", at(5)),
    ];
    for (name, taints, wanted) in rows {
        assert_eq!(seen(taints, &before, 99)[0].time_added, Some(wanted), "{name}");
    }
    let gone = seen("[]", &before, 50);
    assert_eq!(seen("[{key: k, value: v, effect: NoSelect}]", &gone, 99)[0].time_added, Some(at(99)), "it came back");
}

/// Something that happens to one of three clusters.
#[derive(Clone, Debug)]
enum Happens {
    Labelled(usize, bool),
    Tainted(usize, bool),
    Leaves(usize, bool),
    Cpu(usize, u8),
    Silent(usize, bool),
}

fn happenings() -> impl Strategy<Value = Happens> {
    let cluster = 0..3_usize;
    prop_oneof![
        (cluster.clone(), any::<bool>()).prop_map(|(n, yes)| Happens::Labelled(n, yes)),
        (cluster.clone(), any::<bool>()).prop_map(|(n, yes)| Happens::Tainted(n, yes)),
        (cluster.clone(), any::<bool>()).prop_map(|(n, yes)| Happens::Leaves(n, yes)),
        (cluster.clone(), 0..4_u8).prop_map(|(n, cpu)| Happens::Cpu(n, cpu)),
        (cluster, any::<bool>()).prop_map(|(n, yes)| Happens::Silent(n, yes)),
    ]
}

/// A cluster as it stands in the simulation.
#[derive(Clone, Copy, Default)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each drawn by the simulation")]
struct Standing {
    east: bool,
    tainted: bool,
    gone: bool,
    cpu: u8,
    silent: bool,
}

fn simulated(standings: &[Standing; 3]) -> Arc<Tree> {
    let mut files = vec![
        ("b.yaml".to_owned(), BOUND.to_owned()),
        ("p.yaml".to_owned(), ocm_placement("any", "{prioritizerPolicy: {mode: Exact}}")),
        ("q.yaml".to_owned(), ocm_placement("by-cpu", BY_CPU)),
        (
            "r.yaml".to_owned(),
            ocm_placement("east", &EAST.replace("{number", "{prioritizerPolicy: {mode: Exact}, number")),
        ),
    ];
    for (n, standing) in standings.iter().enumerate().filter(|(_, standing)| !standing.gone) {
        let labels = if standing.east { "{zone: east}" } else { "{}" };
        let taints = if standing.tainted { "[{key: k, effect: NoSelect}]" } else { "[]" };
        files.push((format!("c{n}.yaml"), managed(&format!("c{n}"), labels, taints)));
    }
    tree(&files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>())
}

fn told(standing: Standing) -> Facts {
    let names = ["resources.kubernetes-fleet.io/allocatable-cpu", "resources.kubernetes-fleet.io/total-cpu"];
    Facts {
        properties: names.map(|name| (name.to_owned(), standing.cpu.to_string())).into(),
        silent_since: standing.silent.then(|| at(0)),
        ..Facts::default()
    }
}

proptest! {
    // Each case parses a tree for each event.
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whoever is not due would decide what it has.
    #[test]
    fn who_is_not_due_has_what_it_would_decide(events in proptest::collection::vec(happenings(), 1..25)) {
        let mut standings = [Standing::default(); 3];
        let mut ocm = Ocm::default();
        for event in [Happens::Cpu(0, 0)].into_iter().chain(events) {
            match event {
                Happens::Labelled(n, yes) => standings[n].east = yes,
                Happens::Tainted(n, yes) => standings[n].tainted = yes,
                Happens::Leaves(n, yes) => standings[n].gone = yes,
                Happens::Cpu(n, cpu) => standings[n].cpu = cpu,
                Happens::Silent(n, yes) => standings[n].silent = yes,
            }
            let mut due = ocm.follow(&simulated(&standings));
            for (n, standing) in standings.iter().enumerate() {
                due.extend(ocm.observe(&ClusterName::new(format!("c{n}")), told(*standing)));
            }
            ocm.decide_each(due, at(0));
            for name in ["any", "by-cpu", "east"] {
                let again = ocm.decide(&key(name), at(0)).record;
                prop_assert_eq!(again.as_ref(), ocm.record(&key(name)).map(AsRef::as_ref), "{}", name);
            }
        }
    }
}

/// A cluster with this much memory; a Placement of two by memory as well.
fn with_memory(name: &str, memory: &str) -> String {
    let amounts = format!("{{allocatable: {{memory: {memory}}}, capacity: {{memory: {memory}}}}}");
    managed(name, "{}", "[]").replace("\n---\n", &format!("\nstatus: {amounts}\n---\n"))
}

/// Source: OCM's guide, its first example. The third step adds a cluster that changes no decision.
#[test]
fn w8_events_in_the_words_of_the_original() {
    const MEMORY: &str = "{numberOfClusters: 2, prioritizerPolicy: {configurations: \
        [{scoreCoordinate: {builtIn: ResourceAllocatableMemory}}]}}";
    let three = ["60M", "80M", "100M"].iter().zip(1..).map(|(memory, n)| with_memory(&format!("cluster{n}"), memory));
    let base = [BOUND, &ocm_placement("demo", MEMORY), &three.collect::<String>()].concat();
    let mut ocm = Ocm::default();
    let mut said = |more: &str, second: i64| {
        ocm.follow(&tree(&[("f.yaml", &base), ("x.yaml", more)]));
        let decision = ocm.decide(&key("demo"), at(second));
        let text = |entry: &JournalEntry| {
            assert_eq!(entry.facts["ocmPlacement"], "ns/demo");
            assert!(entry.event.documents(&entry.facts), "{entry:?}");
            format!("{} {}", entry.event.as_str(), entry.facts["message"].as_str().unwrap_or_default())
        };
        let events: Vec<String> = decision.journal.iter().map(text).collect();
        ocm.settle(decision);
        let explanation = ocm.explain(&key("demo"), at(second)).expect("it can be evaluated");
        let decided = explanation.clusters.into_iter();
        let decided = decided.filter_map(|c| Some(format!("{} {}", c.cluster_name, c.decided_score?)));
        (events, decided.collect::<BTreeSet<String>>().into_iter().collect::<Vec<String>>())
    };
    let created = "DecisionCreate Decision demo-decision-1 is created with placement demo in namespace ns";
    let updated = "DecisionUpdate Decision demo-decision-1 is updated with placement demo in namespace ns";
    let scored = "ScoreUpdate cluster1:0 cluster2:100 cluster3:200 ";
    let decided = ["cluster2 100", "cluster3 200"].map(str::to_owned).to_vec();
    assert_eq!(said("", 0), ([created, updated, scored].map(str::to_owned).to_vec(), decided.clone()));
    assert_eq!(said(&with_memory("cluster4", "100M"), 1), (Vec::new(), decided));
    let scored = "ScoreUpdate cluster1:0 cluster2:145 cluster3:189 cluster4:200 ";
    let (events, _) = said(&with_memory("cluster4", "150M"), 2);
    assert_eq!(events, [updated, scored]);
}

/// Source: OCM, whose events of a decision made with expired scores are warnings.
#[test]
fn expired_scores_warn_once() {
    const ADD_ON: &str = "{numberOfClusters: 1, prioritizerPolicy: {mode: Exact, configurations: \
        [{scoreCoordinate: {type: AddOn, addOn: {resourceName: s, scoreName: x}}}]}}";
    let score = "apiVersion: cluster.open-cluster-management.io/v1alpha1\nkind: AddOnPlacementScore\n\
        metadata: {name: s, namespace: a}\nstatus: {validUntil: '1970-01-01T00:00:10Z', scores: [{name: x, value: 9}]}\n";
    let files = [BOUND, &managed("a", "{}", "[]"), &ocm_placement("p", ADD_ON), score].concat();
    let mut ocm = Ocm::default();
    let kinds = |ocm: &mut Ocm, second: i64| {
        ocm.follow(&tree(&[("f.yaml", &files)]));
        let decision = ocm.decide(&key("p"), at(second));
        let kind = |entry: &JournalEntry| (entry.event.as_str().to_owned(), entry.is_warning());
        let kinds: Vec<(String, bool)> = decision.journal.iter().map(kind).collect();
        ocm.settle(decision);
        kinds
    };
    let said = |events: &[(&str, bool)]| -> Vec<(String, bool)> {
        events.iter().map(|(kind, warning)| ((*kind).to_owned(), *warning)).collect()
    };
    let first = [("DecisionCreate", false), ("DecisionUpdate", false), ("ScoreUpdate", false)];
    assert_eq!(kinds(&mut ocm, 0), said(&first));
    assert_eq!(kinds(&mut ocm, 11), said(&[("ScoresExpired", true)]), "nothing moves, and somebody is to know");
    assert_eq!(kinds(&mut ocm, 12), said(&[]));
    let late = [("DecisionCreate", false), ("DecisionUpdate", true), ("ScoreUpdate", false)];
    assert_eq!(kinds(&mut Ocm::default(), 11), said(&late));
}
