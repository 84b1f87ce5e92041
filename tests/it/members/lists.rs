//! Lists that fail: of what they would have named nothing is known, so nothing is deleted or forgotten for that.

use std::fs;
use std::path::PathBuf;

use http::Method;
use serde_json::Value;

use crate::e2e::daemon::{Daemon, World, config_map, member_clusters, namespace, value};
use crate::e2e::fleet::Member;
use crate::e2e::proxy::{Fault, Proxy};
use crate::e2e::shared;

const NAMESPACES: &str = "/api/v1/namespaces";
const CONFIG_MAPS: &str = "/api/v1/configmaps";

/// One way to fail, on one member, with a placement of its own.
struct Case {
    name: String,
    fault: Fault,
    member: &'static Member,
    proxy: Proxy,
}

impl Case {
    /// Two namespaces and what is in them, under a guard at its default.
    fn placement(&self) -> String {
        let Self { name, member, .. } = self;
        let selector = |name: &str| format!("    - {{group: '', version: v1, kind: Namespace, name: {name}}}\n");
        format!(
            "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {{name: {name}}}\nspec:\n  \
             policy: {{placementType: PickFixed, clusterNames: [{}]}}\n  resourceSelectors:\n{}{}  \
             strategy: {{rollingUpdate: {{unavailablePeriodSeconds: 1}}}}\n",
            member.name,
            selector(name),
            selector(&self.second()),
        )
    }

    fn second(&self) -> String {
        format!("{}-x", self.name)
    }

    /// What stays.
    fn first_objects(&self, version: &str) -> String {
        [namespace(&self.name), config_map(&self.name, "settings", version), config_map(&self.name, "same", "1")]
            .concat()
    }

    /// What goes.
    fn second_objects(&self) -> String {
        let second = self.second();
        [config_map(&self.name, "extra", "1"), namespace(&second), config_map(&second, "settings", "1")].concat()
    }

    fn file(&self) -> String {
        format!("{}.yaml", self.name)
    }

    fn has(&self, namespace: &str, kind: &str, name: &str) -> bool {
        let found = self.member.get(namespace, kind, name).expect("the member is asked");
        found.is_some_and(|object| object["metadata"]["deletionTimestamp"].is_null())
    }

    fn has_inventory(&self) -> bool {
        self.has("gitfleet-system", "configmap", &format!("crp.{}", self.name))
    }

    fn has_second(&self) -> bool {
        let second = self.second();
        self.has("", "namespace", &second)
            && self.has(&second, "configmap", "settings")
            && self.has(&self.name, "configmap", "extra")
    }

    /// Tells whether the placement's deletions wait for a person, for this reason.
    fn waits(&self, daemon: &Daemon<'_>, reason: &str) -> bool {
        let placements = daemon.get("placements");
        let found = placements.iter().find(|placement| placement["metadata"]["name"] == self.name.as_str());
        let conditions = found.and_then(|placement| placement["status"]["conditions"].as_array().cloned());
        let guard = conditions.into_iter().flatten().find(|condition| condition["type"] == "DeletionGuarded");
        let guard = guard.unwrap_or_default();
        guard["status"] == "True" && guard["message"].as_str().is_some_and(|message| message.contains(reason))
    }
}

