//! What `deploy/chart` and `deploy/overlays` promise: both mean the same, a real API server admits every object where the strictest
//! level of Pod Security is enforced, helm installs, upgrades, rolls back and removes the chart, and the daemon takes what it mounts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use config::{Configuration, OVERRIDES};
use serde_json::{Value, json};
use tempfile::TempDir;
use testservers::repository;

use crate::e2e::agents::{Agent, Edge};
use crate::e2e::daemon::{World, config_map, deployment, member_clusters, namespace, patch, placement, value};
use crate::e2e::fleet::{Certificates, Fleet, Member, Options, Tools, forbidden_count};
use crate::e2e::shared;

/// One way to deploy: as release of the chart and as overlay.
struct Variant {
    name: &'static str,
    release: &'static str,
    namespace: &'static str,
    values: &'static [&'static str],
    overlay: &'static str,
}

const VARIANTS: &[Variant] = &[
    Variant { name: "one", release: "gitfleet", namespace: "gitfleet", values: &[], overlay: "base" },
    Variant {
        name: "replicas",
        release: "gitfleet",
        namespace: "gitfleet",
        values: &["replicas=3", "postgres.secret=gitfleet-postgres"],
        overlay: "overlays/replicas",
    },
    Variant {
        name: "agent",
        release: "gitfleet-agent",
        namespace: "gitfleet-system",
        values: &["mode=agent"],
        overlay: "overlays/agent",
    },
    Variant {
        name: "monitored",
        release: "gitfleet",
        namespace: "gitfleet",
        values: &["serviceMonitor.enabled=true"],
        overlay: "overlays/prometheus",
    },
];

/// What else the chart can do, for checks that need no overlay.
const MORE: &[(&str, &[&str])] = &[
    ("listener of agents", &["agents.enabled=true", "agents.clientCaKey=ca.crt"]),
    ("password in no file", &["replicas=2", "postgres.secret=p", "postgres.passwordKey=", "postgres.caKey=ca.crt"]),
    (
        "little",
        &[
            "networkPolicy.enabled=false",
            "config.forge=null",
            "config.http.webhookListen=null",
            "kubeconfigs.name=",
            "store.existingClaim=own",
        ],
    ),
    ("stopped", &["replicas=0"]),
    (
        "agent of a pool",
        &[
            "mode=agent",
            "agent.pool=europe",
            "agent.inCluster=false",
            "agent.kubeconfigs=members",
            "agent.caSecret=ca",
            "agent.clientTlsSecret=client",
            "agent.state.persistent=false",
        ],
    ),
    ("agent with an account", &["mode=agent", "agent.serviceAccount.create=true"]),
];

fn deploy() -> PathBuf {
    repository().join("deploy")
}

fn tools() -> &'static Tools {
    static TOOLS: OnceLock<Tools> = OnceLock::new();
    TOOLS.get_or_init(|| Tools::build_or_cached().expect("helm and kustomize"))
}

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(text) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned() + &text) }
}

/// Runs helm, away from settings of the person who runs the tests.
fn helm(args: &[&str]) -> Result<String, String> {
    static HOME: OnceLock<TempDir> = OnceLock::new();
    let home = HOME.get_or_init(|| TempDir::new().expect("a folder"));
    run(Command::new(&tools().helm).args(args).env("HOME", home.path()).env_remove("KUBECONFIG"))
}

fn chart() -> String {
    deploy().join("chart").to_str().expect("a path").to_owned()
}

/// Renders the chart.
fn template(release: &str, namespace: &str, values: &[&str]) -> Result<String, String> {
    let chart = chart();
    let mut args = vec!["template", release, &chart, "--namespace", namespace];
    for value in values {
        args.extend(["--set", value]);
    }
    helm(&args)
}

fn objects(yaml: &str) -> Vec<Value> {
    let documents = model::yaml::parse_documents(yaml).into_iter();
    documents.map(|document| document.expect("good YAML").value).filter(|value| !value.is_null()).collect()
}

