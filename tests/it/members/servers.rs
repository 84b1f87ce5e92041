//! Two members that lead to one API server.

use crate::e2e::daemon::{World, access, config_map, member_clusters, namespace, placement, value};
use crate::e2e::shared;

#[test]
fn m7_the_second_name_of_a_server_is_an_error_and_writes_and_deletes_nothing() {
    let (one, other) = (&shared().members[0], &shared().members[1]);
    let path = one.kubeconfig.as_path();
    let world =
        World::new(None, &[("first", path), ("second", path), (other.name.as_str(), other.kubeconfig.as_path())]);
    world.write("fleet.yaml", &member_clusters(["first", "second", other.name.as_str()]));
    world.write("placement.yaml", &placement("servers", ""));
    world.write("servers.yaml", &[namespace("servers"), config_map("servers", "a", "1")].concat());
    world.commit("Two names of one server");
    let daemon = world.start();
    let said = "second is the same server as first: ";
    daemon.await_status(said);
    for member in [one, other] {
        daemon.until("the others are delivered to", || value(member, "servers", "a") == "1");
    }
    let check = world.gitfleet(&["check", "-c", "gitfleet.yaml"]);
    let check = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(check.contains(said) && check.contains("2 of 3 clusters can be delivered to"), "{check}");

    // The second name is not to have it any more.
    let policy = format!("  policy: {{placementType: PickFixed, clusterNames: [first, {}]}}\n", other.name);
    world.write("placement.yaml", &placement("servers", &policy));
    world.write("servers.yaml", &[namespace("servers"), config_map("servers", "a", "2")].concat());
    world.commit("Without the second name");
    daemon.until("the rest continues", || value(one, "servers", "a") == "2" && value(other, "servers", "a") == "2");
    assert!(!daemon.status().contains("would be deleted"), "{}", daemon.status());
    let pruned: Vec<_> = world.log().into_iter().filter(|line| line["message"] == "pruned").collect();
    assert!(pruned.is_empty(), "{pruned:?}");

    // Who was there first stays so over a start, whoever answers first.
    drop(daemon);
    let daemon = world.start();
    daemon.await_status(said);
    // The old name leaves, and the new one has the server.
    world.write("fleet.yaml", &member_clusters(["second", other.name.as_str()]));
    world.write("placement.yaml", &placement("servers", ""));
    world.write("servers.yaml", &[namespace("servers"), config_map("servers", "a", "3")].concat());
    world.commit("Another name");
    daemon.until("the new name is delivered to", || value(one, "servers", "a") == "3");
    assert!(!daemon.status().contains("is the same server"), "{}", daemon.status());
}

#[test]
fn n01_a_settled_owner_keeps_its_object_over_kills_on_an_api_server() {
    let member = &shared().members[2];
    let world = World::new(None, &access(std::slice::from_ref(member)));
    world.write("fleet.yaml", &member_clusters([member.name.as_str()]));
    let of = |name: &str| {
        let text = placement(name, "");
        text.replace("{gitfleet.io/deletion-guard: 'Off'}", &format!("{{gitfleet.io/path: {name}}}"))
            .replace(&format!("kind: Namespace, name: {name}"), "kind: Namespace, name: contested")
    };
    for name in ["m-owner", "a-other"] {
        world
            .write(&format!("{name}/all.yaml"), &[namespace("contested"), config_map("contested", "c", name)].concat());
    }
    world.write("m-owner.yaml", &of("m-owner"));
    world.commit("The owner");
    let daemon = world.start();
    daemon.await_rolled_out("m-owner", 0);
    world.write("a-other.yaml", &of("a-other"));
    world.commit("Another placement wants the same");
    daemon.await_status("belongs to placement m-owner");
    drop(daemon);
    for start in 0..4 {
        let daemon = world.start();
        daemon.await_status("belongs to placement m-owner");
        std::thread::sleep(std::time::Duration::from_millis(500));
        assert_eq!(value(member, "contested", "c"), "m-owner", "start {start}");
        daemon.kill();
    }
}
