//! Deliveries whose end depends on what an API server validates and defaults, which the double does not.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::e2e::daemon::{
    World, access, applied, config_map, deployment, manifest, member_clusters, namespace, placement, value,
};
use crate::e2e::fleet::{Member, until, write_count};
use crate::e2e::shared;

/// A member and a world that knows only it.
fn one() -> (&'static Member, World) {
    let member = &shared().members[2];
    let world = World::new(None, &access(std::slice::from_ref(member)));
    world.write("fleet.yaml", &member_clusters([member.name.as_str()]));
    (member, world)
}

#[test]
fn report_diff_compares_and_writes_nothing() {
    const PROBE: &str = ", livenessProbe: {tcpSocket: {port: 80}}";
    let (member, world) = one();
    // Pod templates: no other test and no example writes any, so every write counted here is one of this test.
    let template = |namespace: &str, name: &str, probe: &str| {
        format!(
            "---\napiVersion: v1\nkind: PodTemplate\nmetadata: {{name: {name}, namespace: {namespace}}}\ntemplate:\n  spec:\n    \
             containers:\n      - {{name: main, image: main:1{probe}}}\n"
        )
    };
    let writes = || write_count(&member.metrics().expect("metrics"), "podtemplates");
    let begun = writes();
    member
        .kubectl_apply(
            &[namespace("compare"), template("compare", "differs", ""), template("compare", "same", PROBE)].concat(),
        )
        .expect("objects by hand");
    // A server counts a request a moment after it has answered it.
    let both = || Ok((writes() >= begun + 2).then_some(()));
    until("both writes to be counted", Duration::from_secs(30), both).expect("they are");
    let version = |name: &str| {
        let object = member.get("compare", "podtemplate", name).expect("asked").expect("it is there");
        object["metadata"]["resourceVersion"].clone()
    };
    let before = (version("differs"), version("same"));
    let written = writes();
    let report = |name: &str| [placement(name, "    applyStrategy: {type: ReportDiff}\n"), namespace(name)].concat();
    world.write(
        "compare.yaml",
        &[
            report("compare"),
            template("compare", "differs", PROBE),
            template("compare", "same", PROBE),
            template("compare", "missing", PROBE),
        ]
        .concat(),
    );
    world.write("nowhere.yaml", &[report("compare-nowhere"), template("compare-nowhere", "missing", PROBE)].concat());
    world.commit("Compare");
    let daemon = world.start();
    let report = |name: &str, object: &str, reason: &str| {
        let mut found = Value::Null;
        daemon.until(&format!("{object} is {reason}"), || {
            found = manifest(&daemon, name, &member.name, object);
            found["conditions"][0]["type"] == "DiffReported" && found["conditions"][0]["reason"] == reason
        });
        found["diffDetails"]["observedDiffs"].clone()
    };
    let differs = report("compare", "PodTemplate compare/differs", "FoundDiff");
    assert_eq!(differs[0]["path"], "/template/spec/containers/0/livenessProbe");
    // The API server would set defaults with it: the comparison is with what it would make of the manifest.
    let found = differs[0]["valueInHub"].as_str().unwrap_or_default();
    assert!(found.contains("\"port\":80") && found.contains("\"periodSeconds\":10"), "{differs}");
    assert_eq!(differs.as_array().map(Vec::len), Some(1), "{differs}");
    report("compare", "PodTemplate compare/same", "NoDiffFound");
    report("compare", "Namespace compare", "NoDiffFound");
    let missing = report("compare", "PodTemplate compare/missing", "FoundDiff");
    assert_eq!(missing[0]["path"], "/");
    assert_eq!(report("compare-nowhere", "Namespace compare-nowhere", "FoundDiff")[0]["path"], "/");
    assert_eq!(report("compare-nowhere", "PodTemplate compare-nowhere/missing", "FoundDiff")[0]["path"], "/");
    daemon.await_status("differ");

    assert_eq!(writes(), written, "no write, whatever was found");
    assert_eq!((version("differs"), version("same")), before);
    for name in ["crp.compare", "crp.compare-nowhere"] {
        assert!(member.get("gitfleet-system", "configmap", name).expect("asked").is_none(), "no inventory: {name}");
    }
    assert!(member.get("", "namespace", "compare-nowhere").expect("asked").is_none());

    // Turned into an apply, everything is put right; turned back, it is compared again.
    world.write(
        "compare.yaml",
        &[placement("compare", ""), namespace("compare"), template("compare", "differs", PROBE)].concat(),
    );
    world.commit("Apply");
    daemon.until("it is applied", || {
        let object = member.get("compare", "podtemplate", "differs").expect("asked").expect("it is there");
        object["template"]["spec"]["containers"][0]["livenessProbe"]["tcpSocket"]["port"] == 80
    });
}

#[test]
fn a_refused_object_holds_the_rollout_and_the_next_commit_repairs_it() {
    let world = World::new(None, &access(&shared().members));
    world.write("fleet.yaml", &member_clusters(shared().members.iter().map(|m| m.name.as_str())));
    let of = |version: &str, app: &str| {
        let web = deployment("refuse", "web", "web:1", "1s");
        let web = web.replace("labels: {app: web}", &format!("labels: {{app: {app}}}"));
        [placement("refuse", ""), namespace("refuse"), config_map("refuse", "settings", version), web].concat()
    };
    world.write("a.yaml", &of("1", "web"));
    world.commit("Good");
    let daemon = world.start();
    daemon.await_rolled_out("refuse", 0);
    world.write("a.yaml", &of("2", "other"));
    world.commit("The selector does not match");
    let status = daemon.await_status("halted");
    assert!(status.contains("Deployment.apps refuse/web") || status.contains("refuse/web"), "{status}");
    assert!(status.contains("selector"), "the API server's own words are there: {status}");
    let values = || shared().members.iter().map(|m| value(m, "refuse", "settings")).collect::<Vec<_>>();
    let (new, old): (Vec<_>, Vec<_>) = values().into_iter().partition(|value| value == "2");
    assert_eq!((new.len(), old.len()), (1, 2), "the first cluster has the other objects, nobody else was started");
    world.write("a.yaml", &of("3", "web"));
    world.commit("Repaired");
    daemon.await_rolled_out("refuse", 2);
    assert_eq!(values(), ["3", "3", "3"]);
}

#[test]
fn a_secrets_data_is_never_told() {
    const PASSWORD: &str = "correct-horse-battery";
    const CODE: &str = "4815162342";
    let (member, world) = one();
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
    let by_hand = serde_json::json!({"stringData": {"password": "drifted-battery"}});
    member.patch(("secret-a", "secret", "good"), &by_hand).expect("a change by hand");
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
