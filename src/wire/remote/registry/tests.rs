use proptest::prelude::*;

use super::*;
use crate::AgentOrder;
use crate::remote::agent::OrderDigests;
use engine::MemberCommand;
use model::records::WorkStatus;

const LEASE: Duration = Duration::from_secs(10);
/// How long an agent writes: it stops before its lease ends.
const WRITES: Duration = Duration::from_secs(9);
const MEMBERS: [&str; 3] = ["m-1", "m-2", "m-3"];

/// An agent as it sees itself.
#[derive(Default)]
struct Seen {
    session: Option<String>,
    /// The first list of the session was handled.
    has_list: bool,
    seq: u64,
    /// What it runs.
    runs: BTreeSet<ClusterName>,
    /// Until when it writes.
    until: Option<Uptime>,
    /// When it sent the last request of this session that was answered.
    sent: Option<Uptime>,
}

#[derive(Clone, Debug)]
enum Act {
    Open(usize),
    Cut(usize),
    /// The agent notices nothing of it.
    CutUnseen(usize),
    Beat(usize),
    Read(usize),
    Bye(usize),
    Entry(usize),
    Pass(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let agent = 0..3_usize;
    prop_oneof![
        3 => agent.clone().prop_map(Act::Open),
        1 => agent.clone().prop_map(Act::Cut),
        1 => agent.clone().prop_map(Act::CutUnseen),
        4 => agent.clone().prop_map(Act::Beat),
        6 => agent.clone().prop_map(Act::Read),
        1 => agent.clone().prop_map(Act::Bye),
        1 => agent.prop_map(Act::Entry),
        4 => (1..6_u64).prop_map(Act::Pass),
    ]
}

struct World {
    registry: Registry,
    agents: [Seen; 3],
    ids: Vec<u64>,
    now: Uptime,
    opened: u64,
}

impl World {
    fn add(&mut self, member: usize) -> u64 {
        let choice = AgentChoice::Pool { pool: "eu".to_owned() };
        self.registry.add(&MEMBERS[member].into(), choice, AgentReach::InCluster, self.now)
    }

    /// Opens a session of an agent that runs these orders.
    fn open(&mut self, i: usize, running: OrderDigests) {
        self.opened += 1;
        let hello = Hello {
            protocol: Protocols::default(),
            version: String::new(),
            instance: i.to_string(),
            pools: BTreeSet::from(["eu".to_owned()]),
            epoch: 0,
            running,
        };
        let (id, pools) = (self.opened.to_string(), hello.pools.clone());
        let credential = Credential { digest: [1; 32], pools };
        let opened = self.registry.open(&i.to_string(), id.clone(), &credential, &hello, self.now);
        opened.expect("the same start of the agent");
        let seen = &mut self.agents[i];
        (seen.session, seen.has_list, seen.seq, seen.sent) = (Some(id), false, 0, Some(self.now));
    }

    fn carry_out(&mut self, act: &Act) {
        let now = self.now;
        match *act {
            Act::Open(i) => {
                let runs = &self.agents[i].runs;
                self.open(i, runs.iter().map(|cluster| (cluster.clone(), BTreeMap::new())).collect());
            }
            Act::Cut(i) | Act::CutUnseen(i) => {
                let Some(id) = self.agents[i].session.clone() else { return };
                self.registry.cut(&i.to_string(), &id, now);
                if matches!(act, Act::Cut(_)) {
                    self.agents[i].session = None;
                }
            }
            Act::Beat(i) => self.report(i, Vec::new()),
            Act::Bye(i) => {
                // It stops everything first.
                self.agents[i].runs.clear();
                self.report(i, vec![ToServer::Bye]);
                self.agents[i].session = None;
            }
            Act::Read(i) => {
                let Some(id) = self.agents[i].session.clone() else { return };
                let NextFrame::Frame(frame) = self.registry.next(&i.to_string(), &id) else { return };
                let FromServer::Members { members, .. } = *frame else { return };
                let listed: BTreeSet<ClusterName> = members.into_iter().map(|member| member.cluster).collect();
                let seen = &mut self.agents[i];
                let stopped: Vec<ClusterName> = seen.runs.difference(&listed).cloned().collect();
                (seen.runs, seen.has_list) = (listed, true);
                seen.until = seen.sent.map(|sent| sent.after(WRITES));
                self.report(i, stopped.into_iter().map(|cluster| ToServer::Stopped { cluster }).collect());
            }
            Act::Entry(member) => {
                self.registry.remove(&MEMBERS[member].into(), self.ids[member], now);
                self.ids[member] = self.add(member);
            }
            Act::Pass(seconds) => {
                self.now = self.now.after(Duration::from_secs(seconds));
                self.registry.tick(self.now);
            }
        }
    }

