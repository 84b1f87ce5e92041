//! The digests of traces that are kept in `digests/`: a change that is to change nothing leaves each of them as it is.
//!
//! A digest covers every fact with all that it holds, every word of people and its answer, what is shown of placements, and at the end the
//! journal, the records and what members hold. No name of a crate or of a module is part of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::{env, fs};

use aws_lc_rs::digest::{Context, SHA256};
use deliver::live::LiveObject;
use engine::store::{MemoryStore, Store as _};
use jiff::Timestamp;
use model::id::ObjectKey;
use model::work::WorkOrder;
use simulated::{Fact, MachineFact, SimulatedFleet};
use testservers::repository;
use wire::AgentOrder;

use super::{Line, Run};

/// Seeds whose digests are kept, of each kind of fleet its share.
pub const SEEDS_KEPT: u64 = 120;
/// Bytes of SHA-256 that a digest shows.
const BYTES: usize = 8;
/// Digests on one line of a file.
const ON_A_LINE: usize = 8;
/// Seeds that a failure names.
const NAMED_MAX: usize = 20;

/// A kind of simulated fleet.
#[derive(Clone, Copy)]
pub enum Fleet {
    /// One daemon.
    OneDaemon,
    /// Several daemons on one store.
    Replicas,
    /// Several daemons, and agents.
    Agents,
    /// One daemon whose store is lost.
    LostStore,
    /// One daemon whose store is put back to a backup.
    RestoredStore,
}

impl Fleet {
    pub fn name(self) -> &'static str {
        match self {
            Self::OneDaemon => "one_daemon",
            Self::Replicas => "replicas",
            Self::Agents => "agents",
            Self::LostStore => "lost_store",
            Self::RestoredStore => "restored_store",
        }
    }

    /// Returns the test that shows one seed, where there is one.
    fn one_seed(self) -> Option<&'static str> {
        match self {
            Self::OneDaemon => Some("one_seed"),
            Self::Replicas => Some("one_seed_with_replicas"),
            Self::Agents => Some("one_seed_with_agents"),
            Self::LostStore | Self::RestoredStore => None,
        }
    }

    fn file(self) -> PathBuf {
        let folder = repository().join("tests/simulation/digests");
        folder.join(self.name()).with_extension("txt")
    }
}

/// The digest of a trace that is being made.
pub struct TraceDigest {
    hash: Context,
    line: String,
    /// All that was hashed, where somebody reads it.
    text: Option<String>,
    /// What each order was found to be, by its address; the order is kept so that no other gets the address.
    orders: BTreeMap<usize, (Arc<WorkOrder>, String)>,
}

impl Default for TraceDigest {
    fn default() -> Self {
        Self { hash: Context::new(&SHA256), line: String::new(), text: None, orders: BTreeMap::new() }
    }
}

impl TraceDigest {
    /// Takes in a fact, with what its line leaves out.
    pub fn see(&mut self, at: Timestamp, fact: &Fact) {
        let order = order_of(fact).map(|order| self.name(order));
        let mut line = std::mem::take(&mut self.line);
        let written = write!(line, "{at} {fact} {} {}", order.unwrap_or_default(), left_out(fact));
        written.expect("a text can be written to");
        self.say(&line);
        line.clear();
        self.line = line;
    }

    /// Takes in a line.
    pub fn say(&mut self, line: &str) {
        for part in [line, "\n"] {
            self.hash.update(part.as_bytes());
            self.text.iter_mut().for_each(|text| text.push_str(part));
        }
    }

    /// Takes in the journal and the records of a store.
    pub fn note_store(&mut self, store: &MemoryStore) {
        for (number, entry) in store.journal(0, usize::MAX).expect("a store in memory can be read") {
            let entry = serde_json::to_string(&entry).expect("an entry can be written");
            self.say(&format!("journal {number} {entry}"));
        }
        for (key, record) in store.list("").expect("a store in memory can be read") {
            self.say(&format!("record {key} {} {}", record.version, String::from_utf8_lossy(&record.value)));
        }
    }

    /// Takes in what is there at the end. Returns the digest.
    pub fn finish(mut self, simulation: &SimulatedFleet) -> String {
        self.close(simulation);
        let hash = self.hash.finish();
        hash.as_ref().iter().take(BYTES).fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
    }

    fn close(&mut self, simulation: &SimulatedFleet) {
        self.note_store(&simulation.store);
        for (name, member) in &simulation.members {
            self.say(&format!("member {name}: {} writes", member.writes));
            self.say(&objects_text(&member.objects));
            self.say(&format!("{:?}", member.inventories));
        }
        self.say(&format!("ended {}", simulation.now));
    }

