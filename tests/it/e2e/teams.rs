//! The example `examples-repo/teams`: two repositories, three tenants, overlays, a chart, an encrypted secret and
//! signed commits, as its tutorial uses them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};
use testservers::repository;

use crate::e2e::fleet::{Fleet, Member, Options, Tools};
use crate::e2e::git;
use crate::e2e::scratch::{CONFIG, Outcome, Scratch};

/// The key that signs commits, beside the repositories.
const KEY: &str = "signing-key";
const ONCE: [&str; 4] = ["run", "-c", CONFIG, "--once"];
/// The clusters of the example.
const MEMBERS: [&str; 3] = ["production-eu", "production-us", "staging"];
/// What the example delivers, as RBAC names it.
const RESOURCES: &str = "namespaces,configmaps,limitranges,resourcequotas,secrets,serviceaccounts,services,daemonsets.apps,deployments.apps,\
                         networkpolicies.networking.k8s.io,rolebindings.rbac.authorization.k8s.io,roles.rbac.authorization.k8s.io";
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
    copy(&repository().join("examples-repo/teams"), &scratch.path(""));
    let programs = scratch.path("programs");
    fs::create_dir(&programs).expect("a folder");
    for (name, path) in [("kustomize", &tools().kustomize), ("helm", &tools().helm), ("sops", &tools().sops)] {
        symlink(path, programs.join(name)).expect("a link");
    }
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    let text = text.replace("helm: v4.3.1}", "helm: v4.3.1, folder: ./programs}");
    let text = text.replace("decrypt: {", "decrypt: {folder: ./programs, ");
    fs::write(scratch.path(CONFIG), text + "http: {listen: \"127.0.0.1:0\"}\n").expect("a file");
    allow_own_key(&scratch);
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

/// Makes a key with ssh-keygen, and lists it for both repositories.
fn allow_own_key(scratch: &Scratch) {
    let key = scratch.path(KEY);
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"]).arg(&key).status();
    assert!(made.expect("ssh-keygen starts").success());
    let public = fs::read_to_string(key.with_extension("pub")).expect("the key");
    for file in ["platform-signers", "shop-signers"] {
        let text = fs::read_to_string(scratch.path(file)).expect("the example has it");
        let line = format!("me@example.com namespaces=\"git\" {public}");
        fs::write(scratch.path(file), text + &line).expect("a file");
    }
}

