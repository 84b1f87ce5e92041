//! What delivery relies on in an API server, below the [`Target`](cluster::Target): the double promises the same as a
//! kube-apiserver.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use super::{LIMIT, run};
use crate::e2e::apiserver::{HISTORY_EVENTS_MAX, Options, Server, name};
use crate::e2e::fleet;
use crate::e2e::shared;

const NAMESPACE: &str = "api-contract";
const MAPS: &str = "/api/v1/namespaces/api-contract/configmaps";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json";
/// Pause between two looks at what a controller does.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// An API server, asked without a client's opinion on the answers.
struct Api(Client);

impl Api {
    async fn connect(kubeconfig: &Path) -> Self {
        let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        Self(Client::try_from(config.expect("a configuration")).expect("a client"))
    }

    async fn ask(&self, method: &str, path: &str, type_: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = http::Request::builder().method(method).uri(path).header("content-type", type_);
        let request = request.body(kube::client::Body::from(body)).expect("a request");
        let answer = tokio::time::timeout(LIMIT, self.0.send(request)).await.expect("in time").expect("an answer");
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect_bytes().await.expect("a body");
        (code, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.ask("GET", path, JSON, &Value::Null).await
    }

    /// Applies as a manager; `more` are further parameters.
    async fn apply(&self, manager: &str, more: &str, path: &str, object: &Value) -> (u16, Value) {
        self.ask("PATCH", &format!("{path}?fieldManager={manager}{more}"), APPLY, object).await
    }

    /// Applies a ConfigMap that nobody refuses; returns it.
    async fn map(&self, manager: &str, name: &str, labels: Value, data: Value) -> Value {
        let (code, answer) = self.apply(manager, "", &format!("{MAPS}/{name}"), &map(name, labels, data)).await;
        assert!([200, 201].contains(&code), "{answer}");
        answer
    }

    /// Reads a watch until its end, or so many events.
    async fn watch(&self, parameters: &str, count: usize) -> Vec<Value> {
        let request = http::Request::get(format!("{MAPS}?watch=true&timeoutSeconds=20&{parameters}"));
        let request = request.body(Vec::new()).expect("a request");
        let lines = tokio::time::timeout(LIMIT, self.0.request_stream(request)).await.expect("in time");
        let mut lines = lines.expect("an answer").lines();
        let mut events = Vec::new();
        while events.len() < count
            && let Some(line) = tokio::time::timeout(LIMIT, lines.try_next()).await.expect("in time").expect("a line")
        {
            events.push(serde_json::from_str(&line).expect("an event"));
        }
        events
    }
}

/// Returns a ConfigMap; empty maps are left out, because somebody would own them.
#[expect(clippy::needless_pass_by_value, reason = "labels and data are written in place")]
fn map(name: &str, labels: Value, data: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    if labels != json!({}) {
        object["metadata"]["labels"] = labels.clone();
    }
    if data != json!({}) {
        object["data"] = data.clone();
    }
    object
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().expect("a version")
}

/// Returns the managers with the names of the data that they own.
fn owners(object: &Value) -> Vec<(String, Vec<String>)> {
    let entries = object["metadata"]["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |entry: &Value| {
        let data = entry["fieldsV1"]["f:data"].as_object().into_iter().flatten();
        let names = data.filter_map(|(name, _)| name.strip_prefix("f:").map(str::to_owned)).collect();
        (entry["manager"].as_str().unwrap_or_default().to_owned(), names)
    };
    let mut all: Vec<_> = entries.iter().map(of).collect();
    // Where they were written in one second, they come by name, else by time.
    all.sort();
    all
}

fn owned<const N: usize>(all: [(&str, &[&str]); N]) -> Vec<(String, Vec<String>)> {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    all.map(|(manager, fields)| (manager.to_owned(), names(fields))).to_vec()
}

fn reason(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["reason"].as_str().unwrap_or_default())
}

