//! What happens in the conversation besides messages: members, orders, events of members, time, and daemons that take over.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use decide::snapshot::value_digest;
use engine::MemberCommand;
use jiff::Timestamp;
use model::agent::AgentChoice;
use model::encrypted::EncryptedWork;
use model::id::{ObjectId, ObjectKey, PlacementKey};
use model::records::{HeldSnapshot, Kept, Pause, WorkStatus};
use model::uptime::Uptime;
use model::work::{Desired, SourceName, WorkOrder};
use serde_json::{Value, json};
use wire::{AgentReach, Protocols, ToServer};

use super::Conversation;
use super::agent_side::AgentSide;
use super::daemon_side::DaemonSide;

/// The name of the agent.
pub const AGENT: &str = "edge-1";
/// Its token.
pub const TOKEN: &str = "token";
/// How long a silent agent keeps its members.
pub const LEASE: Duration = Duration::from_secs(15);
/// A member of a pool.
const POOLED: &str = "pooled";
/// Members that the agent has by its name: an API server, and a folder.
const OWN: &str = "own";
const FOLDER: &str = "folder";

/// Returns the name of the source.
pub fn source() -> SourceName {
    SourceName { name: "https://git.example/fleet#main:.".to_owned(), formerly: Arc::new(["old".to_owned()].into()) }
}

fn at() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("an instant")
}

fn key(name: &str) -> ObjectKey {
    ObjectId {
        version: "v1".into(),
        kind: "ConfigMap".into(),
        namespace: "n".into(),
        name: name.into(),
        ..ObjectId::default()
    }
    .key()
}

/// Returns a manifest; of a Secret an encrypted one.
fn desired(kind: &str, name: &str, value: &str) -> Desired {
    let object =
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "n"}, "data": {"key": value}});
    let id = ObjectId::of(&object).expect("an id");
    let mut desired = Desired {
        key: id.key().shared(),
        id,
        digest: value_digest(&object),
        object: Arc::new(object),
        wave: 3,
        encrypted: None,
    };
    if kind == "Secret" {
        let file = format!("kind: Secret\ndata: {{key: {value}}}\nsops: {{mac: 'ENC[AES256_GCM,data:bQ==]'}}\n");
        let unnamed = EncryptedWork { file: file.into(), path: "n/secret.yaml".into(), ordinal: 0, content: "".into() };
        desired.encrypted = Some(unnamed.clone());
        let content = value_digest(&desired.carried());
        desired.encrypted = Some(EncryptedWork { content, ..unnamed });
    }
    desired
}

/// Returns an order with little in it.
fn plain_order(cluster: &str, generation: i64, manifests: &[Desired]) -> WorkOrder {
    WorkOrder {
        placement: PlacementKey::cluster_scoped("p"),
        cluster: cluster.into(),
        generation,
        source: source(),
        snapshot: generation.unsigned_abs(),
        commit: "c0ffee".into(),
        digest: "5e1ec7ed".into(),
        strategy: serde_json::from_value(json!({})).expect("a strategy"),
        manifests: manifests.into(),
        held: BTreeSet::new(),
        prune: BTreeSet::new(),
        kept: Kept::default(),
        user: None,
        tenant: None,
        remove: false,
        abandon: false,
    }
}

/// Returns an order with everything in it.
fn full_order(cluster: &str) -> WorkOrder {
    let strategy = json!({
        "type": "ServerSideApply", "comparisonOption": "FullComparison", "whenToApply": "IfNotDrifted", "whenToTakeOver": "IfNoDiff",
        "allowCoOwnership": true, "serverSideApplyConfig": {"force": true},
    });
    let paused = Pause { by: "ann".to_owned(), at: at(), reason: Some("a change of shift".to_owned()) };
    let held = HeldSnapshot {
        index: 4,
        hash: "ab".into(),
        why: "it failed on \"own\"".into(),
        since: at(),
        returns: false,
        inputs: None,
    };
    WorkOrder {
        placement: PlacementKey::namespaced("n", "q"),
        strategy: serde_json::from_value(strategy).expect("a strategy"),
        held: BTreeSet::from([key("held")]),
        prune: BTreeSet::from([key("gone"), key("gone-too")]),
        kept: Kept { paused: Some(paused), held: Some(held) },
        user: Some("system:serviceaccount:n:deployer".to_owned()),
        ..plain_order(
            cluster,
            5,
            &[desired("ConfigMap", "a", "größer"), desired("Secret", "s", "ENC[AES256_GCM,data:eA==]")],
        )
    }
}

fn status(generation: i64) -> Value {
    let id = json!({"version": "v1", "kind": "ConfigMap", "namespace": "n", "name": "a"});
    let mut drifted = json!({
        "applied": "FoundDrifts", "message": "it differs", "availability": "Available", "generation": 7, "manifest": "d1", "owned": "o1",
        "differences": [{"path": "/data/key", "valueInMember": "2", "valueInHub": "1"}], "differsSince": at(), "observedAt": at(),
    });
    drifted.as_object_mut().expect("an object").extend(id.as_object().expect("an object").clone());
    let inventory = [key("a"), key("held")];
    json!({
        "generation": generation, "complete": true, "manifests": [drifted], "availableSince": at(), "inventory": inventory,
        "heldDeletions": [key("held")], "kept": {"paused": {"by": "ann", "at": at(), "reason": "a change of shift"}},
    })
}