impl Variant {
    fn rendered(&self) -> Vec<Value> {
        objects(&template(self.release, self.namespace, self.values).expect(self.name))
    }

    fn overlaid(&self) -> Vec<Value> {
        objects(&run(Command::new(&tools().kustomize).arg("build").arg(deploy().join(self.overlay))).expect(self.name))
    }
}

/// Returns every way to render the chart, by name.
fn all_rendered() -> BTreeMap<&'static str, Vec<Value>> {
    let variants = VARIANTS.iter().map(|variant| (variant.name, variant.rendered()));
    let more = MORE.iter().map(|(name, values)| (*name, objects(&template("fleet", "fleet", values).expect(name))));
    variants.chain(more).collect()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

/// Takes away what differs without a meaning: labels and annotations of helm, the order of volumes, how the configuration is
/// written, and that kustomize names a ConfigMap after its content.
fn normalise(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for label in ["instance", "version", "managed-by"] {
                fields.remove(&format!("app.kubernetes.io/{label}"));
            }
            for annotation in ["helm.sh/chart", "helm.sh/resource-policy", "checksum/config"] {
                fields.remove(annotation);
            }
            for (name, inner) in fields.iter_mut() {
                normalise(inner);
                if let (true, Some(items)) =
                    (["volumes", "volumeMounts"].contains(&name.as_str()), inner.as_array_mut())
                {
                    items.sort_by_key(|item| item["name"].to_string());
                }
            }
            if fields.get("annotations").and_then(Value::as_object).is_some_and(serde_json::Map::is_empty) {
                fields.remove("annotations");
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalise),
        _ => {}
    }
}

/// Returns the objects by kind and name, as text for a comparison that is readable.
fn meaning(objects: Vec<Value>) -> BTreeMap<String, String> {
    let generated = |name: &str| name.starts_with("gitfleet-").then_some("gitfleet");
    let mut found = BTreeMap::new();
    for mut object in objects {
        normalise(&mut object);
        match object["kind"].as_str().expect("a kind") {
            // helm has `--create-namespace`; docs/deploy.md says how to label it.
            "Namespace" => continue,
            "ConfigMap" => {
                object["data"]["gitfleet.yaml"] = json!(configuration(&object));
                if let Some(name) = generated(object["metadata"]["name"].as_str().expect("a name")) {
                    object["metadata"]["name"] = json!(name);
                }
            }
            "Deployment" => {
                let volumes = object["spec"]["template"]["spec"]["volumes"].as_array_mut().expect("volumes");
                for name in volumes.iter_mut().filter_map(|volume| volume.pointer_mut("/configMap/name")) {
                    if let Some(plain) = generated(name.as_str().expect("a name")) {
                        *name = json!(plain);
                    }
                }
            }
            _ => {}
        }
        let key = format!("{} {}", object["kind"], object["metadata"]["name"]);
        found.insert(key, format!("{object:#}"));
    }
    found
}

/// Returns the value of the gitfleet.yaml in a ConfigMap.
fn configuration(config_map: &Value) -> Value {
    objects(config_map["data"]["gitfleet.yaml"].as_str().expect("the configuration")).remove(0)
}

#[test]
fn helm_finds_nothing_wrong_with_the_chart() {
    for variant in VARIANTS {
        let chart = chart();
        let mut args = vec!["lint", "--strict", &chart];
        for value in variant.values {
            args.extend(["--set", value]);
        }
        let said = helm(&args).expect(variant.name);
        assert!(said.contains("0 chart(s) failed") && !said.contains("[WARNING]"), "{said}");
    }
    let version = fs::read_to_string(deploy().join("chart/Chart.yaml")).expect("the chart");
    assert!(version.contains(&format!("appVersion: {}\n", env!("CARGO_PKG_VERSION"))), "{version}");
}

#[test]
fn the_chart_renders_as_it_did() {
    for variant in VARIANTS.iter().filter(|variant| variant.name != "monitored") {
        let text = template(variant.release, variant.namespace, variant.values).expect(variant.name);
        insta::assert_snapshot!(variant.name, text);
    }
}

