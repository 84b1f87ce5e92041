//! What the strategies of delivery do on a member.

use std::fs;

use serde_json::{Value, json};

use crate::e2e::daemon::{
    World, access, applied, config_map, label, manifest, member_clusters, namespace, patch, placement, value,
};
use crate::e2e::fleet::Member;
use crate::e2e::shared;

/// One member and a world that knows only it.
fn one(position: usize) -> (&'static Member, World) {
    let member = &shared().members[position];
    let world = World::new(None, &access(std::slice::from_ref(member)));
    world.write("fleet.yaml", &member_clusters([member.name.as_str()]));
    (member, world)
}

fn strategy(text: &str) -> String {
    format!("    applyStrategy: {{{text}}}\n")
}

/// A namespace with a ConfigMap that somebody else made.
fn theirs(member: &Member, name: &str) {
    member.kubectl_apply(&namespace(name)).expect("a namespace by hand");
    let map = config_map(name, "settings", "theirs").replace("\ndata: {", "\ndata: {other: kept, ");
    let map = map.replace("metadata: {", "metadata: {labels: {team: a}, annotations: {note: b}, ");
    member.kubectl_apply(&map).expect("a ConfigMap by hand");
}

#[test]
fn what_was_there_before_is_taken_over_as_the_placement_says() {
    let (member, world) = one(0);
    for name in ["take-always", "take-same", "take-never"] {
        theirs(member, name);
    }
    member.kubectl_apply(&config_map("take-same", "same", "ours")).expect("a ConfigMap by hand");
    let never = |when: &str| placement("take-never", &strategy(&format!("whenToTakeOver: {when}")));
    let of = |name: &str| [namespace(name), config_map(name, "settings", "ours")].concat();
    world.write(
        "always.yaml",
        &[placement("take-always", &strategy("whenToTakeOver: Always")), of("take-always")].concat(),
    );
    world.write(
        "same.yaml",
        &[
            placement("take-same", &strategy("whenToTakeOver: IfNoDiff")),
            of("take-same"),
            config_map("take-same", "same", "ours"),
        ]
        .concat(),
    );
    world.write("never.yaml", &[never("Never"), of("take-never"), config_map("take-never", "new", "ours")].concat());
    world.commit("Take over");
    let daemon = world.start();

    daemon.await_rolled_out("take-always", 0);
    let settings = member.get("take-always", "configmap", "settings").expect("asked").expect("it is there");
    assert_eq!(settings["data"], json!({"other": "kept", "value": "ours"}), "only what git names changes");
    assert_eq!(settings["metadata"]["labels"]["team"], "a");
    assert_eq!(settings["metadata"]["annotations"]["note"], "b");
    assert!(label(&settings).starts_with("applyset-"), "it is ours");

    let refused = |name: &str, object: &str, reason: &str| {
        let mut found = Value::Null;
        daemon.until(&format!("{object} of {name} is {reason}"), || {
            found = manifest(&daemon, name, &member.name, object);
            applied(&found)["reason"] == reason
        });
        found
    };
    let found = refused("take-same", "ConfigMap take-same/settings", "FailedToTakeOver");
    let differences = &found["diffDetails"]["observedDiffs"];
    assert_eq!(differences[0]["path"], "/data/value", "{found}");
    assert_eq!((&differences[0]["valueInMember"], &differences[0]["valueInHub"]), (&"theirs".into(), &"ours".into()));
    assert_eq!(label(&member.get("take-same", "configmap", "settings").expect("asked").expect("there")), "");
    refused("take-same", "ConfigMap take-same/same", "Applied");
    assert_ne!(label(&member.get("take-same", "configmap", "same").expect("asked").expect("there")), "");

    refused("take-never", "ConfigMap take-never/settings", "NotTakenOver");
    refused("take-never", "Namespace take-never", "NotTakenOver");
    refused("take-never", "ConfigMap take-never/new", "Applied");
    daemon.await_status("NotTakenOver");
    assert_eq!(value(member, "take-never", "settings"), "theirs");

    // A changed decision counts, though the object in git is the same.
    world.write("never.yaml", &[never("Always"), of("take-never"), config_map("take-never", "new", "ours")].concat());
    world.commit("Take it after all");
    daemon.await_rolled_out("take-never", 0);
    daemon.until("it is taken", || value(member, "take-never", "settings") == "ours");
}