fn approve(world: &World, cases: &[Case]) {
    for Case { name, .. } in cases {
        let output = world.gitfleet(&["approve", name, "deletion", "-c", "gitfleet.yaml"]);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Delivers everything through proxies that do nothing yet, and stops the daemon.
fn delivered(scenario: &str, faults: &[(&str, Fault)]) -> (World, Vec<Case>) {
    let case = |(member, (word, fault)): (&'static Member, &(&str, Fault))| Case {
        name: format!("{scenario}-{word}"),
        fault: *fault,
        member,
        proxy: Proxy::start(member),
    };
    assert!(faults.len() <= shared().members.len(), "each has a member of its own");
    let cases: Vec<Case> = shared().members.iter().zip(faults).map(case).collect();
    let world = World::new(None, &[]);
    let kubeconfigs: Vec<(&str, PathBuf)> =
        cases.iter().map(|case| (case.member.name.as_str(), case.proxy.kubeconfig())).collect();
    let members: Vec<_> = kubeconfigs.iter().map(|(name, path)| (*name, path.as_path())).collect();
    world.configure(None, &members);
    world.write("fleet.yaml", &member_clusters(members.iter().map(|(name, _)| *name)));
    for case in &cases {
        world.write(&case.file(), &[case.placement(), case.first_objects("1"), case.second_objects()].concat());
    }
    world.commit("Everything");
    let daemon = world.start();
    for case in &cases {
        daemon.await_rolled_out(&case.name, 0);
        assert!(case.has_second() && case.has_inventory(), "{}", case.name);
    }
    daemon.kill();
    (world, cases)
}

/// What a binding says of its objects.
fn applied_message(daemon: &Daemon<'_>, placement: &str) -> String {
    let of = |binding: &Value| binding["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"] == placement;
    let bindings = daemon.get("bindings").into_iter().filter(of);
    let conditions =
        bindings.flat_map(|binding| binding["status"]["conditions"].as_array().cloned().unwrap_or_default());
    conditions.filter(|c| c["type"] == "Applied").map(|c| c["message"].to_string()).collect()
}

/// A commit takes a namespace and more out of placements; while namespaces cannot be listed the daemon begins to carry it out.
fn nothing_is_pruned(faults: &[(&str, Fault)]) {
    let (world, cases) = delivered("lists", faults);
    for case in &cases {
        world.write(&case.file(), &[case.placement(), case.first_objects("2")].concat());
        case.proxy.fail(Method::GET, NAMESPACES, case.fault, usize::MAX);
    }
    world.commit("Less");
    let daemon = world.start();
    for Case { name, proxy, member, .. } in &cases {
        // The order arrived and is carried out as far as it can be: where nothing were guarded, it would be pruned, too.
        daemon.until(&format!("{name}: what is known is applied"), || value(member, name, "settings") == "2");
        daemon.until(&format!("{name}: the list is tried again"), || proxy.hits(NAMESPACES) >= 2);
        assert!(world.logged("pruned").is_empty(), "not known is not gone: {:?}", world.logged("pruned"));
        daemon.until(&format!("{name}: the binding says why"), || {
            applied_message(&daemon, name).contains("nothing is deleted there (Namespace: ")
        });
    }
    assert!(cases.iter().all(Case::has_second), "not known is not gone");
    for case in &cases {
        case.proxy.heal();
    }
    for case in &cases {
        let reason = format!("would be deleted, with Namespace {}", case.second());
        daemon.until(&format!("{}: a person is asked", case.name), || case.waits(&daemon, &reason));
        assert!(case.has_second(), "{}: nothing goes before the answer", case.name);
    }
    assert!(world.logged("pruned").is_empty(), "{:?}", world.logged("pruned"));
    approve(&world, &cases);
    for case in &cases {
        let second = case.second();
        daemon.until(&format!("{}: what was approved goes", case.name), || {
            !case.has("", "namespace", &second) && !case.has(&case.name, "configmap", "extra")
        });
        assert!(case.has("", "namespace", &case.name) && case.has_inventory(), "{}: the rest stays", case.name);
    }
}

/// Placements are removed; their members fail to list namespaces and ConfigMaps once when the daemon begins to carry it out.
fn nothing_is_forgotten(faults: &[(&str, Fault)]) {
    let (world, cases) = delivered("removed", faults);
    for case in &cases {
        fs::remove_file(world.repo().join(case.file())).expect("the file goes");
        for list in [NAMESPACES, CONFIG_MAPS] {
            case.proxy.fail(Method::GET, list, case.fault, 1);
        }
    }
    world.commit("Nothing");
    let daemon = world.start();
    for case in &cases {
        daemon.until(&format!("{}: a person is asked", case.name), || {
            assert!(world.logged("removed everywhere").is_empty(), "not known is not gone");
            case.waits(&daemon, "the placement was removed")
        });
        assert_eq!([NAMESPACES, CONFIG_MAPS].map(|list| case.proxy.hits(list)), [1, 1], "{}: lists failed", case.name);
        assert!(case.has_second() && case.has_inventory(), "{}: nothing goes before the answer", case.name);
    }
    for message in ["pruned", "removed everywhere"] {
        assert!(world.logged(message).is_empty(), "{message}: {:?}", world.logged(message));
    }
    approve(&world, &cases);
    for case in &cases {
        daemon.until(&format!("{}: what was approved goes", case.name), || {
            [case.name.clone(), case.second()].iter().all(|name| !case.has("", "namespace", name))
                && !case.has_inventory()
        });
    }
    daemon.until("their records are gone", || daemon.get("placements").is_empty());
    assert_eq!(world.logged("removed everywhere").len(), cases.len());
}

const REFUSED: [(&str, Fault); 3] =
    [("403", Fault::Status(403)), ("404", Fault::Status(404)), ("410", Fault::Status(410))];
const BROKEN: [(&str, Fault); 3] = [("500", Fault::Status(500)), ("cut", Fault::Cut), ("page", Fault::SecondPage(410))];

#[test]
fn d02_a_refused_list_does_not_open_the_deletion_gate() {
    nothing_is_pruned(&REFUSED);
}

#[test]
fn d02_a_broken_list_does_not_open_the_deletion_gate() {
    nothing_is_pruned(&BROKEN);
}

#[test]
fn d02_a_removal_is_not_done_because_a_list_was_refused() {
    nothing_is_forgotten(&REFUSED);
}

#[test]
fn d02_a_removal_is_not_done_because_a_list_broke() {
    nothing_is_forgotten(&BROKEN);
}
