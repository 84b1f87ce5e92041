//! Live and directory members keep the same promises.

mod api;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use cluster::directory::Directory;
use cluster::live::{Inventory, Live};
use cluster::{ApplyOptions, Deletion, Observation, Target, WatchHandle, WatchedKind};
use deliver::inventory::{ID_LABEL, NAMESPACE, PART_ANNOTATIONS, PART_OF_LABEL};
use model::id::ObjectId;
use model::work::Release;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::e2e::apiserver;
use crate::e2e::daemon::{World, config_map, deployment, member_clusters, namespace, placement};
use crate::e2e::shared;

const INVENTORY: Inventory = Inventory {
    namespace: NAMESPACE,
    id_label: ID_LABEL,
    part_of_label: PART_OF_LABEL,
    part_annotations: PART_ANNOTATIONS,
};
const WRITE: ApplyOptions = ApplyOptions { force: true, dry_run: false };
const DRY: ApplyOptions = ApplyOptions { force: true, dry_run: true };
/// Longest wait for an observation; only a failure takes that long.
const LIMIT: Duration = Duration::from_secs(30);

fn map(name: &str, value: &str, set: &str) -> Value {
    let labels = if set.is_empty() { json!({}) } else { json!({PART_OF_LABEL: set}) };
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "contract", "labels": labels},
        "data": {"value": value, "yes": "yes", "number": "1.0", "text": "a: b\n# no comment\n"},
    })
}

fn id(object: &Value) -> ObjectId {
    ObjectId::of(object).expect("an object")
}

fn uid(object: &Value) -> String {
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    assert!(!uid.is_empty(), "{object} has a uid");
    uid
}

/// A watch of ConfigMaps and what it shows: our objects by name.
struct Watch {
    _handle: WatchHandle,
    observations: mpsc::Receiver<Observation>,
    names: BTreeMap<String, Value>,
    listed: Option<BTreeSet<String>>,
}

impl Watch {
    fn start(target: &dyn Target) -> Self {
        let (sink, observations) = mpsc::channel(100);
        let kind = WatchedKind { group: String::new(), kind: "ConfigMap".into() };
        let handle = target.watch(&kind, Some("v1"), sink);
        Self { _handle: handle, observations, names: BTreeMap::new(), listed: None }
    }

    fn take(&mut self, observation: Observation) -> bool {
        let mut keep = |object: Value| {
            let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
            if object["metadata"]["namespace"] == "contract" {
                self.names.insert(name.clone(), object);
            }
            name
        };
        match observation {
            Observation::ListStarted(_) => self.listed = Some(BTreeSet::new()),
            Observation::Listed(object) => {
                let name = keep(object.to_value());
                self.listed.as_mut().expect("a list was started").insert(name);
            }
            Observation::ListDone(_) => {
                let listed = self.listed.take().expect("a list was started");
                self.names.retain(|name, _| listed.contains(name));
                return true;
            }
            Observation::Changed(object) => drop(keep(object.to_value())),
            Observation::Deleted { key, .. } => drop(self.names.remove(key.name.as_str())),
            Observation::Facts(_) | Observation::FactsFailed(_) | Observation::Namespaces(_) => {
                panic!("facts from a watch of objects")
            }
            Observation::Inventories(..) | Observation::Inventory(_) | Observation::InventoryGone(_) => {
                panic!("inventories from a watch of objects")
            }
            Observation::Failed(kind, error) => panic!("the watch of {kind:?} failed: {error}"),
            Observation::Unwatched(reason) => panic!("what is there cannot be watched: {reason}"),
            Observation::Panicked(words) => panic!("a watch panicked: {words}"),
        }
        false
    }

    /// Waits until the first list is complete.
    async fn first_list(&mut self) {
        loop {
            let next = tokio::time::timeout(LIMIT, self.observations.recv()).await;
            if self.take(next.expect("a list comes").expect("the watch lives")) {
                return;
            }
        }
    }

    async fn until(&mut self, what: &str, wished: impl Fn(&BTreeMap<String, Value>) -> bool) {
        while !wished(&self.names) || self.listed.is_some() {
            let next = tokio::time::timeout(LIMIT, self.observations.recv()).await;
            let next = next.unwrap_or_else(|_| panic!("{what}: {:?}", self.names.keys()));
            self.take(next.expect("the watch lives"));
        }
    }
}

