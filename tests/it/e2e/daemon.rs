//! A repository, a configuration and the binary, for one test.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use testservers::program;

use crate::e2e::fleet::{Member, commit_all, free_port, git, http, until};

/// How long anything may take before a test gives up: generous, because machines are slow and shared.
pub const LIMIT: Duration = Duration::from_mins(4);

/// How the daemon is run.
const RUN: [&str; 7] = ["run", "-c", "gitfleet.yaml", "--log-format", "json", "--log", "gitfleet=debug"];

/// One test's world: a work tree, a configuration, a store.
pub struct World {
    folder: TempDir,
    port: u16,
}

impl World {
    /// Makes an empty git work tree and a configuration that reads `source` (the work tree itself where `None`) and reaches
    /// members as told: name and kubeconfig.
    pub fn new(source: Option<&str>, members: &[(&str, &Path)]) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let world = Self { folder, port: free_port().expect("a free port") };
        fs::create_dir_all(world.repo()).expect("the work tree is made");
        git(&world.repo(), &["init", "-q", "-b", "main"]).expect("git init");
        world.configure(source, members);
        world
    }

    /// Writes the configuration.
    pub fn configure(&self, source: Option<&str>, members: &[(&str, &Path)]) {
        self.configure_with(source, members, "");
    }

    /// Returns the port that the daemon listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Writes the configuration, with more sections.
    pub fn configure_with(&self, source: Option<&str>, members: &[(&str, &Path)], more: &str) {
        let mut text = String::from("apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\n");
        match source {
            None => text.push_str("source: {url: ./repo, branch: main}\n"),
            Some(source) => writeln!(text, "source: {{{source}}}").expect("a string"),
        }
        text.push_str("members:\n");
        for (name, kubeconfig) in members {
            writeln!(text, "  - name: {name}\n    kubeconfig: {{path: {}}}", kubeconfig.display()).expect("a string");
        }
        write!(text, "store: {{path: ./state}}\nhttp: {{listen: '127.0.0.1:{}'}}\n", self.port).expect("a string");
        text.push_str(more);
        fs::write(self.config(), text).expect("the configuration is written");
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn repo(&self) -> PathBuf {
        self.path().join("repo")
    }

    pub fn config(&self) -> PathBuf {
        self.path().join("gitfleet.yaml")
    }

    /// Writes a file of the work tree.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.repo().join(path);
        fs::create_dir_all(path.parent().expect("it is below the work tree")).expect("its folder is made");
        fs::write(path, text).expect("the file is written");
    }

    /// Commits the work tree.
    pub fn commit(&self, message: &str) -> String {
        commit_all(&self.repo(), message).expect("a commit")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(args).env("NO_COLOR", "1").env_remove("GITFLEET_LOG").current_dir(self.path());
        command
    }

    /// Runs a command of the binary to its end.
    pub fn gitfleet(&self, args: &[&str]) -> Output {
        self.command(args).stdin(Stdio::null()).output().expect("the binary runs")
    }

    /// Starts the daemon.
    pub fn start(&self) -> Daemon<'_> {
        let log = File::options().create(true).append(true).open(self.log_file()).expect("the log opens");
        self.spawn(self.command(&RUN).stderr(log))
    }

    /// Starts a daemon that is killed as soon as it has logged so many lines: whoever copies its log kills it, so that it dies
    /// between one step and the next and not where it rests. Returns also whether that has happened.
    pub fn start_doomed(&self, lines: usize) -> (Daemon<'_>, Arc<AtomicBool>) {
        let mut log = File::options().create(true).append(true).open(self.log_file()).expect("the log opens");
        let mut command = self.command(&RUN);
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the daemon starts");
        let (said, id) = (child.stderr.take().expect("its log is read"), child.id().to_string());
        let has_died = Arc::new(AtomicBool::new(false));
        let died = Arc::clone(&has_died);
        std::thread::spawn(move || {
            for (line, number) in BufReader::new(said).lines().map_while(Result::ok).zip(1..) {
                writeln!(log, "{line}").expect("the log is written");
                if number == lines {
                    let killed = Command::new("kill").args(["-KILL", &id]).status().expect("kill runs");
                    died.store(killed.success(), Ordering::SeqCst);
                }
            }
        });
        (Daemon { world: self, child }, has_died)
    }

    /// Starts the daemon so that the size of its files can be limited: then writing fails, as on a full disk, instead of
    /// ending it by a signal. Its log is written by somebody else.
    pub fn start_for_limits(&self) -> Daemon<'_> {
        let mut bash = Command::new("bash");
        let script = "trap '' XFSZ; exec \"$0\" \"$@\" 2> >(exec cat >> log.json)";
        bash.args(["-c", script]).arg(program()).args(RUN);
        self.spawn(bash.env("NO_COLOR", "1").env_remove("GITFLEET_LOG").current_dir(self.path()))
    }

    fn spawn(&self, command: &mut Command) -> Daemon<'_> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("the daemon starts");
        let daemon = Daemon { world: self, child };
        daemon.until("the daemon listens", || {
            http("GET", self.port, "/healthz", &[], "").is_ok_and(|(code, _)| code == 200)
        });
        daemon
    }

    fn log_file(&self) -> PathBuf {
        self.path().join("log.json")
    }

    /// Returns the log's lines as JSON.
    pub fn log(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.log_file()).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Returns the times at which a message was logged, with the cluster it names.
    pub fn logged(&self, message: &str) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let lines = self.log();
        let found = lines.iter().filter(|line| line["message"] == message);
        found.map(|line| (text(&line["timestamp"]), text(&line["cluster"]))).collect()
    }
}