fn order_of(order: WorkOrder, reported: Option<Value>) -> MemberCommand {
    let reported = reported.map(|status| Arc::new(serde_json::from_value::<WorkStatus>(status).expect("a report")));
    MemberCommand::Order { order: Arc::new(order), reported }
}

fn event(value: Value) -> ToServer {
    serde_json::from_value(value).expect("an event")
}

fn work(cluster: &str, placement: &str, status: &Value) -> ToServer {
    event(json!({"type": "work", "cluster": cluster, "placement": placement, "status": status}))
}

fn add_members(daemon: &mut DaemonSide, now: Uptime) {
    let kubeconfig = AgentReach::Kubeconfig {
        path: "clusters.yaml".into(),
        context: Some("pooled-admin".to_owned()),
        allow_exec: vec!["sign-in".to_owned()],
    };
    daemon.add(POOLED, AgentChoice::Pool { pool: "eu".to_owned() }, kubeconfig, now);
    daemon.add(OWN, AgentChoice::Named(AGENT.to_owned()), AgentReach::InCluster, now);
    daemon.add(FOLDER, AgentChoice::Named(AGENT.to_owned()), AgentReach::Directory { path: "out/folder".into() }, now);
}

fn placements(of: &[&str]) -> MemberCommand {
    MemberCommand::Placements(of.iter().map(|text| text.parse().expect("a placement")).collect())
}

/// What the members of the agent say when they are asked.
fn announce(agent: &mut AgentSide) {
    let known = json!({"p": [key("a"), key("b")]});
    let unknown = json!({"n/q": {"seen": [key("c")], "unlisted": {"Widget.example.org": "it is not served"}}});
    let held = json!({"p": {"index": 2, "commit": "c0ffee", "digest": "5e1ec7ed"}, "n/q": null});
    let kept = json!({"p": {"held": {"index": 1, "hash": "ab", "why": "it failed", "since": at()}}});
    agent.note(event(json!({"type": "namespaces", "cluster": OWN, "namespaces": {"Ok": ["default", "n"]}})));
    agent.note(event(json!({"type": "online", "cluster": OWN, "version": "v1.33.1", "holds": held, "kept": kept, "inventory": known})));
    agent.note(event(json!({"type": "online", "cluster": FOLDER, "inventory": unknown})));
}

/// What else members report.
fn report_everything(agent: &mut AgentSide) {
    let amounts = json!({"cpuMilli": "4000", "memoryBytes": "16777216000", "extended": {"nvidia.com/gpu": "2"}});
    let nodes = json!({"count": 3, "capacity": amounts, "allocatable": amounts, "machineTypes": {"m1.large": "3"}});
    let facts = json!({"nodes": {"Ok": nodes}, "requested": {"Err": "pods cannot be listed"}, "claims": {"region": "eu"}, "claimsFailed": null});
    agent.note(event(json!({"type": "facts", "cluster": POOLED, "facts": facts})));
    agent.note(event(json!({"type": "namespaces", "cluster": POOLED, "namespaces": {"Err": "it is forbidden"}})));
    agent.note(event(json!({"type": "unwatched", "cluster": POOLED, "reason": "too many objects"})));
    agent.note(event(json!({"type": "offline", "cluster": FOLDER, "reason": "the folder is gone"})));
    // A task of this version continues with the orders that the agent has, and says nothing of a restart.
    agent.report(event(json!({"type": "restarted", "cluster": OWN})));
    agent.report(event(json!({"type": "online", "cluster": "somebody-elses"})));
}

impl Conversation {
    /// Plays all of it.
    pub(super) fn play(&mut self) {
        self.first_session();
        self.first_orders();
        self.member_of_a_pool();
        self.orders_change();
        self.connection_is_cut();
        self.agent_is_silent();
        self.another_daemon_leads();
    }

    /// The agent is refused, and then welcome.
    fn first_session(&mut self) {
        self.daemon(0, |daemon, now| {
            *daemon = DaemonSide::new(1, now);
            add_members(daemon, now);
        });
        self.open(|hello| hello.pools.extend(["asia".to_owned()]));
        self.open(|hello| hello.protocol = Protocols { oldest: 7, newest: 9 });
        self.open(|_| {});
        self.frames();
        self.open(|hello| "start-2".clone_into(&mut hello.instance));
        self.agent(announce);
        self.post();
    }

    /// The members of its own name get orders at once.
    fn first_orders(&mut self) {
        self.daemon(1, |daemon, _| {
            daemon.command(OWN, order_of(plain_order(OWN, 3, &[desired("ConfigMap", "a", "1")]), None));
            daemon.command(OWN, order_of(full_order(OWN), Some(status(4))));
            daemon.command(OWN, placements(&["p", "n/q"]));
            daemon.command(FOLDER, placements(&[]));
        });
        self.frames();
        self.fetch();
        self.agent(|agent| {
            agent.note(work(OWN, "p", &status(3)));
            agent.note(work(
                OWN,
                "n/q",
                &json!({"generation": 5, "complete": false, "failure": "another source owns it"}),
            ));
        });
        self.post();
        self.post_again();
    }

