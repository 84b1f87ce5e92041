//! Where features meet, on members: what changes hands keeps its uid, and a failure counts after its cluster has left.

use std::fs;
use std::sync::atomic::Ordering;

use crate::e2e::daemon::{Daemon, World, access, clusters_of, config_map, label, namespace};
use crate::e2e::fleet::Member;
use crate::e2e::shared;
use crate::members::staged::{reason, rollout};

/// A strategy with an approval between two clusters, and a placement of these objects that rolls out by it.
fn staged(name: &str, strategy: &str, selectors: &str) -> String {
    format!(
        "---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\nmetadata: {{name: {strategy}}}\n\
         spec:\n  stages:\n    - {{name: canary, labelSelector: {{matchLabels: {{stage: canary}}}}, afterStageTasks: [{{type: Approval}}]}}\n    \
         - {{name: rest, labelSelector: {{matchLabels: {{stage: rest}}}}}}\n---\napiVersion: placement.kubernetes-fleet.io/v1\n\
         kind: ClusterResourcePlacement\nmetadata:\n  name: {name}\n  annotations: {{gitfleet.io/staged-update-strategy: {strategy}}}\n\
         spec:\n  resourceSelectors: [{selectors}]\n  strategy: {{type: External}}\n"
    )
}

/// What changes hands: objects whose deletion would lose something that no second apply brings back.
fn payload(name: &str) -> String {
    let more = format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: {name}}}\nspec: {{type: ExternalName, externalName: web.example.org}}\n\
         ---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: data, namespace: {name}}}\nspec: {{accessModes: [ReadWriteOnce], \
         storageClassName: none, resources: {{requests: {{storage: 1Gi}}}}}}\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n\
         metadata: {{name: {name}}}\nrules: []\n"
    );
    [namespace(name), config_map(name, "settings", "1"), more].concat()
}

/// Returns uid and label of each object on a member.
fn held(member: &Member, name: &str) -> Vec<(String, String)> {
    let objects = [
        (name, "service", "web"),
        (name, "persistentvolumeclaim", "data"),
        (name, "configmap", "settings"),
        ("", "clusterrole", name),
    ];
    let one = |(namespace, kind, object)| {
        let found = member.get(namespace, kind, object).expect("asked").expect("it is there");
        (found["metadata"]["uid"].to_string(), label(&found))
    };
    objects.map(one).to_vec()
}

fn uids(held: &[(String, String)]) -> Vec<&str> {
    held.iter().map(|(uid, _)| uid.as_str()).collect()
}

fn approve(world: &World, daemon: &Daemon<'_>, run: &str) {
    daemon.until("the run waits after the canary", || reason(daemon, run, "Progressing") == "UpdateRunWaiting");
    let answer = world.gitfleet(&["approve", run, "canary", "-c", "gitfleet.yaml"]);
    assert!(answer.status.success(), "{answer:?}");
    daemon.until("the run succeeds", || reason(daemon, run, "Succeeded") == "UpdateRunSucceeded");
}