#[test]
fn the_chart_means_the_same_as_the_overlays() {
    for variant in VARIANTS {
        let (chart, overlay) = (meaning(variant.rendered()), meaning(variant.overlaid()));
        let names = |found: &BTreeMap<String, String>| found.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&chart), names(&overlay), "{}", variant.name);
        for (name, object) in &chart {
            assert_eq!(object, &overlay[name], "{}: {name}: left is the chart", variant.name);
        }
    }
}

#[test]
fn values_that_are_wrong_are_refused() {
    for (value, words) in [
        ("replica=3", "'replica' not allowed"),
        ("config.htp.listen=x", "'htp' not allowed"),
        ("config.http.listen=null", "missing property 'listen'"),
        ("networkPolicy.enable=true", "'enable' not allowed"),
        ("postgres.password=secret", "'password' not allowed"),
        ("postgres.lease=15", "/postgres/lease"),
        ("agent.servers[0]=http://daemon", "/agent/servers/0"),
        ("agent.state.size=1 GB", "/agent/state/size"),
        ("agent.name=edge.1", "/agent/name"),
        ("mode=agents", "/mode"),
        ("replicas=3", "more than one needs PostgreSQL"),
    ] {
        let refusal = template("fleet", "fleet", &[value]).expect_err(value);
        assert!(refusal.contains(words), "{value}: {refusal}");
    }
}

#[test]
fn values_name_every_section_of_the_configuration() {
    let text = fs::read_to_string(deploy().join("chart/values.schema.json")).expect("the schema");
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    let names = |schema: &Value| {
        schema["properties"].as_object().expect("properties").keys().cloned().collect::<BTreeSet<String>>()
    };
    assert_eq!(names(&schema["properties"]["config"]), names(&config::schema()));
}

/// Returns every text in a value.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(fields) => fields.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn what_is_rendered_fits_together() {
    let of_overlays = VARIANTS.iter().map(|variant| (variant.overlay, variant.overlaid()));
    for (name, objects) in all_rendered().into_iter().chain(of_overlays) {
        assert!(of_kind(&objects, "Secret").is_empty(), "{name}: secrets are made elsewhere");
        let [deployment] = of_kind(&objects, "Deployment")[..] else { panic!("{name}: one Deployment") };
        let pod = &deployment["spec"]["template"];
        let container = &pod["spec"]["containers"][0];
        let mounts = container["volumeMounts"].as_array().expect("mounts");
        let volumes = pod["spec"]["volumes"].as_array().expect("volumes");
        assert_eq!(mounts.len(), volumes.len(), "{name}: every volume is mounted once");
        let mounted = |path: &str, read_only: bool| {
            let of = |mount: &&Value| Path::new(path).starts_with(mount["mountPath"].as_str().unwrap_or("?"));
            let mount = mounts.iter().find(of);
            mount.is_some_and(|mount| {
                (mount["readOnly"] == true) == read_only && volumes.iter().any(|volume| volume["name"] == mount["name"])
            })
        };
        let arguments = container["args"].as_array().expect("args").iter().filter_map(Value::as_str);
        let mut paths: Vec<String> =
            arguments.filter_map(|text| text.split('=').next_back()).map(str::to_owned).collect();
        for config_map in of_kind(&objects, "ConfigMap") {
            let configuration = configuration(config_map);
            paths.extend(texts(&configuration));
            daemon_accepts(name, &configuration, container);
        }
        // The folder that kubeconfigs are relative to is empty where an agent delivers to its own cluster.
        for path in paths.iter().filter(|path| path.starts_with('/') && *path != "/etc/gitfleet-agent") {
            let of_members = path.starts_with("/etc/gitfleet/kubeconfigs/") && name == "little";
            assert!(of_members || mounted(path, !path.starts_with("/var/lib/")), "{name}: {path} is not mounted");
        }
        for selector in ["/spec/selector", "/spec/podSelector/matchLabels", "/spec/selector/matchLabels"] {
            for object in objects.iter().filter(|object| object["kind"] != "ServiceMonitor") {
                let Some(labels) = object.pointer(selector).and_then(Value::as_object) else { continue };
                let labels = labels.iter().filter(|(key, _)| *key != "matchLabels");
                for (key, value) in labels {
                    assert_eq!(pod["metadata"]["labels"][key], *value, "{name}: {} selects others", object["kind"]);
                }
            }
        }
    }
}

