//! Decisions, waves, runs, memory and recovery of whole fleets: B7, B9 and B10. `cargo bench --bench fleet` prints one JSON
//! object; `-- runs recovery` measures some.
//!
//! The core is the daemon's, on one thread; members and the source are made up, and time is virtual. Members answer at once,
//! so what is measured is what the daemon itself needs.

#![allow(unreachable_pub, reason = "nothing is outside of a benchmark")]

mod allocator;
mod decision;
mod driver;
mod fleets;
mod members;
mod memory;
mod recovery;
mod rollout;

use serde_json::{Map, Value, json};

#[global_allocator]
static ALLOCATOR: allocator::Counting = allocator::Counting;

/// A part by its name.
type Part = (&'static str, fn() -> Value);

/// What can be measured.
const PARTS: [Part; 5] = [
    ("decision", decision::measure),
    ("waves", rollout::waves),
    ("runs", rollout::runs),
    ("memory", memory::measure),
    ("recovery", recovery::measure),
];

fn main() {
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().expect("no pool was made before");
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let mut results = Map::from_iter([("threads".to_owned(), json!(1))]);
    for (name, measure) in PARTS {
        if wanted.is_empty() || wanted.iter().any(|part| part == name) {
            results.insert(name.to_owned(), measure());
            results.insert("peakKb".to_owned(), json!(status_kb("VmHWM:")));
        }
    }
    println!("{:#}", Value::Object(results));
}

fn status_kb(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix(field)?.split_whitespace().next()?.parse().ok())
}

/// Returns the processor time of this process so far, in seconds.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // What follows the name in parentheses begins with field 3; user and system time are fields 14 and 15, in hundredths.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Rounds to thousandths.
fn rounded(value: f64) -> Value {
    json!((value * 1000.0).round() / 1000.0)
}
