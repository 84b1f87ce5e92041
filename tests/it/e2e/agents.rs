//! Agents that deliver to real API servers: what arrives and comes back, cuts, kills, and members that move.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::Value;
use testservers::program;
use wire::{Acked, Reports, pack};

use crate::e2e::apiserver;
use crate::e2e::daemon::{Daemon, World, config_map, member_clusters, namespace, patch, placement, value};
use crate::e2e::facts::{node, pick_one};
use crate::e2e::fleet::{Member, free_port, http, write_count};
use crate::e2e::shared;
use crate::members::staged;

/// The shortest lease that the configuration allows.
const LEASE: &str = "3s";
/// Heartbeats that an agent at rest is watched for.
const BEATS: u64 = 5;

/// A world whose members agents can deliver to: their kubeconfigs lie in the folder `root`.
pub struct Edge {
    pub world: World,
    /// Where the daemon listens for agents.
    pub port: u16,
    agents: Vec<&'static str>,
}

impl Edge {
    /// Makes a world with a token for each of these agents, which may all join the pool `eu`.
    pub fn new(agents: &[&'static str]) -> Self {
        let world = World::new(None, &[]);
        fs::create_dir_all(world.path().join("root/kubeconfigs")).expect("a folder");
        for name in agents {
            fs::write(world.path().join(format!("{name}.token")), format!("token-of-{name}")).expect("a token");
        }
        Self { world, port: free_port().expect("a port"), agents: agents.to_vec() }
    }

    /// Gives agents the kubeconfigs of members.
    pub fn admit<'a>(&self, members: impl IntoIterator<Item = (&'a str, &'a Path)>) {
        for (name, kubeconfig) in members {
            let target = self.world.path().join("root/kubeconfigs").join(name);
            fs::copy(kubeconfig, target).expect("the kubeconfig is copied");
        }
    }

    /// Writes the configuration: members with the agent that delivers to each, the daemon where there is none.
    pub fn configure(&self, members: &[(&str, Option<&str>)], more: &str) {
        let mut text = String::from(
            "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {url: ./repo, branch: main}\nmembers:\n",
        );
        for (name, agent) in members {
            match agent {
                Some(agent) => {
                    writeln!(text, "- {{name: {name}, agent: {agent}, kubeconfig: {{path: kubeconfigs/{name}}}}}")
                }
                None => writeln!(text, "- {{name: {name}, kubeconfig: {{path: root/kubeconfigs/{name}}}}}"),
            }
            .expect("a string");
        }
        let http = self.world.port();
        write!(text, "store: {{path: ./state}}\nhttp: {{listen: '127.0.0.1:{http}'}}\n").expect("a string");
        let token = |name: &&str| format!("{{name: {name}, tokenFile: ./{name}.token, pools: [eu]}}");
        let tokens = self.agents.iter().map(token).collect::<Vec<_>>().join(", ");
        let listen = format!("agents:\n  listen: '127.0.0.1:{}'\n  lease: {LEASE}\n  tokens: [{tokens}]\n", self.port);
        text.push_str(&(listen + more));
        fs::write(self.world.config(), text).expect("the configuration is written");
    }

    /// Starts an agent that dials this port.
    pub fn agent(&self, name: &str, port: u16, more: &[&str]) -> Agent {
        let (token, state, server) =
            (format!("{name}.token"), format!("{name}-state"), format!("http://127.0.0.1:{port}"));
        let own = ["--server", &server, "--name", name, "--token-file", &token, "--state", &state, "--root", "root"];
        Agent::start(self.world.path(), name, &[&own, more].concat())
    }
}

/// A running agent, killed when dropped.
pub struct Agent {
    child: Child,
    /// Where it serves its probes.
    port: u16,
    log: std::path::PathBuf,
}