/// Asserts that the daemon takes a configuration, with what its environment replaces.
fn daemon_accepts(name: &str, configuration: &Value, container: &Value) {
    let variables = container["env"].as_array().into_iter().flatten();
    let set = variables.filter_map(|variable| Some((variable["name"].as_str()?, variable["value"].as_str()?)));
    let env: BTreeMap<String, String> =
        set.map(|(name, value)| (name.to_owned(), value.replace("$(POD_IP)", "10.1.2.3"))).collect();
    for variable in env.keys() {
        assert!(OVERRIDES.iter().any(|(known, _)| known == variable), "{name}: {variable} replaces nothing");
    }
    let parsed = Configuration::parse(&configuration.to_string(), Path::new("/etc/gitfleet/config"), &env);
    let parsed = parsed.unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
    assert_eq!(parsed.http.peer_url, env.get("GITFLEET_HTTP_PEER_URL").cloned(), "{name}");
    assert_eq!(parsed.store.postgres.is_some(), parsed.http.peer_url.is_some(), "{name}: replicas have addresses");
}

#[test]
fn the_daemon_starts_with_the_configuration_of_the_chart() {
    let world = World::new(None, &[]);
    world.write("fleet.yaml", "");
    let head = world.commit("Begin");
    let (repo, store) = (world.repo(), world.path().join("store"));
    let values = [
        format!("config.source.url={}", repo.display()),
        format!("config.store.path={}", store.display()),
        format!("config.http.listen=127.0.0.1:{}", world.port()),
        "config.source.tokenFile=null".to_owned(),
        "config.http.readTokens=null".to_owned(),
        "config.http.webhookListen=null".to_owned(),
        "config.forge=null".to_owned(),
    ];
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let rendered = objects(&template("fleet", "fleet", &values).expect("it renders"));
    let text =
        of_kind(&rendered, "ConfigMap")[0]["data"]["gitfleet.yaml"].as_str().expect("the configuration").to_owned();
    fs::write(world.config(), text).expect("it is written");
    let checked = world.gitfleet(&["check", "-c", world.config().to_str().expect("a path")]);
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stdout));
    let daemon = world.start();
    daemon.await_status(&head[..7]);
}

/// Makes a namespace where the strictest level is enforced.
fn restricted(member: &Member, name: &str) {
    let labels = ["enforce", "warn"].map(|mode| format!("\"pod-security.kubernetes.io/{mode}\": restricted"));
    let yaml =
        format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, labels: {{{}}}}}\n", labels.join(", "));
    member.kubectl_apply(&yaml).expect("the namespace is there");
}

#[test]
fn every_object_is_admitted_where_the_restricted_level_is_enforced() {
    let member = &shared().members[2];
    let (name, folder) = ("chart-admitted", TempDir::new().expect("a folder"));
    restricted(member, name);
    let overlays = VARIANTS.iter().map(|variant| (variant.overlay, variant.overlaid()));
    for (variant, objects) in all_rendered().into_iter().chain(overlays) {
        let mut applied = Vec::new();
        // The kind of the Prometheus operator is not installed here.
        for mut object in objects.into_iter().filter(|object| object["kind"] != "ServiceMonitor") {
            // Another test makes and removes the namespaces that overlays name.
            if object["kind"] == "Namespace" {
                assert_eq!(object["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
                continue;
            }
            if object["metadata"]["namespace"].is_string() {
                object["metadata"]["namespace"] = json!(name);
            }
            if object["kind"] == "Deployment" {
                // A Deployment is never refused by the level, only its Pods are.
                let template = &object["spec"]["template"];
                let metadata = json!({"name": "as-pod", "namespace": name, "labels": template["metadata"]["labels"]});
                applied
                    .push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}));
            }
            applied.push(object);
        }
        let file = folder.path().join("objects.json");
        let list = json!({"apiVersion": "v1", "kind": "List", "items": applied});
        fs::write(&file, list.to_string()).expect("the file is written");
        let file = file.to_str().expect("a path");
        let answer = member.kubectl(&["apply", "--server-side", "--dry-run=server", "-f", file]);
        let answer = answer.unwrap_or_else(|error| panic!("{variant}: {error:#}"));
        assert_eq!(answer.lines().count(), applied.len(), "{variant}: {answer}");
    }
    member.kubectl(&["delete", "namespace", name, "--wait=false"]).expect("the namespace goes");
}

