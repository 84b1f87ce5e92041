//! Objects that somebody else owns, and objects that a placement leaves behind.

use std::fs;

use serde_json::Value;

use crate::e2e::daemon::{
    Daemon, World, access, applied, config_map, label, manifest, member_clusters, namespace, placement, value,
};
use crate::e2e::fleet::Member;
use crate::e2e::shared;

fn world(members: &[Member]) -> World {
    let world = World::new(None, &access(members));
    world.write("fleet.yaml", &member_clusters(members.iter().map(|m| m.name.as_str())));
    world
}

fn get(member: &Member, namespace: &str, kind: &str, name: &str) -> Value {
    member.get(namespace, kind, name).ok().flatten().unwrap_or_default()
}

/// Tells whether server-side apply knows of fields that gitfleet applied.
fn is_managed(object: &Value) -> bool {
    let managers = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    managers.into_iter().any(|entry| entry["manager"] == "gitfleet")
}

fn reason(daemon: &Daemon<'_>, member: &Member) -> Value {
    applied(&manifest(daemon, "owned", &member.name, "ConfigMap owned/shared"))["reason"].clone()
}

#[test]
fn w04_what_another_controller_owns_is_left_alone_or_shared() {
    let member = &shared().members[0];
    let theirs = [namespace("owned"), config_map("owned", "owner", "theirs")].concat();
    member.kubectl_apply(&theirs).expect("their objects");
    let uid = get(member, "owned", "configmap", "owner")["metadata"]["uid"].as_str().expect("a uid").to_owned();
    let owner = format!("{{apiVersion: v1, kind: ConfigMap, name: owner, uid: {uid}, controller: true}}");
    let shared_map = format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: shared, namespace: owned, ownerReferences: [{owner}]}}\n\
         data: {{value: theirs, more: theirs}}\n"
    );
    member.kubectl_apply(&shared_map).expect("an object that has an owner");

    let world = world(std::slice::from_ref(member));
    let strategy = |allow: bool| {
        format!(
            "    applyStrategy: {{type: ServerSideApply, allowCoOwnership: {allow}, serverSideApplyConfig: {{force: true}}}}\n"
        )
    };
    let objects = [namespace("owned"), config_map("owned", "kept", "ours")].concat();
    world.write("placement.yaml", &placement("owned", &strategy(false)));
    world.write("owned.yaml", &[objects.as_str(), &config_map("owned", "shared", "ours")].concat());
    world.commit("Select what somebody else owns");
    let daemon = world.start();
    daemon.until("it is not taken over", || reason(&daemon, member) == "FailedToTakeOver");
    daemon.until("the rest is applied", || value(member, "owned", "kept") == "ours");
    assert_eq!(value(member, "owned", "shared"), "theirs");

    world.write("placement.yaml", &placement("owned", &strategy(true)));
    world.commit("Allow co-ownership");
    daemon.until("it is applied", || value(member, "owned", "shared") == "ours");
    daemon.await_rolled_out("owned", 0);

    world.write("owned.yaml", &objects);
    world.commit("Give it up");
    daemon.until("it is given up", || label(&get(member, "owned", "configmap", "shared")).is_empty());
    let left = get(member, "owned", "configmap", "shared");
    assert_eq!(left["data"], serde_json::json!({"more": "theirs"}), "our field goes, theirs stay: {left}");
    assert!(!is_managed(&left), "{left}");
}

#[test]
fn w09_a_placement_that_abandons_leaves_its_objects_behind() {
    let member = &shared().members[1];
    let world = world(std::slice::from_ref(member));
    // With the deletion guard at its default: what stays asks nobody.
    let abandoned = placement("abandoned", "    deleteStrategy: {propagationPolicy: Abandon}\n")
        .replace("{gitfleet.io/deletion-guard: 'Off'}", "{}");
    world.write("placement.yaml", &abandoned);
    world.write("abandoned.yaml", &[namespace("abandoned"), config_map("abandoned", "a", "1")].concat());
    world.commit("Place it");
    let daemon = world.start();
    daemon.await_rolled_out("abandoned", 0);
    let uid = get(member, "abandoned", "configmap", "a")["metadata"]["uid"].clone();

    fs::remove_file(world.repo().join("placement.yaml")).expect("the file goes");
    world.commit("Remove the placement");
    daemon.until("the placement is removed", || daemon.get("placements").is_empty());
    for (namespace, kind, name) in [("", "namespace", "abandoned"), ("abandoned", "configmap", "a")] {
        let left = get(member, namespace, kind, name);
        assert_eq!((label(&left).as_str(), is_managed(&left)), ("", false), "{left}");
        assert!(left["metadata"]["deletionTimestamp"].is_null(), "{left}");
    }
    assert_eq!(get(member, "abandoned", "configmap", "a")["metadata"]["uid"], uid);
    assert_eq!(value(member, "abandoned", "a"), "1");
}