impl Drop for World {
    /// Keeps the log of a test that failed: `target/tmp/e2e-<test>.log.json`.
    fn drop(&mut self) {
        let thread = std::thread::current();
        if let (true, Some(name)) = (std::thread::panicking(), thread.name()) {
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("e2e-{}.log.json", name.replace("::", "-")));
            if fs::copy(self.log_file(), &kept).is_ok() {
                eprintln!("the daemon's log is kept: {}", kept.display());
            }
        }
    }
}

/// A running daemon, killed when dropped.
pub struct Daemon<'a> {
    world: &'a World,
    child: Child,
}

impl Daemon<'_> {
    /// Ends it as a crash would.
    pub fn kill(mut self) {
        self.child.kill().expect("the daemon is killed");
        self.child.wait().expect("the daemon ends");
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks for objects.
    pub fn get(&self, kind: &str) -> Vec<Value> {
        let output = self.world.gitfleet(&["get", kind, "-c", "gitfleet.yaml", "-o", "json"]);
        let Ok(value) = serde_json::from_slice::<Value>(&output.stdout) else { return Vec::new() };
        match value.get("items") {
            Some(items) => items.as_array().cloned().unwrap_or_default(),
            None => vec![value],
        }
    }

    /// Returns the value of a metric, all its series together.
    pub fn metric(&self, name: &str) -> u64 {
        let Ok((200, text)) = http("GET", self.world.port, "/metrics", &[], "") else { return 0 };
        let of = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        text.lines().filter(of).filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
    }

    /// Returns all that `status` says.
    pub fn status(&self) -> String {
        let output = self.world.gitfleet(&["status", "--all", "-c", "gitfleet.yaml"]);
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    }

    /// Waits until a placement is available everywhere at a snapshot index.
    pub fn await_rolled_out(&self, placement: &str, index: u64) {
        let done = |binding: &Value| {
            let bound = binding["spec"]["resourceSnapshotName"] == format!("{placement}-{index}-snapshot");
            let generation = &binding["metadata"]["generation"];
            let conditions = binding["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let available =
                |c: &Value| c["type"] == "Available" && c["status"] == "True" && &c["observedGeneration"] == generation;
            bound && conditions.iter().any(available)
        };
        self.until(&format!("{placement} at snapshot {index}"), || {
            let mut of = self.get("bindings");
            of.retain(|b| b["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"] == placement);
            !of.is_empty() && of.iter().all(done)
        });
    }

    /// Waits until `status` contains a text; returns all of it.
    pub fn await_status(&self, text: &str) -> String {
        let mut seen = String::new();
        self.until(&format!("status says {text:?}"), || {
            seen = self.status();
            seen.contains(text)
        });
        seen
    }

    /// Waits for a condition; fails with the status and the end of the log.
    pub fn until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let found = until(what, LIMIT, || Ok(condition().then_some(())));
        if let Err(error) = found {
            let log = self.world.log();
            let tail: Vec<String> = log.iter().rev().take(40).rev().map(ToString::to_string).collect();
            panic!("{error:#}\n--- status\n{}\n--- log\n{}", self.status(), tail.join("\n"));
        }
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns members as a configuration wants them.
pub fn access(members: &[Member]) -> Vec<(&str, &Path)> {
    members.iter().map(|m| (m.name.as_str(), m.kubeconfig.as_path())).collect()
}

/// Returns MemberCluster documents.
pub fn member_clusters<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let document = |name| {
        format!(
            "---\napiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {{name: {name}}}\nspec: {{}}\n"
        )
    };
    names.into_iter().map(document).collect()
}

/// Returns MemberCluster documents, each with the label of its stage.
pub fn clusters_of<'a>(members: &[Member], stages: impl IntoIterator<Item = &'a str>) -> String {
    let document = |(member, stage): (&Member, &str)| {
        format!(
            "---\napiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\n\
             metadata: {{name: {}, labels: {{stage: {stage}}}}}\nspec: {{}}\n",
            member.name
        )
    };
    members.iter().zip(stages).map(document).collect()
}

