//! The checker can fail: each promise, broken by a forged fact, is caught.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::api::placement::ApplyStrategyType;
use model::id::{ClusterName, CommitId, ObjectKey, PlacementKey};
use model::work::WorkOrder;
use serde_json::{Value, json};
use simulated::{Fact, MachineFact};

use super::check::{Checker, Want, Who, Wish};
use super::runs::Word;

const AT: &str = "2026-01-01T00:00:00Z";

pub(super) fn order(cluster: &str, generation: i64) -> Arc<WorkOrder> {
    Arc::new(WorkOrder {
        placement: PlacementKey::cluster_scoped("p"),
        cluster: cluster.into(),
        generation,
        source: String::new().into(),
        snapshot: 0,
        commit: "1".into(),
        digest: "d".into(),
        strategy: model::api::placement::ApplyStrategy::default(),
        manifests: Arc::from([]),
        held: BTreeSet::new(),
        prune: BTreeSet::new(),
        kept: model::records::Kept::default(),
        user: None,
        tenant: None,
        remove: false,
        abandon: false,
    })
}

pub(super) fn object() -> ObjectKey {
    ObjectKey { group: "apps".into(), kind: "Deployment".into(), namespace: "n".into(), name: "o".into() }
}

pub(super) fn kept(key: &str, value: &Value) -> Fact {
    Fact::Kept { key: key.to_owned(), value: Some(value.to_string().into_bytes().into()) }
}

pub(super) fn binding(cluster: &str, generation: i64, deleting: bool) -> Fact {
    let value = json!({
        "name": cluster, "placement": "p", "cluster": cluster, "state": "Bound", "policyIndex": 0, "snapshot": 0,
        "generation": generation, "decision": {"clusterName": cluster, "selected": true, "reason": ""}, "deleting": deleting,
    });
    kept(&format!("binding/p/{cluster}"), &value)
}

/// The record of a cluster that is not available with snapshot 0.
pub(super) fn broken_binding(cluster: &str, generation: i64) -> Fact {
    let condition = json!({"type": "Available", "status": "False", "reason": "NotAllWorkAreAvailable", "message": "",
        "observedGeneration": generation, "lastTransitionTime": AT});
    let value = json!({
        "name": cluster, "placement": "p", "cluster": cluster, "state": "Bound", "policyIndex": 0, "snapshot": 0,
        "generation": generation, "decision": {"clusterName": cluster, "selected": true, "reason": ""}, "deleting": false,
        "conditions": [condition],
    });
    kept(&format!("binding/p/{cluster}"), &value)
}