#[test]
fn a_field_of_another_manager_is_a_conflict_unless_forced() {
    let (member, world) = one(1);
    let team = |manifests: &str| member.apply("team-a", manifests).expect("an apply by hand");
    member.kubectl_apply(&[namespace("conflict"), namespace("forced")].concat()).expect("namespaces by hand");
    team(&[config_map("conflict", "settings", "theirs"), config_map("forced", "settings", "theirs")].concat());
    let of = |name: &str, force: &str| {
        let strategy = strategy(&format!("type: ServerSideApply, serverSideApplyConfig: {{force: {force}}}"));
        [placement(name, &strategy), namespace(name), config_map(name, "settings", "ours")].concat()
    };
    world.write("a.yaml", &of("conflict", "false"));
    world.write("b.yaml", &of("forced", "false"));
    world.commit("Without force");
    let daemon = world.start();
    for name in ["conflict", "forced"] {
        daemon.until("the conflict is told", || {
            let condition = applied(&manifest(&daemon, name, &member.name, &format!("ConfigMap {name}/settings")));
            let message = condition["message"].as_str().unwrap_or_default();
            condition["reason"] == "ManifestApplyFailed" && message.contains("409") && message.contains("team-a")
        });
        assert_eq!(value(member, name, "settings"), "theirs");
    }
    daemon.await_status("team-a");

    world.write("b.yaml", &of("forced", "true"));
    world.commit("With force");
    daemon.await_rolled_out("forced", 0);
    daemon.until("it is taken by force", || value(member, "forced", "settings") == "ours");

    // The other manager gives the field up: a retry finds out, nobody has to push anything.
    assert_eq!(value(member, "conflict", "settings"), "theirs");
    team("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: conflict}\n");
    daemon.until("the retry goes through", || value(member, "conflict", "settings") == "ours");
    daemon.await_rolled_out("conflict", 0);
}

#[test]
fn drift_is_left_and_told_where_the_placement_says_so() {
    let (member, world) = one(0);
    let of = |value: &str| {
        let strategy = strategy("whenToApply: IfNotDrifted");
        [placement("leave", &strategy), namespace("leave"), config_map("leave", "settings", value)].concat()
    };
    world.write("a.yaml", &of("ours"));
    world.commit("One");
    let daemon = world.start();
    daemon.await_rolled_out("leave", 0);
    patch(member, "leave", "settings", "theirs");
    let mut found = Value::Null;
    daemon.until("the drift is told", || {
        found = manifest(&daemon, "leave", &member.name, "ConfigMap leave/settings");
        applied(&found)["reason"] == "FoundDrifts" && found["driftDetails"]["observedDrifts"].is_array()
    });
    let drift = &found["driftDetails"]["observedDrifts"][0];
    assert_eq!((&drift["path"], &drift["valueInMember"]), (&"/data/value".into(), &"theirs".into()), "{found}");
    assert_eq!(value(member, "leave", "settings"), "theirs");
    // A new value in git is applied over the drift.
    world.write("a.yaml", &of("ours again"));
    world.commit("Two");
    daemon.await_rolled_out("leave", 1);
    assert_eq!(value(member, "leave", "settings"), "ours again");
}

#[test]
fn a_fourth_change_by_hand_is_contested() {
    let (member, world) = one(1);
    world.write(
        "a.yaml",
        &[placement("contest", ""), namespace("contest"), config_map("contest", "settings", "ours")].concat(),
    );
    world.commit("One");
    let daemon = world.start();
    daemon.await_rolled_out("contest", 0);
    for change in ["first", "second", "third"] {
        patch(member, "contest", "settings", change);
        daemon.until("it is put back", || value(member, "contest", "settings") == "ours");
    }
    patch(member, "contest", "settings", "fourth");
    daemon.await_status("contested");
    assert_eq!(value(member, "contest", "settings"), "fourth", "it is told and not put back");
}

#[test]
fn one_object_belongs_to_one_placement_and_changes_hands_without_deletion() {
    let (member, world) = one(2);
    let of = |name: &str| {
        placement(name, "").replace(&format!("kind: Namespace, name: {name}"), "kind: Namespace, name: both")
    };
    world.write("a.yaml", &of("both-a"));
    world.write("b.yaml", &of("both-b"));
    world.write("both.yaml", &[namespace("both"), config_map("both", "settings", "ours")].concat());
    world.commit("Two placements, one namespace");
    let daemon = world.start();
    daemon.await_rolled_out("both-a", 0);
    daemon.until("the second is told", || {
        let condition = applied(&manifest(&daemon, "both-b", &member.name, "ConfigMap both/settings"));
        condition["reason"] == "FailedToTakeOver" && condition["message"].as_str().is_some_and(|m| m.contains("both-a"))
    });
    let before = member.get("both", "configmap", "settings").expect("asked").expect("it is there");
    fs::remove_file(world.repo().join("a.yaml")).expect("the placement goes");
    world.commit("The first gives it up");
    daemon.await_rolled_out("both-b", 0);
    daemon.until("the first is gone", || daemon.get("placements").iter().all(|p| p["metadata"]["name"] != "both-a"));
    let after = member.get("both", "configmap", "settings").expect("asked").expect("it is there");
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"], "it was never deleted");
    assert_ne!(label(&after), label(&before), "the label changed hands");
}

