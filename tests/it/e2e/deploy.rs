//! What `deploy/` and `gitfleet member bootstrap` promise, on real API servers: the daemon's Pod is admitted where the strictest
//! level is enforced, and the daemon can work with exactly the rights that are printed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use testservers::repository;

use crate::e2e::daemon::{World, config_map, deployment, member_clusters, namespace, patch, placement, value};
use crate::e2e::fleet::{Fleet, Member, Options, forbidden_count};
use crate::e2e::shared;

/// Renders a kustomization of `deploy/`.
fn rendered(member: &Member, folder: &str) -> Vec<Value> {
    let path = repository().join("deploy").join(folder);
    let yaml = member.kubectl(&["kustomize", path.to_str().expect("a path")]).expect("it renders");
    let documents = model::yaml::parse_documents(&yaml);
    documents.into_iter().map(|document| document.expect("good YAML").value).collect()
}

fn kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects.iter().find(|object| object["kind"] == kind).unwrap_or_else(|| panic!("no {kind} is rendered"))
}

/// Has the API server look at an object as if it were applied.
fn dry_run(member: &Member, world: &Path, object: &Value) -> Result<String, String> {
    let file = world.join("object.json");
    fs::write(&file, object.to_string()).expect("the file is written");
    let file = file.to_str().expect("a path");
    let answer = member.kubectl(&["apply", "--server-side", "--dry-run=server", "-f", file]);
    answer.map_err(|error| format!("{error:#}"))
}

#[test]
fn the_pod_of_the_daemon_is_admitted_where_the_restricted_level_is_enforced() {
    let member = &shared().members[2];
    let folder = tempfile::TempDir::new().expect("a folder");
    let objects = rendered(member, "base");
    let own = kind(&objects, "Namespace");
    assert_eq!(own["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
    member.kubectl_apply(&own.to_string()).expect("the namespace is there");
    for object in &objects {
        let answer = dry_run(member, folder.path(), object);
        assert!(answer.is_ok(), "{} {}: {answer:?}", object["kind"], object["metadata"]["name"]);
        assert_ne!(object["kind"], "Secret", "secrets are made elsewhere");
    }
    // A Deployment is never refused by the level, only its Pods are.
    let template = &kind(&objects, "Deployment")["spec"]["template"];
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "daemon", "namespace": own["metadata"]["name"], "labels": template["metadata"]["labels"]},
        "spec": template["spec"],
    });
    assert_eq!(dry_run(member, folder.path(), &pod).err(), None);
    let container = "/spec/containers/0/securityContext";
    let rows: &[(&str, String, Value)] = &[
        ("a root user", "/spec/securityContext/runAsNonRoot".into(), Value::Null),
        ("no seccomp profile", "/spec/securityContext/seccompProfile".into(), Value::Null),
        ("more privileges", format!("{container}/allowPrivilegeEscalation"), json!(true)),
        ("capabilities", format!("{container}/capabilities"), json!({"add": ["NET_ADMIN"]})),
        ("a folder of the node", "/spec/volumes/0".into(), json!({"name": "config", "hostPath": {"path": "/"}})),
    ];
    for (name, pointer, other) in rows {
        let mut worse = pod.clone();
        *worse.pointer_mut(pointer).unwrap_or_else(|| panic!("the Pod has {pointer}")) = other.clone();
        let refusal = dry_run(member, folder.path(), &worse).expect_err(name);
        assert!(refusal.contains("violates PodSecurity"), "{name}: {refusal}");
    }
    member.kubectl(&["delete", "namespace", "gitfleet", "--wait=false"]).expect("the namespace goes");
}