async fn keeps_the_api(api: &Api) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    api.apply("a", "", &format!("/api/v1/namespaces/{NAMESPACE}"), &namespace).await;
    versions_say_what_changed(api).await;
    fields_have_owners(api).await;
    owners_can_be_reset(api).await;
    lists_are_merged_by_key(api).await;
    refusals_say_why(api).await;
    dry_runs_write_nothing(api).await;
    deletions_have_preconditions(api).await;
    finalizers_keep_objects(api).await;
    lists_come_in_pages(api).await;
    watches_follow_lists(api).await;
    definitions_define(api).await;
    namespaces_take_their_content_along(api).await;
}

/// An apply that changes nothing makes no version; a spec that changes makes a generation, metadata do not.
async fn versions_say_what_changed(api: &Api) {
    let first = api.map("a", "versions", json!({}), json!({"x": "1"})).await;
    let same = api.map("a", "versions", json!({}), json!({"x": "1"})).await;
    assert_eq!((version(&same), &same["metadata"]), (version(&first), &first["metadata"]));
    let changed = api.map("a", "versions", json!({}), json!({"x": "2"})).await;
    let number = |object: &Value| version(object).parse::<u64>().expect("a number");
    assert!(number(&changed) > number(&first));

    let path = "/apis/networking.k8s.io/v1/namespaces/api-contract/networkpolicies/p";
    let policy = |label: &str, kinds: Value| {
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": "p", "labels": {"is": label}}, "spec": {"podSelector": {}, "policyTypes": kinds}})
    };
    for (label, kinds, generation) in
        [("one", json!(["Ingress"]), 1), ("two", json!(["Ingress"]), 1), ("two", json!(["Egress"]), 2)]
    {
        let (_, answer) = api.apply("a", "", path, &policy(label, kinds)).await;
        assert_eq!(answer["metadata"]["generation"], generation, "{answer}");
    }
    assert_eq!(first["metadata"].get("generation"), None, "ConfigMaps have none");
}

/// Who applied a field owns it; another value needs force; what an apply leaves out goes unless somebody else wants it.
async fn fields_have_owners(api: &Api) {
    let path = format!("{MAPS}/owned");
    let first = api.map("a", "owned", json!({"l": "1"}), json!({"x": "1", "y": "1"})).await;
    assert_eq!(owners(&first), owned([("a", &["x", "y"])]));
    assert_eq!(first["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"], json!({"f:labels": {"f:l": {}}}));
    let other = map("owned", json!({}), json!({"x": "2", "z": "2"}));
    let refused = api.apply("b", "", &path, &other).await;
    assert_eq!(reason(&refused), (409, "Conflict"), "{}", refused.1);
    let cause = json!({"reason": "FieldManagerConflict", "message": "conflict with \"a\"", "field": ".data.x"});
    assert_eq!(refused.1["details"]["causes"], json!([cause]));
    assert_eq!(refused.1["message"], "Apply failed with 1 conflict: conflict with \"a\": .data.x");
    let same = api.map("b", "owned", json!({}), json!({"x": "1"})).await;
    assert_eq!(owners(&same), owned([("a", &["x", "y"]), ("b", &["x"])]), "one value has two owners");
    let (_, taken) = api.apply("b", "&force=true", &path, &other).await;
    assert_eq!(owners(&taken), owned([("a", &["y"]), ("b", &["x", "z"])]));
    let left = api.map("a", "owned", json!({}), json!({})).await;
    assert_eq!(owners(&left), owned([("b", &["x", "z"])]));
    assert_eq!((&left["data"], left["metadata"].get("labels")), (&json!({"x": "2", "z": "2"}), None));
    let change = json!({"data": {"x": "9", "z": null}});
    let (_, patched) = api.ask("PATCH", &format!("{path}?fieldManager=c"), MERGE, &change).await;
    assert_eq!((owners(&patched), &patched["data"]), (owned([("c", &["x"])]), &json!({"x": "9"})));
    let refused = api.apply("b", "", &path, &other).await;
    assert_eq!(refused.1["details"]["causes"][0]["message"], "conflict with \"c\" using v1");
}

