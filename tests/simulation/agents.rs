//! 13: with agents, a member has one writer at every instant, and an agent follows no server that another has replaced. All other promises
//! hold as without agents.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use config::Configuration;
use jiff::Timestamp;
use model::id::{ClusterName, PlacementKey};
use model::work::WorkOrder;
use plan::simulate::Dice;
use simulated::{AgentGuards, AgentIdentity, Fact, MachineFact, agent_of};

use super::check::Verdict;
use super::digests::{self, Fleet};
use super::pairs;
use super::replicas::{LEASE, Watched};
use super::runs::Rules;
use super::timeline::CLUSTERS_MAX;
use super::{Line, Run, configuration_of, is_each_missed, play_all};

/// Of the seeds of a run one of this number is run here.
const SHARE: u64 = 4;
/// How long a silent agent keeps its members.
const AGENT_LEASE: Duration = Duration::from_secs(20);
/// How long something is wrong with an agent, in seconds: some outlasts the lease.
const WRONG_S: (u64, u64) = (1, 90);
/// Faults come within so many milliseconds: see `END`.
const UNTIL_MS: u64 = 600_000;
/// Seeds that are tried until a guard is missed that is switched off.
const FORGED_MAX: u64 = 40;

/// Something goes wrong with an agent.
pub const FAULT: u64 = 80;

/// What delivers to a member, as its entry of the configuration says.
const ENTRIES: [&str; 3] = ["agent: {pool: eu}, ", "agent: edge, ", "kubeconfig: {path: /k, context: c}, "];
/// The agent that has a name in entries; the others are of the pool.
const NAMED: usize = 2;

/// The agents of a seed, and what was seen of them.
pub struct WatchedAgents {
    dice: Dice,
    guards: AgentGuards,
    /// Which entry each cluster has.
    entries: Vec<usize>,
    rules: Option<Rules>,
    seen: Seen,
    shown: Shown,
}

/// Names an order.
type OrderName = (ClusterName, PlacementKey, i64, u64, bool);

fn order_name(order: &WorkOrder) -> OrderName {
    (order.cluster.clone(), order.placement.clone(), order.generation, order.snapshot, order.remove)
}

/// What was seen.
#[derive(Default)]
struct Seen {
    /// Who was given each member, and when.
    given: BTreeMap<ClusterName, Vec<(Timestamp, Option<usize>)>>,
    /// Members that the named agent was told to run, and when.
    told: Vec<(Timestamp, BTreeSet<ClusterName>)>,
    /// The highest epoch that each agent saw.
    epochs: BTreeMap<usize, u64>,
    heard: BTreeSet<(String, u64)>,
    /// When each order was given last: its member, placement, generation and snapshot, and whether it removes.
    ordered: BTreeMap<OrderName, Timestamp>,
    /// When the newest epoch began.
    led: Timestamp,
    /// The member's entry changed then.
    moved: BTreeMap<ClusterName, Timestamp>,
    /// Another has the member that was written to last: the request was under way for long.
    wrote_late: bool,
}

/// What a seed has shown.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    by_agents: usize,
    moves: usize,
    /// Writes of a named agent that has not heard that its member is another's: docs/design/057.
    untold: usize,
    /// Writes of an agent whose member's entry had changed a moment before another daemon began to lead.
    unknown: usize,
}

impl WatchedAgents {
    fn of(seed: u64, guards: AgentGuards) -> Self {
        let mut dice = Dice::new(seed ^ 0x0a9e_7a9e);
        let entry = |_| [0, 0, 0, 1, 1, 2][usize::try_from(dice.below(6)).unwrap_or(0)];
        let entries = (0..CLUSTERS_MAX).map(entry).collect();
        Self { dice, guards, entries, rules: None, seen: Seen::default(), shown: Shown::default() }
    }

