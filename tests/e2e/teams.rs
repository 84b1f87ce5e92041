//! The example `examples-repo-teams`: two repositories, three tenants, overlays, a chart and an encrypted secret, as its tutorial uses them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::OnceLock;

use crate::fleet::Tools;
use crate::git;
use crate::scratch::{CONFIG, Outcome, Scratch};

const ONCE: [&str; 4] = ["run", "-c", CONFIG, "--once"];
/// What each cluster holds of the guardrails of a team's namespace.
const GUARDRAILS: [&str; 6] = [
    "limitrange..{}.defaults.yaml",
    "networkpolicy.networking.k8s.io.{}.deny-ingress.yaml",
    "resourcequota..{}.compute.yaml",
    "role.rbac.authorization.k8s.io.{}.deployer.yaml",
    "rolebinding.rbac.authorization.k8s.io.{}.deployer.yaml",
    "serviceaccount..{}.deployer.yaml",
];
/// What each cluster holds beside them.
const EVERYWHERE: [&str; 12] = [
    "configmap..checkout.checkout.yaml",
    "configmap..logging.log-collector.yaml",
    "configmap..shop.web.yaml",
    "daemonset.apps.logging.log-collector.yaml",
    "deployment.apps.shop.web.yaml",
    "namespace...checkout.yaml",
    "namespace...logging.yaml",
    "namespace...shop.yaml",
    "secret..shop.payment-provider.yaml",
    "service..checkout.checkout.yaml",
    "service..shop.web.yaml",
    "serviceaccount..logging.log-collector.yaml",
];
/// What clusters of production hold beside that.
const PRODUCTION: [&str; 2] = ["configmap..monitoring.dashboards.yaml", "namespace...monitoring.yaml"];

fn tools() -> &'static Tools {
    static TOOLS: OnceLock<Tools> = OnceLock::new();
    TOOLS.get_or_init(|| Tools::build_or_cached().expect("helm, kustomize and sops"))
}

