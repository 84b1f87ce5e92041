//! 15: who owns an object that two placements want is decided by records and by the object's label, never by an order of starting.

use std::sync::Arc;
use std::time::Duration;

use config::Configuration;
use deliver::inventory::applyset_id;
use engine::Core;
use jiff::Timestamp;
use model::commands::Verb;
use model::id::{ClusterName, CommitId, ObjectKey, PlacementKey};
use model::tree::Tree;
use plan::simulate::Dice;
use simulated::{AgentGuards, AgentIdentity, Fact, SimulatedFleet};

use super::check::Verdict;
use super::replicas::LEASE;
use super::timeline::fate;
use super::{configuration_of, order, person, play_all};

/// Of the seeds of a run one of this number is run here.
const SHARE: u64 = 4;
/// How long everything has to come to rest.
const REST: Duration = Duration::from_mins(3);
/// How long a member or a store is away.
const AWAY: Duration = Duration::from_secs(40);
/// So much has time to happen.
const NEXT: u64 = 1;
const CLUSTERS: u64 = 2;

/// Who delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deliverer {
    Daemon,
    Replicas,
    Agents,
}

/// What happens to a settled fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// The process of the daemon ends, or of the leader.
    DaemonEnds,
    /// The process of the agent ends.
    AgentEnds,
    MemberAway,
    /// Somebody deletes the object.
    Stolen,
    /// The store is lost, and a person adopts the new one.
    StoreLost,
}

/// Who owns what, and who wants it as well.
struct Contest {
    simulation: SimulatedFleet,
    dice: Dice,
    owner: PlacementKey,
    other: PlacementKey,
    deliverer: Deliverer,
    commits: u64,
    /// The owner holds the object on all clusters.
    is_settled: bool,
}

fn document(kind: &str, name: &str, namespace: &str, more: &str) -> String {
    let namespace = if namespace.is_empty() { String::new() } else { format!(", namespace: {namespace}") };
    format!("---\napiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}{namespace}}}\n{more}")
}

