//! A conversation of an agent with daemons that was recorded once, in `tests/fixtures/agent-conversation/messages.jsonl`: agents and daemons
//! of different versions speak with each other, so a change that is to change nothing leaves every byte as it is.
//!
//! Each line of the file is one message with its bytes, or one thing that a side does because of what it heard. The real registry and the
//! real state of an agent play their sides; the script says what else happens to them. Each side is also played alone, against what was
//! recorded of the other one. `GITFLEET_CONVERSATION=write cargo test --test simulation agent_conversation` records it again.

mod agent_side;
mod daemon_side;
mod line;
mod script;

use std::collections::BTreeSet;
use std::time::Duration;
use std::{env, fs};

use model::uptime::Uptime;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::{
    self, Acked, AgentOrder, FetchObjects, FetchedObject, Frames, FromServer, Hello, OBJECTS_PATH, ORDERS_PATH,
    REPORTS_PATH, Refused, Reports, SESSION_PATH, ToServer,
};

use agent_side::AgentSide;
use daemon_side::DaemonSide;
use line::{Line, Message, Side, Turn};

/// What a daemon sends: a frame of the stream of a session.
const FRAME: &str = "frame";
/// A frame with an object.
const OBJECT: &str = "object";
/// The body of an answer.
const ANSWER: &str = "answer";
/// The body of an answer that refuses something.
const REFUSAL: &str = "refusal";
/// The begin of an answer that is a stream.
const STREAM: &str = "stream";
/// The end of a stream.
const END: &str = "end";
/// What a side does that is no message.
const DOES: &str = "does";

/// The conversation, with both sides or with one.
struct Conversation {
    line: Line,
    daemon: Option<DaemonSide>,
    agent: Option<AgentSide>,
    now: Uptime,
}

impl Conversation {
    /// Records the conversation of both sides.
    fn record() -> Vec<Message> {
        let mut conversation = Self::new(Line::default(), true, true);
        conversation.play();
        conversation.line.finish()
    }

    fn new(line: Line, has_daemon: bool, has_agent: bool) -> Self {
        Self {
            line,
            daemon: has_daemon.then(|| DaemonSide::new(0, Uptime::default())),
            agent: has_agent.then(AgentSide::new),
            now: Uptime::default(),
        }
    }

    /// Lets something happen to the daemon at this second.
    fn daemon(&mut self, second: u64, act: impl FnOnce(&mut DaemonSide, Uptime)) {
        self.now = Uptime::new(Duration::from_secs(second));
        if let Some(daemon) = &mut self.daemon {
            act(daemon, self.now);
        }
        self.note_deeds();
    }

    /// Lets something happen to the agent.
    fn agent(&mut self, act: impl FnOnce(&mut AgentSide)) {
        if let Some(agent) = &mut self.agent {
            act(agent);
        }
        self.note_deeds();
    }

