//! What goes, what stays, and what nobody may read.

use std::fs;

use serde_json::Value;

use crate::e2e::daemon::{
    Daemon, World, access, applied, config_map, deployment, manifest, member_clusters, namespace, patch, placement,
    value,
};
use crate::e2e::fleet::Member;
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
fn a_secrets_data_is_never_told() {
    const PASSWORD: &str = "correct-horse-battery";
    const CODE: &str = "4815162342";
    let member = &shared().members[2];
    let world = world(std::slice::from_ref(member));
    let secret = |ns: &str, name: &str, data: &str| {
        format!("---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: {ns}}}\n{data}\n")
    };
    let password = format!("stringData: {{password: {PASSWORD}}}");
    member
        .kubectl_apply(
            &[namespace("secret-b"), secret("secret-b", "known", "stringData: {password: other-battery}")].concat(),
        )
        .expect("a Secret by hand");
    let leave = "    applyStrategy: {whenToApply: IfNotDrifted, whenToTakeOver: IfNoDiff}\n";
    world.write(
        "a.yaml",
        &[
            placement("secret-a", leave),
            namespace("secret-a"),
            secret("secret-a", "good", &password),
            // The API server's complaint about it quotes the value.
            secret("secret-a", "bad", &format!("stringData: {{code: {CODE}}}")),
            placement("secret-b", "    applyStrategy: {type: ReportDiff}\n"),
            namespace("secret-b"),
            secret("secret-b", "known", &password),
        ]
        .concat(),
    );
    world.commit("Secrets");
    let daemon = world.start();
    let find = |name: &str, object: &str| manifest(&daemon, name, &member.name, object);
    daemon
        .until("the good one is applied", || applied(&find("secret-a", "Secret secret-a/good"))["reason"] == "Applied");
    daemon.until("the bad one is refused", || {
        applied(&find("secret-a", "Secret secret-a/bad"))["reason"] == "ManifestApplyFailed"
    });
    daemon.until("the known one is compared", || {
        find("secret-b", "Secret secret-b/known")["conditions"][0]["reason"] == "FoundDiff"
    });
    let by_hand = r#"{"stringData":{"password":"drifted-battery"}}"#;
    member
        .kubectl(&["-n", "secret-a", "patch", "secret", "good", "--type=merge", "-p", by_hand])
        .expect("a change by hand");
    daemon.until("the drift is told", || applied(&find("secret-a", "Secret secret-a/good"))["reason"] == "FoundDrifts");
    daemon.until("with its place", || find("secret-a", "Secret secret-a/good").to_string().contains("/data/password"));

    let mut told = vec![("the log".to_owned(), fs::read_to_string(world.path().join("log.json")).expect("the log"))];
    told.push(("status".to_owned(), daemon.status()));
    for kind in ["placements", "snapshots", "policies", "bindings", "works", "clusters"] {
        for format in ["json", "yaml", "wide"] {
            let output = world.gitfleet(&["get", kind, "-c", "gitfleet.yaml", "-o", format]);
            told.push((format!("get {kind} -o {format}"), String::from_utf8_lossy(&output.stdout).into_owned()));
        }
    }
    let encoded = |text: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
    for secret in [PASSWORD, CODE, "drifted-battery", "other-battery"] {
        for needle in [secret.to_owned(), encoded(secret)] {
            for (place, text) in &told {
                assert!(!text.contains(&needle), "{needle} stands in {place}");
            }
        }
    }
}
