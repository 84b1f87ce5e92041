//! Counts requests, bytes and connections.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

/// The counts of a server, of all clusters together.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// By verb and resource: `apply`, `configmaps`. Dry runs are verbs of their own.
    requests: Mutex<BTreeMap<(&'static str, String), u64>>,
    /// By status code.
    answers: Mutex<BTreeMap<u16, u64>>,
    pub bytes_in: AtomicU64,
    pub bytes_out: AtomicU64,
    pub connections: AtomicU64,
    pub open_connections: AtomicU64,
    pub open_watches: AtomicU64,
    /// Watches that were told to list again, because they were too far behind.
    pub expired_watches: AtomicU64,
    /// Versions that writes made: a write that changes nothing makes none.
    pub versions: AtomicU64,
}

impl Counters {
    /// Counts a request.
    pub(super) fn request(&self, verb: &'static str, resource: &str) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((verb, resource.to_owned())).or_default() += 1;
    }

    /// Counts an answer.
    pub(super) fn answer(&self, code: u16) {
        *self.answers.lock().unwrap_or_else(PoisonError::into_inner).entry(code).or_default() += 1;
    }

    /// Returns all counts.
    pub(super) fn to_json(&self) -> Value {
        let mut requests = json!({});
        let mut watches = json!({});
        for ((verb, resource), count) in &*self.requests.lock().unwrap_or_else(PoisonError::into_inner) {
            match *verb {
                "watch" => watches[resource] = json!(count),
                verb => requests[verb][resource] = json!(count),
            }
        }
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let answers: BTreeMap<String, u64> = answers.iter().map(|(code, count)| (code.to_string(), *count)).collect();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        json!({
            "requests": requests, "watches": watches, "answers": answers,
            "bytesIn": count(&self.bytes_in), "bytesOut": count(&self.bytes_out),
            "connections": count(&self.connections), "openConnections": count(&self.open_connections),
            "openWatches": count(&self.open_watches),
            "expiredWatches": count(&self.expired_watches), "versions": count(&self.versions),
        })
    }

    /// Begins all counts again, without those of what is open now.
    pub(super) fn reset(&self) {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let counters = [&self.bytes_in, &self.bytes_out, &self.connections, &self.expired_watches, &self.versions];
        for counter in counters {
            counter.store(0, Ordering::Relaxed);
        }
    }
}