    /// Records what the sides did meanwhile.
    fn note_deeds(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            daemon.deeds().iter().for_each(|deed| self.line.does(Side::Daemon, deed));
        }
        if let Some(agent) = &mut self.agent {
            agent.deeds().iter().for_each(|deed| self.line.does(Side::Agent, deed));
        }
    }

    /// The agent opens a session with this hello, or is refused.
    fn open(&mut self, change: impl FnOnce(&mut Hello)) {
        let hello = self.agent.as_mut().map(|agent| agent.hello(self.now, change));
        let hello = self.line.say(Side::Agent, &format!("POST {SESSION_PATH}"), hello);
        let opened = self.daemon.as_mut().map(|daemon| match daemon.open(&hello, self.now) {
            Ok(()) => (STREAM, Vec::new()),
            Err(refusal) => (REFUSAL, refusal),
        });
        let (what, body) = self.line.answer(opened);
        if let Some(agent) = &mut self.agent {
            if what == STREAM { agent.begin() } else { agent.take_refusal(&body) }
        }
        self.note_deeds();
    }

    /// The agent reads the frames that the daemon has for it.
    fn frames(&mut self) {
        loop {
            let turn = self.daemon.as_mut().map_or(Turn::AsRecorded, DaemonSide::next_frame);
            let Some((what, bytes)) = self.line.next(Side::Daemon, &[FRAME, END], turn) else { break };
            if let Some(agent) = self.agent.as_mut().filter(|_| what == FRAME) {
                agent.take_frame(&bytes, self.now);
            }
            self.note_deeds();
            if what == END {
                break;
            }
        }
    }

    /// The agent fetches what it lacks.
    fn fetch(&mut self) {
        loop {
            let turn = self.agent.as_mut().map_or(Turn::AsRecorded, AgentSide::next_fetch);
            self.note_deeds();
            let (order, objects) = (format!("GET {ORDERS_PATH}"), format!("POST {OBJECTS_PATH}"));
            let Some((what, body)) = self.line.next(Side::Agent, &[&order, &objects], turn) else { break };
            if let Some(digest) = what.strip_prefix(&order) {
                let made = self.daemon.as_mut().map(|daemon| daemon.order(digest, self.now));
                let (what, body) = self.line.answer(made);
                if let Some(agent) = &mut self.agent {
                    agent.take_order(Some(body.as_slice()).filter(|_| what == ANSWER));
                }
            } else {
                self.fetch_objects(&body);
            }
            self.note_deeds();
        }
    }

    fn fetch_objects(&mut self, body: &[u8]) {
        let mut found = self.daemon.as_mut().map(|daemon| daemon.objects(body, self.now).into_iter());
        loop {
            let turn = found.as_mut().map_or(Turn::AsRecorded, |found| {
                found.next().map_or_else(|| Turn::says(END, Vec::new()), |frame| Turn::says(OBJECT, frame))
            });
            let said = self.line.next(Side::Daemon, &[OBJECT, END], turn);
            let (what, frame) = said.expect("the answer ends");
            match &mut self.agent {
                Some(agent) if what == END => agent.end_objects(),
                Some(agent) => agent.take_object(&frame),
                None => {}
            }
            if what == END {
                return;
            }
        }
    }

    /// The agent reports what it has, or sends a heartbeat.
    fn post(&mut self) {
        let made = self.agent.as_mut().map(|agent| agent.post(self.now));
        self.post_this(made);
    }

    /// The agent ends.
    fn goodbye(&mut self) {
        let made = self.agent.as_mut().map(|agent| agent.goodbye(self.now));
        self.post_this(made);
    }

    fn post_this(&mut self, made: Option<Vec<u8>>) {
        let body = self.line.say(Side::Agent, &format!("POST {REPORTS_PATH}"), made);
        let made = self.daemon.as_mut().map(|daemon| daemon.report(&body, self.now));
        let (what, body) = self.line.answer(made);
        if let Some(agent) = &mut self.agent {
            if what == ANSWER { agent.take_ack(&body) } else { agent.take_refusal(&body) }
        }
        self.note_deeds();
    }

    /// The last request of the agent arrives at the daemon again; the agent has the answer to it.
    fn post_again(&mut self) {
        let made = self.agent.as_ref().map(|agent| agent.posted.clone());
        let body = self.line.say(Side::Agent, &format!("POST {REPORTS_PATH}"), made);
        let made = self.daemon.as_mut().map(|daemon| daemon.report(&body, self.now));
        self.line.answer(made);
        self.note_deeds();
    }
}

fn is_to_be_recorded() -> bool {
    env::var("GITFLEET_CONVERSATION").is_ok_and(|asked| asked == "write")
}

/// Returns the kept conversation, or the one that is to be kept.
fn recorded() -> Vec<Message> {
    if is_to_be_recorded() {
        return Conversation::record();
    }
    let file = line::file();
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.lines().map(Message::read).collect()
}

