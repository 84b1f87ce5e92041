//! The agent's side: the real state of an agent and of its session, a disk in memory, and tasks that only note what they are told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use engine::MemberCommand;
use model::id::{ClusterName, Digest, PlacementKey};
use model::records::WorkStatus;
use model::uptime::Uptime;
use serde_json::Value;
use wire::remote::agent::{AgentDisk, AgentState, AgentTasks, Assignment, ChangedMembers};
use wire::remote::agent_session::{AfterFrame, AgentSession, Fetch, Fetched};
use wire::{
    self, Acked, AgentMember, AgentOrder, FetchObjects, FetchedObject, Frames, FromServer, Hello, OBJECTS_PATH,
    ORDERS_PATH, Refused, ToServer,
};

use super::line::Turn;

/// A disk in memory.
#[derive(Default)]
struct Disk {
    epoch: u64,
    assignment: Assignment,
    orders: BTreeMap<Digest, Vec<u8>>,
    objects: BTreeMap<Digest, Arc<Value>>,
    reports: BTreeMap<(ClusterName, PlacementKey), Arc<WorkStatus>>,
}

impl AgentDisk for Disk {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn note_epoch(&mut self, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
    }

    fn assignment(&mut self) -> &mut Assignment {
        &mut self.assignment
    }

    fn save(&mut self) {
        let named: BTreeSet<&Digest> = self.assignment.kept().map(|(_, _, digest)| digest).collect();
        self.orders.retain(|digest, _| named.contains(digest));
    }

    fn save_orders(&mut self, _: &[(ClusterName, PlacementKey)]) {
        self.save();
    }

    fn order(&mut self, digest: &Digest) -> Option<AgentOrder> {
        AgentOrder::decode(digest, self.orders.get(digest)?).expect("its form is known")
    }

    fn keep_order(&mut self, digest: &Digest, json: &[u8]) -> Result<Option<AgentOrder>, wire::Error> {
        self.orders.insert(digest.clone(), json.to_vec());
        AgentOrder::decode(digest, json)
    }

    fn object(&mut self, digest: &Digest) -> Option<Arc<Value>> {
        self.objects.get(digest).cloned()
    }

    fn keep_object(&mut self, digest: &Digest, object: &Arc<Value>) {
        self.objects.insert(digest.clone(), Arc::clone(object));
    }

    fn report(&self, cluster: &ClusterName, placement: &PlacementKey) -> Option<Arc<WorkStatus>> {
        self.reports.get(&(cluster.clone(), placement.clone())).cloned()
    }

    fn keep_report(&mut self, cluster: &ClusterName, placement: &PlacementKey, status: &Arc<WorkStatus>) {
        self.reports.insert((cluster.clone(), placement.clone()), Arc::clone(status));
    }
}

/// Tasks of members, which note what they are told.
#[derive(Default)]
struct Tasks {
    running: BTreeMap<ClusterName, AgentMember>,
    told: Vec<String>,
}

impl Tasks {
    /// Runs exactly these members.
    fn set(&mut self, members: &[AgentMember], restart_pools: bool) -> ChangedMembers {
        let stays = |member: &AgentMember| members.contains(member) && !(restart_pools && member.pool.is_some());
        let before: BTreeSet<ClusterName> = self.running.keys().cloned().collect();
        self.running.retain(|_, member| stays(member));
        let mut changed = ChangedMembers::default();
        for member in members.iter().filter(|member| !self.running.contains_key(&member.cluster)) {
            changed.started.insert(member.cluster.clone());
        }
        self.running.extend(members.iter().map(|member| (member.cluster.clone(), member.clone())));
        changed.stopped = before.into_iter().filter(|cluster| !self.running.contains_key(cluster)).collect();
        changed
    }
}

impl AgentTasks for Tasks {
    fn has(&self, cluster: &ClusterName) -> bool {
        self.running.contains_key(cluster)
    }