    fn configuration(&self, has_tenant: bool) -> Configuration {
        let entry = |(number, entry): (usize, &usize)| {
            format!("{{name: c{number}, {}}}", ENTRIES[*entry].trim_end_matches(", "))
        };
        let entries: Vec<String> = self.entries.iter().enumerate().map(entry).collect();
        let (lease, entries) = (AGENT_LEASE.as_secs(), entries.join(", "));
        let text = format!("agents: {{listen: '127.0.0.1:0', lease: {lease}s}}\nmembers: [{entries}]");
        configuration_of(&text, self.rules, has_tenant)
    }

    fn see(&mut self, fact: &Fact, now: Timestamp) -> Verdict {
        match fact {
            Fact::Own(MachineFact::Wrote { agent, cluster, passed, .. }) => {
                self.shown.by_agents += usize::from(agent.is_some());
                self.wrote(*agent, cluster, *passed)
            }
            Fact::Sent { order, connection: (life, _) } => self.sent(agent_of(*life), order),
            _ => self.seen.see(fact, now).map(|moved| self.shown.moves += usize::from(moved)),
        }
    }

    /// Whoever gets a member back delivers nothing of what it was told to before another had the member.
    fn sent(&self, agent: Option<usize>, order: &WorkOrder) -> Verdict {
        let given = self.seen.given.get(&order.cluster).map(Vec::as_slice).unwrap_or_default();
        let is_own = |(_, of): &&(Timestamp, Option<usize>)| *of == agent;
        let others = given.iter().rev().skip_while(is_own).take_while(|entry| !is_own(entry)).last();
        // Without a lease an agent with a name continues with its last orders until it gets new ones.
        let Some((since, of)) =
            others.filter(|_| given.last().is_some_and(|last| is_own(&last)) && agent != Some(NAMED))
        else {
            return Ok(());
        };
        if self.seen.ordered.get(&order_name(order)).is_some_and(|at| at >= since) {
            return Ok(());
        }
        Err(format!(
            "13: {} delivers generation {} of {} to {}, which was ordered before {} had it at {since}",
            name(agent),
            order.generation,
            order.placement,
            order.cluster,
            name(*of)
        ))
    }

    /// Whoever writes to a member is the one that was given it last when the write began.
    fn wrote(&mut self, agent: Option<usize>, cluster: &ClusterName, passed: Timestamp) -> Verdict {
        let given = self.seen.given.get(cluster).map(Vec::as_slice).unwrap_or_default();
        self.seen.wrote_late = given.last().is_some_and(|(_, of)| *of != agent);
        if was(given, passed, |of| *of == agent) {
            return Ok(());
        }
        if self.seen.is_untold(agent, cluster, passed) {
            self.shown.untold += 1;
            return Ok(());
        }
        // A new leader does not know who had a member whose entry changed a moment before.
        let is_unknown = self.seen.moved.get(cluster).is_some_and(|moved| {
            *moved <= self.seen.led && self.seen.led <= *moved + 2 * AGENT_LEASE && passed < self.seen.led + AGENT_LEASE
        });
        if is_unknown {
            self.shown.unknown += 1;
            return Ok(());
        }
        let last = given.iter().rev().find(|(at, _)| *at < passed);
        Err(format!("13: {cluster} is written by {} at {passed}, and {last:?} has it", name(agent)))
    }
}

impl Seen {
    /// Tells whether a named agent was told last, at an instant, that a member is its own: it delivers without a server, so it continues
    /// until it hears that another has it. A request that it began before may arrive after it heard.
    fn is_untold(&self, agent: Option<usize>, cluster: &ClusterName, at: Timestamp) -> bool {
        agent == Some(NAMED) && was(&self.told, at, |told| told.contains(cluster))
    }

