//! A push becomes a running fleet.

use std::fs;

use crate::e2e::daemon::{World, access, config_map, deployment, member_clusters, namespace, placement};
use crate::e2e::fleet::request_count;
use crate::e2e::shared;

fn names() -> Vec<&'static str> {
    shared().members.iter().map(|m| m.name.as_str()).collect()
}

/// Pushes go to Gitea; the daemon mirrors it with a token over plain http, which the configuration must allow.
fn gitea_world(repo: &str) -> World {
    let gitea = shared().gitea().expect("the fleet has a Gitea");
    gitea.create_repo(repo).expect("a repository");
    let world = World::new(None, &[]);
    let token = world.path().join("token");
    fs::write(&token, &gitea.token).expect("the token is written");
    let url = format!("{}/{}/{repo}.git", gitea.url.trim_end_matches('/'), gitea.user);
    let source = format!(
        "url: '{url}', branch: main, pollInterval: 1s, tokenFile: {}, allowInsecureHttp: true",
        token.display()
    );
    world.configure(Some(&source), &access(&shared().members));
    world
}

#[test]
fn a_push_to_gitea_rolls_over_three_api_servers_one_at_a_time() {
    let gitea = shared().gitea().expect("the fleet has a Gitea");
    let world = gitea_world("shop");
    world.write("fleet.yaml", &member_clusters(names()));
    world.write("shop/placement.yaml", &placement("shop", ""));
    world.write("shop/namespace.yaml", &namespace("shop"));
    world.write("shop/settings.yaml", &config_map("shop", "settings", "one"));
    world.write("shop/web.yaml", &deployment("shop", "web", "web:1", "1s"));
    world.commit("Shop");
    gitea.push(&world.repo(), "shop", "main").expect("a push");
    let daemon = world.start();
    daemon.await_rolled_out("shop", 0);
    for member in &shared().members {
        let web = member.get("shop", "deployment", "web").expect("asked").expect("the Deployment is there");
        assert_eq!(web["status"]["availableReplicas"], 2, "it is made available");
        let label = web["metadata"]["labels"]["applyset.kubernetes.io/part-of"].as_str().unwrap_or_default();
        assert!(label.starts_with("applyset-"), "the inventory's label is there");
        let parent =
            member.get("gitfleet-system", "configmap", "crp.shop").expect("asked").expect("the inventory is there");
        assert_eq!(parent["metadata"]["annotations"]["gitfleet.io/snapshot-index"], "0");
    }

    // A second push: 25 % of 3 is 1, so the next cluster starts only after the one before is available.
    world.write("shop/web.yaml", &deployment("shop", "web", "web:2", "2s"));
    world.commit("Web 2");
    gitea.push(&world.repo(), "shop", "main").expect("a push");
    daemon.await_rolled_out("shop", 1);
    let starts: Vec<String> = world.logged("rolling out to cluster").into_iter().skip(3).map(|(at, _)| at).collect();
    assert_eq!(starts.len(), 3, "each cluster was started once");
    let bindings = daemon.get("bindings");
    let mut available: Vec<String> = bindings
        .iter()
        .flat_map(|b| b["status"]["conditions"].as_array().cloned().unwrap_or_default())
        .filter(|c| c["type"] == "Available")
        .map(|c| c["lastTransitionTime"].as_str().expect("a time").to_owned())
        .collect();
    available.sort();
    for (ready, next) in available.iter().zip(&starts[1..]) {
        assert!(
            instant(ready) <= instant(next),
            "a cluster started at {next}, before the one before was available at {ready}"
        );
    }

    // What git no longer has is pruned.
    fs::remove_file(world.repo().join("shop/settings.yaml")).expect("the file goes");
    world.commit("No settings");
    gitea.push(&world.repo(), "shop", "main").expect("a push");
    daemon.await_rolled_out("shop", 2);
    daemon.until("the ConfigMap is pruned", || {
        shared().members.iter().all(|m| m.get("shop", "configmap", "settings").is_ok_and(|found| found.is_none()))
    });
    assert!(shared().members[0].get("shop", "deployment", "web").expect("asked").is_some(), "the rest stays");
}

fn instant(text: &str) -> jiff::Timestamp {
    text.parse().expect("a timestamp")
}

#[test]
fn kill_in_the_middle_of_a_rollout_repeats_nothing() {
    let world = World::new(None, &access(&shared().members));
    world.write("fleet.yaml", &member_clusters(names()));
    let objects = |version: &str| {
        let maps: String = (0..20).map(|n| config_map("crash", &format!("c{n}"), version)).collect();
        // StatefulSets are applied by nobody else in this fleet. (Only applies are counted: a namespace that goes, in
        // whatever test, has its StatefulSets deleted as a collection.)
        let set = deployment("crash", "web", &format!("web:{version}"), "2s");
        [placement("crash", ""), namespace("crash"), maps, set.replace("kind: Deployment", "kind: StatefulSet")]
            .concat()
    };
    world.write("app.yaml", &objects("1"));
    world.commit("One");
    let daemon = world.start();
    daemon.await_rolled_out("crash", 0);
    let writes = |resource: &str| -> Vec<u64> {
        let count = |m: &crate::e2e::fleet::Member| request_count(&m.metrics().expect("metrics"), "APPLY", resource);
        shared().members.iter().map(count).collect()
    };
    let before = writes("statefulsets");
    assert!(before.iter().all(|n| *n == before[0]), "one write each: {before:?}");
    world.write("app.yaml", &objects("2"));
    world.commit("Two");
    daemon.until("the second cluster was started", || world.logged("rolling out to cluster").len() >= 5);
    daemon.kill();
    let daemon = world.start();
    daemon.await_rolled_out("crash", 1);
    let after = writes("statefulsets");
    // One write for one change on each member; and one more where the kill came between a member's answer and its coming
    // in: a write in flight cannot be known to have been taken. One cluster moves at a time, so it is one write in all.
    let writes_each: Vec<u64> = before.iter().zip(&after).map(|(before, after)| after - before).collect();
    assert!(writes_each.iter().all(|n| *n >= 1), "every member was written to: {writes_each:?}");
    let repeated = writes_each.iter().map(|n| n - 1).sum::<u64>();
    assert!(repeated <= 1, "at most the write in flight is repeated: {writes_each:?}");
    drop(daemon);
    // A restart with nothing to do writes nothing at all.
    let ours_before: Vec<u64> = writes("statefulsets");
    let daemon = world.start();
    daemon.await_rolled_out("crash", 1);
    daemon.until("the members answer", || world.logged("cluster answers").len() >= 9);
    assert_eq!(writes("statefulsets"), ours_before);
}