    /// Returns the digest of an order with everything in it.
    fn name(&mut self, order: &Arc<WorkOrder>) -> String {
        let known = self.orders.entry(Arc::as_ptr(order).addr());
        let encoded = || AgentOrder::from(order.as_ref()).encode().expect("an order can be written");
        known.or_insert_with(|| (Arc::clone(order), encoded().0.to_string())).1.clone()
    }
}

fn order_of(fact: &Fact) -> Option<&Arc<WorkOrder>> {
    match fact {
        Fact::Ordered(order)
        | Fact::Sent { order, .. }
        | Fact::Answered { order, .. }
        | Fact::Applied { order, .. }
        | Fact::Deleted { order, .. }
        | Fact::Released { order, .. }
        | Fact::Inventory { order, .. } => Some(order),
        _ => None,
    }
}

/// Returns what the line of a fact leaves out, except for its order.
fn left_out(fact: &Fact) -> String {
    match fact {
        Fact::Own(MachineFact::KeptUnsaid { value: Some(value), .. }) => String::from_utf8_lossy(value).into_owned(),
        Fact::Own(MachineFact::StoreLost(holders)) => format!("{holders:?}"),
        Fact::Answered { connection, .. } => format!("{connection:?}"),
        Fact::Applied { digest, .. } => digest.to_string(),
        Fact::Deleted { holder, is_shared, .. } => format!("{holder:?} {is_shared}"),
        Fact::Released { is_shared, .. } => is_shared.to_string(),
        Fact::Own(MachineFact::Restored { objects, inventories, .. }) => {
            format!("{} {inventories:?}", objects_text(objects))
        }
        _ => String::new(),
    }
}

/// Objects as they are; what was worked out about them and kept is left out.
fn objects_text(objects: &BTreeMap<ObjectKey, LiveObject>) -> String {
    let texts = objects.iter().map(|(key, live)| {
        let generation = live.generation();
        format!("{key} {:?} {:?} {} {generation:?}", **live, live.uid, live.resource_version)
    });
    texts.collect::<Vec<_>>().join(" ")
}

fn take_in(digest: &mut TraceDigest, run: &Run) {
    for (at, line) in &run.trace.0 {
        match line {
            Line::Seen(fact) => digest.see(*at, fact),
            Line::Said(words) => digest.say(&format!("{at} {words}")),
        }
    }
    digest.say(&run.published.said(&run.simulation));
}

/// Returns the digest of a run that has ended.
pub fn of_run(run: &Run) -> String {
    let mut digest = TraceDigest::default();
    take_in(&mut digest, run);
    digest.finish(&run.simulation)
}

/// Returns the trace of a run as people read it, or all that its digest is made of where `GITFLEET_DIGESTS=show` asks for that.
pub fn text_of(run: &Run) -> String {
    if !is_asked("show") {
        return run.trace.lines().join("\n");
    }
    let mut digest = TraceDigest { text: Some(String::new()), ..TraceDigest::default() };
    take_in(&mut digest, run);
    digest.close(&run.simulation);
    digest.text.unwrap_or_default()
}

fn is_asked(what: &str) -> bool {
    env::var("GITFLEET_DIGESTS").is_ok_and(|asked| asked == what)
}

/// Tells whether the digests are to be written, and not compared.
pub fn are_written() -> bool {
    is_asked("write")
}

/// Compares the digests of these seeds with the kept ones, or keeps them. Seeds beyond the kept ones are not compared.
pub fn compare(fleet: Fleet, found: impl IntoIterator<Item = (u64, String)>) {
    let found: BTreeMap<u64, String> = found.into_iter().collect();
    let file = fleet.file();
    if are_written() {
        fs::write(&file, written(&found)).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        return;
    }
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let kept = read(&text).unwrap_or_else(|line| panic!("{}: {line:?} is no line of digests", file.display()));
    let compared = found.keys().filter(|seed| kept.contains_key(seed)).count();
    println!("{}: the traces of {compared} seeds are compared with the kept ones", fleet.name());
    if let Some(complaint) = complaint(fleet, &kept, &found) {
        panic!("{complaint}");
    }
}