/// Giving up an object takes managers away; who applies then meets what was there before.
async fn owners_can_be_reset(api: &Api) {
    let path = format!("{MAPS}/given");
    api.map("a", "given", json!({}), json!({"x": "1"})).await;
    let (_, reset) = api.ask("PATCH", &path, MERGE, &json!({"metadata": {"managedFields": [{}]}})).await;
    assert_eq!(reset["metadata"].get("managedFields"), None, "{reset}");
    let refused = api.apply("b", "", &path, &map("given", json!({}), json!({"x": "2"}))).await;
    assert_eq!(refused.1["details"]["causes"][0]["message"], "conflict with \"before-first-apply\" using v1");
}

async fn lists_are_merged_by_key(api: &Api) {
    let path = "/apis/apps/v1/namespaces/api-contract/deployments/d";
    let deployment = |containers: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 0,
            "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}}})
    };
    let main = json!({"name": "main", "image": "one", "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "1"}]});
    let (_, first) = api.apply("a", "", path, &deployment(json!([main]))).await;
    let of = |entry: &Value| entry["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"].clone();
    let wanted = json!({"k:{\"name\":\"main\"}": {".": {}, "f:name": {}, "f:image": {},
        "f:env": {"k:{\"name\":\"X\"}": {".": {}, "f:name": {}, "f:value": {}}, "k:{\"name\":\"Y\"}": {".": {}, "f:name": {}, "f:value": {}}},
        "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:protocol": {}}}}});
    assert_eq!(of(&first["metadata"]["managedFields"][0]), wanted);
    let both = json!([{"name": "main", "env": [{"name": "Z", "value": "1"}]}, {"name": "side", "image": "two"}]);
    let (code, added) = api.apply("b", "", path, &deployment(both)).await;
    assert_eq!(code, 200, "{added}");
    let less = json!([{"name": "main", "image": "one", "env": [{"name": "Y", "value": "1"}]}]);
    let (_, left) = api.apply("a", "", path, &deployment(less)).await;
    let containers = left.pointer("/spec/template/spec/containers").and_then(Value::as_array).expect("containers");
    let names = |items: &Value| -> Vec<Value> {
        items.as_array().into_iter().flatten().map(|item| item["name"].clone()).collect()
    };
    assert_eq!(names(&json!(containers)), ["main", "side"]);
    assert_eq!(names(&containers[0]["env"]), ["Y", "Z"], "{left}");
    assert_eq!(containers[0].get("ports"), None, "{left}");
}

async fn refusals_say_why(api: &Api) {
    let there = api.map("a", "there", json!({}), json!({})).await;
    let plain = |name: &str| map(name, json!({}), json!({}));
    let with = |field: &str, value: &str| {
        let mut object = plain("there");
        object["metadata"][field] = json!(value);
        object
    };
    let (path, absent) = (format!("{MAPS}/there"), format!("{MAPS}/absent"));
    let mut new = with("uid", "no-such-uid");
    new["metadata"]["name"] = json!("absent");
    for (what, answer, wanted) in [
        ("nothing", api.get(&absent).await, (404, "NotFound")),
        (
            "no namespace",
            api.apply("a", "", "/api/v1/namespaces/absent/configmaps/x", &plain("x")).await,
            (404, "NotFound"),
        ),
        ("a bad name", api.apply("a", "", &format!("{MAPS}/B_d"), &plain("B_d")).await, (422, "Invalid")),
        ("another name", api.apply("a", "", &path, &plain("x")).await, (400, "BadRequest")),
        ("another uid", api.apply("a", "", &path, &with("uid", "no-such-uid")).await, (422, "Invalid")),
        ("a uid of nothing", api.apply("a", "", &absent, &new).await, (409, "Conflict")),
        ("an old version", api.apply("a", "", &path, &with("resourceVersion", "1")).await, (409, "Conflict")),
        ("no manager", api.ask("PATCH", &path, APPLY, &plain("there")).await, (422, "Invalid")),
        ("a patch of nothing", api.ask("PATCH", &absent, MERGE, &json!({})).await, (404, "NotFound")),
        (
            "a stale patch",
            api.ask("PATCH", &path, MERGE, &json!({"metadata": {"resourceVersion": "1"}})).await,
            (409, "Conflict"),
        ),
        ("made twice", api.ask("POST", MAPS, JSON, &plain("there")).await, (409, "AlreadyExists")),
        ("no kind", api.get("/apis/absent.example.com/v1/things").await, (404, "")),
        ("no such kind", api.get("/api/v1/things").await, (404, "NotFound")),
    ] {
        assert_eq!(reason(&answer), wanted, "{what}: {}", answer.1);
    }
    let number = map("there", json!({}), json!({"x": 1}));
    assert_eq!(api.apply("a", "", &path, &number).await.0, 500, "a number is no text");
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bad"}, "data": {"x": "not base64!"}});
    let refused = api.apply("a", "", "/api/v1/namespaces/api-contract/secrets/bad", &secret).await;
    assert_eq!(refused.0, 500, "the value of a Secret is base64: {}", refused.1);
    assert!(refused.1["message"].as_str().is_some_and(|why| why.contains("illegal base64 data")), "{}", refused.1);
    assert_eq!(api.get(&path).await.1["metadata"], there["metadata"], "nothing of that was written");
}

