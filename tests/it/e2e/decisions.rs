//! Decisions on a hub, read as Argo CD reads them, at every moment.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::BufReader;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Deserializer, Value, json};

use crate::e2e::argo;
use crate::e2e::daemon::{LIMIT, World, config_map, namespace, placement};
use crate::e2e::fleet::{Member, until};
use crate::e2e::shared;

const PLACEMENT_LABEL: &str = "cluster.open-cluster-management.io/placement";

/// What Argo CD brings: its kind, as far as it matters here.
const APPLICATION_SETS: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: \
                                applicationsets.argoproj.io}\nspec:\n  group: argoproj.io\n  scope: Namespaced\n  names: {kind: ApplicationSet, plural: \
                                applicationsets, singular: applicationset, listKind: ApplicationSetList}\n  versions:\n    - name: v1alpha1\n      served: \
                                true\n      storage: true\n      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}\n";

/// Makes a member the hub, with a namespace of its own for the test.
fn hub(space: &str) -> &'static Member {
    static KINDS: std::sync::Once = std::sync::Once::new();
    let hub = &shared().members[0];
    KINDS.call_once(|| {
        let file = testservers::repository().join("deploy/argocd/placementdecisions.yaml");
        hub.kubectl_apply(&fs::read_to_string(file).expect("the definition")).expect("the definition is applied");
        hub.kubectl_apply(APPLICATION_SETS).expect("the definition is applied");
        for kind in ["placementdecisions.cluster.open-cluster-management.io", "applicationsets.argoproj.io"] {
            hub.kubectl(&["wait", "--for=condition=Established", "crd", kind, "--timeout=60s"]).expect("it is served");
        }
    });
    hub.kubectl(&["create", "namespace", space]).expect("a namespace");
    hub
}

/// A world of directory members `c000` and on, whose label `wave` is `a`, `b` or `c` by number.
fn world(hub: &Member, space: &str, clusters: usize) -> World {
    let world = World::new(None, &[]);
    let config = fs::read_to_string(world.config()).expect("the configuration");
    let members = "members:\n  - {name: 'c*', directory: './members/{name}'}\n";
    let mut config = config.replace("members:\n", members);
    let kubeconfig = hub.kubeconfig.display();
    writeln!(config, "decisions: {{kubeconfig: {{path: {kubeconfig}}}, namespace: {space}}}").expect("a string");
    fs::write(world.config(), config).expect("the configuration is written");
    let wave = |number: usize| ["a", "b", "c"][(number * 3 / clusters).min(2)];
    let documents = (0..clusters).map(|number| {
        format!(
            "---\napiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {{name: c{number:03}, labels: \
             {{wave: {}}}}}\nspec: {{}}\n",
            wave(number)
        )
    });
    world.write("clusters.yaml", &documents.collect::<String>());
    world.write("web.yaml", &[namespace(space), config_map(space, "settings", "1")].concat());
    world
}

/// Writes a placement of the clusters of some waves.
fn place(world: &World, space: &str, waves: &str) {
    let policy = format!(
        "  policy:\n    placementType: PickAll\n    affinity:\n      clusterAffinity:\n        \
         requiredDuringSchedulingIgnoredDuringExecution:\n          clusterSelectorTerms:\n            - labelSelector:\n                \
         matchExpressions: [{{key: wave, operator: In, values: [{waves}]}}]\n"
    );
    let placement = placement(space, &policy).replace("rollingUpdate: {", "rollingUpdate: {maxUnavailable: 100%, ");
    world.write("placement.yaml", &placement);
    world.commit(&format!("waves {waves}"));
}

fn names(range: std::ops::Range<usize>) -> BTreeSet<String> {
    range.map(|number| format!("c{number:03}")).collect()
}

/// The clusters that the generator found, or the error it ended with.
type Sight = Result<Vec<String>, String>;

/// A watch on what an ApplicationSet selects: the generator is run on every event.
struct Reader {
    child: Child,
    seen: Arc<Mutex<Vec<Sight>>>,
}