/// Returns a placement of a namespace, with everything in it, on every cluster.
pub fn placement(name: &str, extra: &str) -> String {
    format!(
        "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata:\n  name: {name}\n  \
         annotations: {{gitfleet.io/deletion-guard: 'Off'}}\nspec:\n  resourceSelectors:\n    - {{group: '', version: v1, kind: Namespace, name: {name}}}\n  \
         strategy:\n    rollingUpdate: {{unavailablePeriodSeconds: 1}}\n{extra}"
    )
}

/// Returns a Namespace document.
pub fn namespace(name: &str) -> String {
    format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
}

/// Returns a ConfigMap document.
pub fn config_map(namespace: &str, name: &str, value: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\ndata: {{value: {value:?}}}\n"
    )
}

/// Returns a Deployment document that becomes available after `delay`.
pub fn deployment(namespace: &str, name: &str, image: &str, delay: &str) -> String {
    format!(
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec:\n  replicas: 2\n  \
         selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata:\n      labels: {{app: {name}}}\n      \
         annotations: {{fleet.test/delay: {delay}}}\n    spec:\n      containers: [{{name: main, image: '{image}'}}]\n"
    )
}

/// Returns what a Work says of one object (`Kind namespace/name`) of a placement on a member; null where it says nothing.
pub fn manifest(daemon: &Daemon<'_>, placement: &str, member: &str, object: &str) -> Value {
    let works = daemon.get("works");
    let of = works.iter().filter(|work| {
        work["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"] == placement
            && work["metadata"]["namespace"] == format!("fleet-member-{member}")
    });
    let named = |manifest: &&Value| {
        let text = |key: &str| manifest["identifier"][key].as_str().unwrap_or_default();
        let slash = if text("namespace").is_empty() { "" } else { "/" };
        format!("{} {}{slash}{}", text("kind"), text("namespace"), text("name")) == object
    };
    let manifests = of.flat_map(|work| work["status"]["manifestConditions"].as_array().into_iter().flatten());
    manifests.into_iter().find(named).cloned().unwrap_or_default()
}

/// Returns the Applied condition of what [`manifest`] found.
pub fn applied(manifest: &Value) -> Value {
    let conditions = manifest["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|c| c["type"] == "Applied").cloned().unwrap_or_default()
}

/// Returns the inventory's label of an object; empty where it has none.
pub fn label(object: &Value) -> String {
    object["metadata"]["labels"]["applyset.kubernetes.io/part-of"].as_str().unwrap_or_default().to_owned()
}

/// Returns the value in a ConfigMap; empty where the member does not answer or has none.
pub fn value(member: &Member, namespace: &str, name: &str) -> String {
    let found = member.get(namespace, "configmap", name).ok().flatten();
    found.and_then(|map| map["data"]["value"].as_str().map(str::to_owned)).unwrap_or_default()
}

/// Changes the value in a ConfigMap by hand.
pub fn patch(member: &Member, namespace: &str, name: &str, value: &str) {
    let change = serde_json::json!({"data": {"value": value}});
    member.patch((namespace, "configmap", name), &change).expect("a change by hand");
}