#[test]
fn helm_installs_upgrades_rolls_back_and_removes() {
    let member = &shared().members[2];
    let (name, chart) = ("chart-life", chart());
    let kubeconfig = member.kubeconfig.to_str().expect("a path");
    restricted(member, name);
    let helm = |args: &[&str]| {
        let common = ["--namespace", name, "--kubeconfig", kubeconfig];
        helm(&[args, &common].concat()).unwrap_or_else(|error| panic!("{args:?}: {error}"))
    };
    let get = |kind: &str, object: &str| member.get(name, kind, object).expect("the member answers");
    let spec = || get("deployment", "gitfleet").expect("the Deployment is there")["spec"].clone();
    let claim = || get("persistentvolumeclaim", "gitfleet-store").map(|claim| claim["metadata"]["uid"].clone());

    let notes = helm(&["install", "gitfleet", &chart]);
    assert!(notes.contains("gitfleet-kubeconfigs") && notes.contains("exec deploy/gitfleet"), "{notes}");
    let store = claim().expect("a volume is asked for");
    assert_eq!(spec()["strategy"], json!({"type": "Recreate"}));
    assert_eq!(get("poddisruptionbudget", "gitfleet"), None);

    helm(&["upgrade", "gitfleet", &chart, "--set", "replicas=0"]);
    assert_eq!(spec()["replicas"], 0, "stopped, to move the store");
    let notes = helm(&["upgrade", "gitfleet", &chart, "--set", "replicas=3,postgres.secret=gitfleet-postgres"]);
    assert!(notes.contains("3 replicas on PostgreSQL") && notes.contains("metrics-token"), "{notes}");
    let replicas = spec();
    assert_eq!(replicas["replicas"], 3);
    assert_eq!(replicas["strategy"]["rollingUpdate"], json!({"maxSurge": 1, "maxUnavailable": 0}));
    assert_eq!(replicas["template"]["spec"]["volumes"].to_string().matches("persistentVolumeClaim").count(), 0);
    assert!(get("poddisruptionbudget", "gitfleet").is_some());
    assert_eq!(claim().as_ref(), Some(&store), "who moved the store can move it back");

    helm(&["rollback", "gitfleet", "1"]);
    assert_eq!(spec()["strategy"], json!({"type": "Recreate"}));
    assert_eq!(spec()["replicas"], 1);
    assert_eq!(get("poddisruptionbudget", "gitfleet"), None);
    assert_eq!(claim().as_ref(), Some(&store));

    helm(&["uninstall", "gitfleet"]);
    for (kind, object) in [("deployment", "gitfleet"), ("configmap", "gitfleet"), ("service", "gitfleet")] {
        assert_eq!(get(kind, object), None, "{kind}");
    }
    assert_eq!(claim().as_ref(), Some(&store), "records outlive the release");
    helm(&["install", "gitfleet", &chart]);
    assert_eq!(claim().as_ref(), Some(&store), "the next release takes it over");
    helm(&["uninstall", "gitfleet"]);
    member.kubectl(&["delete", "namespace", name, "--wait=false"]).expect("the namespace goes");
}

