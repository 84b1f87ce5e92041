//! What goes, what stays, and what nobody may read.

use std::fs;

use serde_json::Value;

use crate::e2e::daemon::{
    Daemon, World, access, config_map, deployment, member_clusters, namespace, patch, placement, value,
};
use crate::e2e::fleet::{Fleet, Member, Options};
use crate::e2e::shared;

fn world(members: &[Member]) -> World {
    let world = World::new(None, &access(members));
    world.write("fleet.yaml", &member_clusters(members.iter().map(|m| m.name.as_str())));
    world
}

/// The deletion guard at its default.
fn guarded(text: &str) -> String {
    text.replace("{gitfleet.io/deletion-guard: 'Off'}", "{}")
}

fn is_gone(member: &Member, namespace: &str, kind: &str, name: &str) -> bool {
    member.get(namespace, kind, name).is_ok_and(|found| found.is_none())
}

fn condition(daemon: &Daemon<'_>, placement: &str, type_: &str) -> Value {
    let placements = daemon.get("placements");
    let found = placements.iter().find(|p| p["metadata"]["name"] == placement);
    let conditions = found.and_then(|p| p["status"]["conditions"].as_array().cloned()).unwrap_or_default();
    conditions.into_iter().find(|c| c["type"] == type_).unwrap_or_default()
}

#[test]
fn emptying_and_removing_a_placement_wait_for_a_person() {
    let member = &shared().members[0];
    let world = world(std::slice::from_ref(member));
    let objects = [config_map("guard", "a", "1"), config_map("guard", "b", "1")].concat();
    world.write("placement.yaml", &guarded(&placement("guard", "")));
    world.write("guard.yaml", &[namespace("guard"), objects.clone()].concat());
    world.commit("Guarded");
    let daemon = world.start();
    daemon.await_rolled_out("guard", 0);

    // The namespace goes from git, and everything in it; something new comes.
    fs::remove_file(world.repo().join("guard.yaml")).expect("the file goes");
    world.commit("Everything goes");
    let status = daemon.await_status("deletions wait for a person");
    assert!(status.contains("guard"), "{status}");
    daemon.until("the condition says so", || condition(&daemon, "guard", "DeletionGuarded")["status"] == "True");
    for name in ["a", "b"] {
        assert_eq!(value(member, "guard", name), "1", "held deletions stay");
    }

    // Back in git: the gate closes by itself, nothing was touched.
    world.write("guard.yaml", &[namespace("guard"), objects].concat());
    world.commit("Back");
    daemon.until("the gate is gone", || condition(&daemon, "guard", "DeletionGuarded").is_null());

    // The placement itself goes.
    fs::remove_file(world.repo().join("placement.yaml")).expect("the file goes");
    let marker = world.commit("The placement goes");
    daemon.await_status("deletions wait for a person");
    daemon.await_status(&marker[..7]);
    daemon.await_status("the placement was removed");
    assert_eq!(value(member, "guard", "a"), "1");

    // Without the guard it really goes.
    world.write("placement.yaml", &placement("guard", ""));
    world.commit("The placement comes back without a guard");
    daemon.until("it is back", || {
        condition(&daemon, "guard", "DeletionGuarded").is_null() && !daemon.get("placements").is_empty()
    });
    fs::remove_file(world.repo().join("placement.yaml")).expect("the file goes");
    world.commit("The placement goes again");
    daemon.until("everything is gone", || {
        is_gone(member, "guard", "configmap", "a")
            && is_gone(member, "", "namespace", "guard")
            && is_gone(member, "gitfleet-system", "configmap", "crp.guard")
    });
    daemon.until("its records are gone", || daemon.get("placements").is_empty());
}

#[test]
fn a_dropped_cluster_is_cleaned_in_reverse_order() {
    let world = world(&shared().members[..2]);
    let names: Vec<&str> = shared().members[..2].iter().map(|m| m.name.as_str()).collect();
    let on = |names: &[&str]| {
        let policy = format!("  policy: {{placementType: PickFixed, clusterNames: [{}]}}\n", names.join(", "));
        world.write("placement.yaml", &placement("reverse", &policy));
    };
    on(&names);
    let objects =
        [namespace("reverse"), config_map("reverse", "settings", "1"), deployment("reverse", "web", "web:1", "1s")];
    world.write("reverse.yaml", &objects.concat());
    world.commit("On two");
    let daemon = world.start();
    daemon.await_rolled_out("reverse", 0);
    on(&names[..1]);
    world.commit("On one");
    let (stays, goes) = (&shared().members[0], &shared().members[1]);
    daemon.until("the second is cleaned", || {
        is_gone(goes, "", "namespace", "reverse") && is_gone(goes, "gitfleet-system", "configmap", "crp.reverse")
    });
    let pruned: Vec<String> = world
        .log()
        .iter()
        .filter(|line| line["message"] == "pruned")
        .map(|line| line["object"].as_str().unwrap_or_default().to_owned())
        .collect();
    let kinds: Vec<&str> = pruned.iter().map(|object| object.split([' ', '.']).next().unwrap_or_default()).collect();
    assert_eq!(kinds, ["Deployment", "ConfigMap", "Namespace"], "{pruned:?}");
    assert_eq!(value(stays, "reverse", "settings"), "1");
    daemon.until("its binding is gone", || daemon.get("bindings").len() == 1);
}