/// The promises, in an order in which each needs those before it. `other` is the same member, and watches: a member need not report
/// what was written through the same handle.
async fn keeps_every_promise(target: &dyn Target, other: &dyn Target) {
    target.connect().await.expect("it answers");
    target.connect().await.expect("it answers again");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "contract"}});
    target.apply(&namespace, WRITE).await.expect("a namespace");

    // What is not there is nothing, not an error; deleting it is done already.
    let (a, b) = (map("a", "1", "applyset-x-v1"), map("b", "1", "applyset-x-v1"));
    assert_eq!(target.get(&id(&a)).await.expect("an answer"), None);
    assert_eq!(target.delete(&id(&a), "no-such-uid", None).await.expect("an answer"), Deletion::Gone);

    // A dry run answers and writes nothing.
    let answer = target.apply(&a, DRY).await.expect("an answer");
    assert_eq!(answer["data"]["value"], "1");
    assert_eq!(target.get(&id(&a)).await.expect("an answer"), None);

    // What was applied is there, with a uid that stays; a watch lists it.
    let first = target.apply(&a, WRITE).await.expect("it is written");
    target.apply(&map("stranger", "1", ""), WRITE).await.expect("it is written");
    let found = target.get(&id(&a)).await.expect("an answer").expect("it is there");
    assert_eq!((uid(&found), &found["data"]), (uid(&first), &a["data"]));
    let mut watch = Watch::start(other);
    watch.first_list().await;
    assert_eq!(watch.names.keys().collect::<Vec<_>>(), ["a"], "only what carries the label is watched");
    assert_eq!(uid(&watch.names["a"]), uid(&first));

    // Changes come after the list: of one, of a new one, of its end.
    let dry = target.apply(&map("a", "dry", "applyset-x-v1"), DRY).await.expect("an answer");
    assert_eq!(dry["data"]["value"], "dry");
    let second = target.apply(&map("a", "2", "applyset-x-v1"), WRITE).await.expect("it is written");
    assert_eq!(uid(&second), uid(&first), "a change keeps the uid");
    watch.until("the change is seen", |names| names.get("a").is_some_and(|a| a["data"]["value"] == "2")).await;
    target.apply(&b, WRITE).await.expect("it is written");
    watch.until("the new one is seen", |names| names.contains_key("b")).await;
    target.apply(&map("b", "1", ""), WRITE).await.expect("it is written");
    watch.until("without its label it is not watched", |names| !names.contains_key("b")).await;

    // Deleting names a uid: another object by the same name stays. It may name a version, too: what changed since stays.
    assert_eq!(target.delete(&id(&a), "no-such-uid", None).await.expect("an answer"), Deletion::Changed);
    if let Some(version) = first["metadata"]["resourceVersion"].as_str() {
        let version = Some(version.parse().expect("a number"));
        assert_eq!(target.delete(&id(&a), &uid(&second), version).await.expect("an answer"), Deletion::Changed);
    }
    assert!(target.get(&id(&a)).await.expect("an answer").is_some());
    assert_eq!(target.delete(&id(&a), &uid(&second), None).await.expect("an answer"), Deletion::Gone);
    assert_eq!(target.get(&id(&a)).await.expect("an answer"), None);
    watch.until("its end is seen", std::collections::BTreeMap::is_empty).await;
    assert_eq!(target.delete(&id(&a), &uid(&second), None).await.expect("twice is no error"), Deletion::Gone);

    // What is given up stays as it is, without what names us; a uid is named here, too.
    let given = target.apply(&map("given", "1", "applyset-x-v1"), WRITE).await.expect("it is written");
    watch.until("it is seen", |names| names.contains_key("given")).await;
    target.release(&id(&given), "no-such-uid", Release::Whole).await.expect("an answer");
    target.release(&id(&given), &uid(&given), Release::Whole).await.expect("it is given up");
    watch.until("it is not watched any more", |names| !names.contains_key("given")).await;
    let left = target.get(&id(&given)).await.expect("an answer").expect("it stays");
    assert_eq!((uid(&left), &left["data"]), (uid(&given), &given["data"]));
    assert!(left["metadata"]["labels"].get(PART_OF_LABEL).is_none(), "{left}");
    target.delete(&id(&given), &uid(&given), None).await.expect("it goes");
    target.release(&id(&given), &uid(&given), Release::Fields).await.expect("what is gone is no error");

    d14_every_legal_name_is_an_object_of_its_own(target).await;

    // Inventory: written without its namespace being there, listed by its label.
    let parent = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "crp.contract", "namespace": NAMESPACE, "labels": {ID_LABEL: "applyset-x-v1"},
            "annotations": {"gitfleet.io/placement": "contract"}},
    });
    target.apply(&parent, WRITE).await.expect("it is written");
    let is_ours = |parents: &[Value]| {
        let mut ours = parents.iter().filter(|p| p["metadata"]["name"] == "crp.contract");
        ours.next().is_some_and(|p| {
            p["metadata"]["annotations"]["gitfleet.io/placement"] == "contract" && p["kind"] == "ConfigMap"
        })
    };
    assert!(is_ours(&target.parents().await.expect("an answer")));
    let found = target.get(&id(&parent)).await.expect("an answer").expect("it is there");
    target.delete(&id(&parent), &uid(&found), None).await.expect("it goes");
    assert!(!is_ours(&target.parents().await.expect("an answer")));
}

