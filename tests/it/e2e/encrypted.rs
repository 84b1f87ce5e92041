//! Files that SOPS encrypted, decrypted by the real program: they arrive in plaintext, and plaintext is nowhere else.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::e2e::agents::Edge;
use crate::e2e::daemon::{member_clusters, namespace as namespace_of, placement as placement_of};
use crate::e2e::fleet::{Tools, http};
use crate::e2e::scratch::{CONFIG, FLEET, Outcome, Scratch, cluster, namespace, placement};
use crate::e2e::shared;

const SOPS: &str = "v3.13.3";
const ONCE: [&str; 4] = ["run", "-c", CONFIG, "--once"];
/// The value that is looked for everywhere, and its base64.
const CANARY: &str = "canary-of-the-secret";
const CANARY_BASE64: &str = "Y2FuYXJ5LW9mLXRoZS1zZWNyZXQ";
const SECRET_FILE: &str = "secret..web.db.yaml";

fn tools() -> &'static Tools {
    static TOOLS: OnceLock<Tools> = OnceLock::new();
    TOOLS.get_or_init(|| Tools::build_or_cached().expect("sops and age-keygen"))
}

fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Makes an age identity in a file; returns its recipient.
fn identity(file: &Path) -> String {
    run(Command::new(&tools().age_keygen).arg("-o").arg(file));
    let text = fs::read_to_string(file).expect("the identity");
    let recipient = text.lines().find_map(|line| line.strip_prefix("# public key: "));
    recipient.expect("the recipient is in the file").to_owned()
}

/// Runs `sops` as a person does who has the identities of a file.
fn sops(keys: &Path, args: &[&str]) -> String {
    let home = keys.parent().expect("it is in a folder");
    let mut command = Command::new(&tools().sops);
    run(command.current_dir(home).env_clear().env("HOME", home).env("SOPS_AGE_KEY_FILE", keys).args(args))
}

/// Encrypts a file in place.
fn encrypt(file: &Path, keys: &Path, recipients: &str) {
    let file = file.to_string_lossy();
    sops(keys, &["encrypt", "-i", "--age", recipients, "--encrypted-regex", "^(data|stringData)$", &file]);
}

fn secret(value: &str) -> String {
    // Not in the order of the alphabet: what is authenticated is the order of the file.
    format!(
        "# Where the shop keeps its orders.\napiVersion: v1\nkind: Secret\nmetadata:\n  name: db\n  namespace: web\ntype: Opaque\n\
         stringData:\n  user: shop\n  # changed now and then\n  password: {value}\n"
    )
}

/// A fleet of two folders with one identity, whose recipient is returned. Nothing is encrypted or committed yet.
fn fleet() -> (Scratch, PathBuf, String) {
    let scratch = Scratch::new();
    let keys = scratch.path("age.txt");
    let recipient = identity(&keys);
    scratch.configure();
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the file");
    let folder = tools().sops.parent().expect("it is in a folder").display();
    let decrypt = format!("decrypt: {{sops: {SOPS}, folder: {folder}, ageKeyFile: ./age.txt}}\n");
    fs::write(scratch.path(CONFIG), text + &decrypt).expect("a file");
    scratch.write("clusters.yaml", &[cluster("east", "e"), cluster("west", "w")].concat());
    scratch.write("web.yaml", &namespace("web", &[("plain", "1")]));
    scratch.write("placement.yaml", &placement("web", "web", ""));
    (scratch, keys, recipient)
}

/// The same with an encrypted secret, rolled out.
fn rolled_out() -> (Scratch, PathBuf, String) {
    let (scratch, keys, recipient) = fleet();
    scratch.write("secrets/db.yaml", &secret(CANARY));
    encrypt(&in_tree(&scratch, "secrets/db.yaml"), &keys, &recipient);
    scratch.commit("first");
    once(&scratch).text(0);
    (scratch, keys, recipient)
}

fn in_tree(scratch: &Scratch, path: &str) -> PathBuf {
    scratch.path(FLEET).join(path)
}

fn once(scratch: &Scratch) -> Outcome {
    let outcome = scratch.run(&ONCE);
    assert!(!reveals(outcome.out.as_bytes()) && !reveals(outcome.err.as_bytes()), "{}{}", outcome.out, outcome.err);
    outcome
}

