use std::fs;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use super::*;

const PART_OF: &str = "applyset.kubernetes.io/part-of";
const INVENTORY: Inventory = Inventory {
    namespace: "gitfleet-system",
    id_label: "applyset.kubernetes.io/id",
    part_of_label: PART_OF,
    part_annotations: &["kubernetes-fleet.io/spec-hash", "gitfleet.io/placed-by"],
};
const WRITE: ApplyOptions = ApplyOptions { force: true, dry_run: false };
const RBAC: &str = "rbac.authorization.k8s.io/v1";

fn object(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": "app", "labels": {PART_OF: "applyset-x-v1"}}})
}

fn id(object: &Value) -> ObjectId {
    ObjectId::of(object).expect("an object")
}

fn kind_of(object: &Value) -> WatchedKind {
    let ObjectId { group, kind, .. } = id(object);
    WatchedKind { group, kind }
}

fn uid(object: &Value) -> String {
    first_name(&id(object).key())
}

/// A member's folder beside another's.
struct Place {
    dir: TempDir,
    member: Directory,
}

impl Place {
    fn new() -> Self {
        let dir = TempDir::new().expect("a folder");
        let member = Directory::new("dev", dir.path().join("dev"), INVENTORY);
        fs::create_dir(dir.path().join("dev")).expect("a folder");
        fs::create_dir(dir.path().join("prod")).expect("a folder");
        Self { dir, member }
    }

    fn write(&self, path: &str, object: &Value) {
        fs::write(self.dir.path().join(path), yaml::to_string(object)).expect("it is written");
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.dir.path().join(path)).expect("it is there")
    }

    fn files(&self, member: &str) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path().join(member)).expect("the folder");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn listed(&self, kind: &WatchedKind) -> Vec<String> {
        let mut names = Vec::new();
        let found = |object: Value| {
            names.push(id(&object).name);
            true
        };
        self.member.list(kind, found).expect("a list");
        names
    }
}

#[tokio::test]
async fn d03_no_identity_leads_out_of_the_folder() {
    let place = Place::new();
    let secret = object("v1", "Secret", "db");
    place.write("prod/secret..app.db.yaml", &secret);
    let before = place.read("prod/secret..app.db.yaml");
    let absolute = place.dir.path().join("prod/secret").to_string_lossy().into_owned();
    for kind in ["../prod/secret", &absolute, "..", "", "a/b"] {
        let foreign = object("v1", kind, "db");
        place.member.apply(&foreign, WRITE).await.expect("it is written into the folder");
        assert!(place.member.get(&id(&foreign)).await.expect("an answer").is_some(), "{kind}");
        assert_eq!(place.listed(&kind_of(&foreign)), ["db"], "{kind}");
        assert_eq!(place.files("dev").len(), 1, "{kind}");
        let gone = place.member.delete(&id(&foreign), &uid(&foreign), None).await.expect("an answer");
        assert_eq!((gone, place.files("dev").len()), (Deletion::Gone, 0), "{kind}");
    }
    assert_eq!(place.files("prod"), ["secret..app.db.yaml"]);
    assert_eq!(place.read("prod/secret..app.db.yaml"), before);
    assert_eq!(place.files("."), ["dev", "prod"]);
}

#[tokio::test]
async fn d03_links_in_the_folder_are_not_followed() {
    let place = Place::new();
    let map = object("v1", "ConfigMap", "a");
    place.write("prod/outside.yaml", &object("v1", "Secret", "outside"));
    let before = place.read("prod/outside.yaml");
    let link = place.dir.path().join("dev/configmap..app.a.yaml");
    let plant = || std::os::unix::fs::symlink("../prod/outside.yaml", &link).expect("a link");
    plant();
    let error = place.member.list(&kind_of(&map), |_| true).expect_err("it is told").to_string();
    assert!(error.contains("configmap..app.a.yaml") && error.contains("symbolic link"), "{error}");
    place.member.delete(&id(&map), &uid(&map), None).await.expect_err("what cannot be read is not removed");
    place.member.apply(&map, WRITE).await.expect("the file takes the link's place");
    assert!(!fs::symlink_metadata(&link).expect("it is there").is_symlink());
    assert_eq!(place.read("prod/outside.yaml"), before);

    // Neither is a link in the place of the file that is written first.
    fs::remove_file(&link).expect("it goes");
    let temporary = FileName::of(&id(&map).key()).temporary();
    std::os::unix::fs::symlink("../prod/outside.yaml", place.dir.path().join("dev").join(temporary.as_str()))
        .expect("a link");
    place.member.apply(&map, WRITE).await.expect("it is written");
    assert_eq!((place.read("prod/outside.yaml"), place.files("dev").len()), (before, 1));
}

