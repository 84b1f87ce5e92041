//! OCM Placements on real clusters: they pick by live facts, and ClusterResourcePlacements deliver to what they picked.

use std::fs;

use serde_json::{Value, json};

use crate::e2e::daemon::{Daemon, World, access, config_map, namespace, placement, value};
use crate::e2e::facts::node;
use crate::e2e::fleet::{Fleet, Member, Options, write_count};
use crate::e2e::scheduling::{calm, explain, picked};

/// A set, bound to the namespace of the Placement.
const SETS: &str = "apiVersion: cluster.open-cluster-management.io/v1beta2\nkind: ManagedClusterSet\nmetadata: {name: prod}\n\
                    spec: {clusterSelector: {selectorType: ExclusiveClusterSetLabel}}\n---\n\
                    apiVersion: cluster.open-cluster-management.io/v1beta2\nkind: ManagedClusterSetBinding\n\
                    metadata: {name: prod, namespace: ns1}\nspec: {clusterSet: prod}\n";

/// Two clusters with most memory; who has it weighs more than any difference in memory.
const BY_MEMORY: &str = "mode: Exact, configurations: [{scoreCoordinate: {builtIn: ResourceAllocatableMemory}}, \
                         {scoreCoordinate: {builtIn: Steady}, weight: 3}]";

const IN_NORTH: &str = "[{requiredClusterSelector: {labelSelector: {matchLabels: {zone: north}}}}]";

fn managed(name: &str, zone: &str) -> String {
    format!(
        "---\napiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\nmetadata:\n  name: {name}\n  labels: \
         {{zone: {zone}, cluster.open-cluster-management.io/clusterset: prod}}\nspec: {{hubAcceptsClient: true}}\n"
    )
}

fn picker(predicates: &str, prioritizers: &str) -> String {
    format!(
        "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\nmetadata: {{name: memory, namespace: ns1}}\n\
         spec:\n  numberOfClusters: 2\n  predicates: {predicates}\n  prioritizerPolicy: {{{prioritizers}}}\n"
    )
}

/// Returns a placement that goes where the Placement says, with one object in it.
fn follower(version: &str) -> String {
    let placement =
        placement("follower", "").replace("annotations: {", "annotations: {gitfleet.io/placement: ns1/memory, ");
    [placement, namespace("follower"), config_map("follower", "settings", version)].concat()
}

/// Returns the clusters that the Placement decided.
fn decided(daemon: &Daemon<'_>) -> Vec<String> {
    let pages = daemon.get("placementdecisions");
    let of = |page: &Value| page["status"]["decisions"].as_array().cloned().unwrap_or_default();
    pages.iter().flat_map(of).filter_map(|d| d["clusterName"].as_str().map(str::to_owned)).collect()
}