fn held(scratch: &Scratch, member: &str, file: &str) -> String {
    fs::read_to_string(scratch.path("members").join(member).join(file)).unwrap_or_default()
}

fn snapshots(scratch: &Scratch) -> usize {
    scratch.run(&["get", "snapshots", "-c", CONFIG, "-o", "name"]).text(0).lines().count()
}

fn reveals(bytes: &[u8]) -> bool {
    [CANARY, CANARY_BASE64].iter().any(|text| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
}

/// Returns the files below a folder that hold the value, objects of git repositories among them.
fn revealing(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && path.join("HEAD").is_file() {
            let mut git = Command::new("git");
            git.arg("-C").arg(&path).args(["cat-file", "--batch-all-objects", "--batch"]);
            if reveals(&git.output().expect("git runs").stdout) {
                found.push(path.clone());
            }
        }
        if path.is_dir() {
            found.extend(revealing(&path));
        } else if path.is_file() && reveals(&fs::read(&path).expect("it can be read")) {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn an_encrypted_secret_arrives_in_plaintext_and_is_nowhere_else() {
    let (scratch, _, _) = rolled_out();
    for member in ["east", "west"] {
        let text = held(&scratch, member, SECRET_FILE);
        assert!(text.contains(CANARY_BASE64) && text.contains("c2hvcA==") && !text.contains("sops:\n"), "{text}");
        assert!(text.contains("type: Opaque") && held(&scratch, member, "configmap..web.plain.yaml").contains('1'));
    }
    let wanted: Vec<PathBuf> =
        ["east", "west"].map(|member| scratch.path("members").join(member).join(SECRET_FILE)).into();
    assert_eq!(revealing(&scratch.path("")), wanted, "the members alone have it");

    // What is shown of it, on the way of a change too.
    for args in [
        &["get", "works", "-o", "yaml", "-c", CONFIG][..],
        &["get", "works", "-o", "yaml", "--manifests", "--repo", FLEET, "-c", CONFIG],
        &["get", "works", "-o", "yaml", "--manifests", "--show-secrets", "--repo", FLEET, "-c", CONFIG],
        &["get", "snapshots", "-o", "yaml", "-c", CONFIG],
        &["status", "--all", "-c", CONFIG],
        &["plan", "-c", CONFIG, "-o", "yaml"],
        &["diff", "web", "-c", CONFIG],
    ] {
        let shown = scratch.run(args);
        assert!(
            shown.code <= 1 && !reveals(shown.out.as_bytes()) && !reveals(shown.err.as_bytes()),
            "{args:?}: {}{}",
            shown.out,
            shown.err
        );
    }
    let shown =
        scratch.run(&["get", "works", "-o", "yaml", "--manifests", "--show-secrets", "--repo", FLEET, "-c", CONFIG]);
    assert!(shown.text(0).contains("ENC[AES256_GCM,"), "what git has is shown: {}", shown.out);

    // Drift is seen and put back, and nothing is written while there is none.
    let file = scratch.path("members/east").join(SECRET_FILE);
    let before = fs::metadata(&file).and_then(|file| file.modified()).expect("a time");
    once(&scratch).text(0);
    assert_eq!(fs::metadata(&file).and_then(|file| file.modified()).expect("a time"), before);
    let text = fs::read_to_string(&file).expect("the file");
    fs::write(&file, text.replace(CANARY_BASE64, "b3RoZXI")).expect("a change by hand");
    once(&scratch).text(0);
    assert!(held(&scratch, "east", SECRET_FILE).contains(CANARY_BASE64));
}

#[test]
fn another_key_is_no_rollout_and_the_earlier_one_may_go() {
    let (scratch, keys, _) = rolled_out();
    let file = in_tree(&scratch, "secrets/db.yaml");
    let (path, other) = (file.to_string_lossy().into_owned(), scratch.path("other.txt"));
    let recipient = identity(&other);
    let both = [fs::read_to_string(&keys).expect("a file"), fs::read_to_string(&other).expect("a file")].concat();
    fs::write(&keys, both).expect("both identities");
    let written = |member: &str| {
        let file = scratch.path("members").join(member).join(SECRET_FILE);
        fs::metadata(file).and_then(|file| file.modified()).expect("a time")
    };
    let before = (written("east"), written("west"));
    let commit = |scratch: &Scratch| {
        let past = scratch.run(&["history", "web", "-o", "json", "-c", CONFIG]).json(0);
        past[0]["commit"].as_str().expect("a commit").to_owned()
    };
    let told = commit(&scratch);

    // Other recipients, then another data key too.
    fs::write(scratch.path(".sops.yaml"), format!("creation_rules: [{{age: {recipient}}}]\n")).expect("a file");
    sops(&keys, &["updatekeys", "-y", &path]);
    scratch.commit("recipients");
    once(&scratch).text(0);
    sops(&keys, &["rotate", "-i", &path]);
    scratch.commit("data key");
    once(&scratch).text(0);
    assert_eq!((snapshots(&scratch), written("east"), written("west")), (1, before.0, before.1));
    assert_eq!(commit(&scratch), told, "people were told of it");

    // The key that opened the first file is gone, and the member's object too: the snapshot has the new file.
    fs::copy(&other, &keys).expect("the new identity alone");
    fs::remove_file(scratch.path("members/east").join(SECRET_FILE)).expect("it goes");
    once(&scratch).text(0);
    assert!(held(&scratch, "east", SECRET_FILE).contains(CANARY_BASE64), "it comes back");

    // Without any key nothing begins either, and what is there stays.
    fs::write(&keys, "# none\n").expect("no identity");
    once(&scratch).text(0);
    assert_eq!((snapshots(&scratch), written("west")), (1, before.1));
    fs::copy(&other, &keys).expect("the new identity alone");

    // Another value is a rollout.
    scratch.write("secrets/db.yaml", &secret("another"));
    encrypt(&file, &keys, &recipient);
    scratch.commit("value");
    once(&scratch).text(0);
    assert_eq!(snapshots(&scratch), 2);
    assert!(held(&scratch, "west", SECRET_FILE).contains("YW5vdGhlcg=="));
}

#[test]
fn what_cannot_be_decrypted_is_refused_alone_and_with_a_reason() {
    let (scratch, keys, recipient) = fleet();
    let stranger = scratch.path("stranger.txt");
    let strangers = identity(&stranger);
    scratch.write("secrets/db.yaml", &secret(CANARY));
    encrypt(&in_tree(&scratch, "secrets/db.yaml"), &keys, &recipient);
    for (name, recipient) in [("theirs", &strangers), ("changed", &recipient)] {
        let path = format!("secrets/{name}.yaml");
        scratch.write(&path, &secret(CANARY).replace("name: db", &format!("name: {name}")));
        encrypt(&in_tree(&scratch, &path), &keys, recipient);
    }
    let changed = fs::read_to_string(in_tree(&scratch, "secrets/changed.yaml")).expect("the file");
    scratch.write("secrets/changed.yaml", &changed.replace("type: Opaque", "type: Other"));
    scratch.commit("first");
    once(&scratch);
    assert!(held(&scratch, "east", SECRET_FILE).contains(CANARY_BASE64), "the others are delivered");
    assert!(!held(&scratch, "east", "configmap..web.plain.yaml").is_empty());
    let works = scratch.run(&["get", "works", "-o", "json", "-c", CONFIG]).text(0).to_owned();
    for message in [
        "Secret web/theirs, encrypted in secrets/theirs.yaml, cannot be decrypted: no key that is configured opens it",
        "Secret web/changed, encrypted in secrets/changed.yaml, cannot be decrypted: it was changed after it was encrypted",
    ] {
        assert!(works.contains(message), "{message}: {works}");
    }
    // The words of sops about a changed file have a hash of plaintext.
    assert!(!works.contains("MAC") && !works.contains("mismatch"), "{works}");
    assert_eq!(held(&scratch, "east", "secret..web.theirs.yaml"), "");

    // With a program of another version none is, and check says so.
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the file");
    assert!(scratch.run(&["check", "-c", CONFIG]).out.contains(&format!("sops {SOPS} at ")));
    fs::write(scratch.path(CONFIG), text.replace(SOPS, "v3.0.0")).expect("a file");
    let refusal = format!("sops is {SOPS}, and sops v3.0.0 was asked for");
    assert!(scratch.run(&["check", "-c", CONFIG]).out.contains(&refusal));
    scratch.write("secrets/db.yaml", &secret("another"));
    encrypt(&in_tree(&scratch, "secrets/db.yaml"), &keys, &recipient);
    scratch.commit("second");
    once(&scratch);
    assert!(scratch.run(&["get", "works", "-o", "json", "-c", CONFIG]).out.contains(&refusal));

    // What was missing is there, and what was refused is tried again.
    fs::write(scratch.path(CONFIG), text).expect("a file");
    let both = [fs::read_to_string(&keys).expect("a file"), fs::read_to_string(&stranger).expect("a file")].concat();
    fs::write(&keys, both).expect("both identities");
    scratch.remove("secrets/changed.yaml");
    scratch.commit("third");
    once(&scratch);
    assert!(held(&scratch, "east", SECRET_FILE).contains("YW5vdGhlcg=="));
    assert!(held(&scratch, "east", "secret..web.theirs.yaml").contains(CANARY_BASE64));
}

#[test]
fn several_objects_json_and_overrides_are_decrypted_as_they_are() {
    let (scratch, keys, recipient) = fleet();
    let map =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: web}\ndata: {z: 'true', a: '5'}\n";
    scratch.write("secrets/db.yaml", &format!("{}---\n{map}", secret(CANARY)));
    let json = "{\"kind\": \"Secret\", \"apiVersion\": \"v1\", \"metadata\": {\"name\": \"api\", \"namespace\": \"web\"}, \"stringData\": {\"token\": \"from-json\"}}\n";
    scratch.write("secrets/api.json", json);
    for file in ["secrets/db.yaml", "secrets/api.json"] {
        encrypt(&in_tree(&scratch, file), &keys, &recipient);
    }
    let labelled = "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ResourceOverride\nmetadata: {name: label, namespace: web}\nspec:\n  \
        resourceSelectors: [{group: '', version: v1, kind: Secret, name: db}]\n  policy:\n    overrideRules:\n    - clusterSelector:\n        \
        clusterSelectorTerms: [{labelSelector: {matchLabels: {region: e}}}]\n      jsonPatchOverrides:\n      - {op: add, path: \
        /metadata/labels, value: {tier: gold}}\n      - {op: remove, path: /stringData/user}\n";
    scratch.write("override.yaml", labelled);
    scratch.commit("first");
    once(&scratch).text(0);
    let (east, west) = (held(&scratch, "east", SECRET_FILE), held(&scratch, "west", SECRET_FILE));
    assert!(east.contains(CANARY_BASE64) && east.contains("tier: gold") && !east.contains("user"), "{east}");
    assert!(west.contains(CANARY_BASE64) && !west.contains("gold") && west.contains("user"), "{west}");
    let settings = held(&scratch, "west", "configmap..web.settings.yaml");
    assert!(settings.contains("true") && settings.contains('5') && !settings.contains("ENC["), "{settings}");
    assert!(held(&scratch, "west", "secret..web.api.yaml").contains("ZnJvbS1qc29u"));

    // What overrides made is made from the file of now, too: the key of the earlier one is gone.
    let other = scratch.path("other.txt");
    let recipient = identity(&other);
    let both = [fs::read_to_string(&keys).expect("a file"), fs::read_to_string(&other).expect("a file")].concat();
    fs::write(&keys, both).expect("both identities");
    fs::write(scratch.path(".sops.yaml"), format!("creation_rules: [{{age: {recipient}}}]\n")).expect("a file");
    sops(&keys, &["updatekeys", "-y", &in_tree(&scratch, "secrets/db.yaml").to_string_lossy()]);
    scratch.commit("second");
    once(&scratch).text(0);
    fs::copy(&other, &keys).expect("the new identity alone");
    fs::remove_file(scratch.path("members/east").join(SECRET_FILE)).expect("it goes");
    once(&scratch);
    assert_eq!(held(&scratch, "east", SECRET_FILE), east);
}

/// The same with an encrypted secret in the base of an overlay, which gives it another name, a namespace and a label.
fn overlay() -> (Scratch, PathBuf) {
    let (scratch, keys, recipient) = fleet();
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the file");
    let folder = tools().kustomize.parent().expect("it is in a folder").display();
    let render = format!("render: {{kustomize: v5.8.2, folder: {folder}}}\n");
    fs::write(scratch.path(CONFIG), text + &render).expect("a file");
    scratch.write("app/base/kustomization.yaml", "resources: [db.yaml]\n");
    scratch.write("app/base/db.yaml", &secret(CANARY).replace("  namespace: web\n", ""));
    encrypt(&in_tree(&scratch, "app/base/db.yaml"), &keys, &recipient);
    let overlay = "namespace: web\nnamePrefix: prod-\nlabels: [{pairs: {of: overlay}}]\nresources: [../base]\n";
    scratch.write("app/prod/kustomization.yaml", overlay);
    (scratch, keys)
}

#[test]
fn an_encrypted_file_that_kustomize_changed_arrives_in_plaintext() {
    const RENDERED: &str = "secret..web.prod-db.yaml";
    let (scratch, keys) = overlay();
    scratch.commit("first");
    once(&scratch).text(0);
    for member in ["east", "west"] {
        let text = held(&scratch, member, RENDERED);
        let is_plain = text.contains(CANARY_BASE64) && text.contains("c2hvcA==") && !text.contains("sops:\n");
        assert!(is_plain && text.contains("of: overlay"), "{text}");
    }
    let wanted: Vec<PathBuf> =
        ["east", "west"].map(|member| scratch.path("members").join(member).join(RENDERED)).into();
    assert_eq!(revealing(&scratch.path("")), wanted, "the members alone have it");
    let shown =
        scratch.run(&["get", "works", "-o", "yaml", "--manifests", "--show-secrets", "--repo", FLEET, "-c", CONFIG]);
    let text = shown.text(0);
    assert!(text.contains("ENC[AES256_GCM,") && !reveals(text.as_bytes()) && !text.contains("gitfleet:\n"), "{text}");

    // The same values with another data key are no rollout.
    let written = || fs::metadata(&wanted[0]).and_then(|file| file.modified()).expect("a time");
    let before = written();
    let file = in_tree(&scratch, "app/base/db.yaml");
    sops(&keys, &["rotate", "-i", &file.to_string_lossy()]);
    scratch.commit("another data key");
    once(&scratch).text(0);
    assert_eq!((snapshots(&scratch), written()), (1, before));

    // A change of what is plain is one, and needs SOPS as everywhere.
    scratch.write("app/prod/kustomization.yaml", "namespace: web\nnamePrefix: prod-\nresources: [../base]\n");
    scratch.commit("without the label");
    once(&scratch).text(0);
    let text = held(&scratch, "east", RENDERED);
    assert!(text.contains(CANARY_BASE64) && !text.contains("of: overlay"), "{text}");
    let text = fs::read_to_string(&file).expect("the file");
    fs::write(&file, text.replace("type: Opaque", "type: example.com/other")).expect("a change by hand");
    scratch.commit("by hand");
    assert_ne!(once(&scratch).code, 0);
    let shown = scratch.run(&["get", "works", "-o", "yaml", "-c", CONFIG]).text(0).replace("\n ", "");
    let words = "encrypted in app/prod, cannot be decrypted: it was changed after it was encrypted";
    let is_said = shown.split_whitespace().collect::<Vec<_>>().join(" ").contains(words);
    assert!(is_said && held(&scratch, "east", RENDERED).contains(CANARY_BASE64), "{shown}");
}

#[test]
fn an_encrypted_file_in_a_generator_refuses_the_commit() {
    let (scratch, _) = overlay();
    scratch.write("app/base/kustomization.yaml", "secretGenerator: [{name: made, files: [db.yaml]}]\n");
    scratch.commit("first");
    let refused = once(&scratch);
    let words = "app/prod/kustomization.yaml: Secret web/prod-made-";
    let why = "has a value that SOPS encrypted where it is not decrypted: in a generator";
    assert!(refused.code != 0 && refused.err.contains(words) && refused.err.contains(why), "{}", refused.err);
}

#[test]
fn keys_of_pgp_decrypt_too() {
    let (scratch, keys, _) = fleet();
    let home = scratch.path("gnupg");
    fs::create_dir(&home).expect("a folder");
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).expect("it is private");
    let gpg = |args: &[&str]| run(Command::new("gpg").env("GNUPGHOME", &home).args(["--batch", "--quiet"]).args(args));
    gpg(&["--passphrase", "", "--quick-generate-key", "fleet@example.com", "rsa2048", "encr", "never"]);
    let listed = gpg(&["--list-keys", "--with-colons"]);
    let fingerprint =
        listed.lines().find_map(|line| line.strip_prefix("fpr:::::::::")).expect("a key").trim_end_matches(':');
    scratch.write("secrets/db.yaml", &secret(CANARY));
    let mut command = Command::new(&tools().sops);
    command.env("GNUPGHOME", &home).args([
        "encrypt",
        "-i",
        "--encrypted-regex",
        "^(data|stringData)$",
        "--pgp",
        fingerprint,
    ]);
    run(command.arg(in_tree(&scratch, "secrets/db.yaml")));
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the file");
    fs::write(scratch.path(CONFIG), text.replace("ageKeyFile: ./age.txt", "gnupgHome: ./gnupg")).expect("a file");
    fs::remove_file(keys).expect("it is not needed");
    scratch.commit("first");
    // GnuPG finds its programs in PATH; the daemon starts it by name.
    let output =
        scratch.command(&ONCE).env("PATH", std::env::var_os("PATH").unwrap_or_default()).output().expect("it runs");
    // Its agent would stay.
    run(Command::new("gpgconf").env("GNUPGHOME", &home).args(["--kill", "all"]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(held(&scratch, "west", SECRET_FILE).contains(CANARY_BASE64));
}

#[test]
fn an_agent_with_a_key_decrypts_and_the_daemon_without_one_never_sees_plaintext() {
    let (near, far) = (&shared().members[0], &shared().members[2]);
    let edge = Edge::new(&["edge"]);
    edge.admit([near, far].map(|member| (member.name.as_str(), member.kubeconfig.as_path())));
    edge.configure(&[(&near.name, None), (&far.name, Some("edge"))], "");
    let world = &edge.world;
    let keys = world.path().join("age.txt");
    let recipient = identity(&keys);
    let map = crate::e2e::daemon::config_map("sealed", "settings", "1");
    world.write("fleet.yaml", &member_clusters([near.name.as_str(), &far.name]));
    world.write("app.yaml", &[placement_of("sealed", ""), namespace_of("sealed"), map].concat());
    world.write("secrets/db.yaml", &secret(CANARY).replace("namespace: web", "namespace: sealed"));
    encrypt(&world.repo().join("secrets/db.yaml"), &keys, &recipient);
    world.commit("One");
    let daemon = world.start();
    let folder = tools().sops.parent().expect("it is in a folder").to_string_lossy();
    let decrypt = ["--sops", SOPS, "--sops-folder", &folder, "--age-key-file", "age.txt"];
    let agent = edge.agent("edge", edge.port, &decrypt);
    let password = |member: &crate::e2e::fleet::Member| {
        let found = member.get("sealed", "secret", "db").ok().flatten()?;
        found["data"]["password"].as_str().map(str::to_owned)
    };
    let is_canary = |found: Option<String>| found.is_some_and(|value| value.starts_with(CANARY_BASE64));
    daemon.until("the agent decrypts", || is_canary(password(far)));
    let refused =
        format!("{} cannot be decrypted: nothing is configured", "Secret sealed/db, encrypted in secrets/db.yaml,");
    daemon.until("the daemon says why it does not", || {
        daemon.get("works").iter().any(|work| work.to_string().contains(&refused))
    });
    assert_eq!(password(near), None);
    assert_eq!(crate::e2e::daemon::value(near, "sealed", "settings"), "1", "the others are delivered");
    far.kubectl(&["patch", "secret", "db", "-n", "sealed", "-p", "{\"data\":{\"password\":\"b3RoZXI=\"}}"])
        .expect("drift");
    daemon.until("drift is put back", || is_canary(password(far)));

    for path in ["/api/v1/records", "/", "/placements/sealed", "/api/v1/journal", "/metrics"] {
        let (status, text) = http("GET", world.port(), path, &[], "").expect("an answer");
        assert!(!reveals(text.as_bytes()), "{path} ({status}) shows it");
        assert!(!text.contains("digest-key"), "{path} ({status}) gives the key of digests out");
    }
    drop(agent);
    daemon.kill();
    assert_eq!(revealing(world.path()), [] as [PathBuf; 0], "no file of the daemon or the agent has it");
}