#[tokio::test]
async fn d14_two_objects_have_two_files() {
    let place = Place::new();
    let roles = ["team:read", "team_read"].map(|name| object(RBAC, "Role", name));
    for role in &roles {
        place.member.apply(role, WRITE).await.expect("it is written");
    }
    assert_eq!(place.listed(&kind_of(&roles[0])), ["team:read", "team_read"]);
    place.member.delete(&id(&roles[0]), &uid(&roles[0]), None).await.expect("it goes");
    assert_eq!(place.listed(&kind_of(&roles[0])), ["team_read"]);
    assert_eq!(place.files("dev"), ["role.rbac.authorization.k8s.io.app.team_read.yaml"]);
}

#[tokio::test]
async fn d14_kinds_that_differ_in_capital_letters_are_refused_and_nothing_is_lost() {
    let place = Place::new();
    let (one, other) = (object("example.com/v1", "HttpRoute", "a"), object("example.com/v1", "HTTPRoute", "a"));
    place.member.apply(&one, WRITE).await.expect("it is written");
    let error = place.member.apply(&other, WRITE).await.expect_err("it is refused");
    assert!(!error.is_offline() && error.to_string().contains("capital letters"), "{error}");
    assert_eq!(place.member.get(&id(&other)).await.expect("an answer"), None);
    place.member.delete(&id(&other), &uid(&other), None).await.expect("an answer");
    assert!(place.member.get(&id(&one)).await.expect("an answer").is_some(), "another object's file stays");
}

#[tokio::test]
async fn files_of_the_first_version_get_their_new_names() {
    let place = Place::new();
    let route = |name: &str| object("example.com/v1", "Route", name);
    let roles = ["team:read", "plain"].map(|name| object(RBAC, "Role", name));
    let copy = object(RBAC, "Role", "plain");
    let unlabelled = json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "a:b", "namespace": "app"}});
    place.write("dev/role.rbac.authorization.k8s.io.app.team_read.yaml", &roles[0]);
    place.write("dev/role.rbac.authorization.k8s.io.app.plain.yaml", &roles[1]);
    place.write("dev/role.rbac.authorization.k8s.io.app.copy.yaml", &copy);
    place.write("dev/role.rbac.authorization.k8s.io.app.a_b.yaml", &unlabelled);
    place.write("dev/route.example.com.app.www.example.com.yaml", &route("www.example.com"));
    // What only the first version took: it can still be removed.
    place.write("dev/configmap..app.oops a space.yaml", &object("v1", "ConfigMap", "oops a space"));
    let before = place.read("dev/role.rbac.authorization.k8s.io.app.team_read.yaml");
    for _ in 0..2 {
        assert_eq!(place.listed(&kind_of(&roles[0])), ["plain", "team:read"]);
        assert_eq!(place.listed(&kind_of(&route(""))), ["www.example.com"]);
        assert_eq!(place.listed(&kind_of(&object("v1", "ConfigMap", ""))), ["oops a space"]);
        assert_eq!(
            place.files("dev"),
            [
                "configmap..app.oops%20a%20space.yaml",
                "role.rbac.authorization.k8s.io.app.a_b.yaml",
                "role.rbac.authorization.k8s.io.app.copy.yaml",
                "role.rbac.authorization.k8s.io.app.plain.yaml",
                "role.rbac.authorization.k8s.io.app.team%3Aread.yaml",
                "route.example.com.app.www%2Eexample%2Ecom.yaml",
            ]
        );
    }
    assert_eq!(
        place.read("dev/role.rbac.authorization.k8s.io.app.team%3Aread.yaml"),
        before,
        "nothing was written again"
    );
    let old = object("v1", "ConfigMap", "oops a space");
    place.member.delete(&id(&old), &uid(&old), None).await.expect("it goes");
    assert_eq!(place.files("dev").len(), 5);

    // A crash in the middle of a change of names leaves both, and one goes; so does one that a backup brought back.
    let names = ["team_read", "team%3Aread"].map(|name| format!("dev/role.rbac.authorization.k8s.io.app.{name}.yaml"));
    let [first, now] = names.clone().map(|name| place.dir.path().join(name));
    fs::hard_link(&now, &first).expect("a second name");
    assert_eq!((place.listed(&kind_of(&roles[0])).len(), first.exists()), (2, false));
    assert_eq!(place.read(&names[1]), before);
    place.write(&names[0], &roles[0]);
    place.listed(&kind_of(&roles[0]));
    assert_eq!((first.exists(), now.exists()), (false, true));
}