#[test]
fn what_is_deployed_fits_together() {
    let member = &shared().members[2];
    let objects = rendered(member, "base");
    let pod = &kind(&objects, "Deployment")["spec"]["template"];
    let container = &pod["spec"]["containers"][0];
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    for (name, selector) in [
        ("Service", &kind(&objects, "Service")["spec"]["selector"]),
        ("NetworkPolicy", &kind(&objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"]),
    ] {
        let wanted = selector.as_object().expect("it selects by labels");
        assert!(!wanted.is_empty(), "{name} selects nothing in particular");
        assert!(wanted.iter().all(|(key, value)| pod["metadata"]["labels"][key] == *value), "{name}: {selector}");
    }
    let text = kind(&objects, "ConfigMap")["data"]["gitfleet.yaml"].as_str().expect("the configuration");
    let folder = Path::new("/etc/gitfleet/config");
    let configuration = config::Configuration::parse(text, folder, &std::collections::BTreeMap::new());
    let configuration = configuration.expect("the daemon takes it");
    assert_eq!(json!(configuration.http.listen.port()), container["ports"][0]["containerPort"]);
    let webhooks = configuration.http.webhook_listen.expect("webhooks have a port of their own").port();
    assert_eq!(json!(webhooks), container["ports"][1]["containerPort"]);
    assert!(configuration.http.read_needs_token(), "others than this machine reach the daemon");
    // The only folder that is written to is the volume; what is read from is mounted.
    let mounts = container["volumeMounts"].as_array().expect("mounts");
    let mounted = |path: &Path, read_only: bool| {
        let of = |mount: &Value| path.starts_with(mount["mountPath"].as_str().unwrap_or("?"));
        mounts.iter().any(|mount| of(mount) && (mount["readOnly"] == true) == read_only)
    };
    assert!(mounted(&configuration.store.path, false), "{:?}", configuration.store.path);
    let forge = configuration.forge.expect("a forge");
    let metrics = configuration.http.read_tokens.first().map(|token| token.token_file.clone());
    let metrics_key = metrics.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    for file in [configuration.source.token_file, forge.token_file, forge.webhook_secret_file, metrics] {
        let file = file.expect("a file");
        assert!(mounted(&file, true), "{file:?}");
    }
    let monitored = rendered(member, "overlays/prometheus");
    let monitor = kind(&monitored, "ServiceMonitor");
    assert_eq!(monitor["spec"]["endpoints"][0]["port"], kind(&monitored, "Service")["spec"]["ports"][0]["name"]);
    let credentials = &monitor["spec"]["endpoints"][0]["authorization"]["credentials"];
    assert_eq!(credentials, &json!({"name": "gitfleet-secrets", "key": metrics_key}));
    assert_eq!(monitored.len(), objects.len() + 1);
}

/// Prepares a member as a person would, and returns the kubeconfig of the daemon's account.
pub fn bootstrap(world: &World, member: &Member, narrowing: &[&str], token: &[&str]) -> PathBuf {
    let name = member.name.as_str();
    let printed = world.gitfleet(&[&["member", "bootstrap", name], narrowing].concat());
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    member.kubectl_apply(&String::from_utf8_lossy(&printed.stdout)).expect("kubectl takes what was printed");
    let admin = member.kubeconfig.to_str().expect("a path");
    let of = ["member", "bootstrap", name, "-o", "kubeconfig", "--kubeconfig", admin, "--context", name];
    let printed = world.gitfleet(&[of.as_slice(), token].concat());
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let path = world.path().join(format!("{name}.kubeconfig"));
    fs::write(&path, printed.stdout).expect("the kubeconfig is written");
    path
}

/// Tries something with the daemon's kubeconfig; returns the refusal.
fn refusal(member: &Member, kubeconfig: &Path, args: &[&str]) -> Option<String> {
    let kubeconfig = kubeconfig.to_str().expect("a path");
    let tried = member.kubectl(&[&["--kubeconfig", kubeconfig], args].concat());
    tried.err().map(|error| format!("{error:#}"))
}

#[test]
fn the_daemon_works_with_exactly_the_printed_rights() {
    // A fleet of its own: its API servers count refusals of all users together.
    let fleet = Fleet::start(Options::members(2).with_controller_manager()).expect("a fleet starts");
    let (wide, narrow) = (&fleet.members[0], &fleet.members[1]);
    let refusals = || [wide, narrow].map(|member| forbidden_count(&member.metrics().expect("metrics")));
    let (name, clusters) = ("bootstrap", [wide.name.as_str(), narrow.name.as_str()]);
    let world = World::new(None, &[]);
    let wide_config = bootstrap(&world, wide, &["--all-kinds"], &[]);
    let narrowing = ["--resources", "namespaces,Deployment.apps,configmaps", "--namespaces", name];
    let narrow_config = bootstrap(&world, narrow, &narrowing, &["--token-lifetime", "1h"]);
    world.configure(None, &[(clusters[0], &wide_config), (clusters[1], &narrow_config)]);

    let app = |value: &str| {
        [namespace(name), config_map(name, "settings", value), deployment(name, "web", "web:1", "0s")].concat()
    };
    world.write("fleet.yaml", &[member_clusters(clusters), placement(name, "")].concat());
    world.write("app.yaml", &[app("first"), config_map(name, "extra", "soon gone")].concat());
    world.commit("Deliver");
    let before = refusals();
    let daemon = world.start();
    daemon.await_rolled_out(name, 0);
    world.write("app.yaml", &app("second"));
    world.commit("Change and prune");
    daemon.await_rolled_out(name, 1);
    for member in [wide, narrow] {
        assert_eq!(value(member, name, "settings"), "second");
        daemon.until("the ConfigMap is pruned", || {
            member.get(name, "configmap", "extra").expect("the member answers").is_none()
        });
        // Drift is seen by a watch and put back.
        patch(member, name, "settings", "by hand");
        daemon.until("the drift is put back", || value(member, name, "settings") == "second");
    }
    daemon.until("nodes and pods are added up", || {
        let clusters = daemon.get("clusters");
        clusters.len() == 2
            && clusters.iter().all(|cluster| cluster.to_string().contains("kubernetes-fleet.io/node-count"))
    });
    assert_eq!(refusals(), before, "no request of the daemon was refused");

    let elsewhere: &[(&Member, &Path, &[&str], &str)] = &[
        (wide, &wide_config, &["get", "configmaps", "--as=admin"], "impersonate"),
        (
            wide,
            &wide_config,
            &["create", "clusterrole", "more", "--verb=update", "--resource=pods"],
            "attempting to grant",
        ),
        (
            wide,
            &wide_config,
            &["create", "clusterrolebinding", "more", "--clusterrole=cluster-admin", "--user=x"],
            "attempting to grant",
        ),
        (narrow, &narrow_config, &["get", "configmaps", "--as=admin"], "impersonate"),
        (narrow, &narrow_config, &["-n", "default", "create", "configmap", "x"], "cannot create"),
        (narrow, &narrow_config, &["-n", name, "get", "secrets"], "cannot list"),
        (narrow, &narrow_config, &["-n", name, "create", "serviceaccount", "x"], "cannot create"),
        (narrow, &narrow_config, &["delete", "namespace", "default"], "cannot delete"),
        (narrow, &narrow_config, &["create", "namespace", "other"], "cannot create"),
        (narrow, &narrow_config, &["-n", "gitfleet-system", "create", "token", "gitfleet"], "cannot create"),
    ];
    for (member, kubeconfig, args, words) in elsewhere {
        let found =
            refusal(member, kubeconfig, args).unwrap_or_else(|| panic!("{}: {args:?} is let through", member.name));
        assert!(found.contains(words), "{args:?}: {found}");
    }
    assert!(refusals().iter().zip(before).all(|(after, before)| *after >= before + 2), "refusals are counted");
    bootstrap(&world, wide, &["--all-kinds", "--allow-rbac"], &[]);
    let grant = ["create", "clusterrole", "bootstrap-more", "--verb=update", "--resource=pods"];
    assert_eq!(refusal(wide, &wide_config, &grant), None, "with --allow-rbac it may grant what it has not");
    wide.kubectl(&["delete", "clusterrole", "bootstrap-more"]).expect("the role goes");
}

#[test]
fn c14_the_rights_that_follow_from_the_example_tree_deliver_it() {
    // A fleet of its own: its API server counts refusals of all users together.
    let fleet = Fleet::start(Options::members(1).with_controller_manager()).expect("a fleet starts");
    let member = &fleet.members[0];
    let refusals = || forbidden_count(&member.metrics().expect("metrics"));
    let world = World::new(None, &[]);
    let examples = repository().join("examples-repo");
    for folder in ["apps", "clusters", "placements", "platform", "strategies"] {
        let copied = Command::new("cp").arg("-r").arg(examples.join(folder)).arg(world.repo()).status();
        assert!(copied.expect("cp runs").success(), "{folder}");
    }
    let repo = world.repo();
    let least = ["--repo", repo.to_str().expect("a path"), "--allow-rbac"];
    let kubeconfig = bootstrap(&world, member, &least, &[]);
    world.configure(None, &[("dev-eu", &kubeconfig)]);
    world.commit("Deliver the example");
    let before = refusals();
    let daemon = world.start();
    for object in [
        ["namespace", "platform"].as_slice(),
        &["-n", "platform", "networkpolicy", "deny-ingress"],
        &["-n", "platform", "resourcequota", "compute"],
        &["priorityclass", "batch"],
        &["clusterrolebinding", "log-collector"],
        &["namespace", "load-test"],
    ] {
        let get = [&["get"], object].concat();
        daemon.until(&format!("{object:?} is there"), || member.kubectl(&get).is_ok());
    }
    assert_eq!(refusals(), before, "no request of the daemon was refused");
    for (args, words) in [
        (["-n", "platform", "get", "secrets"].as_slice(), "cannot list"),
        (&["-n", "default", "create", "configmap", "x"], "cannot create"),
        (&["create", "namespace", "other"], "cannot create"),
        (&["delete", "namespace", "kube-system"], "cannot delete"),
        (&["-n", "platform", "exec", "pod/x", "--", "id"], "cannot get"),
    ] {
        let found = refusal(member, &kubeconfig, args).unwrap_or_else(|| panic!("{args:?} is let through"));
        assert!(found.contains(words), "{args:?}: {found}");
    }
}