#[test]
fn a_definition_and_its_resources_go_out_in_one_commit() {
    let (member, world) = one(0);
    let definition = "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.e2e.example.org}\nspec:\n  \
         group: e2e.example.org\n  scope: Namespaced\n  names: {kind: Widget, plural: widgets, singular: widget}\n  versions:\n    \
         - name: v1\n      served: true\n      storage: true\n      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}\n";
    let widget =
        "---\napiVersion: e2e.example.org/v1\nkind: Widget\nmetadata: {name: w, namespace: define}\nspec: {size: 1}\n";
    let selector = "resourceSelectors:\n    - {group: apiextensions.k8s.io, version: v1, kind: CustomResourceDefinition, name: widgets.e2e.example.org}\n";
    let placement = placement("define", "").replace("resourceSelectors:\n", selector);
    world.write("a.yaml", &[placement.as_str(), &namespace("define"), definition, widget].concat());
    world.commit("A definition with a resource");
    let daemon = world.start();
    daemon.await_rolled_out("define", 0);
    let found = member.get("define", "widgets.e2e.example.org", "w").expect("asked").expect("it is there");
    assert_eq!(found["spec"]["size"], 1);
    // Drift of a kind that was unknown when the watch began is seen too.
    member.patch(("define", "widgets.e2e.example.org", "w"), &json!({"spec": {"size": 2}})).expect("a change by hand");
    daemon.until("it is put back", || {
        member.get("define", "widgets.e2e.example.org", "w").ok().flatten().is_some_and(|w| w["spec"]["size"] == 1)
    });
}

#[test]
fn an_inventory_that_somebody_else_writes_is_put_right_while_the_member_stays_connected() {
    let (member, world) = one(1);
    world.write("late.yaml", &[placement("late-write", ""), namespace("late-write")].concat());
    world.write("map.yaml", &config_map("late-write", "settings", "1"));
    world.commit("Deliver");
    let daemon = world.start();
    daemon.await_rolled_out("late-write", 0);
    let digest = || {
        let found = member.get("gitfleet-system", "configmap", "crp.late-write").ok().flatten()?;
        found["metadata"]["annotations"]["gitfleet.io/digest"].as_str().map(str::to_owned)
    };
    let right = digest().expect("the inventory says what the member holds");
    // As a leader of before would, whose write arrives late.
    let late = json!({"metadata": {"annotations": {"gitfleet.io/digest": "0000", "gitfleet.io/epoch": "1"}}});
    let inventory = ("gitfleet-system", "configmap", "crp.late-write");
    member.patch(inventory, &late).expect("a late write");
    daemon.until("the inventory is put right", || digest().as_deref() == Some(&right));
    member.delete(inventory).expect("a late removal");
    daemon.until("the inventory is there again", || digest().as_deref() == Some(&right));
    assert_eq!(value(member, "late-write", "settings"), "1");
}

#[test]
fn a_change_by_hand_is_put_back_and_silence_follows() {
    let world = World::new(None, &access(&shared().members));
    world.write("fleet.yaml", &member_clusters(shared().members.iter().map(|m| m.name.as_str())));
    world.write(
        "app.yaml",
        &[placement("drift", ""), namespace("drift"), config_map("drift", "settings", "ours")].concat(),
    );
    world.commit("Drift");
    let daemon = world.start();
    daemon.await_rolled_out("drift", 0);
    let (member, settings) = (&shared().members[1], ("drift", "configmap", "settings"));
    member.patch(settings, &json!({"data": {"value": "theirs"}})).expect("a change by hand");
    let value = || member.get("drift", "configmap", "settings").ok().flatten().map(|c| c["data"]["value"].clone());
    daemon.until("the value is put back", || value().is_some_and(|v| v == "ours"));
    member.delete(settings).expect("a deletion by hand");
    daemon.until("the object is put back", || value().is_some_and(|v| v == "ours"));
    // Fields that are not ours are nobody's business.
    member.patch(settings, &json!({"data": {"other": "theirs"}})).expect("another change by hand");
    member.patch(settings, &json!({"metadata": {"annotations": {"a/b": "c"}}})).expect("an annotation");
    world.write("app2.yaml", &config_map("drift", "marker", "x"));
    world.commit("Marker");
    daemon.await_rolled_out("drift", 1);
    let settings = member.get("drift", "configmap", "settings").expect("asked").expect("it is there");
    assert_eq!(settings["data"]["other"], "theirs");
}