#[tokio::test]
async fn d08_many_objects_are_written_at_once() {
    let place = Place::new();
    let maps: Vec<Value> = (0..40).map(|n| object("v1", "ConfigMap", &format!("m{n}"))).collect();
    let applied = futures::future::join_all(maps.iter().map(|map| place.member.apply(map, WRITE))).await;
    assert!(applied.iter().all(Result::is_ok));
    assert_eq!(place.files("dev").len(), 40, "nothing temporary is left");
    place.member.delete(&id(&maps[0]), &uid(&maps[0]), None).await.expect("it goes");
    assert_eq!(place.files("dev").len(), 39);
}

#[tokio::test]
async fn what_stands_in_the_place_of_one_file_concerns_one_object() {
    let place = Place::new();
    let map = object("v1", "ConfigMap", "a");
    fs::create_dir(place.dir.path().join("dev/configmap..app.a.yaml")).expect("a folder");
    let error = place.member.apply(&map, WRITE).await.expect_err("there is no place for it");
    assert!(!error.is_offline() && error.to_string().contains("move it away"), "{error}");
    assert_eq!(place.files("dev"), ["configmap..app.a.yaml"], "what was begun is cleaned up");
    fs::write(place.dir.path().join("dev/.gitfleet-abc.tmp"), "half").expect("a file");
    place.member.connect().await.expect("it answers");
    assert_eq!(place.files("dev"), ["configmap..app.a.yaml"], "what a crash left is cleaned up");
}

/// How long a watch may take to tell of a change.
const PATIENCE: Duration = Duration::from_mins(1);

#[tokio::test]
async fn what_goes_before_the_watch_has_listed_it_is_missed_all_the_same() {
    let place = Place::new();
    let map = object("v1", "ConfigMap", "a");
    let (sink, mut observations) = mpsc::channel(100);
    let _watch = place.member.watch(&kind_of(&map), None, sink);
    let mut next_list = async || {
        loop {
            let next = tokio::time::timeout(PATIENCE, observations.recv()).await.expect("a list in time");
            if let Observation::ListDone(_) = next.expect("the watch continues") {
                return;
            }
        }
    };
    next_list().await;
    // Both within the time that the folder must be quiet.
    place.write("dev/configmap..app.a.yaml", &map);
    fs::remove_file(place.dir.path().join("dev/configmap..app.a.yaml")).expect("it is there");
    next_list().await;
}

/// Returns what a watch reports until it has reported the change of an object of this name: names, with `list` for each list.
async fn reported(observations: &mut mpsc::Receiver<Observation>, last: &str) -> Vec<String> {
    let mut reported = Vec::new();
    loop {
        let next = tokio::time::timeout(PATIENCE, observations.recv()).await.expect("an observation in time");
        match next.expect("the watch continues") {
            Observation::ListDone(_) => reported.push("list".to_owned()),
            Observation::Changed(object) => reported.push(id(&object.to_value()).name),
            _ => {}
        }
        if reported.last().is_some_and(|name| name == last) {
            return reported;
        }
    }
}

#[tokio::test]
async fn only_what_others_change_is_read_again() {
    let place = Place::new();
    let maps: Vec<Value> = (0..3).map(|n| object("v1", "ConfigMap", &format!("m{n}"))).collect();
    let (sink, mut observations) = mpsc::channel(100);
    let _watch = place.member.watch(&kind_of(&maps[0]), None, sink);
    assert_eq!(reported(&mut observations, "list").await, ["list"]);
    for map in &maps {
        place.member.apply(map, WRITE).await.expect("it is written");
    }
    let mut changed = maps[1].clone();
    changed["data"] = json!({"by": "somebody"});
    place.write("dev/configmap..app.m1.yaml", &changed);
    assert_eq!(reported(&mut observations, "m1").await, ["m1"], "no list, and none of our own writes");
    place.member.delete(&id(&maps[0]), &uid(&maps[0]), None).await.expect("it goes");
    place.write("dev/configmap..app.m2.yaml", &changed);
    assert_eq!(
        reported(&mut observations, "list").await,
        ["list"],
        "a file that is not its object's is no change of it"
    );
}