impl Contest {
    fn begin(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0x0c0d_e57e);
        // Placements are decided, and their orders sent, by name.
        let names = if dice.chance(700) { ["m", "a"] } else { ["m", "z"] };
        let [owner, other] = names.map(PlacementKey::cluster_scoped);
        let deliverer =
            [Deliverer::Daemon, Deliverer::Replicas, Deliverer::Agents][usize::try_from(dice.below(3)).unwrap_or(0)];
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().expect("an instant");
        let mut simulation = SimulatedFleet::new(Self::configuration(deliverer), seed, start, Box::new(fate));
        if deliverer != Deliverer::Daemon {
            simulation.replicate(2, LEASE);
        }
        if deliverer == Deliverer::Agents {
            let pools = ["eu".to_owned()].into();
            let agent = AgentIdentity { name: "a".to_owned(), pools, is_strange: false };
            simulation.add_agents(vec![agent], Duration::from_secs(20), AgentGuards::default(), 0);
        }
        if dice.chance(300) {
            simulation.deployment.faults.payload_late = dice.between(1, 300);
        }
        Self { simulation, dice, owner, other, deliverer, commits: 0, is_settled: false }
    }

    fn configuration(deliverer: Deliverer) -> Configuration {
        let text = match deliverer {
            Deliverer::Agents => {
                let members = (0..CLUSTERS).map(|number| format!("{{name: c{number}, agent: {{pool: eu}}}}"));
                let members: Vec<String> = members.collect();
                format!("agents: {{listen: '127.0.0.1:0', lease: 20s}}\nmembers: [{}]", members.join(", "))
            }
            _ => "members: [{name: '*', kubeconfig: {path: /kubeconfig, context: '{name}'}}]".to_owned(),
        };
        configuration_of(&text, None, false)
    }

    /// Both placements select the Namespace `x` and what is in it, each from a folder of its own.
    fn push(&mut self, placements: &[&PlacementKey]) {
        let mut files: Vec<(String, String)> = Vec::new();
        for number in 0..CLUSTERS {
            let text = format!(
                "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {{name: c{number}}}\nspec: {{}}\n"
            );
            files.push((format!("clusters/c{number}.yaml"), text));
        }
        for placement in placements {
            let name = &placement.name;
            let objects = [
                document("Namespace", "x", "", ""),
                document("ConfigMap", "c", "x", &format!("data: {{of: {name}}}\n")),
            ];
            files.push((format!("apps/{name}/all.yaml"), objects.concat()));
            let text = format!(
                "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata:\n  name: {name}\n  \
                 annotations: {{gitfleet.io/path: apps/{name}, gitfleet.io/deletion-guard: 'Off', \
                 gitfleet.io/max-failures: '{}'}}\nspec:\n  resourceSelectors: [{{group: '', version: v1, kind: \
                 Namespace, name: x}}]\n  policy: {{placementType: PickAll}}\n  strategy: {{type: RollingUpdate, \
                 rollingUpdate: {{maxUnavailable: 100%, unavailablePeriodSeconds: 1}}}}\n",
                self.dice.below(2)
            );
            files.push((format!("placements/{name}.yaml"), text));
        }
        self.commits += 1;
        let id = CommitId::new(format!("{:08x}", self.commits));
        let selection = source::select(files.iter().map(|(path, _)| path.as_str()), None);
        let blobs = files.iter().enumerate().map(|(number, (path, text))| {
            let blob = format!("b{}-{number}", self.commits).as_str().into();
            (Arc::from(path.as_str()), blob, Arc::new(source::parse_blob(text.as_bytes())))
        });
        let tree: Arc<Tree> = Arc::new(source::assemble(Some(id.clone()), &selection, blobs).expect("it is good"));
        self.simulation.push(id, Ok(tree));
    }

    /// Lets time pass, and looks at the owner after each step.
    fn pass(&mut self, time: Duration) -> Verdict {
        self.simulation.at(time, NEXT);
        while let Some(facts) = self.simulation.step() {
            if let Some(Fact::Deleted { order, object, .. }) =
                facts.iter().find(|fact| matches!(fact, Fact::Deleted { .. }))
            {
                return Err(format!("15: {} deletes {object} on {}", order.placement, order.cluster));
            }
            self.is_owned()?;
            if facts.iter().any(|fact| matches!(fact, Fact::Mark(NEXT))) {
                return Ok(());
            }
        }
        Err("it ends".to_owned())
    }

    /// 15: no object of the owner is ever the other's.
    fn is_owned(&self) -> Verdict {
        let other = applyset_id(&self.other);
        for (cluster, member) in self.simulation.members.iter().filter(|_| self.is_settled) {
            if let Some((key, _)) = member.objects.iter().find(|(_, live)| *live.applyset == *other) {
                return Err(format!("15: {key} on {cluster} was of {}, and now is of {}", self.owner, self.other));
            }
        }
        Ok(())
    }

    /// The owner has everything on all clusters.
    fn is_whole(&self) -> Verdict {
        let owner = applyset_id(&self.owner);
        for number in 0..CLUSTERS {
            let cluster = ClusterName::new(format!("c{number}"));
            let objects = self.simulation.members.get(&cluster).map(|member| &member.objects);
            let held = objects.into_iter().flatten().filter(|(_, live)| *live.applyset == *owner);
            let held: Vec<String> = held.map(|(key, _)| key.to_string()).collect();
            if held != ["ConfigMap x/c", "Namespace x"] {
                return Err(format!("6: {cluster} has of {}: {held:?}", self.owner));
            }
        }
        Ok(())
    }

    fn troubles(&mut self) -> Vec<Trouble> {
        let mut all = vec![Trouble::DaemonEnds, Trouble::DaemonEnds, Trouble::MemberAway];
        if self.deliverer == Deliverer::Agents {
            all.push(Trouble::AgentEnds);
        }
        // Without a store and without a label nobody knows whose an object was: it is the first placement's by name.
        let loses = self.deliverer == Deliverer::Daemon && self.dice.chance(300);
        all.push(if loses { Trouble::StoreLost } else { Trouble::Stolen });
        let count = self.dice.between(3, 8);
        (0..count).filter_map(|_| self.dice.pick(&all).copied()).collect()
    }

    fn happen(&mut self, trouble: Trouble) -> Verdict {
        match trouble {
            Trouble::DaemonEnds if self.deliverer == Deliverer::Daemon => self.simulation.crash(),
            Trouble::DaemonEnds => {
                let leader = self.simulation.leader();
                self.simulation.kill(leader);
            }
            Trouble::AgentEnds => self.simulation.kill_agent(0, self.dice.chance(800)),
            Trouble::MemberAway => {
                let cluster = ClusterName::new(format!("c{}", self.dice.below(CLUSTERS)));
                self.simulation.set_reachable(&cluster, false);
                self.pass(AWAY)?;
                self.simulation.set_reachable(&cluster, true);
            }
            Trouble::Stolen => {
                let cluster = ClusterName::new(format!("c{}", self.dice.below(CLUSTERS)));
                let kind = if self.dice.chance(500) { "ConfigMap" } else { "Namespace" };
                let members = &self.simulation.members;
                let keys = members.get(&cluster).into_iter().flat_map(|member| member.objects.keys());
                let stolen: Option<ObjectKey> = keys.into_iter().find(|key| key.kind == kind).cloned();
                if let Some(key) = stolen {
                    self.simulation.steal(&cluster, &key);
                }
            }
            Trouble::StoreLost => {
                self.simulation.lose_store();
                self.pass(AWAY)?;
                for _ in 0..5 {
                    if self.simulation.core().and_then(Core::adoption_complaint).is_none() {
                        break;
                    }
                    self.simulation.execute(&order(Verb::Adopt, ""), &person(0));
                    self.pass(AWAY)?;
                }
            }
        }
        Ok(())
    }
}