    fn report(&mut self, i: usize, events: Vec<ToServer>) {
        let (now, seen) = (self.now, &mut self.agents[i]);
        let Some(session) = seen.session.clone() else { return };
        seen.seq += 1;
        if self.registry.report(&i.to_string(), Reports { session, seq: seen.seq, events }, now).is_err() {
            seen.session = None;
            return;
        }
        seen.sent = Some(now);
        if seen.has_list {
            seen.until = Some(now.after(WRITES));
        }
    }

    /// Puts a daemon that begins in the place of this one.
    fn begin_again(&mut self) {
        self.registry = registry(self.now);
        self.ids = (0..MEMBERS.len()).map(|member| self.add(member)).collect();
    }

    /// Connects all agents, and lets everything happen that is under way, for longer than a lease and not for two.
    fn settle(&mut self) {
        (0..3).for_each(|i| self.carry_out(&Act::Open(i)));
        for _ in 0..7 {
            for i in 0..3 {
                self.carry_out(&Act::Beat(i));
                if self.agents[i].session.is_none() {
                    self.carry_out(&Act::Open(i));
                }
                (0..4).for_each(|_| self.carry_out(&Act::Read(i)));
            }
            self.carry_out(&Act::Pass(2));
        }
    }

    /// Fails where settling would change something although it is not due.
    fn check_due(&mut self, act: &Act) {
        let registry = &mut self.registry;
        if registry.due.is_some_and(|due| due <= self.now) {
            return;
        }
        let state = |registry: &Registry| {
            let members = registry.members.iter().map(|(cluster, remote)| (cluster.clone(), remote.writer.clone()));
            let sessions = registry.sessions.iter();
            let sessions = sessions.map(|(agent, session)| (agent.clone(), session.members.clone(), session.waits));
            (members.collect::<Vec<_>>(), registry.parting.clone(), sessions.collect::<Vec<_>>())
        };
        let before = state(registry);
        registry.settle(self.now);
        assert_eq!(state(registry), before, "after {act:?}");
    }