impl Agent {
    /// Starts an agent in a folder with these arguments; where it listens is chosen here.
    pub fn start(folder: &Path, name: &str, args: &[&str]) -> Self {
        let (port, log) = (free_port().expect("a port"), folder.join(format!("{name}.log")));
        let file = fs::File::options().create(true).append(true).open(&log).expect("the log opens");
        let mut command = Command::new(program());
        let command = command.arg("agent").args(args).args(["--listen", &format!("127.0.0.1:{port}")]);
        let command = command.env_remove("GITFLEET_LOG").env("NO_COLOR", "1").current_dir(folder);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).spawn().expect("the agent starts");
        Self { child, port, log }
    }

    pub fn is_connected(&self) -> bool {
        http("GET", self.port, "/readyz", &[], "").is_ok_and(|(status, _)| status == 200)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            eprintln!("--- {}\n{log}", self.log.display());
        }
    }
}

/// A way to a port of this machine that can be cut: then bytes stay where they are, and nobody is told.
struct Line {
    port: u16,
    is_cut: Arc<(Mutex<bool>, Condvar)>,
}

impl Line {
    fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let line = Self { port: listener.local_addr().expect("an address").port(), is_cut: Arc::default() };
        let is_cut = Arc::clone(&line.is_cut);
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                wait_while_cut(&is_cut);
                let Ok(far) = TcpStream::connect(("127.0.0.1", target)) else { continue };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().expect("a socket"), to.try_clone().expect("a socket"));
                    let is_cut = Arc::clone(&is_cut);
                    std::thread::spawn(move || pass(from, to, &is_cut));
                }
            }
        });
        line
    }

    fn set_cut(&self, is_cut: bool) {
        *self.is_cut.0.lock().expect("no thread panicked with it") = is_cut;
        self.is_cut.1.notify_all();
    }
}

fn wait_while_cut((is_cut, healed): &(Mutex<bool>, Condvar)) {
    let is_cut = is_cut.lock().expect("no thread panicked with it");
    drop(healed.wait_while(is_cut, |is_cut| *is_cut).expect("no thread panicked with it"));
}

fn pass(mut from: TcpStream, mut to: TcpStream, is_cut: &(Mutex<bool>, Condvar)) {
    let mut bytes = [0; 16 * 1024];
    loop {
        let read = from.read(&mut bytes);
        wait_while_cut(is_cut);
        match read {
            Ok(count) if count > 0 && to.write_all(&bytes[..count]).is_ok() => {}
            _ => break,
        }
    }
    // Either side may be gone already.
    drop(to.shutdown(Shutdown::Write));
}

fn of_members(members: &[Member]) -> impl Iterator<Item = (&str, &Path)> {
    members.iter().map(|member| (member.name.as_str(), member.kubeconfig.as_path()))
}

fn cluster(daemon: &Daemon<'_>, name: &str) -> Value {
    let found = daemon.get("clusters").into_iter().find(|cluster| cluster["metadata"]["name"] == name);
    found.unwrap_or_default()
}

/// Returns the identity of a ConfigMap: one that was removed and made again has another.
fn identity(member: &Member, namespace: &str, name: &str) -> Value {
    let found = member.get(namespace, "configmap", name).expect("the member answers");
    found.expect("it is there")["metadata"]["uid"].clone()
}

fn await_offline(daemon: &Daemon<'_>, name: &str, why: &str) {
    daemon.until(&format!("{name} is offline: {why}"), || cluster(daemon, name).to_string().contains(why));
}