fn play(seed: u64) -> Result<(Deliverer, usize), String> {
    let mut contest = Contest::begin(seed);
    let (owner, other) = (contest.owner.clone(), contest.other.clone());
    contest.push(&[&owner]);
    contest.pass(REST)?;
    contest.is_whole()?;
    contest.is_settled = true;
    contest.push(&[&owner, &other]);
    // Also while the other has not been refused yet.
    let pause = contest.dice.pick(&[Duration::from_secs(1), REST]).copied().unwrap_or(REST);
    contest.pass(pause)?;
    let troubles = contest.troubles();
    for trouble in &troubles {
        contest.happen(*trouble).map_err(|why| format!("{trouble:?}: {why}"))?;
        let pause = contest.dice.pick(&[Duration::from_secs(2), REST]).copied().unwrap_or(REST);
        contest.pass(pause).map_err(|why| format!("after {trouble:?} of {troubles:?}: {why}"))?;
    }
    contest.pass(REST + REST)?;
    contest.is_whole().map_err(|why| format!("after {troubles:?}: {why}"))?;
    Ok((contest.deliverer, troubles.len()))
}

/// 15: in every seed a settled owner keeps the object over restarts, reconnects, lost stores, agents and replicas.
#[test]
fn n01_a_settled_owner_keeps_the_object_whatever_begins_again() {
    let (count, played) = play_all(SHARE, &[], play);
    let of = |deliverer| played.iter().filter(|(of, _)| *of == deliverer).count();
    println!(
        "of {count} seeds {} have a daemon, {} replicas, {} agents",
        of(Deliverer::Daemon),
        of(Deliverer::Replicas),
        of(Deliverer::Agents)
    );
    assert!(played.iter().map(|(_, troubles)| troubles).sum::<usize>() > 0, "nothing happened");
}