/// Whoever had the member before may write an inventory late, and the watch tells what it wrote or removed: from the last list on, and
/// nothing of objects that are no inventory.
async fn tells_who_else_writes_inventories(target: &dyn Target) {
    let parent = |digest: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "crp.late", "namespace": NAMESPACE, "labels": {ID_LABEL: "applyset-late-v1"},
                "annotations": {"gitfleet.io/placement": "late", "gitfleet.io/digest": digest}},
        })
    };
    let first = target.apply(&parent("1"), WRITE).await.expect("it is written");
    target.parents().await.expect("they are listed");
    let (sink, mut observations) = mpsc::channel(100);
    let _watch = target.watch_parents(sink);
    let mut next = async |what: &str| loop {
        let next = tokio::time::timeout(LIMIT, observations.recv()).await;
        let next = next.unwrap_or_else(|_| panic!("{what} in time")).expect("the watch lives");
        // Other tests write inventories on the same member.
        match &next {
            Observation::Inventory(object) | Observation::InventoryGone(object)
                if object["metadata"]["name"] != "crp.late" => {}
            _ => return next,
        }
    };
    let mut stranger = parent("1");
    stranger["metadata"]["name"] = json!("no-inventory");
    stranger["metadata"]["labels"] = json!({});
    target.apply(&stranger, WRITE).await.expect("it is written");
    let second = target.apply(&parent("2"), WRITE).await.expect("it is written");
    match next("the change is told").await {
        Observation::Inventory(object) => {
            assert_eq!(object["metadata"]["annotations"]["gitfleet.io/digest"], "2");
            assert_eq!(object["metadata"]["resourceVersion"], second["metadata"]["resourceVersion"]);
            assert_eq!(object["kind"], "ConfigMap");
        }
        other => panic!("{other:?}"),
    }
    target.delete(&id(&first), &uid(&first), None).await.expect("it goes");
    match next("the removal is told").await {
        Observation::InventoryGone(object) => {
            assert_eq!(object["metadata"]["annotations"]["gitfleet.io/placement"], "late");
            assert_ne!(object["metadata"]["resourceVersion"], second["metadata"]["resourceVersion"]);
        }
        other => panic!("{other:?}"),
    }
    let stranger = target.get(&id(&stranger)).await.expect("an answer").expect("it is there");
    target.delete(&id(&stranger), &uid(&stranger), None).await.expect("it goes");
}

/// Names that Kubernetes takes and that mean something else in a path, in a URL or on a file system that folds case.
async fn d14_every_legal_name_is_an_object_of_its_own(target: &dyn Target) {
    let names = ["team:read", "team_read", "Team:Read", "what else? #1&dryRun=All", "a+b", ".hidden", "w\\x"];
    let role = |name: &str, label: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": name, "namespace": "contract", "labels": {"is": label}}})
    };
    for (label, name) in names.iter().enumerate() {
        target.apply(&role(name, &format!("n{label}")), WRITE).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    for (label, name) in names.iter().enumerate() {
        let found = target.get(&id(&role(name, ""))).await.expect("an answer").expect("it is there");
        assert_eq!(
            (&found["metadata"]["name"], &found["metadata"]["labels"]["is"]),
            (&json!(name), &json!(format!("n{label}")))
        );
        target.delete(&id(&found), &uid(&found), None).await.expect("it goes");
        assert_eq!(target.get(&id(&found)).await.expect("an answer"), None, "{name}");
    }
}