#[test]
fn the_agent_has_the_rights_that_are_printed() {
    let world = World::new(None, &[]);
    let narrowing = ["--resources", "namespaces,Deployment.apps,configmaps", "--namespaces", "web,shop"];
    let printed = world.gitfleet(&[&["member", "bootstrap", "edge-1"], narrowing.as_slice()].concat());
    let printed = objects(&String::from_utf8_lossy(&printed.stdout));
    let account = of_kind(&printed, "ServiceAccount")[0]["metadata"].clone();
    let roles = |objects: &[Value]| {
        let by_namespace = of_kind(objects, "Role")
            .into_iter()
            .map(|role| (role["metadata"]["namespace"].as_str().unwrap_or_default().to_owned(), role["rules"].clone()));
        (of_kind(objects, "ClusterRole")[0]["rules"].clone(), by_namespace.collect::<BTreeMap<String, Value>>())
    };
    let (cluster_rules, namespace_rules) = roles(&printed);
    for objects in [VARIANTS[2].rendered(), VARIANTS[2].overlaid()] {
        let deployment = of_kind(&objects, "Deployment")[0];
        assert_eq!(deployment["spec"]["template"]["spec"]["serviceAccountName"], account["name"]);
        assert_eq!(deployment["metadata"]["namespace"], account["namespace"]);
        assert!(of_kind(&objects, "ServiceAccount").is_empty(), "the printed one counts");
    }
    let values = world.path().join("values.yaml");
    let rbac = json!({"clusterRules": cluster_rules, "namespaceRules": namespace_rules});
    let agent = json!({"serviceAccount": {"create": true}, "rbac": rbac});
    fs::write(&values, json!({"mode": "agent", "agent": agent}).to_string()).expect("values are written");
    let values = values.to_str().expect("a path");
    let rendered = objects(&helm(&["template", "edge", &chart(), "-n", "edge", "-f", values]).expect("it renders"));
    assert_eq!(roles(&rendered), (cluster_rules, namespace_rules));
    let subject = json!([{"kind": "ServiceAccount", "name": "gitfleet", "namespace": "edge"}]);
    for kind in ["ClusterRoleBinding", "RoleBinding"] {
        assert!(of_kind(&rendered, kind).iter().all(|binding| binding["subjects"] == subject), "{kind}");
    }
}

/// Puts what the Pod of an agent mounts into a folder, and returns the arguments of its container for a process outside of a Pod.
fn outside_of_a_pod(deployment: &Value, pod: &Path, files: &[(&str, &Path)]) -> Vec<String> {
    for (path, source) in files {
        let target = pod.join(path.trim_start_matches('/'));
        fs::create_dir_all(target.parent().expect("a folder")).expect("it is made");
        fs::copy(source, target).expect("the file is copied");
    }
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let (command, arguments) = container["args"].as_array().expect("args").split_first().expect("a command");
    assert_eq!(command, "agent");
    let moved = |argument: &str| argument.replacen("=/", &format!("={}/", pod.display()), 1);
    let arguments = arguments.iter().map(|argument| moved(argument.as_str().expect("a text")));
    // Where it listens is chosen by the test.
    arguments.filter(|argument| !argument.starts_with("--listen=")).collect()
}