/// Both sides together say what was recorded; or it is recorded.
#[test]
fn both_sides_say_what_was_recorded() {
    let said = Conversation::record();
    let text: String = said.iter().map(Message::written).collect();
    if is_to_be_recorded() {
        let file = line::file();
        fs::write(&file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        return;
    }
    let recorded = recorded();
    for (number, (said, recorded)) in said.iter().zip(&recorded).enumerate() {
        let place = format!("message {} of {}", number + 1, line::file().display());
        assert!(said == recorded, "{place}: recorded: {}said now: {}", recorded.written(), said.written());
    }
    assert_eq!(said.len(), recorded.len());
    assert_eq!(text, fs::read_to_string(line::file()).unwrap(), "what is written beside the bytes");
}

/// The daemon answers the recorded agent as it did.
#[test]
fn the_daemon_answers_the_recorded_agent() {
    let mut conversation = Conversation::new(Line::replay(recorded(), Side::Agent), true, false);
    conversation.play();
    conversation.line.finish();
}

/// The agent answers the recorded daemon as it did.
#[test]
fn the_agent_answers_the_recorded_daemon() {
    let mut conversation = Conversation::new(Line::replay(recorded(), Side::Daemon), false, true);
    conversation.play();
    conversation.line.finish();
}

fn packed_again<T: DeserializeOwned + Serialize>(body: &[u8]) -> Vec<u8> {
    wire::pack(&wire::unpack::<T>(body).unwrap()).unwrap()
}

fn framed_again<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> Vec<u8> {
    let mut frames = Frames::default();
    frames.push(bytes);
    let frame = frames.take::<T>().unwrap().expect("a whole frame");
    frames.finish().unwrap();
    wire::frame(&frame).unwrap()
}

fn order_again(digest: &str, body: &[u8]) -> Vec<u8> {
    let order = AgentOrder::decode(&digest.into(), &wire::inflate(body).unwrap()).unwrap();
    let (again, json) = order.expect("it is what the digest names").encode().unwrap();
    assert_eq!(again.as_str(), digest);
    wire::pack_bytes(&json).unwrap()
}

/// Each message is read, and written again with the same bytes.
#[test]
fn each_message_is_written_as_it_was_read() {
    let mut request = String::new();
    for (number, message) in recorded().iter().enumerate() {
        let (what, bytes) = (message.what.as_str(), message.bytes.as_slice());
        let asked = request.split_once(ORDERS_PATH).map(|(_, digest)| digest);
        let again = match (message.from, what) {
            (Side::Agent, _) if what.ends_with(SESSION_PATH) => packed_again::<Hello>(bytes),
            (Side::Agent, _) if what.ends_with(REPORTS_PATH) => packed_again::<Reports>(bytes),
            (Side::Agent, _) if what.ends_with(OBJECTS_PATH) => packed_again::<FetchObjects>(bytes),
            (Side::Daemon, FRAME) => framed_again::<FromServer>(bytes),
            (Side::Daemon, OBJECT) => framed_again::<FetchedObject>(bytes),
            (Side::Daemon, REFUSAL) => packed_again::<Refused>(bytes),
            (Side::Daemon, ANSWER) if asked.is_some() => order_again(asked.unwrap_or_default(), bytes),
            (Side::Daemon, ANSWER) => packed_again::<Acked>(bytes),
            (_, DOES | STREAM | END) => Vec::new(),
            (Side::Agent, _) if what.starts_with("GET ") => Vec::new(),
            (from, _) => panic!("message {}: {from:?} says {what}", number + 1),
        };
        assert!(again == bytes, "message {}: {}", number + 1, message.written());
        if message.from == Side::Agent && what != DOES {
            what.clone_into(&mut request);
        }
    }
}

/// Every kind of message is in the recording.
#[test]
fn the_recording_has_every_kind_of_message() {
    let (mut frames, mut events) = (BTreeSet::new(), BTreeSet::new());
    for message in recorded() {
        if message.what == FRAME {
            let mut read = Frames::default();
            read.push(&message.bytes);
            frames.insert(match read.take::<FromServer>().unwrap().expect("a whole frame") {
                FromServer::Welcome { .. } => "welcome",
                FromServer::Members { .. } => "members",
                FromServer::Order { reported: None, .. } => "order",
                FromServer::Order { reported: Some(_), .. } => "order with a report",
                FromServer::Forget { .. } => "forget",
                FromServer::Placements { .. } => "placements",
                FromServer::Bye { .. } => "bye",
                FromServer::Unknown => "unknown",
            });
        }
        if message.what.ends_with(REPORTS_PATH) {
            let reports: Reports = wire::unpack(&message.bytes).unwrap();
            let name = |event: &ToServer| match event {
                ToServer::Online { .. } => "online",
                ToServer::Offline { .. } => "offline",
                ToServer::Restarted { .. } => "restarted",
                ToServer::Work { .. } => "work",
                ToServer::Facts { .. } => "facts",
                ToServer::Namespaces { namespaces: Ok(_), .. } => "namespaces",
                ToServer::Namespaces { namespaces: Err(_), .. } => "no namespaces",
                ToServer::Unwatched { .. } => "unwatched",
                ToServer::Stopped { .. } => "stopped",
                ToServer::Bye => "bye",
                ToServer::Unknown => "unknown",
            };
            events.extend(reports.events.iter().map(name));
            events.extend(reports.events.is_empty().then_some("heartbeat"));
        }
    }
    let wanted = ["bye", "forget", "members", "order", "order with a report", "placements", "welcome"];
    assert_eq!(frames, BTreeSet::from(wanted));
    let wanted = [
        "bye",
        "facts",
        "heartbeat",
        "namespaces",
        "no namespaces",
        "offline",
        "online",
        "restarted",
        "stopped",
        "unwatched",
        "work",
    ];
    assert_eq!(events, BTreeSet::from(wanted));
}