    /// A member of a pool is given when agents of an earlier daemon cannot have it any more.
    fn member_of_a_pool(&mut self) {
        self.daemon(6, |_, _| {});
        self.post();
        self.daemon(11, |_, _| {});
        self.post();
        self.daemon(15, DaemonSide::tick);
        self.frames();
        self.daemon(15, |daemon, _| {
            let manifests = [desired("ConfigMap", "a", "1"), desired("ConfigMap", "b", "2")];
            daemon.command(POOLED, order_of(plain_order(POOLED, 1, &manifests), Some(status(1))));
            daemon.command(POOLED, placements(&["p"]));
        });
        self.frames();
        self.fetch();
        self.agent(report_everything);
        self.post();
    }

    /// An order is replaced before it was fetched, a placement leaves, and one is forgotten.
    fn orders_change(&mut self) {
        self.daemon(16, |daemon, _| {
            daemon.command(OWN, order_of(plain_order(OWN, 4, &[desired("ConfigMap", "a", "4")]), None));
        });
        self.frames();
        self.daemon(16, |daemon, _| {
            daemon.command(OWN, order_of(plain_order(OWN, 5, &[desired("ConfigMap", "a", "5")]), None));
        });
        self.fetch();
        self.frames();
        self.fetch();
        self.daemon(17, |daemon, _| {
            let remove = WorkOrder { remove: true, abandon: true, ..plain_order(POOLED, 2, &[]) };
            daemon.command(POOLED, order_of(remove, None));
            daemon.command(OWN, MemberCommand::Forget(PlacementKey::namespaced("n", "q")));
            daemon.command(OWN, MemberCommand::TryAgain(PlacementKey::cluster_scoped("p")));
        });
        self.frames();
        self.fetch();
        self.agent(|agent| agent.note(work(POOLED, "p", &json!({"generation": 2, "complete": true, "inventory": []}))));
        self.post();
        self.daemon(18, |daemon, now| daemon.remove(FOLDER, now));
        self.frames();
        self.post();
    }

    /// The daemon notices first that the connection is gone.
    fn connection_is_cut(&mut self) {
        self.daemon(19, DaemonSide::cut);
        self.agent(|agent| agent.note(work(OWN, "p", &status(5))));
        self.post();
        self.open(|_| {});
        self.frames();
        self.daemon(19, |daemon, _| {
            daemon.command(OWN, order_of(plain_order(OWN, 5, &[desired("ConfigMap", "a", "5")]), Some(status(5))));
            daemon.command(OWN, placements(&["p"]));
            daemon.command(POOLED, placements(&[]));
        });
        self.frames();
        self.fetch();
        self.post();
    }

    /// The agent is not heard for longer than its lease: its members may have gone to others.
    fn agent_is_silent(&mut self) {
        self.daemon(60, DaemonSide::tick);
        self.frames();
        self.open(|_| {});
        self.frames();
        self.daemon(60, |daemon, _| {
            daemon.command(OWN, order_of(plain_order(OWN, 5, &[desired("ConfigMap", "a", "5")]), Some(status(5))));
            daemon.command(OWN, placements(&["p"]));
            daemon.command(POOLED, order_of(plain_order(POOLED, 3, &[desired("ConfigMap", "a", "1")]), None));
            daemon.command(POOLED, placements(&["p"]));
        });
        self.frames();
        self.fetch();
        self.agent(|agent| {
            agent.note(work(POOLED, "p", &json!({"generation": 3, "complete": true, "inventory": [key("a")]})));
        });
        self.post();
    }

    /// Another daemon leads: the agent continues with the orders that it has, ends, and follows no daemon that was replaced.
    fn another_daemon_leads(&mut self) {
        self.daemon(61, DaemonSide::close);
        self.frames();
        self.daemon(62, |daemon, now| {
            *daemon = DaemonSide::new(2, now);
            add_members(daemon, now);
            daemon.remove(FOLDER, now);
        });
        self.open(|_| {});
        self.frames();
        self.daemon(63, |daemon, _| {
            daemon.command(OWN, order_of(plain_order(OWN, 5, &[desired("ConfigMap", "a", "5")]), Some(status(5))));
            daemon.command(OWN, placements(&["p"]));
        });
        self.frames();
        self.fetch();
        self.post();
        self.daemon(70, |_, _| {});
        self.post();
        self.daemon(77, DaemonSide::tick);
        self.frames();
        self.daemon(77, |daemon, _| {
            daemon
                .command(POOLED, order_of(plain_order(POOLED, 3, &[desired("ConfigMap", "a", "1")]), Some(status(3))));
            daemon.command(POOLED, placements(&["p"]));
        });
        self.frames();
        self.fetch();
        self.post();
        self.daemon(78, |_, _| {});
        self.goodbye();
        self.frames();
        self.daemon(79, |daemon, now| *daemon = DaemonSide::new(1, now));
        self.open(|_| {});
        self.frames();
    }
}
