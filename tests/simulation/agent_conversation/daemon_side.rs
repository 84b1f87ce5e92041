//! The daemon's side: the real registry, and what the daemon's listener does with it.

use std::collections::{BTreeMap, BTreeSet};

use engine::MemberCommand;
use model::agent::AgentChoice;
use model::id::{ClusterName, Digest};
use model::uptime::Uptime;
use wire::remote::registry::{AgentSettings, NextFrame, Registry, RegistryEffect, SessionRefusal};
use wire::{
    self, Acked, AgentHealth, AgentKindHealth, AgentOrder, AgentReach, FetchObjects, FetchedObject, Hello, Protocols,
    Refused, Reports,
};

use super::line::Turn;
use super::script::{AGENT, LEASE, TOKEN, source};
use super::{ANSWER, END, FRAME, REFUSAL};

/// The daemon, as far as agents are concerned.
pub struct DaemonSide {
    registry: Registry,
    /// The registrations of members.
    numbers: BTreeMap<ClusterName, u64>,
    /// The epoch, and the sessions that were opened: together they name a session.
    epoch: u64,
    opened: u64,
    /// What it did besides answering.
    deeds: Vec<String>,
}

impl DaemonSide {
    /// Begins to lead.
    pub fn new(epoch: u64, now: Uptime) -> Self {
        let kind = AgentKindHealth {
            group: "example.org".to_owned(),
            kind: "Database".to_owned(),
            available: Some("self.status.ready".to_owned()),
            failed: None,
        };
        let health = AgentHealth { kinds: vec![kind], only_kubefleets: true };
        let settings = AgentSettings { epoch, lease: LEASE, source: source(), health, listens: true };
        let mut registry = Registry::new(settings, now);
        registry.credentials.set_fixed(AGENT, TOKEN, BTreeSet::from(["eu".to_owned(), "us".to_owned()]));
        Self { registry, numbers: BTreeMap::new(), epoch, opened: 0, deeds: Vec::new() }
    }

    /// Returns what it did since it was asked last.
    pub fn deeds(&mut self) -> Vec<String> {
        // A recorded agent names no server.
        let words = |effect: &RegistryEffect| format!("{effect:?}").replace(", server: None", "");
        self.deeds.extend(self.registry.take_effects().iter().map(words));
        std::mem::take(&mut self.deeds)
    }

    /// Has a member delivered to by agents.
    pub fn add(&mut self, cluster: &str, choice: AgentChoice, reach: AgentReach, now: Uptime) {
        let cluster = ClusterName::from(cluster);
        let number = self.registry.add(&cluster, choice, reach, now);
        self.numbers.insert(cluster, number);
    }

    /// A member has no entry any more.
    pub fn remove(&mut self, cluster: &str, now: Uptime) {
        let cluster = ClusterName::from(cluster);
        if let Some(number) = self.numbers.remove(&cluster) {
            self.registry.remove(&cluster, number, now);
        }
    }

    /// Passes a command of the core on.
    pub fn command(&mut self, cluster: &str, command: MemberCommand) {
        let cluster = ClusterName::from(cluster);
        self.registry.command(&cluster, self.numbers[&cluster], command);
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Uptime) {
        let due = self.registry.tick(now);
        self.deeds.push(format!("has {} sessions, and is due at {due:?}", self.registry.connected()));
    }

    /// The connection of the session is gone.
    pub fn cut(&mut self, now: Uptime) {
        self.registry.cut(AGENT, &self.session(), now);
    }

    /// Ends.
    pub fn close(&mut self, now: Uptime) {
        self.registry.close(now);
    }

    fn session(&self) -> String {
        format!("session-{}-{}", self.epoch, self.opened)
    }

    /// Opens a session; the error is the body that refuses it.
    pub fn open(&mut self, hello: &[u8], now: Uptime) -> Result<(), Vec<u8>> {
        let hello: Hello = wire::unpack(hello).expect("a hello");
        let credential = self.registry.credentials.check(AGENT, TOKEN).expect("the token is valid");
        let id = format!("session-{}-{}", self.epoch, self.opened + 1);
        self.registry.open(AGENT, id, &credential, &hello, now).map_err(|refusal| refused(&refusal))?;
        self.opened += 1;
        Ok(())
    }

    /// Returns what the stream of the session sends next, if anything.
    pub fn next_frame(&mut self) -> Turn {
        match self.registry.next(AGENT, &self.session()) {
            NextFrame::Frame(frame) => Turn::says(FRAME, wire::frame(frame.as_ref()).expect("a frame")),
            NextFrame::End => Turn::says(END, Vec::new()),
            NextFrame::Wait => Turn::Silent,
        }
    }

    /// Takes reports. Returns the answer.
    pub fn report(&mut self, body: &[u8], now: Uptime) -> (&'static str, Vec<u8>) {
        self.registry.hear(AGENT, now);
        let reports: Reports = wire::unpack(body).expect("reports");
        match self.registry.report(AGENT, reports, now) {
            Ok(taken) => {
                self.deeds.extend((taken.refused > 0).then(|| format!("refuses {} events", taken.refused)));
                (ANSWER, wire::pack(&Acked { acked: taken.acked }).expect("an answer"))
            }
            Err(refusal) => (REFUSAL, refused(&refusal)),
        }
    }

    /// Returns the answer to a request for an order.
    pub fn order(&mut self, digest: &str, now: Uptime) -> (&'static str, Vec<u8>) {
        self.registry.hear(AGENT, now);
        let Some(order) = self.registry.order(AGENT, &Digest::new(digest)) else {
            let refused = Refused { message: "no current order names it".to_owned(), protocol: None };
            return (REFUSAL, wire::pack(&refused).expect("an answer"));
        };
        let (_, json) = AgentOrder::from(order.as_ref()).encode().expect("an order");
        (ANSWER, wire::pack_bytes(&json).expect("an answer"))
    }

    /// Returns the frames that answer a request for objects.
    pub fn objects(&mut self, body: &[u8], now: Uptime) -> Vec<Vec<u8>> {
        self.registry.hear(AGENT, now);
        let wanted: FetchObjects = wire::unpack(body).expect("digests");
        let found = wanted.digests.into_iter().filter_map(|digest| {
            let object = self.registry.object(AGENT, &digest)?;
            Some(wire::frame(&FetchedObject { digest, object }).expect("a frame"))
        });
        found.collect()
    }
}

/// Returns the body that refuses a request. Its words are for people, and the listener has others.
fn refused(refusal: &SessionRefusal) -> Vec<u8> {
    let protocol = (*refusal == SessionRefusal::Protocol).then(Protocols::default);
    wire::pack(&Refused { message: format!("{refusal:?}"), protocol }).expect("an answer")
}