/// An object changes hands at a gate, with a daemon that is killed when it has logged so many lines. Where `stays`, the first placement keeps
/// the Namespace and gives up the ClusterRole alone.
fn changes_hands(name: &str, stays: bool, dies_at: usize) {
    let members = &shared().members[..2];
    let world = World::new(None, &access(members));
    let whole = format!("{{group: '', version: v1, kind: Namespace, name: {name}}}");
    let role = format!("{{group: rbac.authorization.k8s.io, version: v1, kind: ClusterRole, name: {name}}}");
    let (old, new) = (format!("{name}-old"), format!("{name}-new"));
    world.write("fleet.yaml", &clusters_of(members, ["canary", "rest"]));
    world.write("objects.yaml", &payload(name));
    world.write("old.yaml", &staged(&old, &old, &[whole.as_str(), &role].join(", ")));
    world.commit("One placement");
    {
        let daemon = world.start();
        approve(&world, &daemon, &format!("{old}-0"));
    }
    let before: Vec<_> = members.iter().map(|member| held(member, name)).collect();
    if stays {
        world.write("old.yaml", &staged(&old, &old, &whole));
        world.write("new.yaml", &staged(&new, &new, &role));
    } else {
        fs::remove_file(world.repo().join("old.yaml")).expect("the placement goes");
        world.write("new.yaml", &staged(&new, &new, &[whole.as_str(), &role].join(", ")));
    }
    world.commit("Another has it");
    let run = format!("{new}-0");
    // A renamed placement takes over at once what stays as it is.
    let has_moved = || members.iter().zip(&before).all(|(member, before)| held(member, name)[3].1 != before[3].1);
    let is_there = |daemon: &Daemon<'_>| {
        if stays { reason(daemon, &run, "Progressing") == "UpdateRunWaiting" } else { has_moved() }
    };
    {
        let (daemon, has_died) = world.start_doomed(dies_at);
        daemon.until("it dies, or is there", || has_died.load(Ordering::SeqCst) || is_there(&daemon));
    }
    let daemon = world.start();
    daemon.until("the run waits after the canary, or all has moved", || is_there(&daemon));
    assert!(!daemon.status().contains("deletions wait"), "what changes hands is no deletion: {}", daemon.status());
    if stays {
        let (canary, rest) = (held(&members[0], name), held(&members[1], name));
        assert_ne!(canary[3].1, before[0][3].1, "the canary's ClusterRole is the new placement's");
        assert_eq!(rest[3], before[1][3], "the other cluster's keeps its label until its turn");
        approve(&world, &daemon, &run);
        approve(&world, &daemon, &format!("{old}-1"));
    }
    for (member, before) in members.iter().zip(&before) {
        let after = held(member, name);
        assert_eq!(uids(&after), uids(before), "nothing was deleted on {}", member.name);
        assert_ne!(after[3].1, before[3].1, "the ClusterRole changed hands on {}", member.name);
    }
}

#[test]
fn what_changes_hands_keeps_its_uid_though_the_daemon_is_killed_meanwhile() {
    for (number, dies_at) in [1000, 20, 40, 60].into_iter().enumerate() {
        changes_hands(&format!("renamed{number}"), false, dies_at);
        changes_hands(&format!("given{number}"), true, dies_at);
    }
}

#[test]
fn a_failure_counts_after_its_cluster_has_left() {
    let members = &shared().members;
    let world = World::new(None, &access(members));
    let stages = ["canary", "early", "rest"];
    world.write("fleet.yaml", &clusters_of(members, stages));
    // The API server refuses what is no base64.
    let secret = |value: &str| {
        format!(
            "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: changes, namespace: left}}\ndata: {{value: {value}}}\n"
        )
    };
    let write = |value: &str| world.write("app.yaml", &[rollout("left"), namespace("left"), secret(value)].concat());
    write("'not base64!'");
    world.commit("Broken");
    let daemon = world.start();
    daemon.until("the canary fails", || reason(&daemon, "left-0", "Progressing") == "UpdateRunHalted");
    world.write("fleet.yaml", &clusters_of(&members[1..], stages[1..].iter().copied()));
    let left = world.commit("The canary leaves");
    daemon.until("the commit is accepted", || daemon.status().contains(&left[..7]));
    daemon.until("the canary is gone", || {
        daemon.get("bindings").iter().all(|binding| binding["spec"]["targetCluster"] != members[0].name.as_str())
    });
    assert_eq!(reason(&daemon, "left-0", "Progressing"), "UpdateRunHalted", "{}", daemon.status());
    for member in &members[1..] {
        let found = member.get("left", "secret", "changes").expect("asked");
        assert!(found.is_none(), "{} has nothing before its gate", member.name);
        assert!(member.get("", "namespace", "left").expect("asked").is_none(), "{} has not begun", member.name);
    }
    // Other content ends it. The stage without its cluster asks: nobody approved what the others get.
    write("MQ==");
    world.commit("Repaired");
    approve(&world, &daemon, "left-1");
    for member in &members[1..] {
        assert!(member.get("left", "secret", "changes").expect("asked").is_some(), "{} has the repair", member.name);
    }
}
