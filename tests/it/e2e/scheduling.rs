//! Scheduling on real clusters: labels from git, properties from their nodes and pods, and what people see of it.

use serde_json::{Value, json};

use crate::e2e::daemon::{Daemon, LIMIT, World, access, config_map, namespace, placement};
use crate::e2e::facts::{impersonating, node, pod};
use crate::e2e::fleet::{Fleet, Member, Options, request_count, until};
use crate::e2e::shared;

/// Placements by the policy they have: what each reads is said by its name.
const POLICIES: [(&str, &str); 5] = [
    (
        "best-cpu",
        "placementType: PickN, numberOfClusters: 1, affinity: {clusterAffinity: {REQUIRED_CPU, PREFERRED_CPU}}",
    ),
    ("two-by-cpu", "placementType: PickN, numberOfClusters: 2, affinity: {clusterAffinity: {REQUIRED_CPU}}"),
    ("three-by-cpu", "placementType: PickN, numberOfClusters: 3, affinity: {clusterAffinity: {REQUIRED_CPU}}"),
    ("east-by-nodes", "placementType: PickAll, affinity: {clusterAffinity: {REQUIRED_NODES}}"),
    ("everywhere", "placementType: PickAll"),
];

/// What the policies above are made of.
const PARTS: [(&str, &str); 3] = [
    (
        "REQUIRED_CPU",
        "requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{propertySelector: {matchExpressions: \
         [{name: resources.kubernetes-fleet.io/available-cpu, operator: Ge, values: ['4']}]}}]}",
    ),
    (
        "PREFERRED_CPU",
        "preferredDuringSchedulingIgnoredDuringExecution: [{weight: 40, preference: {propertySorter: {name: \
         resources.kubernetes-fleet.io/available-cpu, sortOrder: Descending}}}, {weight: 10, preference: {labelSelector: \
         {matchLabels: {env: prod}}}}]",
    ),
    (
        "REQUIRED_NODES",
        "requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{labelSelector: {matchLabels: {region: \
         east}}, propertySelector: {matchExpressions: [{name: kubernetes.azure.com/node-count, operator: Ge, values: \
         ['2']}]}}]}",
    ),
];

/// As many looks in a row without a decision are calm: two seconds.
const CALM_LOOKS: u32 = 20;

const DECISIONS: &str = "gitfleet_engine_decisions_total";

fn policies() -> String {
    let text = |(name, policy): &(&str, &str)| {
        let policy = PARTS.iter().fold((*policy).to_owned(), |text, (part, meaning)| text.replace(part, meaning));
        [placement(name, &format!("  policy: {{{policy}}}\n")), namespace(name)].concat()
    };
    POLICIES.iter().map(text).collect()
}

fn cluster(name: &str, labels: &str) -> String {
    format!(
        "---\napiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {{name: {name}, labels: {{{labels}}}}}\n\
         spec: {{}}\n"
    )
}

/// Returns the clusters that a placement has, by name.
pub fn picked(daemon: &Daemon<'_>, placement: &str) -> Vec<String> {
    let mut bindings = daemon.get("bindings");
    bindings.retain(|b| b["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"] == placement);
    let mut names: Vec<String> =
        bindings.iter().filter_map(|b| b["spec"]["targetCluster"].as_str().map(str::to_owned)).collect();
    names.sort();
    names
}

/// Returns what is known of a cluster.
fn known(daemon: &Daemon<'_>, name: &str) -> Value {
    daemon.get("clusters").into_iter().find(|cluster| cluster["metadata"]["name"] == name).unwrap_or_default()
}

fn available(daemon: &Daemon<'_>, name: &str, resource: &str) -> String {
    known(daemon, name)["status"]["resourceUsage"]["available"][resource].as_str().unwrap_or_default().to_owned()
}

/// Returns what `explain` prints.
pub fn explain(world: &World, args: &[&str]) -> String {
    let args = [&["explain", "-c", "gitfleet.yaml"], args].concat();
    let output = world.gitfleet(&args);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    // When it was picked, and with which score, is another each time.
    let varying = regex::Regex::new(r"(affinity score|kept since) +[0-9TZ:-]+").expect("a pattern");
    varying.replace_all(&text, "$1 N").into_owned()
}

/// Waits until nothing is decided any more; returns how often anything was.
pub fn calm(daemon: &Daemon<'_>) -> u64 {
    let (mut seen, mut looks) = (0, 0);
    daemon.until("nothing is decided any more", || {
        let now = daemon.metric(DECISIONS);
        looks = if now == seen { looks + 1 } else { 0 };
        seen = now;
        looks >= CALM_LOOKS
    });
    seen
}