    fn send(&mut self, cluster: &ClusterName, command: MemberCommand) {
        let words = match command {
            MemberCommand::Order { order, reported } => {
                let (digest, _) = AgentOrder::from(order.as_ref()).encode().expect("an order");
                let reported = reported.map(|status| status.generation);
                let objects: Vec<String> =
                    order.manifests.iter().map(|of| format!("{}: {}", of.id, of.object)).collect();
                format!("delivers {digest}, reported {reported:?}: {}", objects.join(", "))
            }
            // Not recorded: no message says it.
            MemberCommand::Placements(_) => return,
            command => format!("{command:?}"),
        };
        self.told.push(format!("{cluster} {words}"));
    }

    fn announce(&mut self) {
        self.told.push("all members announce what they hold".to_owned());
    }

    fn set_epoch(&mut self, epoch: u64) {
        self.told.push(format!("the epoch is {epoch}"));
    }

    fn prolong(&mut self, epoch: u64, end: Uptime) {
        self.told.push(format!("the lease of epoch {epoch} ends at {end:?}"));
    }
}

/// What is being fetched.
enum Fetching {
    Orders { left: VecDeque<Digest>, came: Vec<(Digest, Option<Vec<u8>>)> },
    Objects { asked: Vec<Digest>, came: Vec<FetchedObject> },
}

/// The agent, without connections.
pub struct AgentSide {
    state: AgentState<Disk, Tasks>,
    session: Option<AgentSession>,
    frames: Frames,
    fetching: Option<Fetching>,
    /// The last request with reports.
    pub posted: Vec<u8>,
}

impl AgentSide {
    /// Begins with an empty disk.
    pub fn new() -> Self {
        let state = AgentState::new(Disk::default(), Tasks::default());
        Self { state, session: None, frames: Frames::default(), fetching: None, posted: Vec::new() }
    }

    /// Returns what it did since it was asked last.
    pub fn deeds(&mut self) -> Vec<String> {
        std::mem::take(&mut self.state.tasks.told)
    }

    fn session(&mut self) -> (&mut AgentSession, &mut AgentState<Disk, Tasks>) {
        (self.session.as_mut().expect("it has a session"), &mut self.state)
    }

    /// Returns what it says first.
    pub fn hello(&mut self, now: Uptime, change: impl FnOnce(&mut Hello)) -> Vec<u8> {
        let mut hello = self.state.hello("0.1.0", "start-1", &BTreeSet::from(["eu".to_owned()]), now);
        change(&mut hello);
        wire::pack(&hello).expect("a hello")
    }

    /// The stream of a session begins.
    pub fn begin(&mut self) {
        self.leave("begins another session");
        self.frames = Frames::default();
    }

    /// A request was refused.
    pub fn take_refusal(&mut self, body: &[u8]) {
        let refused: Refused = wire::unpack(body).expect("a refusal");
        self.state.tasks.told.push(format!("was refused: {refused:?}"));
        if refused.message == "Over" {
            self.leave("the session is over");
        }
    }

    fn leave(&mut self, why: &str) {
        self.fetching = None;
        if let Some(session) = self.session.take() {
            session.end(&mut self.state);
            self.state.tasks.told.push(format!("leaves: {why}"));
        }
    }

    /// Takes a frame, which comes in two pieces.
    pub fn take_frame(&mut self, bytes: &[u8], now: Uptime) {
        let (begin, end) = bytes.split_at(bytes.len() / 2);
        self.frames.push(begin);
        assert!(self.frames.take::<FromServer>().expect("a frame").is_none(), "half a frame is none");
        self.frames.push(end);
        let frame = self.frames.take().expect("a frame").expect("a whole one");
        self.frames.finish().expect("it is over");
        let Some(session) = &mut self.session else {
            match AgentSession::welcome(&mut self.state, frame, now) {
                Ok((session, epoch)) => {
                    self.session = Some(session);
                    self.state.tasks.told.push(format!("is welcome under epoch {epoch}"));
                }
                Err(why) => self.state.tasks.told.push(format!("does not stay: {why}")),
            }
            return;
        };
        match session.take_frame(&mut self.state, frame) {
            AfterFrame::Nothing => {}
            AfterFrame::SetMembers { restart_pools } => {
                let members = self.state.disk.assignment().members.clone();
                let changed = self.state.tasks.set(&members, restart_pools);
                self.state.tasks.told.push(format!("runs other members: {changed:?}"));
                session.take_list(&mut self.state, changed, now);
            }
            AfterFrame::Leave(why) => self.leave(&why),
        }
    }

