use super::*;
use crate::remote::agent::Assignment;
use crate::{AgentHealth, AgentMember, AgentReach};
use model::work::WorkOrder;

/// A disk that keeps an assignment, and has one order under every digest.
#[derive(Default)]
struct Disk(Assignment);

impl AgentDisk for Disk {
    fn epoch(&self) -> u64 {
        1
    }
    fn note_epoch(&mut self, _: u64) {}
    fn assignment(&mut self) -> &mut Assignment {
        &mut self.0
    }
    fn save(&mut self) {}
    fn save_orders(&mut self, _: &[(ClusterName, PlacementKey)]) {}
    fn order(&mut self, _: &Digest) -> Option<AgentOrder> {
        None
    }
    fn keep_order(&mut self, _: &Digest, _: &[u8]) -> Result<Option<AgentOrder>, wire::Error> {
        Ok(None)
    }
    fn object(&mut self, _: &Digest) -> Option<Arc<Value>> {
        None
    }
    fn keep_object(&mut self, _: &Digest, _: &Arc<Value>) {}
    fn report(&self, _: &ClusterName, _: &PlacementKey) -> Option<Arc<WorkStatus>> {
        None
    }
    fn keep_report(&mut self, _: &ClusterName, _: &PlacementKey, _: &Arc<WorkStatus>) {}
    fn whole(&mut self, _: &Digest) -> Option<Arc<WorkOrder>> {
        Some(Arc::new(testkit::records::work_order()))
    }
}

/// Tasks that note who is to say again how it stands, and who got an order.
#[derive(Default)]
struct Tasks {
    announced: Vec<ClusterName>,
    reported: Vec<ClusterName>,
    ordered: Vec<ClusterName>,
}

impl AgentTasks for Tasks {
    fn has(&self, _: &ClusterName) -> bool {
        true
    }
    fn send(&mut self, cluster: &ClusterName, command: MemberCommand) {
        match command {
            MemberCommand::Announce => self.announced.push(cluster.clone()),
            MemberCommand::ReportAgain => self.reported.push(cluster.clone()),
            MemberCommand::Order { .. } => self.ordered.push(cluster.clone()),
            _ => {}
        }
    }
    fn announce(&mut self) {}
    fn set_epoch(&mut self, _: u64) {}
    fn prolong(&mut self, _: u64, _: Uptime) {}
}

/// Opens a session at a second, and takes its list twice. Returns whether members of pools begin again with each.
fn lists(agent: &mut AgentState<Disk, Tasks>, second: u64) -> (AgentSession, [AfterFrame; 2]) {
    let now = at(second);
    let welcome = FromServer::Welcome { session: "s".to_owned(), protocol: 1, epoch: 1, lease_ms: 10_000 };
    let (mut session, _) = AgentSession::welcome(agent, welcome, now).expect("it is welcome");
    let list = || FromServer::Members {
        source: "fleet".into(),
        health: AgentHealth::default(),
        members: vec![AgentMember { cluster: "m".into(), reach: AgentReach::InCluster, pool: Some("eu".to_owned()) }],
    };
    let first = session.take_frame(agent, list());
    session.take_list(agent, ChangedMembers::default(), now);
    let second = session.take_frame(agent, list());
    (session, [first, second])
}

fn at(second: u64) -> Uptime {
    Uptime::new(Duration::from_secs(second))
}

#[test]
fn members_of_pools_begin_again_where_the_agent_had_no_lease() {
    let (restart_pools, as_before) =
        (AfterFrame::SetMembers { restart_pools: true }, AfterFrame::SetMembers { restart_pools: false });
    let mut agent = AgentState::new(Disk::default(), Tasks::default());
    let (mut session, found) = lists(&mut agent, 0);
    assert_eq!(found, [restart_pools.clone(), as_before.clone()], "an agent that starts");
    let request = session.post(&mut agent, at(1)).expect("a heartbeat is due");
    assert!(session.take_ack(&mut agent, request.seq));

    let (_, found) = lists(&mut agent, 8);
    assert_eq!(found, [as_before.clone(), as_before.clone()], "its lease lasts until second 9");
    let (_, found) = lists(&mut agent, 9);
    assert_eq!(found, [restart_pools, as_before], "nothing prolonged it");
}

/// A report about an order that the server had not sent again was dropped there, and nothing followed from the order after it.
#[test]
fn a_member_says_again_how_it_stands_when_the_server_has_sent_all_its_orders() {
    let mut agent = AgentState::new(Disk::default(), Tasks::default());
    let (mut session, _) = lists(&mut agent, 0);
    let placements = FromServer::Placements { cluster: "m".into(), placements: BTreeSet::new() };
    assert_eq!(session.take_frame(&mut agent, placements), AfterFrame::Nothing);
    assert_eq!(agent.tasks.announced, [ClusterName::from("m")]);
    assert_eq!(agent.tasks.reported, [ClusterName::from("m")]);
}

/// Another agent may have delivered a newer order, and the server may be gone before it says so (seed 13101 of the simulation).
#[test]
fn an_order_from_before_the_lease_was_lost_is_not_given_again() {
    let kept = || {
        OrderDigests::from([("m".into(), BTreeMap::from([(testkit::records::work_order().placement, "old".into())]))])
    };
    let begun = || {
        let disk = Disk(Assignment { orders: kept(), ..Assignment::default() });
        AgentState::new(disk, Tasks::default())
    };
    let mut agent = begun();
    agent.take_kept_orders();
    assert_eq!(agent.tasks.ordered, [ClusterName::from("m")], "no server answered");

    let mut agent = begun();
    let (session, _) = lists(&mut agent, 0);
    session.end(&mut agent);
    agent.take_kept_orders();
    assert!(agent.tasks.ordered.is_empty(), "a server gave it the member, and ended before it said the orders");
    assert_eq!(agent.disk.0.kept().count(), 1, "the content is not fetched again");

    let mut agent = begun();
    let (mut session, _) = lists(&mut agent, 0);
    session.take_frame(&mut agent, FromServer::Placements { cluster: "m".into(), placements: BTreeSet::new() });
    assert_eq!(agent.disk.0.kept().count(), 0, "the member has no placements any more");
}