    /// Looks at one thing that happened. Returns whether a member went to another.
    fn see(&mut self, fact: &Fact, now: Timestamp) -> Result<bool, String> {
        match fact {
            Fact::Own(MachineFact::Led { .. }) => self.led = now,
            Fact::Ordered(order) => drop(self.ordered.insert(order_name(order), now)),
            Fact::Own(MachineFact::Given { agent, cluster }) => {
                let given = self.given.entry(cluster.clone()).or_default();
                let is_other = given.last().is_some_and(|(_, of)| of != agent);
                given.push((now, *agent));
                return Ok(is_other);
            }
            Fact::Own(MachineFact::Told { agent: NAMED, members }) => self.told.push((now, members.clone())),
            Fact::Own(MachineFact::DiskLost(agent)) => {
                self.epochs.remove(agent);
            }
            Fact::Own(MachineFact::Executed { agent, epoch }) => {
                let newest = self.epochs.entry(*agent).or_default();
                if epoch < newest {
                    return Err(format!("13: agent {agent} follows epoch {epoch}, and it saw epoch {newest}"));
                }
                *newest = *epoch;
            }
            Fact::Own(MachineFact::Heard { session, number }) if !self.heard.insert((session.clone(), *number)) => {
                return Err(format!("13: request {number} of session {session} is taken twice"));
            }
            _ => {}
        }
        Ok(false)
    }
}

/// Tells whether something was so at an instant, by what it became and when. What happens in one instant has no order.
fn was<T>(history: &[(Timestamp, T)], instant: Timestamp, is_so: impl Fn(&T) -> bool) -> bool {
    let (before, since) = history.split_at(history.partition_point(|(at, _)| *at < instant));
    let then = since.iter().take_while(|(at, _)| *at == instant);
    before.last().into_iter().chain(then).any(|(_, it)| is_so(it))
}

fn name(agent: Option<usize>) -> String {
    agent.map_or_else(|| "the daemon".to_owned(), |agent| format!("agent {agent}"))
}

impl Run {
    /// Begins with agents, beside the replicas.
    pub(super) fn employ(&mut self, mut watched: WatchedAgents, rules: Option<Rules>) {
        let identity = |(name, pools): (&str, &[&str])| AgentIdentity {
            name: name.to_owned(),
            pools: pools.iter().map(|pool| (*pool).to_owned()).collect(),
            is_strange: false,
        };
        let mut agents: Vec<AgentIdentity> =
            [("a", &["eu"][..]), ("b", &["eu"][..]), ("edge", &[][..])].map(identity).into();
        for agent in &mut agents {
            agent.is_strange = watched.dice.chance(300);
        }
        let twice = if watched.dice.chance(500) { watched.dice.between(1, 300) } else { 0 };
        watched.rules = rules;
        self.simulation.begin_with(watched.configuration(self.timeline.has_tenant));
        self.simulation.add_agents(agents, AGENT_LEASE, watched.guards, twice);
        for _ in 0..watched.dice.between(4, 14) {
            self.simulation.at(Duration::from_millis(watched.dice.between(5_000, UNTIL_MS)), FAULT);
        }
        // Nobody hears in time what becomes of a cluster whose agent is cut off, and what it wrote meanwhile.
        self.checker.is_lenient = true;
        self.agents = Some(watched);
    }

    pub(super) fn watch_agents(&mut self, fact: &Fact) -> Verdict {
        let now = self.simulation.now;
        let Some(watched) = &mut self.agents else { return Ok(()) };
        if let Fact::Own(MachineFact::Given { cluster, .. }) = fact {
            // What an earlier writer had under way was cut.
            self.checker.give_up(cluster);
        }
        watched.see(fact, now)
    }

    /// Tells whether a fact is a request, or its answer, of a named agent that was not told that its member is another's: two of them
    /// write, as docs/design/052 says, so one order at a time (promise 5) holds for each alone.
    pub(super) fn is_of_untold(&self, fact: &Fact) -> bool {
        let (Fact::Sent { order, connection: (life, _) } | Fact::Answered { order, connection: (life, _) }) = fact
        else {
            return false;
        };
        let (agent, cluster, now) = (agent_of(*life), &order.cluster, self.simulation.now);
        self.agents.as_ref().is_some_and(|WatchedAgents { seen, .. }| {
            let has_it = seen.given.get(cluster).and_then(|given| given.last()).is_none_or(|(_, of)| *of == agent);
            !has_it && seen.is_untold(agent, cluster, now)
        })
    }

