//! Objects that a member does not take, or takes its time over: that concerns these objects and nothing else.

use std::time::Duration;

use http::Method;
use serde_json::Value;

use crate::e2e::daemon::{Daemon, World, applied, config_map, manifest, member_clusters, namespace, placement, value};
use crate::e2e::fleet::Member;
use crate::e2e::proxy::{Fault, Proxy};
use crate::e2e::shared;

/// Longer than an admission webhook may take, with what the API server needs itself.
const SLOW: Duration = Duration::from_secs(25);

const INVENTORY: &str = "GET /api/v1/namespaces/gitfleet-system/configmaps";
const LIST: &str = "GET /api/v1/configmaps";

/// A definition, an object of it whose name may stand in a path and is none that an API server takes for it, and one of a kind
/// that no definition brings.
const WIDGET: &str = "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.refused.example.com}\nspec:\n  \
     group: refused.example.com\n  scope: Namespaced\n  names: {kind: Widget, plural: widgets, singular: widget}\n  versions:\n    \
     - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}\n\
     ---\napiVersion: refused.example.com/v1\nkind: Widget\nmetadata: {name: 'oops a space', namespace: odd}\n\
     ---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: bad-key, namespace: odd}\ndata: {'no key': x}\n\
     ---\napiVersion: nowhere.example.com/v1\nkind: Gadget\nmetadata: {name: unknown, namespace: odd}\n";

fn world(proxy: &Proxy, member: &Member) -> World {
    let world = World::new(None, &[(&member.name, &proxy.kubeconfig())]);
    world.write("fleet.yaml", &member_clusters([member.name.as_str()]));
    world
}

fn app(name: &str, version: &str) -> String {
    [placement(name, ""), namespace(name), config_map(name, "settings", version)].concat()
}

/// The member was connected to once, listed once, and never given up.
fn assert_steady(world: &World, proxy: &Proxy) {
    assert_eq!([INVENTORY, LIST].map(|request| proxy.requests(request)), [1, 1], "connected and listed once");
    let offline = world.logged("cluster does not answer; its turn is deferred");
    assert!(offline.is_empty(), "never offline: {offline:?}");
}

fn reason(daemon: &Daemon<'_>, member: &Member, object: &str) -> Value {
    applied(&manifest(daemon, "odd", &member.name, object))["reason"].clone()
}

#[test]
fn d04_an_object_that_a_member_refuses_stops_no_other() {
    let member = &shared().members[0];
    let proxy = Proxy::start(member);
    let world = world(&proxy, member);
    let selector = "    - {group: apiextensions.k8s.io, version: v1, kind: CustomResourceDefinition, name: widgets.refused.example.com}\n";
    let odd = app("odd", "1").replace("  strategy:", &format!("{selector}  strategy:"));
    world.write("odd.yaml", &[&odd, WIDGET].concat());
    world.write("even.yaml", &app("even", "1"));
    world.commit("One");
    let daemon = world.start();
    daemon.await_rolled_out("even", 0);
    for object in ["Widget odd/oops a space", "ConfigMap odd/bad-key"] {
        daemon.until(&format!("{object} is refused"), || reason(&daemon, member, object) == "ManifestApplyFailed");
    }
    daemon.until("the kind is unknown", || reason(&daemon, member, "Gadget odd/unknown") == "DecodingErred");
    assert_eq!(reason(&daemon, member, "ConfigMap odd/settings"), "Applied", "the rest of its placement is there");
    let refused = proxy.requests("PATCH /api/v1/namespaces/odd/configmaps/bad-key");
    assert!(refused >= 1, "the member was asked");

    world.write("even.yaml", &app("even", "2"));
    world.commit("Two");
    daemon.await_rolled_out("even", 1);
    assert_eq!(value(member, "even", "settings"), "2");
    let widget = proxy.requests("PATCH /apis/refused.example.com/v1/namespaces/odd/widgets/oops%20a%20space");
    assert!(widget >= 1, "its name is escaped in the address");
    assert_steady(&world, &proxy);
}

#[test]
fn d04_a_slow_request_holds_up_its_own_object_only() {
    const PATH: &str = "/api/v1/namespaces/slow/configmaps/settings";
    let member = &shared().members[1];
    let proxy = Proxy::start(member);
    let world = world(&proxy, member);
    let write = |slow: &str, quick: &str| world.write("a.yaml", &[app("slow", slow), app("quick", quick)].concat());
    write("1", "1");
    world.commit("One");
    let daemon = world.start();
    daemon.await_rolled_out("slow", 0);
    daemon.await_rolled_out("quick", 0);

    proxy.fail(Method::PATCH, PATH, Fault::Slow(SLOW), 1);
    write("2", "1");
    world.commit("Two is slow");
    daemon.until("the slow request is under way", || proxy.delayed() == 1);
    write("2", "2");
    world.commit("Two is quick");
    daemon.await_rolled_out("quick", 1);
    assert_eq!(value(member, "quick", "settings"), "2");
    assert_eq!((proxy.delayed(), value(member, "slow", "settings").as_str()), (1, "1"), "the slow one has not ended");

    daemon.await_rolled_out("slow", 1);
    assert_eq!(value(member, "slow", "settings"), "2");
    let writes: Vec<_> = proxy.writes().into_iter().filter(|write| write.path == PATH).collect();
    let took: Vec<_> = writes.iter().map(|write| write.answered - write.asked).collect();
    assert!(took.len() == 2 && took[0] < SLOW && took[1] >= SLOW, "one try, however long it took: {took:?}");
    assert_steady(&world, &proxy);
}