/// Copies the example, says where the programs are, and makes its two repositories.
fn platform() -> Scratch {
    let scratch = Scratch::new();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples-repo-teams"), &scratch.path(""));
    let programs = scratch.path("programs");
    fs::create_dir(&programs).expect("a folder");
    for (name, path) in [("kustomize", &tools().kustomize), ("helm", &tools().helm), ("sops", &tools().sops)] {
        symlink(path, programs.join(name)).expect("a link");
    }
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    let text = text.replace("helm: v4.3.1}", "helm: v4.3.1, folder: ./programs}");
    let text = text.replace("decrypt: {", "decrypt: {folder: ./programs, ");
    fs::write(scratch.path(CONFIG), text + "http: {listen: \"127.0.0.1:0\"}\n").expect("a file");
    commit(&scratch, "platform");
    commit(&scratch, "shop");
    scratch
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

fn commit(scratch: &Scratch, repository: &str) {
    git::commit_all(&scratch.path(repository), "change").expect("git commits");
}

/// Replaces a text in a file of a repository, and commits it.
fn change(scratch: &Scratch, repository: &str, path: &str, from: &str, to: &str) {
    let file = scratch.path(repository).join(path);
    let text = fs::read_to_string(&file).expect("the file is there");
    assert!(text.contains(from), "{path} has {from}");
    fs::write(file, text.replace(from, to)).expect("a file");
    commit(scratch, repository);
}

fn once(scratch: &Scratch) -> Outcome {
    scratch.run(&ONCE)
}

fn held(scratch: &Scratch, member: &str, file: &str) -> String {
    let path = scratch.path("members").join(member).join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The snapshots that there are, by name.
fn snapshots(scratch: &Scratch) -> Vec<String> {
    let names = scratch.run(&["get", "snapshots", "-c", CONFIG, "-o", "name"]);
    let mut names: Vec<String> = names.text(0).lines().map(str::to_owned).collect();
    names.sort();
    names
}

/// The files that a member holds, in order.
fn expected(member: &str) -> Vec<String> {
    let of_teams = ["shop", "checkout"].map(|team| GUARDRAILS.map(|file| file.replace("{}", team)));
    let mut files: Vec<String> = of_teams.into_iter().flatten().collect();
    files.extend(EVERYWHERE.map(str::to_owned));
    if member != "staging" {
        files.extend(PRODUCTION.map(str::to_owned));
    }
    files.sort();
    files
}

#[test]
fn two_repositories_make_one_platform() {
    let scratch = platform();
    scratch.run(&["check", "-c", CONFIG]).text(0);
    once(&scratch).text(0);
    for member in ["staging", "production-eu", "production-us"] {
        assert_eq!(scratch.member(member), expected(member), "{member}");
    }
    // An overlay for each environment, from one base.
    let quota = |member: &str| held(&scratch, member, "resourcequota..shop.compute.yaml");
    assert!(quota("staging").contains("pods: \"20\"") && quota("production-eu").contains("pods: \"100\""));
    let binding = held(&scratch, "staging", "rolebinding.rbac.authorization.k8s.io.checkout.deployer.yaml");
    assert!(binding.contains("namespace: checkout\n") && !binding.contains("namespace: shop"), "{binding}");
    // A chart, with what differs by cluster.
    let logs = |member: &str| held(&scratch, member, "configmap..logging.log-collector.yaml");
    assert!(logs("staging").contains("https://logs.eu.example/ingest"), "{}", logs("staging"));
    assert!(logs("production-us").contains("https://logs.us.example/ingest"), "{}", logs("production-us"));
    let replicas = |member: &str| held(&scratch, member, "deployment.apps.shop.web.yaml");
    assert!(replicas("staging").contains("replicas: 1\n") && replicas("production-us").contains("replicas: 4\n"));
    // A secret that only the members have in plaintext: "not-a-real-token" in base64.
    let secret = held(&scratch, "staging", "secret..shop.payment-provider.yaml");
    assert!(secret.contains("bm90LWEtcmVhbC10b2tlbg==") && !secret.contains("ENC["), "{secret}");
    let kept = fs::read_to_string(scratch.path("shop/deploy/secrets/payment-provider.yaml")).expect("the file");
    assert!(kept.contains("ENC[AES256_GCM,") && !kept.contains("not-a-real-token"), "{kept}");
}

#[test]
fn a_change_of_one_repository_is_a_rollout_of_its_placement_alone() {
    let scratch = platform();
    once(&scratch).text(0);
    let before = snapshots(&scratch);
    change(&scratch, "shop", "deploy/web.yaml", "Free delivery this week", "Free delivery today");
    once(&scratch).text(0);
    let after = snapshots(&scratch);
    let new: Vec<&String> = after.iter().filter(|name| !before.contains(name)).collect();
    assert!(new.len() == 1 && new[0].contains("shop"), "{new:?}");
    for member in ["staging", "production-eu", "production-us"] {
        assert!(held(&scratch, member, "configmap..shop.web.yaml").contains("Free delivery today"), "{member}");
    }
}

#[test]
fn what_a_tenant_may_not_have_is_refused_and_the_other_repository_continues() {
    let scratch = platform();
    once(&scratch).text(0);
    // The tenant of the deepest folder may have no Secret, though the one around it may.
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: token, namespace: checkout}\nstringData: {token: x}\n";
    fs::write(scratch.path("shop/deploy/checkout/token.yaml"), secret).expect("a file");
    commit(&scratch, "shop");
    change(&scratch, "platform", "guardrails/base/limits.yaml", "cpu: 50m", "cpu: 60m");
    let refused = once(&scratch);
    let status = scratch.run(&["status", "-c", CONFIG]);
    let said = [refused.err, status.out, status.err].concat();
    let wanted = "shop/checkout/token.yaml:1: Secret checkout/token: tenant checkout: ";
    assert!(said.contains(wanted), "{said}");
    assert!(held(&scratch, "staging", "limitrange..shop.defaults.yaml").contains("60m"), "{said}");
    assert!(!scratch.member("staging").contains(&"secret..checkout.token.yaml".to_owned()));

    fs::remove_file(scratch.path("shop/deploy/checkout/token.yaml")).expect("it is there");
    commit(&scratch, "shop");
    once(&scratch).text(0);
}
