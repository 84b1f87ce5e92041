//! What passes between the two sides: recorded, or compared with the recording.

use std::collections::VecDeque;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use testservers::repository;

use super::DOES;

/// Bytes of the length in front of a frame.
const LENGTH_BYTES: usize = 4;

/// Returns where the conversation is kept.
pub fn file() -> PathBuf {
    repository().join("tests/fixtures/agent-conversation/messages.jsonl")
}

/// A side of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The agent.
    Agent,
    /// The daemon.
    Daemon,
}

/// A message, or what a side does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who says it.
    pub from: Side,
    /// The request, the kind of answer, or `does`.
    pub what: String,
    /// What a side does, as text.
    pub deed: String,
    /// The bytes that pass.
    pub bytes: Vec<u8>,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Written {
    from: Side,
    what: String,
    /// What the bytes are, for people; or what a side does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    says: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    bytes: String,
}

impl Message {
    /// Reads a line of the file.
    pub fn read(line: &str) -> Self {
        let Written { from, what, says, bytes } = serde_json::from_str(line).expect("a line of a conversation");
        let is_deed = what == DOES;
        let deed = says.filter(|_| is_deed).map(|says| serde_json::from_str(says.get()).expect("a text"));
        Self { from, what, deed: deed.unwrap_or_default(), bytes: STANDARD.decode(bytes).expect("base64") }
    }

    /// Returns the line of the file.
    pub fn written(&self) -> String {
        let raw = |json: String| RawValue::from_string(json).expect("JSON");
        let says = if self.what == DOES {
            Some(raw(serde_json::to_string(&self.deed).unwrap()))
        } else {
            self.json().map(raw)
        };
        let written = Written { from: self.from, what: self.what.clone(), says, bytes: STANDARD.encode(&self.bytes) };
        format!("{}\n", serde_json::to_string(&written).unwrap())
    }

    /// Returns the JSON in the bytes: of a frame, or of a body.
    fn json(&self) -> Option<String> {
        if self.bytes.is_empty() {
            return None;
        }
        let start = if matches!(self.what.as_str(), super::FRAME | super::OBJECT) { LENGTH_BYTES } else { 0 };
        let json = wire::inflate(&self.bytes[start..]).expect("every body is compressed");
        Some(String::from_utf8(json).expect("JSON is UTF-8"))
    }
}

/// What a side does when it is its turn.
pub enum Turn {
    /// It is absent, and says what is recorded.
    AsRecorded,
    /// It has nothing to say.
    Silent,
    /// It says this.
    Says(String, Vec<u8>),
}

impl Turn {
    /// Says something.
    pub fn says(what: &str, bytes: Vec<u8>) -> Self {
        Self::Says(what.to_owned(), bytes)
    }
}

/// What passes between the two sides.
#[derive(Default)]
pub struct Line {
    /// What is still to come of a recording; `None` where it is being recorded.
    recorded: Option<VecDeque<Message>>,
    said: Vec<Message>,
}

impl Line {
    /// Continues a recording with one side; the other one is as recorded.
    pub fn replay(recorded: Vec<Message>, absent: Side) -> Self {
        let is_there = |message: &Message| message.from != absent || message.what != DOES;
        Self { recorded: Some(recorded.into_iter().filter(is_there).collect()), said: Vec::new() }
    }

    /// Returns all that was said; nothing of a recording is left.
    pub fn finish(self) -> Vec<Message> {
        if let Some(left) = self.recorded.as_ref().and_then(VecDeque::front) {
            panic!("nothing was said where the recording continues: {}", left.written());
        }
        self.said
    }

    /// One side says something. Returns what is said.
    pub fn say(&mut self, from: Side, what: &str, made: Option<Vec<u8>>) -> Vec<u8> {
        let turn = made.map_or(Turn::AsRecorded, |bytes| Turn::says(what, bytes));
        self.next(from, &[what], turn).expect("something is said").1
    }

    /// The daemon answers. Returns the answer.
    pub fn answer(&mut self, made: Option<(&str, Vec<u8>)>) -> (String, Vec<u8>) {
        let turn = made.map_or(Turn::AsRecorded, |(what, bytes)| Turn::says(what, bytes));
        self.next(Side::Daemon, &[super::ANSWER, super::REFUSAL, super::STREAM], turn).expect("a request is answered")
    }

    /// It is the turn of one side, which may say something that begins so. Returns what is said.
    pub fn next(&mut self, from: Side, beginnings: &[&str], turn: Turn) -> Option<(String, Vec<u8>)> {
        match turn {
            Turn::Silent => None,
            Turn::Says(what, bytes) => {
                let message = Message { from, what, deed: String::new(), bytes };
                self.compare(&message);
                Some((message.what, message.bytes))
            }
            Turn::AsRecorded => {
                let recorded = self.recorded.as_mut().expect("one side is absent only where there is a recording");
                let is_meant = |message: &mut Message| {
                    message.from == from && beginnings.iter().any(|beginning| message.what.starts_with(beginning))
                };
                recorded.pop_front_if(is_meant).map(|message| (message.what, message.bytes))
            }
        }
    }

    /// A side does something.
    pub fn does(&mut self, from: Side, deed: &str) {
        // A field that is new since the recording and has no value.
        let later = [", inputs: None", ", returns: false"];
        let deed = later.iter().fold(deed.to_owned(), |deed, later| deed.replace(later, ""));
        self.compare(&Message { from, what: DOES.to_owned(), deed, bytes: Vec::new() });
    }

    /// Compares what is said with the recording, or records it.
    fn compare(&mut self, said: &Message) {
        self.said.push(said.clone());
        let Some(recorded) = &mut self.recorded else { return };
        let wanted = recorded.pop_front();
        if wanted.as_ref() == Some(said) {
            return;
        }
        let of_wanted = wanted.as_ref().map_or_else(|| "nothing\n".to_owned(), Message::written);
        let said_here = said.written();
        let is_same =
            |wanted: Message| wanted.what == said.what && said.json().is_some() && wanted.json() == said.json();
        let is_compression = wanted.is_some_and(is_same);
        let why = if is_compression { "The JSON is the same: the compression differs.\n" } else { "" };
        panic!("recorded: {of_wanted}said now: {said_here}{why}");
    }
}