async fn dry_runs_write_nothing(api: &Api) {
    let path = format!("{MAPS}/dry");
    let (code, answer) = api.apply("a", "&dryRun=All", &path, &map("dry", json!({}), json!({"x": "1"}))).await;
    assert_eq!((code, &answer["data"]["x"]), (201, &json!("1")));
    assert_eq!(answer["metadata"].get("resourceVersion"), None);
    assert_eq!(api.get(&path).await.0, 404);
    let first = api.map("a", "dry", json!({}), json!({"x": "1"})).await;
    let (code, answer) = api.apply("a", "&dryRun=All", &path, &map("dry", json!({}), json!({"x": "2"}))).await;
    assert_eq!((code, &answer["data"]["x"], version(&answer)), (200, &json!("2"), version(&first)));
    assert_eq!(api.ask("DELETE", &path, JSON, &json!({"dryRun": ["All"]})).await.0, 200);
    assert_eq!(api.get(&path).await.1, first);
}

async fn deletions_have_preconditions(api: &Api) {
    let path = format!("{MAPS}/goes");
    let there = api.map("a", "goes", json!({}), json!({})).await;
    let uid = there["metadata"]["uid"].clone();
    for (condition, value) in [("uid", json!("no-such-uid")), ("resourceVersion", json!("1"))] {
        let answer = api.ask("DELETE", &path, JSON, &json!({"preconditions": {condition: value}})).await;
        assert_eq!(reason(&answer), (409, "Conflict"), "{}", answer.1);
    }
    let options = json!({"preconditions": {"uid": uid}, "propagationPolicy": "Background"});
    let (code, answer) = api.ask("DELETE", &path, JSON, &options).await;
    assert_eq!((code, &answer["kind"], &answer["details"]["uid"]), (200, &json!("Status"), &uid));
    assert_eq!(reason(&api.ask("DELETE", &path, JSON, &options).await), (404, "NotFound"));
    let again = api.map("a", "goes", json!({}), json!({})).await;
    assert_ne!(again["metadata"]["uid"], uid, "another object has another uid");
}

