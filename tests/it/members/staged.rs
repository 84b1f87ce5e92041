//! A staged rollout on five real clusters: an approval, a canary that fails and halts, the fix that supersedes it, a rollback.
//! `crashes` plays the same with the daemon killed anywhere.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::e2e::daemon::{Daemon, World, access, clusters_of, namespace};
use crate::e2e::fleet::{Fleet, Member, Options};

const STAGES: [(&str, usize); 3] = [("canary", 1), ("early", 2), ("rest", 2)];

/// Five clusters of one test's own.
pub fn own() -> Fleet {
    Fleet::start(Options::members(5)).expect("the test fleet starts")
}

/// The five clusters, each with the label of its stage.
pub fn clusters(members: &[Member]) -> String {
    clusters_of(members, STAGES.iter().flat_map(|(stage, count)| std::iter::repeat_n(*stage, *count)))
}

/// A strategy of three stages with an approval after the first, and a placement that rolls out by it.
pub fn rollout(name: &str) -> String {
    let stage = |stage: &str, more: &str| {
        format!(
            "    - name: {stage}\n      labelSelector: {{matchLabels: {{stage: {stage}}}}}\n      maxConcurrency: 2\n{more}"
        )
    };
    format!(
        "---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\nmetadata: {{name: {name}}}\n\
         spec:\n  stages:\n{}{}{}---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata:\n  \
         name: {name}\n  annotations: {{gitfleet.io/staged-update-strategy: {name}, gitfleet.io/deletion-guard: 'Off'}}\n\
         spec:\n  resourceSelectors:\n    - {{group: '', version: v1, kind: Namespace, name: {name}}}\n  strategy: {{type: External}}\n",
        stage("canary", "      afterStageTasks: [{type: Approval}]\n"),
        stage("early", ""),
        stage("rest", ""),
    )
}

fn secret(namespace: &str, name: &str, value: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: {namespace}}}\ndata: {{value: {value}}}\n"
    )
}

/// What is rolled out: one Secret that differs between versions, and one that never does. A value that is no base64 is refused
/// by every API server.
fn payload(name: &str, value: &str) -> String {
    [rollout(name), namespace(name), secret(name, "changes", value), secret(name, "stays", "c2FtZQ==")].concat()
}

/// `1`, `3` and `4` in base64, and what is none.
const VERSIONS: [&str; 3] = ["MQ==", "not base64!", "Mw=="];

/// Returns the value on a member; empty where it has none.
fn held(member: &Member, name: &str) -> String {
    let found = member.get(name, "secret", "changes").ok().flatten();
    found.and_then(|secret| secret["data"]["value"].as_str().map(str::to_owned)).unwrap_or_default()
}

/// Returns a run's reason of a condition; empty where there is none.
pub fn reason(daemon: &Daemon<'_>, run: &str, type_: &str) -> String {
    let runs = daemon.get("runs");
    let found = runs.iter().find(|object| object["metadata"]["name"] == run);
    let conditions = found.and_then(|run| run["status"]["conditions"].as_array().cloned()).unwrap_or_default();
    let condition = conditions.iter().find(|condition| condition["type"] == type_);
    condition.and_then(|condition| condition["reason"].as_str()).unwrap_or_default().to_owned()
}

/// A daemon that is killed once, when it has logged so many lines, and started again.
struct Mortal<'a> {
    world: &'a World,
    daemon: RefCell<Option<Daemon<'a>>>,
    /// Whether its time has come; absent once it was started again, and where it is not to die.
    has_died: RefCell<Option<Arc<AtomicBool>>>,
}

impl<'a> Mortal<'a> {
    fn start(world: &'a World, dies_at: Option<usize>) -> Self {
        let (daemon, has_died) = match dies_at.map(|lines| world.start_doomed(lines)) {
            Some((daemon, has_died)) => (daemon, Some(has_died)),
            None => (world.start(), None),
        };
        Self { world, daemon: Some(daemon).into(), has_died: has_died.into() }
    }