    fn writers(&self, member: &str) -> usize {
        let writes = |seen: &&Seen| seen.runs.contains(member) && seen.until.is_some_and(|until| self.now < until);
        self.agents.iter().filter(writes).count()
    }
}

fn registry(now: Uptime) -> Registry {
    let settings =
        AgentSettings { epoch: 1, lease: LEASE, source: "fleet".into(), health: AgentHealth::default(), listens: true };
    Registry::new(settings, now)
}

fn world() -> World {
    let now = Uptime::default();
    let mut world = World { registry: registry(now), agents: Default::default(), ids: Vec::new(), now, opened: 0 };
    world.ids = (0..MEMBERS.len()).map(|member| world.add(member)).collect();
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_member_of_a_pool_never_has_two_writers(acts in proptest::collection::vec(act(), 1..80)) {
        let mut world = world();
        for act in acts {
            world.carry_out(&act);
            world.check_due(&act);
            for member in MEMBERS {
                prop_assert!(world.writers(member) <= 1, "{member} after {act:?}");
            }
        }
        world.settle();
        for member in MEMBERS {
            prop_assert_eq!(world.writers(member), 1, "{} in the end", member);
        }
    }
}

#[test]
fn members_are_given_out_once_the_lease_of_an_earlier_leader_is_over() {
    let mut world = world();
    world.carry_out(&Act::Open(0));
    (0..3).for_each(|_| world.carry_out(&Act::Read(0)));
    assert_eq!(world.writers("m-1"), 0);
    for _ in 0..4 {
        world.carry_out(&Act::Pass(3));
        world.carry_out(&Act::Beat(0));
    }
    world.carry_out(&Act::Read(0));
    assert_eq!(MEMBERS.map(|member| world.writers(member)), [1, 1, 1]);
    // A cut shorter than the lease costs nothing but a list.
    world.carry_out(&Act::Cut(0));
    world.carry_out(&Act::Open(0));
    (0..2).for_each(|_| world.carry_out(&Act::Read(0)));
    assert_eq!(MEMBERS.map(|member| world.writers(member)), [1, 1, 1]);
}

/// A list with too few members has the agent stop the others and forget their orders. The next list then costs a fetch of all of them.
#[test]
fn the_first_list_of_a_session_has_all_members_of_its_agent() {
    let mut world = world();
    world.settle();
    let had = [0, 1, 2].map(|i| world.agents[i].runs.clone());
    let several = (0..3).find(|i| !had[*i].is_empty()).expect("one of them has a member");
    // Another daemon begins. The agents run what they ran.
    world.begin_again();
    (0..3).for_each(|i| world.carry_out(&Act::Open(i)));
    for _ in 0..6 {
        for (i, had) in had.iter().enumerate() {
            world.carry_out(&Act::Beat(i));
            (0..2).for_each(|_| world.carry_out(&Act::Read(i)));
            assert_eq!(&world.agents[i].runs, had, "after {:?}", world.now);
        }
        world.carry_out(&Act::Pass(2));
    }
    assert!((0..3).all(|i| world.agents[i].has_list) && MEMBERS.iter().all(|member| world.writers(member) == 1));
    // The process of one agent begins again, and meanwhile others get its members.
    world.carry_out(&Act::Bye(several));
    (0..3).for_each(|i| world.carry_out(&Act::Read(i)));
    assert!(MEMBERS.iter().all(|member| world.writers(member) == 1));
    world.carry_out(&Act::Open(several));
    (0..2).for_each(|_| world.carry_out(&Act::Read(several)));
    assert!(!world.agents[several].has_list, "the others still have them");
    (0..3).filter(|i| *i != several).for_each(|i| world.carry_out(&Act::Read(i)));
    world.carry_out(&Act::Read(several));
    assert_eq!(world.agents[several].runs, had[several]);
}

/// The report of an order is larger than everything else about it, and who has the order has made the report.
#[test]
fn an_order_that_the_agent_has_comes_without_its_report() {
    let mut world = world();
    let order = Arc::new(WorkOrder { cluster: "m-1".into(), ..testkit::records::work_order() });
    let (digest, _) = AgentOrder::from(order.as_ref()).encode().expect("it is sent");
    let report = Arc::new(WorkStatus::default());
    for (had, wanted) in [(digest, None), ("another".into(), Some(&report))] {
        let running = BTreeMap::from([("m-1".into(), BTreeMap::from([(order.placement.clone(), had)]))]);
        world.open(0, running);
        for _ in 0..2 {
            world.carry_out(&Act::Pass(5));
            world.carry_out(&Act::Beat(0));
        }
        let command = MemberCommand::Order { order: Arc::clone(&order), reported: Some(Arc::clone(&report)) };
        world.registry.command(&"m-1".into(), world.ids[0], command);
        let session = world.agents[0].session.clone().expect("a session");
        let reported = (0..4).find_map(|_| match world.registry.next("0", &session) {
            NextFrame::Frame(frame) => match *frame {
                FromServer::Order { reported, .. } => Some(reported),
                _ => None,
            },
            NextFrame::Wait | NextFrame::End => None,
        });
        assert_eq!(reported.expect("an order").as_ref(), wanted);
    }
}

#[test]
fn a_member_without_an_entry_parts_when_its_agent_stopped_it_or_its_lease_is_over() {
    let mut world = world();
    world.carry_out(&Act::Open(0));
    (0..3).for_each(|_| world.carry_out(&Act::Read(0)));
    for _ in 0..4 {
        world.carry_out(&Act::Pass(3));
        world.carry_out(&Act::Beat(0));
    }
    world.carry_out(&Act::Read(0));
    let parted = |world: &mut World, member: &str| {
        let effects = world.registry.take_effects();
        effects.iter().any(|effect| matches!(effect, RegistryEffect::Parted(cluster) if cluster.as_str() == member))
    };
    world.registry.remove(&"m-1".into(), world.ids[0], world.now);
    assert!(world.registry.is_parting(&"m-1".into()) && !parted(&mut world, "m-1"));
    world.carry_out(&Act::Read(0));
    assert!(!world.registry.is_parting(&"m-1".into()) && parted(&mut world, "m-1"), "its agent stopped it");
    world.registry.remove(&"m-2".into(), world.ids[1], world.now);
    assert!(world.registry.is_parting(&"m-2".into()));
    // The agent is silent until its lease is over.
    for _ in 0..4 {
        world.carry_out(&Act::Pass(5));
    }
    assert!(!world.registry.is_parting(&"m-2".into()) && parted(&mut world, "m-2"), "its agent is gone");
}