impl Reader {
    fn start(hub: &Member, space: &str, clusters: usize) -> Self {
        let selector = format!("{PLACEMENT_LABEL}={space}");
        let args =
            ["-n", space, "get", "placementdecisions", "-l", &selector, "-w", "--output-watch-events", "-o", "json"];
        let mut child =
            hub.kubectl_command(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("kubectl");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut objects: BTreeMap<String, Value> = BTreeMap::new();
            for event in Deserializer::from_reader(output).into_iter::<Value>().map_while(Result::ok) {
                let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                match event["type"].as_str() {
                    Some("DELETED") => drop(objects.remove(&name)),
                    _ => drop(objects.insert(name, event["object"].clone())),
                }
                sink.lock().unwrap().push(generate(objects.values(), clusters));
            }
        });
        Self { child, seen }
    }

    fn last(&self) -> Option<Result<Vec<String>, String>> {
        self.seen.lock().unwrap().last().cloned()
    }

    fn all(&self) -> Vec<Result<Vec<String>, String>> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Runs Argo CD's generator over objects, with a cluster secret for each cluster.
fn generate<'a>(objects: impl Iterator<Item = &'a Value>, clusters: usize) -> Result<Vec<String>, String> {
    let data = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "placementdecisions",
        "statusListKey": "decisions", "matchKey": "clusterName",
    });
    let secrets: Vec<String> = names(0..clusters).into_iter().collect();
    let secrets: Vec<(&str, &str)> = secrets.iter().map(|name| (name.as_str(), "https://example")).collect();
    let found = argo::generate(Some(&data), &objects.collect::<Vec<_>>(), &secrets)?;
    Ok(found.into_iter().map(|set| set["clusterName"].clone()).collect())
}

/// Runs it as Argo CD does: ConfigMap and list from the API server.
fn read(hub: &Member, space: &str, clusters: usize) -> Result<Vec<String>, String> {
    let map = hub.get(space, "configmap", "ocm-placement").expect("the hub answers").ok_or("no ConfigMap")?;
    let secrets: Vec<String> = names(0..clusters).into_iter().collect();
    let secrets: Vec<(&str, &str)> = secrets.iter().map(|name| (name.as_str(), "https://example")).collect();
    let objects = list(hub, space);
    let found = argo::generate(Some(&map["data"]), &objects.iter().collect::<Vec<_>>(), &secrets)?;
    Ok(found.into_iter().map(|set| set["clusterName"].clone()).collect())
}

fn list(hub: &Member, space: &str) -> Vec<Value> {
    let selector = format!("{PLACEMENT_LABEL}={space}");
    let text = hub.kubectl(&["-n", space, "get", "placementdecisions", "-l", &selector, "-o", "json"]).expect("a list");
    let list: Value = serde_json::from_str(&text).expect("JSON");
    list["items"].as_array().cloned().unwrap_or_default()
}