    /// Waits for a condition; a daemon that dies meanwhile is started again.
    fn until(&self, what: &str, condition: impl Fn(&Daemon<'_>) -> bool) {
        loop {
            let mut is_met = false;
            {
                let daemon = self.daemon.borrow();
                let daemon = daemon.as_ref().expect("it runs");
                daemon.until(what, || {
                    is_met = condition(daemon);
                    is_met || self.is_dead()
                });
            }
            if self.is_dead() {
                self.revive();
            } else if is_met {
                return;
            }
        }
    }

    fn is_dead(&self) -> bool {
        self.has_died.borrow().as_ref().is_some_and(|died| died.load(Ordering::SeqCst))
    }

    fn revive(&self) {
        self.has_died.take();
        drop(self.daemon.take());
        self.daemon.replace(Some(self.world.start()));
    }

    /// The last point at which it may die is the end.
    fn dies_at_last(&self) {
        if self.has_died.borrow().is_some() {
            self.daemon.take().expect("it runs").kill();
            self.revive();
        }
    }

    /// Says something to the daemon until it is done: a kill may have come between.
    fn command(&self, args: &[&str], is_done: impl Fn(&Daemon<'_>) -> bool) {
        self.until(&args.join(" "), |daemon| {
            if is_done(daemon) {
                return true;
            }
            let mut all = args.to_vec();
            all.extend(["-c", "gitfleet.yaml"]);
            self.world.gitfleet(&all);
            false
        });
    }
}

/// What is left of a scenario when it is over.
pub struct End {
    /// Lines of the log.
    pub lines: usize,
    /// Runs, snapshots, bindings, works and approvals, without what differs between two scenarios that went the same way.
    state: Vec<String>,
}

/// The kinds of records whose end is compared.
const KINDS: [&str; 5] = ["runs", "snapshots", "bindings", "works", "approvals"];

/// Returns everything that the daemon shows, in order, the scenario's name, instants and digests masked.
fn state(daemon: &Daemon<'_>, name: &str) -> Vec<String> {
    let shown = KINDS.iter().flat_map(|kind| daemon.get(kind));
    let mut all: Vec<String> = shown.map(|object| masked(object, name).to_string()).collect();
    all.sort();
    all
}

/// Masks in a value what differs between two scenarios that went the same way.
fn masked(value: Value, name: &str) -> Value {
    match value {
        Value::String(text) => Value::String(masked_text(&text.replace(name, "NAME"))),
        Value::Array(all) => all.into_iter().map(|value| masked(value, name)).collect(),
        Value::Object(fields) => {
            let field = |(key, value): (String, Value)| (key.replace(name, "NAME"), masked(value, name));
            Value::Object(fields.into_iter().map(field).collect())
        }
        other => other,
    }
}

fn masked_text(text: &str) -> String {
    let is_hex = |word: &str| word.len() >= 8 && word.chars().all(|c| c.is_ascii_hexdigit());
    let part = |word: &str| if is_hex(word) { "HEX".to_owned() } else { word.to_owned() };
    let word = |word: &str| {
        let bare = word.trim_end_matches([',', ';', '.']);
        if bare.parse::<jiff::Timestamp>().is_ok() {
            return "TIME".to_owned();
        }
        word.split('-').map(part).collect::<Vec<_>>().join("-")
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Returns how many clusters of a stage of a run have begun; `None` where the run is not shown.
fn begun(daemon: &Daemon<'_>, run: &str, stage: &str) -> Option<usize> {
    let run = daemon.get("runs").into_iter().find(|object| object["metadata"]["name"] == run)?;
    let stages = run["status"]["stagesStatus"].as_array()?;
    let clusters = stages.iter().find(|status| status["stageName"] == stage)?["clusters"].as_array()?;
    let has_begun = |cluster: &&Value| cluster["conditions"].as_array().is_some_and(|all| !all.is_empty());
    Some(clusters.iter().filter(has_begun).count())
}

/// The whole scenario; `end` is the end of the scenario in which nobody was killed, once that was told.
pub fn scenario(fleet: &Fleet, name: &str, dies_at: Option<usize>, end: Option<&End>) -> End {
    let members = &fleet.members;
    let world = World::new(None, &access(members));
    let runs: Vec<String> = (0..3).map(|index| format!("{name}-{index}")).collect();
    let all_at = |count: usize, value: &str| members[..count].iter().all(|member| held(member, name) == value);
    world.write("fleet.yaml", &clusters(members));
    world.write("app.yaml", &payload(name, VERSIONS[0]));
    world.commit("Zero");
    let daemon = Mortal::start(&world, dies_at);

    daemon.until("the first version waits after the canary", |d| {
        reason(d, &runs[0], "Progressing") == "UpdateRunWaiting"
    });
    assert!(all_at(1, VERSIONS[0]), "the canary has it");
    assert!(
        members[1..].iter().all(|member| held(member, name).is_empty()),
        "nobody else has, before somebody said yes"
    );
    daemon.command(&["approve", &runs[0], "canary"], |d| reason(d, &runs[0], "Succeeded") == "UpdateRunSucceeded");
    assert!(all_at(5, VERSIONS[0]));

    world.write("app.yaml", &payload(name, VERSIONS[1]));
    world.commit("One");
    daemon.until("the broken version halts", |d| reason(d, &runs[1], "Progressing") == "UpdateRunHalted");
    assert!(all_at(5, VERSIONS[0]), "nobody has what the API server refuses");
    daemon.until("no stage but the canary has begun", |d| {
        begun(d, &runs[1], "canary") == Some(1)
            && ["early", "rest"].iter().all(|stage| begun(d, &runs[1], stage) == Some(0))
    });

    world.write("app.yaml", &payload(name, VERSIONS[2]));
    world.commit("Two");
    daemon.until("the fix waits after the canary", |d| reason(d, &runs[2], "Progressing") == "UpdateRunWaiting");
    assert!(all_at(1, VERSIONS[2]));
    assert!(members[1..].iter().all(|member| held(member, name) == VERSIONS[0]), "an approval is for one snapshot");
    daemon.command(&["approve", &runs[2], "canary"], |d| reason(d, &runs[2], "Succeeded") == "UpdateRunSucceeded");
    assert!(all_at(5, VERSIONS[2]));

    let back = format!("{}-rollback", runs[2]);
    daemon.command(&["rollback", &runs[2], "--to", "0"], |d| reason(d, &back, "Succeeded") == "UpdateRunSucceeded");
    daemon.dies_at_last();
    assert!(all_at(5, VERSIONS[0]), "back where it was");
    let ends = ["UpdateRunSucceeded", "UpdateRunFailed", "UpdateRunSucceeded"];
    for (run, expected) in runs.iter().zip(ends) {
        daemon.until(run, |d| reason(d, run, "Succeeded") == expected);
    }
    let taken = format!("the run {} takes its place", runs[2]);
    daemon.until("the fix has superseded what was broken", |d| {
        let runs_shown = d.get("runs");
        runs_shown.iter().any(|run| run["metadata"]["name"] == runs[1] && run.to_string().contains(&taken))
    });
    let lines = world.log().len();
    let found = RefCell::new(Vec::new());
    daemon.until("all ends as it does where nobody is killed", |d| {
        let now = state(d, name);
        let is_right = end.is_none_or(|end| end.state == now);
        if !is_right && now != *found.borrow() {
            let differing = end.and_then(|end| end.state.iter().zip(&now).find(|(one, other)| one != other));
            eprintln!("{name} ends otherwise: {differing:?}");
        }
        found.replace(now);
        is_right
    });
    End { lines, state: found.into_inner() }
}

#[test]
fn a_staged_rollout_with_an_approval_a_halt_a_fix_and_a_rollback() {
    let fleet = own();
    let end = scenario(&fleet, "staged", None, None);
    let approvals = end.state.iter().filter(|object| object.contains("ApprovalRequest"));
    let approved = approvals.filter(|object| object.contains("\"type\":\"Approved\"")).count();
    assert_eq!(approved, 2, "every gate was opened by somebody's word: {:#?}", end.state);
}
