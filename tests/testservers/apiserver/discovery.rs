//! Which kinds a cluster serves, in the old lists and in the aggregated form.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::answer::Answer;
use super::kinds::{Kind, KindKey, built_in};

/// The version that the server says it has.
const GIT_VERSION: &str = "v1.36.0-double";
/// The form of aggregated discovery, as requests and answers name it.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const VERBS: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];
const STATUS_VERBS: [&str; 3] = ["get", "patch", "update"];

/// Groups with their versions and kinds.
type Groups = BTreeMap<String, BTreeMap<String, Vec<Arc<Kind>>>>;

fn groups(custom: &BTreeMap<KindKey, Arc<Kind>>) -> Groups {
    let mut groups = Groups::new();
    for kind in built_in().values().chain(custom.values()) {
        for version in &kind.versions {
            groups.entry(kind.group.clone()).or_default().entry(version.clone()).or_default().push(Arc::clone(kind));
        }
    }
    groups
}

/// Answers a request for a fixed path; `None` where there is nothing.
pub(super) fn answer(path: &str, accepted: &str, custom: &BTreeMap<KindKey, Arc<Kind>>) -> Option<Answer> {
    let is_aggregated = accepted.contains("as=APIGroupDiscoveryList");
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let json = match segments.as_slice() {
        ["readyz" | "livez" | "healthz", ..] => return Some(Answer::text(200, "ok")),
        ["version"] => {
            json!({"major": "1", "minor": "36", "gitVersion": GIT_VERSION, "gitCommit": "", "gitTreeState": "",
            "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "linux/amd64"})
        }
        ["api" | "apis"] if is_aggregated => {
            let groups = groups(custom).into_iter().filter(|(group, _)| group.is_empty() == (path == "/api"));
            let items: Vec<Value> = groups.map(|(group, versions)| aggregated(&group, &versions)).collect();
            let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
                "items": items});
            return Some(Answer { content_type: AGGREGATED, ..Answer::json(&list) });
        }
        ["api"] => json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
        ["apis"] => {
            let groups = groups(custom);
            let named = groups.iter().filter(|(group, _)| !group.is_empty());
            let named: Vec<Value> = named.map(|(name, versions)| group(name, versions)).collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": named})
        }
        ["api", version] => resources("", version, groups(custom).get("")?.get(*version)?),
        ["apis", name] => {
            let mut found = group(name, groups(custom).get(*name)?);
            (found["kind"], found["apiVersion"]) = (json!("APIGroup"), json!("v1"));
            found
        }
        ["apis", group, version] => resources(group, version, groups(custom).get(*group)?.get(*version)?),
        _ => return None,
    };
    Some(Answer::json(&json))
}

/// Returns the versions with the preferred one first: that of the first kind.
fn preferred(versions: &BTreeMap<String, Vec<Arc<Kind>>>) -> Vec<&String> {
    let mut names: Vec<&String> = versions.keys().collect();
    let first = versions.values().flatten().find_map(|kind| kind.versions.first());
    names.sort_by_key(|name| Some(*name) != first);
    names
}

fn group(name: &str, versions: &BTreeMap<String, Vec<Arc<Kind>>>) -> Value {
    let version = |version: &&String| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    let all: Vec<Value> = preferred(versions).iter().map(version).collect();
    json!({"name": name, "versions": all, "preferredVersion": all[0]})
}

fn resources(group: &str, version: &str, kinds: &[Arc<Kind>]) -> Value {
    let mut all = Vec::new();
    for kind in kinds {
        let mut resource = json!({"name": kind.plural, "singularName": kind.name.to_lowercase(), "kind": kind.name,
            "namespaced": kind.is_namespaced, "verbs": VERBS});
        all.push(resource.clone());
        if kind.has_status {
            (resource["name"], resource["singularName"]) = (json!(format!("{}/status", kind.plural)), json!(""));
            resource["verbs"] = json!(STATUS_VERBS);
            all.push(resource);
        }
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": all})
}

fn aggregated(group: &str, versions: &BTreeMap<String, Vec<Arc<Kind>>>) -> Value {
    let resource = |kind: &Arc<Kind>, version: &str| {
        let response = json!({"group": kind.group, "version": version, "kind": kind.name});
        let status =
            kind.has_status.then(|| json!({"subresource": "status", "responseKind": response, "verbs": STATUS_VERBS}));
        json!({"resource": kind.plural, "responseKind": response, "scope": if kind.is_namespaced { "Namespaced" } else { "Cluster" },
            "singularResource": kind.name.to_lowercase(), "verbs": VERBS, "subresources": Vec::from_iter(status)})
    };
    let of = |version: &&String| {
        let resources: Vec<Value> = versions[*version].iter().map(|kind| resource(kind, version)).collect();
        json!({"version": version, "freshness": "Current", "resources": resources})
    };
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    json!({"metadata": metadata, "versions": preferred(versions).iter().map(of).collect::<Vec<_>>()})
}