#[test]
fn argo_cd_reads_exactly_the_decided_clusters_at_every_moment() {
    let (space, clusters) = ("argo-moments", 180);
    let hub = hub(space);
    let world = world(hub, space, clusters);
    place(&world, space, "a, b");
    let set = format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {{name: web, namespace: {space}}}\nspec:\n  \
         generators:\n    - clusterDecisionResource:\n        configMapRef: ocm-placement\n        labelSelector: {{matchLabels: \
         {{{PLACEMENT_LABEL}: {space}}}}}\n"
    );
    hub.kubectl_apply(&set).expect("an ApplicationSet");
    let daemon = world.start();
    let first = names(0..120);
    daemon.until("the first decisions", || {
        read(hub, space, clusters).is_ok_and(|seen| BTreeSet::from_iter(seen) == first)
    });
    assert_eq!(list(hub, space).len(), 2, "120 clusters are two pages");
    let set = hub.get(space, "applicationset", "web").expect("the hub answers").expect("it is there");
    assert_eq!(set["metadata"]["annotations"]["argocd.argoproj.io/application-set-refresh"], "true");

    // Both pages change: the clusters of wave a go, those of wave c come.
    let reader = Reader::start(hub, space, clusters);
    daemon.until("the watch", || reader.last().is_some_and(|seen| seen.is_ok_and(|seen| seen.len() == 120)));
    place(&world, space, "b, c");
    let second = names(60..180);
    daemon.until("the second decisions", || {
        read(hub, space, clusters).is_ok_and(|seen| BTreeSet::from_iter(seen) == second)
    });
    daemon.until("the watch sees them", || {
        reader.last().is_some_and(|seen| seen.is_ok_and(|seen| BTreeSet::from_iter(seen) == second))
    });
    let staying = names(60..120);
    let all = reader.all();
    // The first events of a watch list page after page.
    let begun = all.iter().position(|seen| seen.as_ref().is_ok_and(|seen| seen.len() == 120)).expect("it was awaited");
    assert!(all.len() > begun + 1, "the update was seen in steps: {}", all.len());
    for seen in &all[begun..] {
        let seen = seen.as_ref().expect("a page is always there");
        let set: BTreeSet<String> = seen.iter().cloned().collect();
        assert!(set.is_superset(&staying), "vanished: {:?}", &staying - &set);
        assert_eq!(set.len(), seen.len(), "no cluster is listed twice");
    }

    // What others change is put back.
    let page = list(hub, space)[0]["metadata"]["name"].as_str().expect("a name").to_owned();
    let patch = r#"{"status":{"decisions":[]}}"#;
    hub.kubectl(&[
        "-n",
        space,
        "patch",
        "placementdecision",
        &page,
        "--subresource=status",
        "--type=merge",
        "-p",
        patch,
    ])
    .expect("an edit by hand");
    daemon.until("the edit is put back", || {
        read(hub, space, clusters).is_ok_and(|seen| BTreeSet::from_iter(seen) == second)
    });

    // A placement that is gone is known to have no cluster.
    fs::remove_file(world.repo().join("placement.yaml")).expect("the placement is removed");
    world.commit("no placement");
    daemon.until("an empty list", || read(hub, space, clusters) == Ok(Vec::new()));
    assert_eq!(list(hub, space).len(), 1, "one empty page stays while an ApplicationSet reads it");
}

#[test]
fn objects_of_others_are_left_and_reported() {
    let space = "argo-others";
    let hub = hub(space);
    let world = world(hub, space, 3);
    place(&world, space, "a, b, c");
    let foreign = format!(
        "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: PlacementDecision\nmetadata: {{name: {space}-decision-1, \
         namespace: {space}}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: ocm-placement, namespace: {space}}}\ndata: \
         {{kind: clusters}}\n"
    );
    hub.kubectl_apply(&foreign).expect("objects of others");
    let daemon = world.start();
    let exported = || {
        let output = world.gitfleet(&["export", "decisions", "-c", "gitfleet.yaml"]);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    daemon.until("both are reported", || {
        let words = exported();
        words.contains(&format!("PlacementDecision {space}-decision-1 is not ours"))
            && words.contains("ConfigMap ocm-placement")
    });
    let map = hub.get(space, "configmap", "ocm-placement").expect("the hub answers").expect("it is there");
    assert_eq!(map["data"], json!({"kind": "clusters"}));
    assert_eq!(list(hub, space), Vec::<Value>::new());

    hub.kubectl(&["-n", space, "delete", "placementdecision", &format!("{space}-decision-1")]).expect("it is deleted");
    hub.kubectl(&["-n", space, "delete", "configmap", "ocm-placement"]).expect("it is deleted");
    let found = until("the way is free", LIMIT, || {
        Ok(read(hub, space, 3).is_ok_and(|seen| BTreeSet::from_iter(seen) == names(0..3)).then_some(()))
    });
    found.expect("decisions are written once the names are free");
    assert_eq!(exported(), "");
}