    /// What such an agent puts back of a placement that does not go there any more stays: nobody decides about it.
    pub(super) fn note_untold(&mut self, fact: &Fact) {
        let (Fact::Sent { order, .. } | Fact::Answered { order, .. }) = fact else { return };
        let spot = (order.placement.clone(), order.cluster.clone());
        if !self.checker.is_bound(&spot) {
            self.checker.forgotten.insert(spot);
        }
    }

    /// An inventory that such a request makes again stays, where its placement is gone meanwhile: nobody decides about it.
    pub(super) fn note_late(&mut self, fact: &Fact) {
        let Fact::Inventory { order, holds: Some(_) } = fact else { return };
        let is_late = self.agents.as_ref().is_some_and(|watched| watched.seen.wrote_late);
        let spot = (order.placement.clone(), order.cluster.clone());
        if is_late && !self.checker.is_bound(&spot) {
            self.checker.forgotten.insert(spot);
        }
    }

    /// Something goes wrong with an agent, or a member moves to another.
    pub(super) fn fail_agent(&mut self) {
        let Some(watched) = &mut self.agents else { return };
        let dice = &mut watched.dice;
        let agent = usize::try_from(dice.below(3)).unwrap_or(0);
        let length = Duration::from_secs(dice.between(WRONG_S.0, WRONG_S.1));
        let server = usize::try_from(dice.below(self.simulation.replicas() as u64)).unwrap_or(0);
        let number = dice.below(CLUSTERS_MAX);
        let words = match dice.below(9) {
            0 => {
                self.simulation.reset_agent(agent);
                format!("the connections of agent {agent} are CUT")
            }
            1 | 2 => {
                self.simulation.cut_agent(agent, server, length);
                format!("agent {agent} is cut off from REPLICA {server} for {length:?}")
            }
            3 => {
                (0..self.simulation.replicas()).for_each(|server| self.simulation.cut_agent(agent, server, length));
                format!("agent {agent} is cut off from ALL replicas for {length:?}")
            }
            4 => {
                let keeps = dice.chance(700);
                self.simulation.kill_agent(agent, keeps);
                format!("agent {agent} is KILLED")
            }
            5 | 6 => {
                self.simulation.pause_agent(agent, length);
                format!("agent {agent} is STOPPED for {length:?}")
            }
            7 => {
                let cluster = ClusterName::new(format!("c{number}"));
                self.simulation.cut_agent_from_member(agent, &cluster, length);
                format!("agent {agent} is cut off from {cluster} for {length:?}")
            }
            _ => {
                let entry = usize::try_from(dice.below(ENTRIES.len() as u64)).unwrap_or(0);
                watched.entries[usize::try_from(number).unwrap_or(0)] = entry;
                let configuration = watched.configuration(self.timeline.has_tenant);
                watched.seen.moved.insert(ClusterName::new(format!("c{number}")), self.simulation.now);
                self.simulation.reconfigure(configuration);
                format!("c{number} MOVES: {}", ENTRIES[entry])
            }
        };
        self.say_that(words);
    }
}

/// Returns what a seed has shown, and the digest of its trace.
fn play(seed: u64, guards: AgentGuards) -> Result<(Shown, String, pairs::Hits), String> {
    let mut run = begin(seed, guards);
    run.finish()?;
    let digest = digests::of_run(&run);
    Ok((run.agents.map(|watched| watched.shown).unwrap_or_default(), digest, run.pairs.end(&run.simulation.store)))
}

fn begin(seed: u64, guards: AgentGuards) -> Run {
    let watched = Watched::beside_agents(seed);
    Run::begin_with(seed, Some(watched), Some(WatchedAgents::of(seed, guards)))
}