#[test]
fn an_agent_delivers_as_the_daemon_does_and_continues_through_a_cut() {
    let (near, far) = (&shared().members[0], &shared().members[2]);
    let edge = Edge::new(&["edge"]);
    edge.admit(of_members(&shared().members));
    edge.configure(&[(&near.name, None), (&far.name, Some("edge"))], "");
    let world = &edge.world;
    let of_namespace = "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ResourcePlacement\n\
        metadata: {name: inner, namespace: agents}\nspec:\n  policy: {placementType: PickAll}\n  \
        resourceSelectors: [{group: '', version: v1, kind: ConfigMap, name: inner}]\n";
    let only_far = format!("  policy: {{placementType: PickFixed, clusterNames: [{}]}}\n", far.name);
    let outer =
        placement("agents", &only_far).replace("name: agents}\n", "name: agents, selectionScope: NamespaceOnly}\n");
    let app =
        |version: &str| [placement("edged", ""), namespace("edged"), config_map("edged", "settings", version)].concat();
    let large = [placement("large", &pick_one(30)), namespace("large")].concat();
    let inner = [outer.as_str(), of_namespace, &namespace("agents"), &config_map("agents", "inner", "1")].concat();
    world.write("fleet.yaml", &member_clusters([near.name.as_str(), &far.name]));
    world.write("app.yaml", &app("1"));
    world.write("more.yaml", &[inner, large].concat());
    world.commit("One");
    let daemon = world.start();
    let line = Line::to(edge.port);
    let agent = edge.agent("edge", line.port, &[]);
    daemon.await_rolled_out("edged", 0);
    assert_eq!((value(near, "edged", "settings"), value(far, "edged", "settings")), ("1".into(), "1".into()));

    // What the agent sees of its member decides where things go.
    daemon.until("what lives in a namespace follows it", || value(far, "agents", "inner") == "1");
    assert_eq!(value(near, "agents", "inner"), "", "the other member has no such namespace");
    far.kubectl_apply(&node("agents-large", "64", "8Gi")).expect("a node");
    daemon.await_rolled_out("large", 0);
    assert_eq!(crate::e2e::scheduling::picked(&daemon, "large"), [far.name.as_str()]);
    far.kubectl(&["delete", "node", "agents-large"]).expect("the node goes");
    patch(far, "edged", "settings", "by hand");
    daemon.until("drift is put back", || value(far, "edged", "settings") == "1");
    // While an object is put back its cluster counts as unavailable, also for as long as it does not answer, and the other one would wait.
    daemon.await_rolled_out("edged", 0);

    // Through a cut the agent continues alone, and nothing is removed.
    let before = identity(far, "edged", "settings");
    line.set_cut(true);
    await_offline(&daemon, &far.name, "agent edge is not connected any more: it was not heard for 3 s");
    world.write("app.yaml", &app("2"));
    world.commit("Two");
    daemon.until("the other continues", || value(near, "edged", "settings") == "2");
    patch(far, "edged", "settings", "by hand");
    daemon.until("drift is put back without the daemon", || value(far, "edged", "settings") == "1");
    line.set_cut(false);
    daemon.await_rolled_out("edged", 1);
    assert_eq!(value(far, "edged", "settings"), "2");
    assert_eq!(identity(far, "edged", "settings"), before, "nothing was removed meanwhile");
    assert!(agent.is_connected());
}

#[test]
fn a_pool_whose_agent_is_cut_writes_nothing_until_another_has_the_member() {
    let member = &shared().members[1];
    let edge = Edge::new(&["eu-1", "eu-2"]);
    edge.admit(of_members(&shared().members));
    edge.configure(&[(&member.name, Some("{pool: eu}"))], "");
    let world = &edge.world;
    let quota = |pods: &str| {
        format!(
            "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: q, namespace: pooled}}\nspec: {{hard: {{pods: '{pods}'}}}}\n"
        )
    };
    let held = || {
        let found = member.get("pooled", "resourcequota", "q").ok().flatten();
        found.map(|quota| quota["spec"]["hard"]["pods"].as_str().unwrap_or_default().to_owned()).unwrap_or_default()
    };
    let app = |pods: &str| [placement("pooled", ""), namespace("pooled"), quota(pods)].concat();
    world.write("fleet.yaml", &member_clusters([member.name.as_str()]));
    world.write("app.yaml", &app("1"));
    world.commit("One");
    let daemon = world.start();
    let line = Line::to(edge.port);
    let first = edge.agent("eu-1", line.port, &["--pool", "eu"]);
    daemon.await_rolled_out("pooled", 0);
    line.set_cut(true);
    await_offline(&daemon, &member.name, "agent eu-1 is not connected any more");
    member.kubectl_apply(&quota("7")).expect("a change by hand");
    world.write("app.yaml", &app("2"));
    world.commit("Two");
    daemon.await_status("waits for offline clusters");
    assert_eq!(held(), "7", "its lease is over: the first writes nothing");
    let second = edge.agent("eu-2", edge.port, &["--pool", "eu"]);
    daemon.await_rolled_out("pooled", 1);
    assert_eq!(held(), "2");

    // The first comes back while the second is killed.
    line.set_cut(false);
    daemon.until("both are connected", || daemon.metric("gitfleet_agents") == 2);
    drop(second);
    world.write("app.yaml", &app("3"));
    world.commit("Three");
    daemon.await_rolled_out("pooled", 2);
    assert_eq!(held(), "3");
    assert!(first.is_connected());
}