/// Returns a condition of the Placement as `status reason`.
fn condition(daemon: &Daemon<'_>, type_: &str) -> String {
    let placement = daemon.get("ocmplacements").pop().unwrap_or_default();
    let conditions = placement["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|c| c["type"] == type_).cloned().unwrap_or_default();
    let word = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    format!("{} {}", word("status"), word("reason"))
}

fn memory(daemon: &Daemon<'_>, name: &str) -> String {
    let clusters = daemon.get("clusters");
    let of = clusters.iter().find(|cluster| cluster["metadata"]["name"] == name).cloned().unwrap_or_default();
    of["status"]["resourceUsage"]["allocatable"]["memory"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn placements_pick_by_live_memory_and_followers_deliver_there() {
    let fleet = Fleet::start(Options::named(["a", "b", "c"]).with_controller_manager()).expect("the test fleet starts");
    let [a, b, c] = &fleet.members[..] else { panic!("three members") };
    for (member, memory) in [(a, "4Gi"), (b, "8Gi"), (c, "16Gi")] {
        member.kubectl_apply(&node(&member.name, "4", memory)).expect("a node");
    }
    let world = World::new(None, &access(&fleet.members));
    // One of the clusters is a MemberCluster, too.
    let member_cluster = crate::e2e::daemon::member_clusters(["a"]);
    let clusters = [managed("a", "north"), managed("b", "south"), managed("c", "north"), member_cluster];
    world.write("clusters.yaml", &clusters.concat());
    world.write("sets.yaml", SETS);
    world.write("picker.yaml", &picker("[]", BY_MEMORY));
    world.write("follower.yaml", &follower("1"));
    world.commit("One");
    let daemon = world.start();
    daemon.await_rolled_out("follower", 0);
    assert_eq!((decided(&daemon), picked(&daemon, "follower")), (vec!["b".into(), "c".into()], decided(&daemon)));
    let values = || [a, b, c].map(|member| value(member, "follower", "settings"));
    assert_eq!(values(), ["", "1", "1"], "exactly where it was decided");
    assert_eq!(condition(&daemon, "PlacementSatisfied"), "True AllDecisionsScheduled");

    // The smallest becomes the largest: who has it keeps it, now and after a restart.
    a.kubectl_apply(&node("a-2", "4", "28Gi")).expect("a node");
    daemon.until("it has grown", || memory(&daemon, "a") == "32Gi");
    calm(&daemon);
    assert_eq!(decided(&daemon), ["b", "c"]);
    snapshots(&world);
    let writes = || [a, b, c].map(|member: &Member| write_count(&member.metrics().expect("metrics"), "configmaps"));
    let before = writes();
    let answers = || world.logged("cluster answers").len();
    let answered = answers();
    drop(daemon);
    let daemon = world.start();
    daemon.until("the members answer", || answers() == answered + 3);
    calm(&daemon);
    assert_eq!((decided(&daemon), picked(&daemon, "follower")), (vec!["b".into(), "c".into()], decided(&daemon)));
    assert_eq!(writes(), before, "nothing is written after a restart");

    // A predicate by commit moves it.
    world.write("picker.yaml", &picker(IN_NORTH, BY_MEMORY));
    world.commit("Only in the north");
    daemon.until("it has moved", || values() == ["1", "", "1"]);
    daemon.await_rolled_out("follower", 0);
    assert_eq!((decided(&daemon), picked(&daemon, "follower")), (vec!["a".into(), "c".into()], decided(&daemon)));
    only_readers_are_decided_again(&world, &daemon);

    // Misconfigured, it keeps what it decided, and new content goes there.
    world.write("picker.yaml", &picker("[]", "mode: Exactly"));
    world.write("follower.yaml", &follower("2"));
    world.commit("A mode that does not exist");
    daemon.await_rolled_out("follower", 1);
    assert_eq!(condition(&daemon, "PlacementMisconfigured"), "True Misconfigured");
    assert_eq!((decided(&daemon), picked(&daemon, "follower")), (vec!["a".into(), "c".into()], decided(&daemon)));
    assert_eq!(values(), ["2", "", "2"]);
    assert!(daemon.status().contains("incorrect prioritizer policy mode: Exactly"), "{}", daemon.status());
    insta::assert_snapshot!(explain(&world, &["follower"]), @r"
    ! ClusterResourcePlacement follower
        wanted     the clusters of Placement ns1/memory (2 clusters)
        outcome    incorrect prioritizer policy mode: Exactly
        picked     2 of 3 clusters

    CLUSTER   PICKED   RANK   SCORE   WHY
    a         yes                     kept: the placement is misconfigured, its last good decisions stay
    c         yes                     kept: the placement is misconfigured, its last good decisions stay
    b         no                      not judged: the placement is misconfigured
    ");

    // Gone, it leaves its follower what it has, with an error that names it.
    fs::remove_file(world.repo().join("picker.yaml")).expect("the file goes");
    world.write("follower.yaml", &follower("3"));
    world.commit("No Placement");
    let status = daemon.await_status("names the OCM Placement ns1/memory, which the source does not have");
    assert!(status.contains("follower"), "{status}");
    calm(&daemon);
    assert_eq!(picked(&daemon, "follower"), ["a", "c"]);
    assert_eq!(decided(&daemon), Vec::<String>::new());
    assert!(
        values().iter().zip(["present", "", "present"]).all(|(value, wanted)| value.is_empty() == wanted.is_empty())
    );
    drop(daemon);
    let daemon = world.start();
    daemon.await_status("names the OCM Placement ns1/memory, which the source does not have");
    calm(&daemon);
    assert_eq!(picked(&daemon, "follower"), ["a", "c"]);

    // Back, it picks again, and its follower continues.
    world.write("picker.yaml", &picker(IN_NORTH, BY_MEMORY));
    world.commit("The Placement is back");
    daemon.await_rolled_out("follower", 2);
    assert_eq!(values(), ["3", "", "3"]);
}

/// A second Placement, which nobody follows, reads no zone. Both stay where they are.
fn only_readers_are_decided_again(world: &World, daemon: &Daemon<'_>) {
    let by_region = IN_NORTH.replace("zone: north", "region: north");
    world.write("other.yaml", &picker(&by_region, BY_MEMORY).replace("name: memory", "name: region"));
    world.commit("A second Placement");
    daemon.until("it is known", || daemon.get("ocmplacements").len() == 2);
    let before = calm(daemon);
    let flip = |zone: &str, message: &str| {
        world.write("b.yaml", &managed("b", zone));
        let commit = world.commit(message);
        daemon.until(message, || daemon.status().contains(&commit[..7]));
        calm(daemon)
    };
    let clusters = fs::read_to_string(world.repo().join("clusters.yaml")).expect("the clusters");
    world.write("clusters.yaml", &clusters.replace(&managed("b", "south"), ""));
    assert_eq!(flip("south", "The same cluster in a file of its own"), before, "nothing of it changed");
    assert_eq!(flip("west", "A label that one Placement reads"), before + 1, "one Placement reads it");
    assert_eq!(flip("west, tier: gold", "A label that nobody reads"), before + 1, "nobody reads it");
    fs::remove_file(world.repo().join("other.yaml")).expect("the file goes");
    world.commit("No second Placement");
    daemon.until("it is gone", || daemon.get("ocmplacements").len() == 1);
}

/// What is shown of a Placement: its scores, cluster by cluster, and of who follows it.
fn snapshots(world: &World) {
    let by_cluster = ["a", "b", "c"].map(|name| explain(world, &["ns1/memory", "--cluster", name]));
    insta::assert_snapshot!(by_cluster.join("\n"), @r"
    ✓ Placement ns1/memory
        wanted     2 clusters
        outcome    All cluster decisions scheduled
        picked     2 of 3 clusters

    · a  not picked: rank 3 of 3
        term                        score  weight  observed
        ResourceAllocatableMemory     100       1  32Gi
        Steady                          0       3  not picked before
        sum                           100
        decided    with -100, when the clusters last changed
        rank       3

    ✓ Placement ns1/memory
        wanted     2 clusters
        outcome    All cluster decisions scheduled
        picked     2 of 3 clusters

    ✓ b  picked: rank 2 of 3
        term                        score  weight  observed
        ResourceAllocatableMemory    -100       1  8Gi
        Steady                        300       3  picked before
        sum                           200
        decided    with -33, when the clusters last changed
        rank       2

    ✓ Placement ns1/memory
        wanted     2 clusters
        outcome    All cluster decisions scheduled
        picked     2 of 3 clusters

    ✓ c  picked: rank 1 of 3
        term                        score  weight  observed
        ResourceAllocatableMemory     -33       1  16Gi
        Steady                        300       3  picked before
        sum                           267
        decided    with 100, when the clusters last changed
        rank       1
    ");
    insta::assert_snapshot!(explain(world, &["follower", "--cluster", "a"]), @r"
    ✓ ClusterResourcePlacement follower
        wanted     the clusters of Placement ns1/memory (2 clusters)
        outcome    All cluster decisions scheduled
        picked     2 of 3 clusters

    · a  not picked: rank 3 of 3
        term                        score  weight  observed
        ResourceAllocatableMemory     100       1  32Gi
        Steady                          0       3  not picked before
        sum                           100
        decided    with -100, when the clusters last changed
        rank       3
    ");
    let text = explain(world, &["ns1/memory", "--cluster", "b", "-o", "json"]);
    let cluster = serde_json::from_str::<Value>(&text).expect("JSON")["clusters"][0].clone();
    assert_eq!((&cluster["picked"], &cluster["rank"]), (&json!(true), &json!(2)));
}