/// Commits everything in a repository, signed with the test's key.
fn commit(scratch: &Scratch, repository: &str) {
    let folder = scratch.path(repository);
    if !folder.join(".git").exists() {
        git::git(&folder, &["init", "-q"]).expect("git init");
    }
    git::git(&folder, &["add", "-A"]).expect("git add");
    let key = format!("user.signingKey={}", scratch.path(KEY).display());
    let sign = ["-c", "gpg.format=ssh", "-c", &key, "commit", "-q", "-S", "-m", "change"];
    git::git(&folder, &sign).expect("git commits");
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
    for member in MEMBERS {
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
    for member in MEMBERS {
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

#[test]
fn an_unsigned_commit_is_refused_and_the_other_repository_continues() {
    let scratch = platform();
    once(&scratch).text(0);
    let file = scratch.path("shop/deploy/web.yaml");
    let text = fs::read_to_string(&file).expect("the file");
    fs::write(&file, text.replace("Free delivery this week", "Nobody signed this")).expect("a file");
    let unsigned = git::commit_all(&scratch.path("shop"), "unsigned").expect("git commits");
    change(&scratch, "platform", "guardrails/base/limits.yaml", "cpu: 50m", "cpu: 60m");
    let refused = once(&scratch);
    assert_eq!(refused.code, 1, "{}", refused.err);
    let status = scratch.run(&["status", "-c", CONFIG]);
    for said in [&refused.err, &status.out] {
        assert!(said.contains(&format!("commit {}: is not signed", &unsigned[..7])), "{said}");
    }
    assert!(held(&scratch, "staging", "configmap..shop.web.yaml").contains("Free delivery this week"));
    assert!(held(&scratch, "staging", "limitrange..shop.defaults.yaml").contains("60m"), "{}", refused.err);

    let key = format!("user.signingKey={}", scratch.path(KEY).display());
    let again = ["-c", "gpg.format=ssh", "-c", &key, "commit", "-q", "--amend", "--no-edit", "-S"];
    git::git(&scratch.path("shop"), &again).expect("it is signed");
    once(&scratch).text(0);
    assert!(held(&scratch, "staging", "configmap..shop.web.yaml").contains("Nobody signed this"));
}

/// The example on real API servers, one for each of its clusters.
struct Live {
    scratch: Scratch,
    fleet: Fleet,
}

impl Live {
    /// Prepares the members as the tutorial says, with the rights that `member bootstrap` prints. A fleet of its own: gitfleet's account
    /// has one name on every member, and others have other rights for it.
    fn new() -> Self {
        let fleet = Fleet::start(Options::members(MEMBERS.len()).with_controller_manager()).expect("a fleet starts");
        let live = Self { scratch: platform(), fleet };
        for (name, member) in live.members() {
            let rights = ["member", "bootstrap", name, "-c", CONFIG, "--allow-rbac", "--resources", RESOURCES];
            member.kubectl_apply(live.scratch.run(&rights).text(0)).expect("kubectl takes what was printed");
            let admin = member.kubeconfig.to_str().expect("a path");
            let of = ["-o", "kubeconfig", "--kubeconfig", admin, "--context", member.name.as_str()];
            let printed = live.scratch.run(&[["member", "bootstrap", name].as_slice(), &of].concat());
            fs::write(live.scratch.path(&format!("{name}.kubeconfig")), printed.text(0)).expect("a file");
            if name != "staging" {
                member.kubectl(&["create", "namespace", "monitoring"]).expect("a namespace");
                let verbs = ["--verb=get,create,patch,delete", "--resource=namespaces,configmaps"];
                let role = ["-n", "monitoring", "create", "role", "deployer", verbs[0], verbs[1]];
                member.kubectl(&role).expect("a role");
                let whose = ["--role=deployer", "--user=monitoring-deployer"];
                let binding = ["-n", "monitoring", "create", "rolebinding", "deployer", whose[0], whose[1]];
                member.kubectl(&binding).expect("a binding");
            }
        }
        let text = fs::read_to_string(live.scratch.path(CONFIG)).expect("the configuration");
        let text = text.replace("directory: ./members/{name}", "kubeconfig: {path: \"./{name}.kubeconfig\"}");
        fs::write(live.scratch.path(CONFIG), text).expect("a file");
        live
    }

    fn members(&self) -> impl Iterator<Item = (&'static str, &Member)> {
        MEMBERS.into_iter().zip(&self.fleet.members)
    }

    /// Returns what all members have of an object.
    fn found(&self, namespace: &str, kind: &str, name: &str) -> Vec<Option<Value>> {
        let get = |(_, member): (_, &Member)| member.get(namespace, kind, name).expect("the member answers");
        self.members().map(get).collect()
    }

    /// Returns what all members have in a field of an object; null where there is none.
    fn fields(&self, (namespace, kind, name): (&str, &str, &str), pointer: &str) -> Vec<Value> {
        let field = |object: Option<Value>| object?.pointer(pointer).cloned();
        self.found(namespace, kind, name).into_iter().map(|object| field(object).unwrap_or_default()).collect()
    }
}

#[test]
fn on_real_clusters_each_tenant_writes_as_its_own_account_and_rbac_has_the_last_word() {
    let live = Live::new();
    // The teams' objects may be written only when the guardrails are there: that is no failure of the first pass.
    let first = once(&live.scratch);
    assert_eq!(first.code, 0, "{}{}", first.err, live.scratch.run(&["status", "-c", CONFIG]).out);
    let status = live.scratch.run(&["status", "-c", CONFIG]).out;
    assert!(status.contains("6 placements: 6 up to date"), "{status}");
    let web = ("shop", "deployment", "web");
    assert_eq!(live.fields(web, "/status/availableReplicas"), [json!(4), json!(4), json!(1)]);
    // "not-a-real-token" in base64: decrypted on the way.
    let secret = live.fields(("shop", "secret", "payment-provider"), "/data/PAYMENT_TOKEN");
    assert!(secret.iter().all(|token| token == "bm90LWEtcmVhbC10b2tlbg=="), "{secret:?}");
    let logs = live.fields(("logging", "configmap", "log-collector"), "/data/endpoint");
    let [eu, us] = ["https://logs.eu.example/ingest", "https://logs.us.example/ingest"].map(|url| json!(url));
    assert_eq!(logs, [eu.clone(), us, eu]);
    let dashboards = live.found("monitoring", "configmap", "dashboards");
    assert_eq!(dashboards.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);

    // gitfleet's own account may write it, and the limits of the tenant allow it: its account on the members may not.
    let policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: open, namespace: shop}\nspec: {podSelector: {}, ingress: [{}]}\n";
    fs::write(live.scratch.path("shop/deploy/open.yaml"), policy).expect("a file");
    let wider = "  resourceSelectors:\n    - {group: networking.k8s.io, version: v1, kind: NetworkPolicy, name: open}\n    - group: \"\"\n      version: v1\n      kind: ConfigMap\n";
    let narrow = "  resourceSelectors:\n    - group: \"\"\n      version: v1\n      kind: ConfigMap\n";
    change(&live.scratch, "shop", "deploy/placement.yaml", narrow, wider);
    let refused = once(&live.scratch);
    assert_eq!(refused.code, 1, "{}", refused.err);
    let status = live.scratch.run(&["status", "-c", CONFIG]).out;
    let words = "User \"system:serviceaccount:shop:deployer\" cannot";
    assert!(status.contains("403 Forbidden") && status.contains(words), "{status}");
    assert_eq!(live.found("shop", "networkpolicy", "open"), [None, None, None]);
    assert!(live.found("shop", "networkpolicy", "deny-ingress").iter().all(Option::is_some));

    fs::remove_file(live.scratch.path("shop/deploy/open.yaml")).expect("it is there");
    change(&live.scratch, "shop", "deploy/placement.yaml", wider, narrow);
    once(&live.scratch).text(0);
}