/// Objects that the staged rollout brings to each member.
const ROLES: usize = 20;

/// A kind that no other test of this fleet writes.
fn roles(version: usize) -> String {
    (0..ROLES).fold(String::new(), |mut text, number| {
        write!(
            text,
            "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: r{number}, namespace: gated}}\n\
             rules: [{{apiGroups: [''], resources: [pods], verbs: [get], resourceNames: ['{version}']}}]\n"
        )
        .expect("a string");
        text
    })
}

#[test]
fn an_agent_that_is_killed_in_a_staged_rollout_skips_no_gate_and_writes_nothing_twice() {
    let members = &shared().members;
    let edge = Edge::new(&["edge"]);
    edge.admit(of_members(members));
    let all: Vec<(&str, Option<&str>)> = members.iter().map(|member| (member.name.as_str(), Some("edge"))).collect();
    edge.configure(&all, "");
    let world = &edge.world;
    let write = |version: usize| {
        world.write("app.yaml", &[staged::rollout("gated"), namespace("gated"), roles(version)].concat());
        world.commit("Next");
    };
    let held = |member: &Member| {
        let found = member.get("gated", "role", "r0").ok().flatten();
        found.and_then(|role| role["rules"][0]["resourceNames"][0].as_str()?.parse().ok()).unwrap_or(0)
    };
    let writes = || -> Vec<u64> {
        members.iter().map(|member| write_count(&member.metrics().expect("metrics"), "roles")).collect()
    };
    let started = || world.logged("rolling out to cluster").len();
    world.write("fleet.yaml", &staged::clusters(members));
    write(1);
    let daemon = world.start();
    let mut agent = edge.agent("edge", edge.port, &[]);
    for version in 1..=2 {
        let (run, before, already) = (format!("gated-{}", version - 1), writes(), 3 * (version - 1));
        if version > 1 {
            write(version);
        }
        daemon.until("the canary is started", || started() > already);
        drop(agent);
        agent = edge.agent("edge", edge.port, &[]);
        daemon.until("it waits for a yes", || staged::reason(&daemon, &run, "Progressing") == "UpdateRunWaiting");
        drop(agent);
        let approved = world.gitfleet(&["approve", &run, "canary", "-c", "gitfleet.yaml"]);
        assert!(approved.status.success(), "{}", String::from_utf8_lossy(&approved.stderr));
        assert_eq!(held(&members[0]), version, "the canary has it");
        assert!(members[1..].iter().all(|member| held(member) == version - 1), "and nobody else");
        agent = edge.agent("edge", edge.port, &[]);
        daemon.until("another cluster is started", || started() > already + 1);
        drop(agent);
        agent = edge.agent("edge", edge.port, &[]);
        let succeeded = || staged::reason(&daemon, &run, "Succeeded") == "UpdateRunSucceeded";
        daemon.until("the run arrives", succeeded);
        assert!(members.iter().all(|member| held(member) == version));
        let more: Vec<u64> = writes().iter().zip(&before).map(|(after, before)| after - before).collect();
        // What was in flight at a kill may have been written without an answer, and is asked for once more.
        assert!(more.iter().all(|count| (ROLES as u64..=2 * ROLES as u64).contains(count)), "{more:?}");
    }
    drop(agent);
}