/// Three clusters: 2, 8 and 16 cores.
fn sized() -> Fleet {
    let fleet = Fleet::start(Options::named(["small", "medium", "large"])).expect("the test fleet starts");
    for (member, nodes, cpu, memory) in [(0, 1, "2", "4Gi"), (1, 2, "4", "8Gi"), (2, 4, "4", "8Gi")] {
        let member = &fleet.members[member];
        for number in 1..=nodes {
            let name = format!("{}-{number}", member.name);
            member.kubectl_apply(&node(&name, cpu, memory)).expect("a node");
        }
        member.kubectl_apply(&namespace("facts")).expect("a namespace");
    }
    fleet
}

#[test]
fn live_properties_and_labels_drive_scheduling_and_are_explained() {
    let fleet = sized();
    let [small, medium, large] = &fleet.members[..] else { panic!("three members") };
    let world = World::new(None, &access(&fleet.members));
    world.write("small.yaml", &cluster("small", "region: west"));
    world.write("medium.yaml", &cluster("medium", "region: east, env: prod"));
    world.write("large.yaml", &cluster("large", "region: east, env: prod"));
    world.write("placements.yaml", &policies());
    world.commit("Five placements");
    let daemon = world.start();
    for (placement, _) in POLICIES {
        daemon.await_rolled_out(placement, 0);
    }
    let all = || POLICIES.map(|(name, _)| picked(&daemon, name).join(" "));
    assert_eq!(all(), ["large", "large medium", "large medium", "large medium", "large medium small"]);
    snapshots(&world);

    // Cordoned, the cluster has what it had; filled, it would not be picked any more. Who has it keeps it.
    let before = request_counts(&fleet.members);
    large.kubectl(&["cordon", "large-1"]).expect("a node is cordoned");
    large.kubectl_apply(&pod("filler", "large-2", "12900m", "1008Mi")).expect("a pod");
    daemon.until("it is filled", || available(&daemon, "large", "cpu") == "3");
    medium.kubectl_apply(&pod("filler", "medium-1", "5900m", "1008Mi")).expect("a pod");
    daemon.until("so is the other", || available(&daemon, "medium", "cpu") == "2");
    calm(&daemon);
    assert_eq!(all(), ["large", "large medium", "large medium", "large medium", "large medium small"]);
    assert_eq!(known(&daemon, "large")["status"]["resourceUsage"]["capacity"]["cpu"], "16", "cordoned nodes count");
    insta::assert_snapshot!(explain(&world, &["best-cpu"]), @r"
    ✓ ClusterResourcePlacement best-cpu
        wanted     PickN 1
        outcome    1 of 1 clusters found
        picked     1 of 3 clusters

    CLUSTER   PICKED   RANK   SCORE   WHY
    large     yes                     passed every filter (affinity score N, topology spread score 0); today: available-cpu 3 is below 4; kept since N
    medium    no                      available-cpu 2 is below 4
    small     no                      available-cpu 2 is below 4
    ");

    // Who waits for one more cluster gets it as soon as it is large enough.
    small.kubectl_apply(&node("small-2", "2", "4Gi")).expect("a node");
    daemon.until("the third cluster", || picked(&daemon, "three-by-cpu") == ["large", "medium", "small"]);
    daemon.await_rolled_out("three-by-cpu", 0);
    calm(&daemon);
    assert_eq!(all(), ["large", "large medium", "large medium small", "large medium", "large medium small"]);
    assert_eq!(request_counts(&fleet.members), before, "facts come from watches that stay open");

    // Only who reads what changes is decided again.
    only_readers_are_decided_again(&world, &daemon, small);
    assert_eq!(all(), ["large", "large medium", "large medium small", "large medium", "large medium small"]);
}

fn request_counts(members: &[Member]) -> Vec<u64> {
    let of = |member: &Member| {
        let metrics = member.metrics().expect("metrics");
        ["nodes", "pods"].map(|resource| request_count(&metrics, "LIST", resource)).iter().sum()
    };
    members.iter().map(of).collect()
}

fn only_readers_are_decided_again(world: &World, daemon: &Daemon<'_>, small: &Member) {
    let before = calm(daemon);
    let label = |name: &str| known(daemon, "small")["metadata"]["labels"][name].as_str().unwrap_or_default().to_owned();
    world.write("small.yaml", &cluster("small", "region: west, tier: gold"));
    world.commit("A label that nobody reads");
    daemon.until("the label", || label("tier") == "gold");
    assert_eq!(calm(daemon), before, "nobody reads it");

    world.write("small.yaml", &cluster("small", "region: north, tier: gold"));
    world.commit("A label that one placement reads");
    daemon.until("the label", || label("region") == "north");
    assert_eq!(calm(daemon), before + 1, "one placement reads it");

    // Available memory is read by nobody; the number of nodes by the placement that looks at it.
    small.kubectl_apply(&pod("memory", "small-1", "0", "1008Mi")).expect("a pod");
    daemon.until("less memory", || available(daemon, "small", "memory") == "7Gi");
    assert_eq!(calm(daemon), before + 1, "nobody reads available memory");
    small.kubectl_apply(&node("small-3", "2", "4Gi")).expect("a node");
    daemon.until("a third node", || {
        known(daemon, "small")["status"]["properties"]["kubernetes.azure.com/node-count"]["value"] == "3"
    });
    assert_eq!(calm(daemon), before + 2, "one placement counts nodes");
}

/// One of each: a filter that says no to a property, one that says no to a label, and scores with a rank.
fn snapshots(world: &World) {
    let by_cpu = ["large", "medium", "small"].map(|name| explain(world, &["best-cpu", "--cluster", name]));
    insta::assert_snapshot!(by_cpu.join("\n"), @r"
    ✓ ClusterResourcePlacement best-cpu
        wanted     PickN 1
        outcome    1 of 1 clusters found
        picked     1 of 3 clusters

    ✓ large  picked: passed every filter (affinity score N, topology spread score 0); today: rank 1 of 2
        kept since N
        term                                    score  weight  observed
        preferred[0] available-cpu descending      40      40  16
        preferred[1] env=prod                      10      10
        sum                                        50
        rank       1

    ✓ ClusterResourcePlacement best-cpu
        wanted     PickN 1
        outcome    1 of 1 clusters found
        picked     1 of 3 clusters

    · medium  not picked: rank 2 of 2
        term                                    score  weight  observed
        preferred[0] available-cpu descending      17      40  8
        preferred[1] env=prod                      10      10
        sum                                        27
        rank       2

    ✓ ClusterResourcePlacement best-cpu
        wanted     PickN 1
        outcome    1 of 1 clusters found
        picked     1 of 3 clusters

    · small  available-cpu 2 is below 4
        filter     ClusterAffinity
        checked    property resources.kubernetes-fleet.io/available-cpu
        observed   2
        wanted     >= 4
    ");
    insta::assert_snapshot!(explain(world, &["east-by-nodes", "--cluster", "small"]), @r#"
    ✓ ClusterResourcePlacement east-by-nodes
        wanted     every cluster that passes
        outcome    clusters found: 2
        picked     2 of 3 clusters

    · small  label region is "west", wanted "east"
        filter     ClusterAffinity
        checked    label region
        observed   west
        wanted     "east"
    "#);
    insta::assert_snapshot!(explain(world, &["best-cpu"]), @r"
    ✓ ClusterResourcePlacement best-cpu
        wanted     PickN 1
        outcome    1 of 1 clusters found
        picked     1 of 3 clusters

    CLUSTER   PICKED   RANK   SCORE   WHY
    large     yes      1      50      passed every filter (affinity score N, topology spread score 0); today: rank 1 of 2; kept since N
    medium    no       2      27      rank 2 of 2
    small     no                      available-cpu 2 is below 4
    ");
    let json = |args: &[&str]| -> Value {
        let args = [args, &["-o", "json"]].concat();
        let value: Value = serde_json::from_str(&explain(world, &args)).expect("JSON");
        value["clusters"].clone()
    };
    let rejected = json(&["best-cpu", "--cluster", "small"]);
    assert_eq!(
        rejected[0]["rejected"],
        json!({"filter": "ClusterAffinity", "subject": "property resources.kubernetes-fleet.io/available-cpu", "observed": "2", "wanted": ">= 4"})
    );
    let ranked = json(&["best-cpu", "--cluster", "large"]);
    assert_eq!(ranked[0]["rank"], 1);
    assert_eq!(
        ranked[0]["scores"],
        json!([
            {"name": "preferred[0] available-cpu descending", "weight": 40, "observed": "16", "score": 40},
            {"name": "preferred[1] env=prod", "weight": 10, "score": 10},
        ])
    );
}

#[test]
fn a_cluster_with_nothing_on_it_is_seen_to_stop_answering() {
    let fleet = Fleet::start(Options::members(1)).expect("the test fleet starts");
    let member = &fleet.members[0];
    let world = World::new(None, &access(&fleet.members));
    world.write("fleet.yaml", &cluster(&member.name, "region: east"));
    world.commit("One cluster, no placement");
    let daemon = world.start();
    let healthy = || {
        let agents = known(&daemon, &member.name)["status"]["agentStatus"].clone();
        let conditions = agents[0]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|c| c["type"] == "Healthy" && c["status"] == "True")
    };
    let knows_facts = || known(&daemon, &member.name)["status"]["resourceUsage"]["capacity"]["cpu"] == "0";
    let offline = || world.logged("cluster does not answer; its turn is deferred").len();
    daemon.until("it answers and its facts are known", || healthy() && knows_facts());
    member.pause().expect("it hangs");
    daemon.until("it is seen to hang", || offline() == 1 && !healthy());
    member.resume().expect("it continues");
    daemon.until("it answers", healthy);
    let before = offline();
    member.stop().expect("it stops");
    daemon.until("it is seen to stop", || offline() > before && !healthy());
    assert!(knows_facts(), "what was known of it is kept");
}

/// Who the daemon is on the member whose requests are counted.
const SILENT: &str = "gitfleet-silence";

/// Returns how many requests of that user an API server took.
fn requests_of_silent(member: &Member) -> u64 {
    let metrics = member.metrics().expect("metrics");
    let of = |line: &&str| {
        line.starts_with("apiserver_flowcontrol_dispatched_requests_total{")
            && line.contains(&format!("flow_schema=\"{SILENT}\""))
    };
    metrics.lines().filter(of).filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

#[test]
fn facts_and_deliveries_at_rest_cost_no_request() {
    let member = &shared().members[2];
    let user = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": SILENT});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": SILENT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [user],
    });
    let everything =
        json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]});
    let elsewhere = json!({"verbs": ["*"], "nonResourceURLs": ["*"]});
    let flow = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": SILENT},
        "spec": {
            "matchingPrecedence": 10, "priorityLevelConfiguration": {"name": "workload-high"},
            "rules": [{
                "subjects": [{"kind": "User", "user": {"name": SILENT}}],
                "resourceRules": [everything], "nonResourceRules": [elsewhere],
            }],
        },
    });
    for object in [binding, flow, serde_json::from_str(&node("silence-1", "4", "8Gi")).expect("a node")] {
        member.kubectl_apply(&object.to_string()).expect("an object");
    }
    member.kubectl_apply(&namespace("facts")).expect("a namespace");
    let world = World::new(None, &[]);
    let kubeconfig = impersonating(&world, member, SILENT);
    world.configure(None, &[(member.name.as_str(), &kubeconfig)]);
    let counted = || {
        member.kubectl(&["get", "namespaces", "--as", SILENT]).expect("a request");
        Ok((requests_of_silent(member) > 0).then_some(()))
    };
    until("requests are counted", LIMIT, counted).expect("they are counted");
    world.write("fleet.yaml", &cluster(&member.name, "a: b"));
    world
        .write("app.yaml", &[placement("silence", ""), namespace("silence"), config_map("silence", "a", "1")].concat());
    world.commit("One");
    let daemon = world.start();
    daemon.await_rolled_out("silence", 0);
    calm(&daemon);
    let before = requests_of_silent(member);

    // Twenty pods come and go, a node grows: all of it is seen, nothing is asked for.
    for round in 0..20 {
        let name = format!("silence-{round}");
        member.kubectl_apply(&pod(&name, "silence-1", "100m", "16Mi")).expect("a pod");
    }
    daemon.until("the pods are seen", || available(&daemon, &member.name, "cpu") == "0");
    member.kubectl(&["-n", "facts", "delete", "pods", "--all", "--force", "--grace-period=0"]).expect("no pods");
    daemon.until("they are gone", || available(&daemon, &member.name, "cpu") == "4");
    calm(&daemon);
    assert_eq!(requests_of_silent(member), before, "watches suffice");

    // Requests are counted: drift is put back by one, at least.
    crate::e2e::daemon::patch(member, "silence", "a", "theirs");
    daemon.until("it is put back", || crate::e2e::daemon::value(member, "silence", "a") == "1");
    calm(&daemon);
    assert!(requests_of_silent(member) > before);
    member.kubectl(&["delete", "node", "silence-1"]).expect("no node");
}