/// Every promise holds with agents, too, and a seed is the same twice, and as the kept digests say.
#[test]
fn agents_keep_the_promises() {
    let (count, played) = play_all(SHARE, &[], |seed| match play(seed, AgentGuards::default()) {
        Ok((shown, digest, met)) => {
            let again = || play(seed, AgentGuards::default()).is_ok_and(|(_, again, _)| again == digest);
            if seed.is_multiple_of(super::TWICE_EVERY) && !again() {
                return Err("8: it is not the same twice".to_owned());
            }
            Ok(((shown, met), (seed, digest)))
        }
        Err(why) => {
            let again = "cargo test --test simulation -- --nocapture one_seed_with_agents";
            Err(format!("{why:.300}\n  GITFLEET_SEED={seed} {again}"))
        }
    });
    let (shown, digests): (Vec<_>, Vec<_>) = played.into_iter().unzip();
    let (shown, hits): (Vec<_>, Vec<_>) = shown.into_iter().unzip();
    pairs::write(Fleet::Agents, hits);
    let sum = |of: fn(&Shown) -> usize| shown.iter().map(of).sum::<usize>();
    let (by_agents, moves, untold) = (sum(|s| s.by_agents), sum(|s| s.moves), sum(|s| s.untold));
    println!(
        "{count} seeds with agents: {by_agents} writes by agents, {moves} members went to another, {untold} writes of an agent that was not \
         told, {} of one that a new leader did not know",
        sum(|s| s.unknown)
    );
    assert!(count < 20 || by_agents > 0 && moves > 0, "the seeds show little");
    digests::compare(Fleet::Agents, digests);
}

/// One seed with agents, with its whole trace where `--nocapture` shows it.
#[test]
fn one_seed_with_agents() {
    let seed = super::number("GITFLEET_SEED").unwrap_or(1);
    let mut run = begin(seed, AgentGuards::default());
    let verdict = run.finish();
    println!("{}", digests::text_of(&run));
    let is_given = |line: &Line| matches!(line, Line::Seen(Fact::Own(MachineFact::Given { agent: Some(_), .. })));
    assert!(run.trace.0.iter().any(|(_, line)| is_given(line)), "no agent was given anything in seed {seed}");
    assert_eq!(verdict, Ok(()), "seed {seed}");
}

#[test]
fn a_missing_guard_of_agents_is_caught() {
    let guarded = AgentGuards::default();
    let rows = [
        ("agents ignore their lease", AgentGuards { lease: false, ..guarded }, "is written by agent", 8),
        ("members are given away too early", AgentGuards { patience: false, ..guarded }, "is written by agent", 7),
        ("a report is taken twice", AgentGuards { once: false, ..guarded }, "is taken twice", 1),
    ];
    is_each_missed("13:", FORGED_MAX, &rows, |seed, guards| play(seed, guards).map(drop));
}

/// A name, what happened at which second, and what the check says.
type ForgedRow = (&'static str, Vec<(i64, Fact)>, Option<&'static str>);