#[test]
fn a_member_moves_between_agents_and_the_daemon_without_a_second_writer() {
    let member = &shared().members[1];
    let edge = Edge::new(&["one", "two"]);
    edge.admit(of_members(&shared().members));
    edge.configure(&[(&member.name, None)], "");
    let world = &edge.world;
    // A kind that no other test of this fleet writes.
    let app = |version: usize| {
        let class = format!(
            "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: p, namespace: moving}}\n\
             spec: {{podSelector: {{matchLabels: {{version: v{version}}}}}}}\n"
        );
        [placement("moving", ""), namespace("moving"), class].concat()
    };
    let held = || {
        let found = member.get("moving", "networkpolicy", "p").ok().flatten();
        let label = found.map(|policy| policy["spec"]["podSelector"]["matchLabels"]["version"].clone());
        label.and_then(|label| label.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let writes = || write_count(&member.metrics().expect("metrics"), "networkpolicies");
    world.write("fleet.yaml", &member_clusters([member.name.as_str()]));
    world.write("app.yaml", &app(0));
    world.commit("Zero");
    let daemon = world.start();
    let _agents = ["one", "two"].map(|name| edge.agent(name, edge.port, &[]));
    daemon.await_rolled_out("moving", 0);
    let answered = || world.logged("cluster answers").iter().filter(|(_, cluster)| *cluster == member.name).count();
    let owners = [Some("one"), Some("two"), None, Some("two"), Some("one"), None];
    for (owner, version) in owners.into_iter().zip(1..) {
        let (before, already) = (writes(), answered());
        edge.configure(&[(&member.name, owner)], "");
        // Counts are exact only after the move: what the earlier owner had in flight may be asked for once more.
        daemon.until("the member has moved", || answered() > already);
        world.write("app.yaml", &app(version));
        world.commit("Next");
        daemon.await_rolled_out("moving", version as u64);
        assert_eq!(held(), format!("v{version}"));
        member.kubectl(&["-n", "moving", "delete", "networkpolicy", "p"]).expect("a deletion by hand");
        daemon.until("it is put back", || held() == format!("v{version}"));
        assert_eq!(writes() - before, 3, "{owner:?}: one for the commit, one by hand, one to put it back");
    }
}

#[test]
fn an_agent_at_rest_sends_heartbeats_and_nothing_else() {
    let server = apiserver::Server::start(&apiserver::Options::clusters(1)).expect("the double starts");
    let (name, edge) = (apiserver::name(0), Edge::new(&["edge"]));
    edge.admit([(name.as_str(), server.kubeconfig(&name).as_path())]);
    edge.configure(&[(&name, Some("edge"))], "");
    let world = &edge.world;
    world.write("fleet.yaml", &member_clusters([name.as_str()]));
    world.write("a.yaml", &[placement("rest", ""), namespace("rest"), config_map("rest", "a", "1")].concat());
    world.commit("One");
    let daemon = world.start();
    let agent = edge.agent("edge", edge.port, &[]);
    daemon.await_rolled_out("rest", 0);
    // As random as a real one: bodies are compressed.
    let session = "0c7d204538fc738454f779f2b6fee895aca95bab6b2f9efb1fc0f9c84dd44089".to_owned();
    let beat = pack(&Reports { session, seq: 10, events: Vec::new() }).expect("a body").len() as u64;
    let ack = pack(&Acked { acked: 10 }).expect("a body").len() as u64;
    let counts = || {
        let bytes = ["received", "sent"].map(|way| daemon.metric(&format!("gitfleet_agent_{way}_bytes_total")));
        (bytes, server.counters()["requests"].clone())
    };
    // What was reported last may still be on its way.
    daemon.until("heartbeats come and nothing else", || {
        let ([received, sent], requests) = counts();
        let mut now = counts();
        daemon.until("heartbeats", || {
            now = counts();
            now.0[0] >= received + BEATS * beat
        });
        // As many answers as heartbeats: a report would be longer, an order would come without a heartbeat.
        now.0[1] - sent >= BEATS * ack && now.0[1] - sent <= (BEATS + 1) * (ack + 2) && now.1 == requests
    });
    assert!(agent.is_connected());
}