fn placement(generation: i64, gate: &Value) -> Fact {
    let value = json!({
        "key": "p", "spec": {"resourceSelectors": [], "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}},
        "annotations": {}, "generation": generation, "createdAt": "2026-01-01T00:00:00Z", "deletionGate": gate,
    });
    kept("placement/p", &value)
}

/// The record of a placement that is gone from git.
pub(super) fn removed(abandons: bool) -> Fact {
    let policy = if abandons { "Abandon" } else { "Delete" };
    let strategy = json!({"type": "RollingUpdate", "deleteStrategy": {"propagationPolicy": policy}});
    let value = json!({
        "key": "p", "spec": {"resourceSelectors": [], "strategy": strategy}, "annotations": {},
        "generation": 1, "createdAt": AT, "removed": true,
    });
    kept("placement/p", &value)
}

fn snapshot(index: u64, hash: &str) -> Fact {
    let value = json!({
        "placement": "p", "index": index, "commit": "1", "hash": hash, "resources": [], "parts": [],
        "createdAt": "2026-01-01T00:00:00Z",
    });
    kept(&format!("snapshot/p/{index}"), &value)
}

/// A run of one stage, as `change` makes it.
fn one_stage(change: impl FnOnce(&mut Value)) -> Fact {
    let cluster = |name: &str| json!({"name": name, "phase": "Succeeded", "since": AT, "startedAt": AT});
    let stage = json!({
        "name": "first", "maxConcurrency": 1, "phase": "Succeeded", "since": AT, "digest": "g", "after": [],
        "clusters": [cluster("a"), cluster("b")],
    });
    let mut value = json!({
        "name": "r", "placement": "p", "cause": {"type": "snapshot"}, "strategy": "s", "generation": 1, "createdAt": AT,
        "sequence": 0, "phase": "Updating", "since": AT, "stages": [stage], "wantedSnapshot": 0,
    });
    change(&mut value);
    kept("run/p/r", &value)
}

/// The same, frozen at snapshot 0 and with a cluster in a phase.
pub(super) fn frozen(phase: &str) -> Fact {
    with_clusters(json!([{"name": "a", "phase": phase, "since": AT, "startedAt": AT}]))
}

fn with_clusters(clusters: Value) -> Fact {
    one_stage(|run| {
        let strategy = json!({"stages": []});
        run["frozen"] = json!({
            "snapshot": 0, "hash": "x", "policy": 0, "policyClusters": -1, "applyStrategy": {}, "strategy": strategy, "at": AT,
        });
        run["stages"][0]["phase"] = json!("Updating");
        run["stages"][0]["clusters"] = clusters;
    })
}

/// The same with a task after the stage.
fn with_task(task: &Value) -> Fact {
    one_stage(|run| run["stages"][0]["after"] = json!([task]))
}

fn approval(by: &str) -> Value {
    json!({"name": by, "surface": "Api", "at": AT, "digest": "g"})
}

/// A placement's record with something in it beside; `External` where nothing else is said.
fn said(field: &str, value: &Value) -> Fact {
    let mut record = json!({
        "key": "p", "spec": {"resourceSelectors": [], "strategy": {"type": "External"}}, "annotations": {}, "generation": 1,
        "createdAt": AT,
    });
    record[field] = value.clone();
    kept("placement/p", &record)
}

/// The record of a placement that staged runs move.
pub(super) fn external() -> Fact {
    said("removed", &json!(false))
}

/// A snapshot of one object.
pub(super) fn of_one_object() -> Fact {
    of_one_object_at(0)
}

/// The same of another index.
pub(super) fn of_one_object_at(index: u64) -> Fact {
    let id = json!({"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "n", "name": "o"});
    let mut resource = id;
    resource["digest"] = json!("d");
    resource["origin"] = json!({"path": "f.yaml", "line": 1, "blob": "b", "ordinal": 0});
    let value = json!({
        "placement": "p", "index": index, "commit": "3", "hash": "x", "resources": [resource], "parts": [1], "createdAt": AT,
    });
    kept(&format!("snapshot/p/{index:020}"), &value)
}

/// A run of two stages with a gate after the first.
fn run(gate_done: bool, second_begun: bool) -> Fact {
    let at = AT;
    let cluster = |name: &str, begun: bool| {
        let phase = if begun { "Succeeded" } else { "Pending" };
        let mut cluster = json!({"name": name, "phase": phase, "since": at});
        if begun {
            cluster["startedAt"] = json!(at);
        }
        cluster
    };
    let mut task = json!({"type": "Approval"});
    if gate_done {
        task["doneAt"] = json!(at);
    }
    let stage = |name: &str, phase: &str, after: Value, clusters: Value| json!({"name": name, "maxConcurrency": 1, "phase": phase, "since": at, "digest": name, "after": after, "clusters": clusters});
    let first = stage("first", "Succeeded", json!([task]), json!([cluster("a", true)]));
    let second = stage("second", "Updating", json!([]), json!([cluster("b", second_begun)]));
    let value = json!({
        "name": "r", "placement": "p", "cause": {"type": "snapshot"}, "strategy": "s", "generation": 1, "createdAt": at,
        "sequence": 0, "phase": "Updating", "since": at, "stages": [first, second],
    });
    kept("run/p/r", &value)
}

/// The record of a cluster that answers.
pub(super) fn answers(cluster: &str) -> Fact {
    let value = json!({"name": cluster, "labels": {}, "kind": "Live", "online": true, "since": AT, "left": false});
    kept(&format!("cluster/{cluster}"), &value)
}

pub(super) fn applied(cluster: &str, available: bool) -> Fact {
    Fact::Applied { order: order(cluster, 1), object: object(), digest: "d".into(), available, was_foreign: false }
}

/// A placement writes the object on `a`.
fn applied_by(placement: &str) -> Fact {
    let placement = PlacementKey::cluster_scoped(placement);
    let order = Arc::new(WorkOrder { placement, ..WorkOrder::clone(&order("a", 1)) });
    Fact::Applied { order, object: object(), digest: "d".into(), available: true, was_foreign: false }
}

fn whole(cluster: &str) -> Vec<Fact> {
    vec![
        binding(cluster, 1, false),
        applied(cluster, true),
        Fact::Inventory { order: order(cluster, 1), holds: Some(0) },
    ]
}

#[allow(clippy::field_reassign_with_default, reason = "the other fields are its own")]
pub(super) fn checker() -> Checker {
    let clusters: BTreeSet<ClusterName> = ["a".into(), "b".into()].into();
    let want = Want { who: Who::Exactly(clusters.clone()), ..Want::default() };
    let placements = BTreeMap::from([(PlacementKey::cluster_scoped("p"), want)]);
    let (labels, suspended) = (BTreeMap::new(), BTreeSet::new());
    let wish = Wish { clusters, labels, suspended, placements, is_good: true, number: 1 };
    let refused = Wish { is_good: false, number: 2, ..wish.clone() };
    let mut other = Wish { number: 3, ..wish.clone() };
    let one =
        Want { objects: [(object(), "d".into())].into(), who: Who::Exactly(other.clusters.clone()), ..Want::default() };
    other.placements.insert(PlacementKey::cluster_scoped("p"), one);
    let wishes = [(CommitId::from("1"), wish), (CommitId::from("2"), refused), (CommitId::from("3"), other)];
    let mut checker = Checker::default();
    checker.wishes = wishes.into();
    checker.now = "2026-01-02T00:00:00Z".parse().unwrap();
    checker.clock = AT.parse().unwrap();
    checker.words = vec![Word { person: "ann".to_owned(), digest: "g".into(), at: AT.parse().unwrap() }];
    checker
}

/// A checker that saw a commit with one object come to rest on two clusters.
pub(super) fn at_rest() -> Checker {
    let mut checker = checker();
    let facts = [
        Fact::Accepted("3".into()),
        placement(1, &Value::Null),
        of_one_object(),
        binding("a", 1, false),
        binding("b", 1, false),
    ];
    facts.iter().try_for_each(|fact| checker.see(fact)).unwrap();
    checker
}

/// What is forged, the facts, and how the verdict begins; none is no complaint.
pub(super) type Row = (&'static str, Vec<Fact>, Option<&'static str>);

/// Promises of runs, gates, words and reports.
fn of_runs() -> Vec<Row> {
    let sent = Fact::Sent { order: order("a", 1), connection: (1, 1) };
    let other = Fact::Sent { order: order("a", 1), connection: (1, 2) };
    let approved =
        |by: &str, at: &str| json!({"type": "Approval", "askedAt": AT, "doneAt": at, "approvals": [approval(by)]});
    let waited = |at: &str| json!({"type": "TimedWait", "wait": {"secs": 30, "nanos": 0}, "askedAt": AT, "doneAt": at});
    let phases = |stage: &'static str, cluster: &'static str| {
        one_stage(move |run| {
            run["stages"][0]["phase"] = json!(stage);
            for at in 0..2 {
                run["stages"][0]["clusters"][at]["phase"] = json!(cluster);
            }
        })
    };
    let held = json!({"index": 0, "hash": "x", "why": "", "since": AT});
    let pause = said("paused", &json!({"by": "ann", "at": AT}));
    let nothing = said("removed", &json!(false));
    let moved = || binding("a", 1, false);
    let half = vec![one_stage(|_| ()), moved(), Fact::Began];
    let gone = |key: &str| Fact::Kept { key: key.to_owned(), value: None };
    let mut only_reports = WorkOrder::clone(&order("a", 1));
    only_reports.strategy.type_ = ApplyStrategyType::ReportDiff;
    let reported = Fact::Applied {
        order: Arc::new(only_reports),
        object: object(),
        digest: "d".into(),
        available: true,
        was_foreign: false,
    };
    let Fact::Kept { value: unsaid, .. } = binding("a", 1, false) else { unreachable!() };
    vec![
        ("a stage in its turn", vec![run(false, false)], None),
        ("a stage before its time", vec![run(false, true)], Some("2:")),
        ("a gate nobody opened", vec![run(true, true)], Some("3:")),
        ("as many on their way as may be", vec![frozen("Updating")], None),
        ("two on their way where one may be", vec![phases("Updating", "Updating")], Some("1:")),
        ("a stage that is over", vec![phases("Succeeded", "Succeeded")], None),
        ("a stage that is over with clusters left", vec![phases("Succeeded", "Pending")], Some("2:")),
        ("a wait", vec![with_task(&waited("2026-01-01T00:00:30Z"))], None),
        ("a wait that was cut short", vec![with_task(&waited("2026-01-01T00:00:29Z"))], Some("2:")),
        (
            "d15: a wait that a clock cut short",
            vec![
                with_task(&json!({"type": "TimedWait", "wait": {"secs": 30, "nanos": 0}, "askedAt": AT})),
                with_task(&waited("2026-01-01T00:00:30Z")),
            ],
            Some("2:"),
        ),
        ("a gate that a person opened", vec![with_task(&approved("ann", AT))], None),
        ("a gate that a stranger opened", vec![with_task(&approved("eve", AT))], Some("3:")),
        ("a gate that who pushed the change opened", vec![with_task(&approved("dan", AT))], Some("3:")),
        ("a gate opened by a word too old", vec![with_task(&approved("ann", "2026-02-01T00:00:00Z"))], Some("3:")),
        (
            "an approval that is lost",
            vec![
                with_task(&json!({"type": "Approval", "askedAt": AT, "approvals": [approval("ann")]})),
                with_task(&json!({"type": "Approval", "askedAt": AT})),
            ],
            Some("7:"),
        ),
        (
            "a gate that closes again",
            vec![
                with_task(&approved("ann", AT)),
                with_task(&json!({"type": "Approval", "approvals": [approval("ann")]})),
            ],
            Some("7:"),
        ),
        ("a pause that is lost", vec![pause, nothing.clone()], Some("7:")),
        (
            "a snapshot that is held no more",
            vec![of_one_object(), said("held", &held), nothing.clone(), Fact::Began],
            Some("7:"),
        ),
        (
            "a snapshot that is rolled out though it is held",
            vec![of_one_object(), said("held", &held), moved(), Fact::Began],
            Some("7:"),
        ),
        ("a cluster that a run moves", [vec![nothing.clone()], half].concat(), None),
        ("a cluster that no run moves", vec![nothing.clone(), moved(), Fact::Began], Some("2:")),
        ("a cluster that is done", vec![of_one_object(), applied("a", true), frozen("Succeeded")], None),
        ("a cluster that is done and holds nothing", vec![of_one_object(), frozen("Succeeded")], Some("2:")),
        ("a cluster that failed", vec![of_one_object(), applied("a", false), frozen("Failed")], None),
        ("a run that is forgotten", vec![nothing, frozen("Updating"), gone("run/p/r")], Some("7:")),
        ("two connections at once", vec![sent, other], Some("5:")),
        ("a write where only a report is wanted", vec![reported], Some("4:")),
        (
            "what was kept unsaid goes back",
            vec![
                binding("a", 2, false),
                Fact::Own(MachineFact::KeptUnsaid { key: "binding/p/a".to_owned(), value: unsaid }),
                Fact::Own(MachineFact::Crashed),
                Fact::Began,
            ],
            Some("7:"),
        ),
    ]
}

/// A failed cluster of a stage for one at a time is tried again after the next one was told to move, or before that.
fn of_turns() -> Vec<Row> {
    let cluster = |name: &str, phase: &str| {
        let begun = Some(AT).filter(|_| phase != "Pending");
        json!({"name": name, "phase": phase, "since": AT, "startedAt": begun})
    };
    let stage = |a: &str, b: &str| with_clusters(json!([cluster("a", a), cluster("b", b)]));
    let failed = || {
        let both = [whole("a"), whole("b")].concat();
        [both, vec![stage("Updating", "Pending"), applied("a", false), stage("Failed", "Pending")]].concat()
    };
    let told = || vec![binding("b", 2, false), stage("Failed", "Updating")];
    let told_later = || vec![binding("b", 2, false), stage("Pending", "Updating")];
    let gone = || Fact::Kept { key: "run/p/r".to_owned(), value: None };
    let for_two = || {
        let run = one_stage(|run| run["stages"][0]["maxConcurrency"] = json!(2));
        [whole("a"), whole("b"), vec![run, gone()]].concat()
    };
    vec![
        ("one failed, and the next is down", [failed(), told(), vec![applied("b", false)]].concat(), None),
        (
            "one that failed is to be tried again when the next is on its way",
            [failed(), told(), vec![stage("Pending", "Updating"), applied("b", false)]].concat(),
            None,
        ),
        (
            "the next begins though one that failed is to be tried again",
            [failed(), vec![stage("Pending", "Pending")], told_later(), vec![applied("b", false)]].concat(),
            Some("1: 2 of p"),
        ),
        (
            "one failed in a run that is gone, and the next is down",
            [failed(), told(), vec![gone(), applied("b", false)]].concat(),
            None,
        ),
        (
            "two are down that a run for two moved before it was gone",
            [for_two(), vec![applied("a", false), applied("b", false)]].concat(),
            None,
        ),
        (
            "one is down that was moved after its run was gone",
            [for_two(), vec![binding("a", 2, false), applied("a", false)]].concat(),
            Some("1: 1 of p"),
        ),
    ]
}

/// Records and payload.
fn of_records() -> Vec<Row> {
    vec![
        ("a record that goes back", vec![binding("a", 2, false), binding("a", 1, false)], Some("7:")),
        ("a snapshot that changes", vec![snapshot(0, "x"), snapshot(0, "y")], Some("7:")),
        ("an index that is used again", vec![snapshot(1, "x"), snapshot(0, "y")], Some("7:")),
        ("payload that was let go", vec![Fact::PayloadGone("1".into())], Some("7:")),
        ("a commit with errors", vec![Fact::Accepted("2".into())], Some("commit 2 has errors")),
    ]
}

fn of_orders() -> Vec<Row> {
    let sent = |generation| Fact::Sent { order: order("a", generation), connection: (1, 1) };
    vec![
        (
            "one order after the other",
            vec![sent(1), Fact::Answered { order: order("a", 1), connection: (1, 1) }, sent(2)],
            None,
        ),
        ("two orders at once", vec![sent(1), sent(2)], Some("5:")),
        ("an order that is stored", vec![binding("a", 1, false), Fact::Ordered(order("a", 1))], None),
        ("an order before its record", vec![binding("a", 1, false), Fact::Ordered(order("a", 2))], Some("7:")),
    ]
}

#[test]
fn every_broken_promise_is_caught() {
    let closed = || Value::Null;
    let open = json!({"digest": "g", "reason": "", "deletions": {}, "since": "2026-01-01T00:00:00Z", "openedAt": "2026-01-01T00:00:00Z"});
    let waiting = json!({"digest": "g", "reason": "", "deletions": {"a": [object()]}, "since": "2026-01-01T00:00:00Z"});
    let pruning = |prune: &[ObjectKey], remove: bool| {
        let prune = prune.iter().cloned().collect();
        Arc::new(WorkOrder { prune, remove, ..WorkOrder::clone(&order("a", 1)) })
    };
    let precious = || ObjectKey { group: "".into(), kind: "Namespace".into(), ..object() };
    let undecided = Fact::Deleted {
        order: order("a", 1),
        object: object(),
        holder: Some(PlacementKey::cluster_scoped("p")),
        is_shared: false,
    };
    let deleted = |holder: Option<&str>| Fact::Deleted {
        order: pruning(&[object()], false),
        object: object(),
        holder: holder.map(PlacementKey::cluster_scoped),
        is_shared: false,
    };
    let unnamed = order("a", 1);
    let held_back =
        Arc::new(WorkOrder { held: [object()].into(), prune: [object()].into(), ..WorkOrder::clone(&unnamed) });
    let ordered = |order: &Arc<WorkOrder>| Fact::Ordered(Arc::clone(order));
    let gone = |order: &Arc<WorkOrder>| Fact::Deleted {
        order: Arc::clone(order),
        object: object(),
        holder: Some(PlacementKey::cluster_scoped("p")),
        is_shared: false,
    };
    let complete = || Fact::Inventory { order: order("a", 1), holds: Some(0) };
    let both = || [vec![placement(1, &closed())], whole("a"), whole("b")].concat();
    let rows: Vec<Row> = vec![
        ("one is down", [both(), vec![applied("a", false)]].concat(), None),
        ("two are down", [both(), vec![applied("a", false), applied("b", false)]].concat(), Some("1:")),
        (
            "two are down, and one of them with what its order does not have any more",
            [both(), vec![applied("a", false), complete(), applied("b", false)]].concat(),
            None,
        ),
        (
            "two are down, and one gets back what its removal took off",
            [both(), vec![gone(&pruning(&[object()], true)), applied("a", false), applied("b", false)]].concat(),
            None,
        ),
        ("deletions nobody approved", vec![placement(1, &open)], Some("3:")),
        (
            "deletions behind a closed gate",
            vec![placement(1, &waiting), binding("a", 1, false), Fact::Ordered(pruning(&[object()], false))],
            Some("3:"),
        ),
        ("what waits is held back", vec![placement(1, &waiting), binding("a", 1, false), ordered(&held_back)], None),
        ("what waits is not named", vec![placement(1, &waiting), binding("a", 1, false), ordered(&unnamed)], None),
        (
            "what waits is held back, and deleted",
            vec![placement(1, &waiting), binding("a", 1, false), ordered(&held_back), gone(&held_back)],
            Some("4:"),
        ),
        (
            "what waits is not named, and deleted",
            vec![placement(1, &waiting), binding("a", 1, false), ordered(&unnamed), gone(&unnamed)],
            Some("3:"),
        ),
        ("what is ours is deleted", vec![deleted(Some("p"))], None),
        ("what no decision knew of is deleted", vec![undecided], Some("3:")),
        (
            "what needs no gate is to go",
            vec![placement(1, &closed()), binding("a", 1, false), Fact::Ordered(pruning(&[object()], false))],
            None,
        ),
        (
            "a namespace is to go without a gate",
            vec![placement(1, &closed()), binding("a", 1, false), Fact::Ordered(pruning(&[precious()], false))],
            Some("3:"),
        ),
        (
            "a removed placement is to go without a gate",
            vec![removed(false), binding("a", 1, true), Fact::Ordered(pruning(&[object()], true))],
            Some("3:"),
        ),
        ("what is nobody's is deleted", vec![deleted(None)], Some("4:")),
        ("what is another's is deleted", vec![deleted(Some("q"))], Some("4:")),
        (
            "a wanted cluster is left",
            vec![Fact::Accepted("1".into()), binding("a", 1, false), binding("a", 2, true)],
            Some("4:"),
        ),
    ];
    let others = [of_orders(), of_runs(), of_turns(), super::owners::rows(), of_records()];
    for (name, facts, wanted) in rows.into_iter().chain(others.into_iter().flatten()) {
        let mut checker = checker();
        let verdict = facts.iter().try_for_each(|fact| checker.see(fact));
        match (verdict, wanted) {
            (Ok(()), None) => {}
            (Err(why), Some(wanted)) => assert!(why.starts_with(wanted), "{name}: {why}"),
            (verdict, wanted) => panic!("{name}: {verdict:?}, wanted {wanted:?}"),
        }
    }
}

/// A cluster that was available in calm for long is not to be called failed: a report was lost. Where another placement has taken over an
/// object since, a rollback does not get it back, and fails.
#[test]
fn a_wrong_failure_is_caught() {
    // who writes the object, one after the other; whether the failure is wrong
    let rows = [(vec!["p"], true), (vec!["p", "q"], false), (vec!["p", "q", "p"], true)];
    for (writers, is_wrong) in rows {
        let mut checker = checker();
        let written = writers.iter().copied().map(applied_by);
        for fact in [of_one_object(), frozen("Updating")].into_iter().chain(written) {
            checker.see(&fact).unwrap();
        }
        checker.now += jiff::SignedDuration::from_mins(5);
        let why = checker.see(&frozen("Failed")).err().unwrap_or_default();
        assert_eq!(why.get(..2), is_wrong.then_some("6:"), "{writers:?}: {why}");
    }
}

/// A placement is not removed everywhere while a member holds an object of it.
#[test]
fn d02_an_orphaned_object_is_caught() {
    let (checker, p, a, key) = (checker(), PlacementKey::cluster_scoped("p"), ClusterName::from("a"), object());
    assert_eq!(checker.is_gone(&p, std::iter::empty()), Ok(()));
    let why = checker.is_gone(&p, std::iter::once((&a, &key))).unwrap_err();
    assert!(why.starts_with("4: p counts as removed everywhere"), "{why}");
}

/// What is wanted and nobody has is not at rest, nor is a commit that is not accepted.
#[test]
fn a_fleet_without_its_objects_is_not_at_rest() {
    let mut checker = checker();
    let rests = |checker: &Checker| checker.is_at_rest(&BTreeMap::new(), &"1".into(), &BTreeSet::new());
    assert!(rests(&checker).unwrap_err().starts_with("6: 1 is not accepted"));
    checker.see(&Fact::Accepted("1".into())).unwrap();
    assert!(rests(&checker).unwrap_err().starts_with("6: nobody ever talked to a"));
}