#[test]
fn the_agent_works_with_the_arguments_and_the_rights_of_the_chart() {
    // A fleet of its own: its API server counts refusals of all users together.
    let fleet = Fleet::start(Options::members(1).with_controller_manager()).expect("a fleet starts");
    let (member, edge) = (&fleet.members[0], Edge::new(&[]));
    let (world, name, app_name) = (&edge.world, member.name.as_str(), "charted");
    let refusals = || forbidden_count(&member.metrics().expect("metrics"));

    // The rules that are printed, given to the chart's own account.
    let narrowing = ["--resources", "namespaces,Deployment.apps,configmaps", "--namespaces", app_name];
    let printed = world.gitfleet(&[&["member", "bootstrap", name], narrowing.as_slice()].concat());
    let printed = objects(&String::from_utf8_lossy(&printed.stdout));
    for object in of_kind(&printed, "Namespace") {
        member.kubectl_apply(&object.to_string()).expect("the namespace is there");
    }
    let rules = |kind: &str| of_kind(&printed, kind).into_iter();
    let of_namespaces =
        rules("Role").map(|role| (role["metadata"]["namespace"].as_str().expect("one"), &role["rules"]));
    let rbac = json!({
        "clusterRules": rules("ClusterRole").next().expect("a role")["rules"],
        "namespaceRules": of_namespaces.collect::<BTreeMap<_, _>>(),
    });
    let values = json!({"mode": "agent", "agent": {
        "name": "edge-1", "servers": [format!("https://127.0.0.1:{}", edge.port)], "caSecret": "ca",
        "inCluster": false, "kubeconfigs": "members", "serviceAccount": {"create": true}, "rbac": rbac,
    }});
    let values_file = world.path().join("values.yaml");
    fs::write(&values_file, values.to_string()).expect("values are written");
    let values_file = values_file.to_str().expect("a path");
    let kubeconfig = member.kubeconfig.to_str().expect("a path");
    restricted(member, "edge");
    helm(&["install", "edge", &chart(), "-n", "edge", "-f", values_file, "--kubeconfig", kubeconfig])
        .unwrap_or_else(|error| panic!("{error}"));
    let token = member.kubectl(&["-n", "edge", "create", "token", "gitfleet"]).expect("a token of the account");
    let own = fs::read_to_string(&member.kubeconfig).expect("a kubeconfig").replace(&member.token, token.trim());
    let own_file = world.path().join("own.kubeconfig");
    fs::write(&own_file, own).expect("it is written");

    let app = |value: &str| {
        [namespace(app_name), config_map(app_name, "settings", value), deployment(app_name, "web", "web:1", "0s")]
            .concat()
    };
    world.write("fleet.yaml", &[member_clusters([name]), placement(app_name, "")].concat());
    world.write("app.yaml", &[app("first"), config_map(app_name, "extra", "soon gone")].concat());
    world.commit("Deliver");
    let certificates = Certificates::make(world.path()).expect("certificates");
    let (certificate, key) = (certificates.certificate.display(), certificates.key.display());
    edge.configure(&[(name, Some("edge-1"))], &format!("  tls: {{certFile: {certificate}, keyFile: {key}}}\n"));
    let daemon = world.start();
    let created = world.gitfleet(&["agent", "token", "create", "edge-1", "-c", "gitfleet.yaml"]);
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    let token_file = world.path().join("token");
    fs::write(&token_file, created.stdout).expect("the token is written");

    let deployed = member.get("edge", "deployment", "edge-gitfleet-agent").expect("asked").expect("it is there");
    let mounted_kubeconfig = format!("/etc/gitfleet-agent/kubeconfigs/{name}");
    let files: [(&str, &Path); 3] = [
        ("/etc/gitfleet/token/token", &token_file),
        ("/etc/gitfleet/ca/ca.crt", &certificates.ca),
        (&mounted_kubeconfig, &own_file),
    ];
    let arguments = outside_of_a_pod(&deployed, &world.path().join("pod"), &files);
    let before = refusals();
    let agent = Agent::start(world.path(), "edge-1", &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    daemon.await_rolled_out(app_name, 0);
    world.write("app.yaml", &app("second"));
    world.commit("Change and prune");
    daemon.await_rolled_out(app_name, 1);
    daemon.until("the ConfigMap is pruned", || {
        member.get(app_name, "configmap", "extra").expect("the member answers").is_none()
    });
    patch(member, app_name, "settings", "by hand");
    daemon.until("the drift is put back", || value(member, app_name, "settings") == "second");
    daemon.until("nodes and pods are added up", || {
        daemon.get("clusters").iter().any(|cluster| cluster.to_string().contains("kubernetes-fleet.io/node-count"))
    });
    assert_eq!(refusals(), before, "no request of the agent was refused");
    assert!(agent.is_connected());
    assert!(world.path().join("pod/var/lib/gitfleet-agent").is_dir(), "its state lies in the volume");
}