/// Returns the evictions that were evaluated: of which, and whether they were executed.
fn evaluated(world: &World) -> Vec<String> {
    let log = world.log();
    let lines = log.iter().filter(|line| line["message"] == "EvictionJudged");
    lines.map(|line| line["facts"].to_string()).collect()
}

#[test]
fn an_eviction_is_carried_out_once_and_within_its_budget() {
    let members = &shared().members;
    let world = World::new(None, &access(members));
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let clusters = |taint: &str| -> String {
        let last = cluster(names[2], "a: b").replace("spec: {}", &format!("spec: {{{taint}}}"));
        [cluster(names[0], "a: b"), cluster(names[1], "a: b"), last].concat()
    };
    let eviction = |name: &str, member: &str| {
        format!(
            "---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterResourcePlacementEviction\nmetadata: {{name: \
             {name}}}\nspec: {{placementName: evicted, clusterName: {member}}}\n"
        )
    };
    world.write("fleet.yaml", &clusters(""));
    let of = |name: &str| [placement(name, ""), namespace(name)].concat();
    world.write("app.yaml", &[of("evicted"), of("left-alone")].concat());
    world.commit("Everywhere");
    let daemon = world.start();
    daemon.await_rolled_out("evicted", 0);
    daemon.await_rolled_out("left-alone", 0);
    let logged = |message: &str, member: &str| {
        let log = world.log();
        let of = |line: &&Value| line["placement"] == "evicted" && line["cluster"] == member;
        log.iter().filter(|line| line["message"] == message).filter(of).count()
    };
    let removed = |member: &str| logged("removed from cluster", member);
    let rolled_out = |member: &str| logged("rolling out to cluster", member);

    // Without a budget it goes; the policy still wants it there, so it comes back.
    world.write("evict-1.yaml", &eviction("one", names[0]));
    world.commit("An eviction");
    daemon.until("it is back", || removed(names[0]) == 1 && rolled_out(names[0]) == 2);
    daemon.await_rolled_out("evicted", 0);
    assert_eq!(evaluated(&world), [r#"{"eviction":"one","executed":true}"#]);

    // With a budget that leaves no room it stays, and a later budget does not bring it up again.
    let budget = |rule: &str| {
        format!(
            "---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterResourcePlacementDisruptionBudget\nmetadata: \
             {{name: evicted}}\nspec: {{{rule}}}\n"
        )
    };
    world.write("budget.yaml", &budget("minAvailable: 3"));
    world.write("evict-2.yaml", &eviction("two", names[1]));
    world.commit("An eviction that is refused");
    daemon.until("it is evaluated", || evaluated(&world).len() == 2);
    assert_eq!(evaluated(&world)[1], r#"{"eviction":"two","executed":false}"#);
    let before = calm(&daemon);
    let evictions = daemon.get("evictions");
    let executed = |eviction: &Value| {
        let condition = eviction["status"]["conditions"][1].clone();
        format!("{} {} {}", eviction["metadata"]["name"], condition["status"], condition["reason"])
    };
    assert_eq!(
        evictions.iter().map(executed).collect::<Vec<_>>(),
        [
            r#""one" "True" "ClusterResourcePlacementEvictionExecuted""#,
            r#""two" "False" "ClusterResourcePlacementEvictionNotExecuted""#
        ]
    );
    world.write("evict-2b.yaml", &eviction("two-again", names[1]));
    world.commit("The same again");
    daemon.until("it is evaluated", || evaluated(&world).len() == 3);
    assert_eq!(calm(&daemon), before + 1, "an eviction concerns one placement");
    world.write("budget.yaml", &budget("minAvailable: 2"));
    world.write("evict-3.yaml", &eviction("three", names[2]));
    world.write("fleet.yaml", &clusters("taints: [{key: drained, value: x, effect: NoSchedule}]"));
    world.commit("Room for one, which is tainted");
    daemon.until("it is gone", || removed(names[2]) == 1);
    assert_eq!(evaluated(&world)[3..], [r#"{"eviction":"three","executed":true}"#]);
    calm(&daemon);
    assert_eq!(picked(&daemon, "evicted"), names[..2], "a taint keeps it away");

    // A restart remembers what was evaluated.
    drop(daemon);
    let daemon = world.start();
    daemon.until("the members answer", || world.logged("cluster answers").len() >= 6);
    calm(&daemon);
    assert_eq!(picked(&daemon, "evicted"), names[..2]);
    assert_eq!((evaluated(&world).len(), removed(names[0]), removed(names[1]), removed(names[2])), (4, 1, 0, 1));
}