fn run(promises: impl Future<Output = ()>) {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(promises);
}

#[test]
fn a_live_member_keeps_every_promise() {
    let member = &shared().members[2];
    let live = Live::new(&member.name, member.kubeconfig.clone(), None, INVENTORY);
    run(async {
        keeps_every_promise(&live, &live).await;
        tells_who_else_writes_inventories(&live).await;
    });
}

#[test]
fn a_member_behind_the_double_keeps_every_promise() {
    let server = apiserver::Server::start(&apiserver::Options::clusters(2)).expect("the double starts");
    let name = apiserver::name(1);
    let live = Live::new(&name, server.kubeconfig(&name), None, INVENTORY);
    run(async {
        keeps_every_promise(&live, &live).await;
        tells_who_else_writes_inventories(&live).await;
    });
}

#[test]
fn a_directory_member_keeps_every_promise() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let [target, other] = [(); 2].map(|()| Directory::new("d", folder.path().join("below/rendered"), INVENTORY));
    run(keeps_every_promise(&target, &other));
}

#[test]
fn a_directory_members_folder_that_went_is_told() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let path = folder.path().join("rendered");
    let directory = Directory::new("d", path.clone(), INVENTORY);
    run(async {
        directory.connect().await.expect("it answers");
        directory.apply(&map("a", "1", "applyset-x-v1"), WRITE).await.expect("it is written");
        let mut watch = Watch::start(&directory);
        watch.first_list().await;
        std::fs::remove_dir_all(&path).expect("the folder goes");
        let failed = async {
            while let Some(observation) = watch.observations.recv().await {
                if let Observation::Failed(_, error) = observation {
                    return error.is_offline();
                }
            }
            false
        };
        assert!(tokio::time::timeout(LIMIT, failed).await.expect("it is told"));
    });
    assert!(!Path::new(&path).exists());
}

#[test]
fn a_directory_member_is_kept_as_git_says_against_changes_by_hand() {
    let world = World::new(None, &[]);
    let config = std::fs::read_to_string(world.config()).expect("the configuration");
    let members = "members:\n  - name: edge\n    directory: ./edge\n";
    std::fs::write(world.config(), config.replace("members:\n", members)).expect("the configuration is written");
    world.write("fleet.yaml", &member_clusters(["edge"]));
    let app = |maps: &[&str]| {
        let maps: String = maps.iter().map(|name| config_map("edgy", name, "ours")).collect();
        world.write(
            "a.yaml",
            &[placement("edgy", ""), namespace("edgy"), deployment("edgy", "web", "web:1", "1s"), maps].concat(),
        );
    };
    app(&["a", "b"]);
    world.commit("One");
    let daemon = world.start();
    daemon.await_rolled_out("edgy", 0);
    let file = |name: &str| world.path().join("edge").join(format!("configmap..edgy.{name}.yaml"));
    let read = |name: &str| std::fs::read_to_string(file(name)).unwrap_or_default();
    let ours = read("a");
    assert!(ours.contains("ours"), "{ours}");

    std::fs::write(file("a"), ours.replace("ours", "theirs")).expect("a change by hand");
    daemon.until("the change is put back", || read("a") == ours);
    std::fs::remove_file(file("a")).expect("a deletion by hand");
    daemon.until("the deletion is put back", || read("a") == ours);
    std::fs::rename(world.path().join("edge"), world.path().join("away")).expect("the folder goes");
    daemon.until("the folder is made again", || read("a") == ours && read("b").contains("ours"));
    daemon.until("the inventory is made again", || {
        world.path().join("edge/.inventory.crp.edgy.yaml").exists() && read("b").contains("ours")
    });

    // What nobody can read is told; with it out of the way all is well again.
    std::fs::write(file("b"), "a: b: c: [").expect("a file that is no manifest");
    daemon
        .until("the log says what to do", || world.log().iter().any(|line| line.to_string().contains("move it away")));
    std::fs::remove_file(file("b")).expect("it is moved away");
    daemon.until("it is made again", || read("b").contains("ours"));

    // Removed, brought back and removed again: each time the file follows.
    for (maps, index) in [(&["a"][..], 1), (&["a", "b"][..], 2), (&["a"][..], 3)] {
        app(maps);
        world.commit("Next");
        daemon.await_rolled_out("edgy", index);
        daemon.until("the file follows", || file("b").exists() == maps.contains(&"b"));
    }
}
