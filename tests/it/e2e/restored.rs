//! Members that come back from a backup.

use crate::e2e::daemon::{World, config_map, member_clusters, namespace, placement, value};
use crate::e2e::fleet::{Fleet, Options};
use crate::e2e::proxy::Proxy;

const NAME: &str = "restored";
const SETTINGS: &str = "/api/v1/namespaces/restored/configmaps/settings";
const INVENTORY: &str = "/api/v1/namespaces/gitfleet-system/configmaps/crp.restored";
const INDEX: &str = "gitfleet.io/snapshot-index";

fn objects(version: &str, others: &[&str]) -> String {
    let others: String = others.iter().map(|name| config_map(NAME, name, "1")).collect();
    [placement(NAME, ""), namespace(NAME), config_map(NAME, "settings", version), others].concat()
}

#[test]
fn d07_a_member_restored_from_a_backup_is_brought_up_to_date() {
    let fleet = Fleet::start(Options::members(1)).expect("the test fleet starts");
    let member = &fleet.members[0];
    let proxy = Proxy::start(member);
    let world = World::new(None, &[(&member.name, &proxy.kubeconfig())]);
    world.write("fleet.yaml", &member_clusters([member.name.as_str()]));
    world.write("a.yaml", &objects("1", &["both", "old"]));
    world.commit("One");
    let daemon = world.start();
    daemon.await_rolled_out(NAME, 0);
    daemon.kill();
    let backup = world.path().join("backup");
    fleet.back_up(&backup).expect("a backup");

    // What this daemon writes from here on has versions that the backup never saw.
    world.write("a.yaml", &objects("2", &["both", "new"]));
    world.commit("Two");
    let daemon = world.start();
    daemon.await_rolled_out(NAME, 1);
    let held = || {
        let inventory = member.get("gitfleet-system", "configmap", "crp.restored").expect("the member is asked");
        let index = inventory.map(|inventory| inventory["metadata"]["annotations"][INDEX].clone());
        let values = ["settings", "both", "old", "new"].map(|name| value(member, NAME, name));
        (index.and_then(|index| index.as_str().map(str::to_owned)).unwrap_or_default(), values.join(" "))
    };
    let of = |index: &str, values: &str| (index.to_owned(), values.to_owned());
    daemon.until("the inventory says so", || held() == of("1", "2 1  1"));

    proxy.cut_off();
    fleet.restore(&backup).expect("the backup is put back");
    assert_eq!(held(), of("0", "1 1 1 "), "the member is as it was");
    let before = proxy.writes().len();
    proxy.heal();
    daemon.until("the member holds what it held before", || held() == of("1", "2 1  1"));
    daemon.await_rolled_out(NAME, 1);

    let writes = proxy.writes().split_off(before);
    let arrived = writes.iter().find(|w| w.path == SETTINGS && w.body["data"]["value"] == "2").map(|w| w.answered);
    let arrived = arrived.expect("it was written again");
    let claims = |write: &&crate::e2e::proxy::Write| {
        write.path == INVENTORY && write.body["metadata"]["annotations"][INDEX] == "1"
    };
    let claims: Vec<_> = writes.iter().filter(claims).map(|write| write.asked).collect();
    assert!(
        !claims.is_empty() && claims.iter().all(|asked| *asked >= arrived),
        "the inventory claims nothing too early"
    );
}