#[test]
fn a_cluster_that_leaves_git_keeps_what_it_has() {
    let members = &shared().members[1..];
    let world = world(members);
    world.write(
        "a.yaml",
        &[placement("leaver", ""), namespace("leaver"), config_map("leaver", "settings", "1")].concat(),
    );
    world.commit("Two clusters");
    let daemon = world.start();
    daemon.await_rolled_out("leaver", 0);
    world.write("fleet.yaml", &member_clusters([members[0].name.as_str()]));
    world.write(
        "a.yaml",
        &[placement("leaver", ""), namespace("leaver"), config_map("leaver", "settings", "2")].concat(),
    );
    world.commit("One leaves");
    daemon.await_rolled_out("leaver", 1);
    assert_eq!(value(&members[0], "leaver", "settings"), "2");
    assert_eq!(value(&members[1], "leaver", "settings"), "1", "nothing on it is touched any more");
    assert!(!is_gone(&members[1], "gitfleet-system", "configmap", "crp.leaver"), "the inventory stays too");
    assert!(!world.logged("left the fleet; what it holds stays there").is_empty());
    assert_eq!(daemon.get("bindings").len(), 1);
    // Drift there is nobody's business either; a member that stayed shows that a while has passed.
    patch(&members[1], "leaver", "settings", "theirs");
    patch(&members[0], "leaver", "settings", "theirs");
    daemon.until("drift is put back where we deliver", || value(&members[0], "leaver", "settings") == "2");
    assert_eq!(value(&members[1], "leaver", "settings"), "theirs");

    // Back in git it is taken in again.
    world.write("fleet.yaml", &member_clusters(members.iter().map(|m| m.name.as_str())));
    world.commit("It comes back");
    daemon.until("it holds what the others hold", || value(&members[1], "leaver", "settings") == "2");
}

#[test]
fn a_suspended_cluster_is_deferred_and_caught_up() {
    let members = &shared().members[..2];
    let world = world(members);
    let of = |version: &str| {
        let text = [placement("suspend", ""), namespace("suspend"), config_map("suspend", "settings", version)];
        world.write("a.yaml", &text.concat());
    };
    of("1");
    world.commit("One");
    let daemon = world.start();
    daemon.await_rolled_out("suspend", 0);
    let suspend = |is: &str| {
        let text = member_clusters(members.iter().map(|m| m.name.as_str()));
        let name = format!("{{name: {}}}", members[0].name);
        let with = format!("{{name: {}, annotations: {{gitfleet.io/suspended: '{is}'}}}}", members[0].name);
        world.write("fleet.yaml", &text.replace(&name, &with));
    };
    suspend("true");
    of("2");
    world.commit("Two, one suspended");
    daemon.until("the other is brought up", || value(&members[1], "suspend", "settings") == "2");
    let status = daemon.await_status("suspended");
    assert!(!status.contains("halted"), "a suspended cluster is no failure: {status}");
    daemon.until("it is deferred, not in progress", || daemon.status().contains("waits for offline clusters"));
    assert_eq!(value(&members[0], "suspend", "settings"), "1");
    suspend("false");
    world.commit("Resume");
    daemon.await_rolled_out("suspend", 1);
    assert_eq!(value(&members[0], "suspend", "settings"), "2");
}

#[test]
fn a_stopped_cluster_is_deferred_and_caught_up_when_it_returns() {
    let fleet = Fleet::start(Options::members(3)).expect("the test fleet starts");
    let world = World::new(None, &access(&fleet.members));
    world.write("fleet.yaml", &member_clusters(fleet.members.iter().map(|m| m.name.as_str())));
    // Bindings are in the order of their clusters' names: the second is stopped before its turn.
    let stopped = &fleet.members[1];
    let app = |version: &str| {
        [placement("stopped", ""), namespace("stopped"), config_map("stopped", "settings", version)].concat()
    };
    stopped.stop().expect("it stops");
    world.write("a.yaml", &app("1"));
    world.commit("One");
    let daemon = world.start();
    let others = || [&fleet.members[0], &fleet.members[2]].iter().all(|m| value(m, "stopped", "settings") == "1");
    daemon.until("the others continue", others);
    let status = daemon.await_status("waits for offline clusters");
    assert!(!status.contains("halted"), "{status}");
    stopped.restart().expect("it starts");
    daemon.await_rolled_out("stopped", 0);
    assert_eq!(value(stopped, "stopped", "settings"), "1");

    // Stopped in the middle: what it got before and what it gets after are one rollout.
    let of = |version: &str| {
        let web = deployment("stopped", "web", &format!("web:{version}"), "2s");
        [app(version), web].concat()
    };
    world.write("a.yaml", &of("2"));
    world.commit("Two");
    daemon.until("it was started", || {
        world.logged("rolling out to cluster").iter().filter(|(_, cluster)| *cluster == stopped.name).count() >= 2
    });
    stopped.stop().expect("it stops");
    daemon.await_status("offline");
    stopped.restart().expect("it starts");
    daemon.await_rolled_out("stopped", 1);
    for member in &fleet.members {
        assert_eq!(value(member, "stopped", "settings"), "2");
    }
}