/// Returns which seeds differ and what is to be done; `None` where none does.
fn complaint(fleet: Fleet, kept: &BTreeMap<u64, String>, found: &BTreeMap<u64, String>) -> Option<String> {
    let differs = |(seed, digest): &(&u64, &String)| kept.get(*seed).is_some_and(|kept| kept != *digest);
    let differing: Vec<u64> = found.iter().filter(differs).map(|(seed, _)| *seed).collect();
    let first = differing.first()?;
    let named: Vec<String> = differing.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    let show = fleet.one_seed().map_or_else(String::new, |test| {
        format!(
            "  GITFLEET_DIGESTS=show GITFLEET_SEED={first} cargo test --test simulation -- --nocapture --exact {test_name}\n\
             shows all of it: compare that with what the commit before shows.\n",
            test_name = test_path(test)
        )
    });
    Some(format!(
        "{} of {} seeds have another trace than tests/simulation/digests/{}.txt keeps: seeds {}{}\n{show}\
         If the change is meant, say in the commit why, and write the digests of all kinds of fleets again:\n  \
         GITFLEET_DIGESTS=write cargo test --test simulation\n",
        differing.len(),
        found.len(),
        fleet.name(),
        named.join(", "),
        if differing.len() > NAMED_MAX { " and more" } else { "" },
    ))
}

/// Returns the whole name of a test that shows one seed.
fn test_path(test: &str) -> String {
    let module = test.strip_prefix("one_seed_with_").map(|module| format!("{module}::"));
    format!("{}{test}", module.unwrap_or_default())
}

/// Returns the text of a file: the first seed of each line, and the digests of it and of those that follow.
fn written(digests: &BTreeMap<u64, String>) -> String {
    let all: Vec<(&u64, &String)> = digests.iter().collect();
    let line = |part: &[(&u64, &String)]| {
        let of_part: Vec<&str> = part.iter().map(|(_, digest)| digest.as_str()).collect();
        format!("{}: {}\n", part[0].0, of_part.join(" "))
    };
    // A seed without a digest is known to fail.
    let without_gaps = all.chunk_by(|(one, _), (next, _)| **one + 1 == **next);
    without_gaps.flat_map(|seeds| seeds.chunks(ON_A_LINE)).map(line).collect()
}

/// Reads the text of a file; the error is a line that cannot be read.
fn read(text: &str) -> Result<BTreeMap<u64, String>, String> {
    let mut digests = BTreeMap::new();
    for line in text.lines() {
        let parts = line.split_once(": ").and_then(|(first, rest)| Some((first.parse::<u64>().ok()?, rest)));
        let (first, rest) = parts.ok_or(line)?;
        digests.extend((first..).zip(rest.split(' ').map(str::to_owned)));
    }
    Ok(digests)
}

/// A seed that differs is named, and files are read as they are written.
#[test]
fn a_trace_that_differs_is_named() {
    let kept: BTreeMap<u64, String> = (0..20).map(|seed| (seed, format!("{seed:016x}"))).collect();
    assert_eq!(read(&written(&kept)), Ok(kept.clone()));
    assert_eq!(read("0 abc\n"), Err("0 abc".to_owned()));
    assert_eq!(complaint(Fleet::Agents, &kept, &kept), None);
    let found = BTreeMap::from([(3, kept[&3].clone()), (4, "another".to_owned()), (99, "nobody kept it".to_owned())]);
    let complaint = complaint(Fleet::Agents, &kept, &found).expect("seed 4 differs");
    assert!(complaint.starts_with("1 of 3 seeds have another trace"), "{complaint}");
    assert!(complaint.contains("GITFLEET_SEED=4") && complaint.contains("agents::one_seed_with_agents"), "{complaint}");
    assert!(complaint.contains("GITFLEET_DIGESTS=write"), "{complaint}");
}

/// What the line of a fact leaves out changes the digest, too.
#[test]
fn a_digest_covers_what_lines_leave_out() {
    let at = Timestamp::UNIX_EPOCH;
    let order = super::forged::order("a", 1);
    let other = Arc::new(WorkOrder { user: Some("another".to_owned()), ..WorkOrder::clone(&order) });
    let rows = [
        (Fact::Ordered(Arc::clone(&order)), Fact::Ordered(other)),
        (
            Fact::Answered { order: Arc::clone(&order), connection: (1, 1) },
            Fact::Answered { order: Arc::clone(&order), connection: (1, 2) },
        ),
        (
            Fact::Own(MachineFact::KeptUnsaid { key: "k".to_owned(), value: Some(b"1".as_slice().into()) }),
            Fact::Own(MachineFact::KeptUnsaid { key: "k".to_owned(), value: Some(b"2".as_slice().into()) }),
        ),
    ];
    let digest = |fact: &Fact| {
        let mut digest = TraceDigest::default();
        digest.see(at, fact);
        digest.hash.finish().as_ref().to_vec()
    };
    for (one, another) in rows {
        assert_eq!(one.to_string(), another.to_string(), "their lines are the same");
        assert_ne!(digest(&one), digest(&another), "{one}");
        assert_eq!(digest(&one), digest(&one.clone()), "{one}");
    }
}