/// Forged facts are caught.
#[test]
#[allow(clippy::too_many_lines, reason = "a table reads better so")]
fn a_forged_history_of_agents_is_caught() {
    let at = |second: i64| Timestamp::from_second(1_000_000 + second).expect("an instant");
    let given = |agent| Fact::Own(MachineFact::Given { agent, cluster: "a".into() });
    let wrote = |agent, passed| {
        Fact::Own(MachineFact::Wrote { agent, cluster: "a".into(), epoch: 1, passed: at(passed), left: at(passed) })
    };
    let heard = |number| Fact::Own(MachineFact::Heard { session: "s".to_owned(), number });
    let follows = |agent, epoch| Fact::Own(MachineFact::Executed { agent, epoch });
    let told = |agent, members: &[&str]| {
        Fact::Own(MachineFact::Told { agent, members: members.iter().map(|name| (*name).into()).collect() })
    };
    let order = |generation| super::forged::order("a", generation);
    let ordered = |generation| Fact::Ordered(order(generation));
    let sent =
        |agent: u64, generation| Fact::Sent { order: order(generation), connection: (1_000_000 * (agent + 1), 1) };
    let rows: [ForgedRow; 14] = [
        (
            "one after the other",
            vec![(0, given(Some(0))), (2, wrote(Some(0), 1)), (5, given(Some(1))), (7, wrote(Some(1), 6))],
            None,
        ),
        (
            "a late write that began in its time",
            vec![(0, given(Some(0))), (5, given(Some(1))), (9, wrote(Some(0), 4))],
            None,
        ),
        (
            "two writers",
            vec![(0, given(Some(0))), (5, given(Some(1))), (9, wrote(Some(0), 6))],
            Some("13: a is written by agent 0"),
        ),
        (
            "a writer that was given nothing",
            vec![(0, given(Some(0))), (9, wrote(Some(1), 6))],
            Some("13: a is written by agent 1"),
        ),
        (
            "the daemon and an agent",
            vec![(0, given(Some(0))), (5, given(None)), (9, wrote(Some(0), 6))],
            Some("13: a is written by agent 0"),
        ),
        (
            "an agent and the daemon",
            vec![(0, given(None)), (5, given(Some(0))), (9, wrote(None, 6))],
            Some("13: a is written by the daemon"),
        ),
        (
            "a named agent that was not told",
            vec![(0, given(Some(NAMED))), (1, told(NAMED, &["a"])), (5, given(Some(1))), (9, wrote(Some(NAMED), 6))],
            None,
        ),
        (
            "a named agent that was told",
            vec![
                (0, given(Some(NAMED))),
                (1, told(NAMED, &["a"])),
                (5, given(Some(1))),
                (6, told(NAMED, &[])),
                (9, wrote(Some(NAMED), 7)),
            ],
            Some("13: a is written by agent 2"),
        ),
        (
            "what a named agent began before it was told",
            vec![
                (0, given(Some(NAMED))),
                (1, told(NAMED, &["a"])),
                (5, given(None)),
                (8, told(NAMED, &[])),
                (9, wrote(Some(NAMED), 7)),
            ],
            None,
        ),
        (
            "what was ordered before another had it",
            vec![
                (0, given(Some(0))),
                (1, ordered(1)),
                (2, sent(0, 1)),
                (5, given(Some(1))),
                (9, given(Some(0))),
                (9, sent(0, 1)),
            ],
            Some("13: agent 0 delivers generation 1 of p to a, which was ordered before agent 1 had it"),
        ),
        (
            "what was ordered since",
            vec![
                (0, given(Some(0))),
                (1, ordered(1)),
                (5, given(Some(1))),
                (6, ordered(2)),
                (9, given(Some(0))),
                (9, sent(0, 2)),
            ],
            None,
        ),
        (
            "an older epoch",
            vec![(0, follows(0, 1)), (1, follows(1, 2)), (2, follows(0, 2)), (3, follows(0, 1))],
            Some("13: agent 0 follows epoch 1"),
        ),
        (
            "an older epoch and an empty disk",
            vec![(0, follows(0, 2)), (1, Fact::Own(MachineFact::DiskLost(0))), (2, follows(0, 1))],
            None,
        ),
        (
            "a report twice",
            vec![(0, heard(1)), (1, heard(2)), (2, heard(1))],
            Some("13: request 1 of session s is taken twice"),
        ),
    ];
    for (name, facts, wanted) in rows {
        let mut watched = WatchedAgents::of(0, AgentGuards::default());
        let verdict = facts.iter().try_for_each(|(second, fact)| watched.see(fact, at(*second)));
        match (verdict, wanted) {
            (Ok(()), None) => {}
            (Err(why), Some(wanted)) => assert!(why.starts_with(wanted), "{name}: {why}"),
            (verdict, wanted) => panic!("{name}: {verdict:?}, wanted {wanted:?}"),
        }
    }
    assert_eq!(LEASE, Duration::from_secs(15), "a lease of agents outlasts that of daemons");
}