async fn finalizers_keep_objects(api: &Api) {
    let path = format!("{MAPS}/held");
    let mut held = map("held", json!({}), json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    api.apply("a", "", &path, &held).await;
    let (code, going) = api.ask("DELETE", &path, JSON, &Value::Null).await;
    assert_eq!((code, &going["kind"]), (200, &json!("ConfigMap")), "{going}");
    assert!(going["metadata"]["deletionTimestamp"].is_string(), "{going}");
    let (_, again) = api.ask("DELETE", &path, JSON, &Value::Null).await;
    assert_eq!(version(&again), version(&going), "it is going already");
    api.map("a", "held", json!({}), json!({})).await;
    assert_eq!(api.get(&path).await.0, 404, "nothing holds it any more");
}

async fn lists_come_in_pages(api: &Api) {
    for number in 0..5 {
        api.map("a", &format!("page-{number}"), json!({"page": "yes"}), json!({})).await;
    }
    let mut seen = Vec::new();
    let mut token = String::new();
    let mut versions = BTreeSet::new();
    loop {
        let (code, list) = api.get(&format!("{MAPS}?labelSelector=page&limit=2{token}")).await;
        assert_eq!((code, &list["kind"]), (200, &json!("ConfigMapList")), "{list}");
        versions.insert(version(&list).to_owned());
        let items = list["items"].as_array().expect("items");
        assert!(items.len() <= 2 && items.iter().all(|item| item.get("kind").is_none()), "{list}");
        seen.extend(items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()));
        match list["metadata"]["continue"].as_str().filter(|next| !next.is_empty()) {
            Some(next) => token = format!("&continue={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ["page-0", "page-1", "page-2", "page-3", "page-4"]);
    assert_eq!(versions.len(), 1, "the pages of a list have one version");
    let (_, list) = api.get(&format!("{MAPS}?limit=2")).await;
    assert!(list["metadata"]["remainingItemCount"].as_u64().is_some_and(|rest| rest > 2), "{list}");
    let (_, list) = api.get(&format!("{MAPS}?limit=2&labelSelector=page&resourceVersion=0")).await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(5), "what is answered from memory comes whole");
    for (parameters, code) in [("limit=2&continue=nothing", 400), ("resourceVersionMatch=Exact", 422)] {
        assert_eq!(api.get(&format!("{MAPS}?{parameters}")).await.0, code, "{parameters}");
    }
    for (selector, count) in [("page%3Dyes", 5), ("page!%3Dyes,page", 0), ("page+in+(yes,no),!absent", 5)] {
        let (_, list) = api.get(&format!("{MAPS}?labelSelector={selector}")).await;
        assert_eq!(list["items"].as_array().map(Vec::len), Some(count), "{selector}");
    }
    let (_, list) = api.get(&format!("{MAPS}?fieldSelector=metadata.name%3Dpage-3")).await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
}

fn events(all: &[Value]) -> Vec<(&str, &str)> {
    all.iter().map(pair).collect()
}

fn pair(event: &Value) -> (&str, &str) {
    let name = event["object"]["metadata"]["name"].as_str();
    (event["type"].as_str().unwrap_or_default(), name.unwrap_or_default())
}

/// A watch tells everything since the version of a list, as somebody sees it who selects by label.
async fn watches_follow_lists(api: &Api) {
    api.map("a", "seen-0", json!({"seen": "yes"}), json!({})).await;
    let (_, list) = api.get(&format!("{MAPS}?labelSelector=seen")).await;
    let since = version(&list).to_owned();
    api.map("a", "seen-1", json!({"seen": "yes"}), json!({})).await;
    api.map("a", "unseen", json!({}), json!({})).await;
    api.map("a", "seen-1", json!({"seen": "yes"}), json!({"x": "1"})).await;
    let hidden = api.map("a", "seen-1", json!({}), json!({"x": "2"})).await;
    api.map("a", "seen-1", json!({"seen": "yes"}), json!({"x": "3"})).await;
    api.ask("DELETE", &format!("{MAPS}/seen-1"), JSON, &Value::Null).await;
    let wanted = [
        ("ADDED", "seen-1"),
        ("MODIFIED", "seen-1"),
        ("DELETED", "seen-1"),
        ("ADDED", "seen-1"),
        ("DELETED", "seen-1"),
    ];
    let all = api.watch(&format!("labelSelector=seen&resourceVersion={since}"), 5).await;
    assert_eq!(events(&all), wanted);
    assert_eq!(version(&all[2]["object"]), version(&hidden), "what is not selected any more ends with that change");
    assert_eq!(all[2]["object"]["data"]["x"], "1", "and is told as it was");
    let all = api.watch("labelSelector=seen", 1).await;
    assert_eq!(events(&all), [("ADDED", "seen-0")], "without a version it begins with what is there");
    let streamed = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let all = api.watch(&format!("labelSelector=seen&{streamed}"), 2).await;
    assert_eq!(events(&all), [("ADDED", "seen-0"), ("BOOKMARK", "")]);
    assert_eq!(all[1]["object"]["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
}

async fn definitions_define(api: &Api) {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.contract.example.com";
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.contract.example.com"}, "spec": {"group": "contract.example.com", "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets"}, "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    let widgets = "/apis/contract.example.com/v1/namespaces/api-contract/widgets";
    assert_eq!(api.get(widgets).await.0, 404);
    api.apply("a", "", path, &definition).await;
    until("the definition is established", async || {
        let (_, answer) = api.get(path).await;
        let conditions = answer["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is_established = conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True");
        is_established && api.get(widgets).await.0 == 200
    })
    .await;
    let (_, list) = api.get("/apis/contract.example.com/v1").await;
    let names: Vec<&Value> = list["resources"].as_array().into_iter().flatten().map(|kind| &kind["kind"]).collect();
    assert_eq!(names, ["Widget"]);
    let widget = json!({"apiVersion": "contract.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"x": [1, 2]}});
    let (code, answer) = api.apply("a", "", &format!("{widgets}/w"), &widget).await;
    assert_eq!((code, &answer["spec"], &answer["metadata"]["generation"]), (201, &widget["spec"], &json!(1)));
    assert_eq!(api.get(widgets).await.1["items"][0]["kind"], "Widget");
    api.ask("DELETE", path, JSON, &Value::Null).await;
    until("nothing of the kind is served", async || api.get(widgets).await.0 == 404).await;
}

async fn namespaces_take_their_content_along(api: &Api) {
    let path = format!("/api/v1/namespaces/{NAMESPACE}");
    let (code, going) = api.ask("DELETE", &path, JSON, &Value::Null).await;
    assert_eq!((code, &going["status"]["phase"]), (200, &json!("Terminating")), "{going}");
    until("the namespace is gone", async || api.get(&path).await.0 == 404).await;
    assert_eq!(api.get(MAPS).await.1["items"], json!([]));
}

async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let looks = async {
        while !condition().await {
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    };
    tokio::time::timeout(LIMIT, looks).await.unwrap_or_else(|_| panic!("waited in vain: {what}"));
}

/// A watch from a version that is not known any more ends with 410, in its stream.
async fn is_told_to_list_again(api: &Api, since: &str) {
    let all = api.watch(&format!("resourceVersion={since}"), 2).await;
    let told: Vec<(&Value, &Value)> = all.iter().map(|event| (&event["type"], &event["object"]["code"])).collect();
    assert_eq!(told, [(&json!("ERROR"), &json!(410))], "{all:?}");
    assert_eq!(all[0]["object"]["reason"], "Expired");
}

#[test]
fn a_kube_apiserver_keeps_the_api() {
    let kubeconfig = &shared().members[2].kubeconfig;
    run(async { keeps_the_api(&Api::connect(kubeconfig).await).await });
}

#[test]
fn the_double_keeps_the_api() {
    let server = Server::start(&Options::clusters(2)).expect("the double starts");
    run(async { keeps_the_api(&Api::connect(&server.kubeconfig(&name(1))).await).await });
}

#[test]
fn a_kube_apiserver_that_started_again_says_that_a_watch_is_too_old() {
    let fleet = fleet::Fleet::start(fleet::Options::members(1)).expect("a fleet");
    let member = &fleet.members[0];
    let list = || async { Api::connect(&member.kubeconfig).await.get("/api/v1/configmaps").await.1 };
    let mut since = String::new();
    run(async { since = version(&list().await).to_owned() });
    let namespace = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {NAMESPACE}}}}}");
    member.apply("a", &namespace).expect("a namespace");
    member.restart().expect("the API server starts again");
    run(async { is_told_to_list_again(&Api::connect(&member.kubeconfig).await, &since).await });
}

#[test]
fn the_double_says_that_a_watch_is_too_old() {
    let server = Server::start(&Options::clusters(1)).expect("the double starts");
    run(async {
        let api = Api::connect(&server.kubeconfig(&name(0))).await;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        api.apply("a", "", &format!("/api/v1/namespaces/{NAMESPACE}"), &namespace).await;
        let since = version(&api.get(MAPS).await.1).to_owned();
        for number in 0..=HISTORY_EVENTS_MAX {
            api.map("a", "often", json!({}), json!({"number": number.to_string()})).await;
        }
        is_told_to_list_again(&api, &since).await;
    });
}