    /// Takes an event of a member's task.
    pub fn note(&mut self, event: ToServer) {
        self.state.note(event.into_event().expect("an event of a task"));
    }

    /// Has an event reported that no task of this agent has.
    pub fn report(&mut self, event: ToServer) {
        self.state.outbox.push(event);
    }

    /// Returns the request that is due.
    pub fn post(&mut self, now: Uptime) -> Vec<u8> {
        let (session, state) = self.session();
        let reports = session.post(state, now).expect("something is to be reported, or a heartbeat is due");
        self.posted = wire::pack(&reports).expect("reports");
        self.posted.clone()
    }

    /// Stops all members. Returns the last request.
    pub fn goodbye(&mut self, now: Uptime) -> Vec<u8> {
        let (session, state) = self.session();
        let reports = session.goodbye(state, now);
        self.posted = wire::pack(&reports).expect("reports");
        self.posted.clone()
    }

    /// Takes the answer to the last request.
    pub fn take_ack(&mut self, body: &[u8]) {
        let Acked { acked } = wire::unpack(body).expect("an answer");
        let (session, state) = self.session();
        assert!(session.take_ack(state, acked), "request {acked} waits for an answer");
    }

    /// Returns the next request for what it lacks.
    pub fn next_fetch(&mut self) -> Turn {
        while self.fetching.is_none() && self.session.as_ref().is_some_and(AgentSession::has_waiting) {
            let (session, state) = self.session();
            self.fetching = session.fetch(state).map(|fetch| match fetch {
                Fetch::Orders(digests) => Fetching::Orders { left: digests.into(), came: Vec::new() },
                Fetch::Objects(asked) => Fetching::Objects { asked, came: Vec::new() },
            });
        }
        match &self.fetching {
            None => Turn::Silent,
            Some(Fetching::Orders { left, .. }) => Turn::says(&format!("GET {ORDERS_PATH}{}", left[0]), Vec::new()),
            Some(Fetching::Objects { asked, .. }) => {
                let body = wire::pack(&FetchObjects { digests: asked.clone() }).expect("digests");
                Turn::says(&format!("POST {OBJECTS_PATH}"), body)
            }
        }
    }

    /// Takes the answer to a request for an order; `None` where there is no such order.
    pub fn take_order(&mut self, body: Option<&[u8]>) {
        let Some(Fetching::Orders { left, came }) = &mut self.fetching else { panic!("no order was asked for") };
        let digest = left.pop_front().expect("it was asked for");
        came.push((digest, body.map(|body| wire::inflate(body).expect("an order"))));
        if left.is_empty() {
            let orders = Fetched::Orders(std::mem::take(came));
            self.take_fetched(orders);
        }
    }

    /// Takes a frame of the answer to a request for objects.
    pub fn take_object(&mut self, frame: &[u8]) {
        let Some(Fetching::Objects { came, .. }) = &mut self.fetching else { panic!("no object was asked for") };
        let mut frames = Frames::default();
        frames.push(frame);
        came.push(frames.take().expect("a frame").expect("a whole one"));
    }

    /// The answer to a request for objects is over.
    pub fn end_objects(&mut self) {
        let Some(Fetching::Objects { asked, came }) = self.fetching.take() else { panic!("no object was asked for") };
        self.take_fetched(Fetched::Objects(asked, came));
    }

    fn take_fetched(&mut self, fetched: Fetched) {
        self.fetching = None;
        let (session, state) = self.session();
        session.take_fetched(state, fetched).expect("its form is known");
    }
}
