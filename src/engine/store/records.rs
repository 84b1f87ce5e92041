//! The typed layer over the store: the keys of each kind of record, and JSON conversion.
//!
//! Keys are segments joined by `/`. Segments from outside (a placement, a cluster) are percent-encoded, so that the `/` of
//! `namespace/name` never looks like a separator, and the prefix of one name never covers another's records.

use std::fmt::Write as _;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Error, Expected, Op, Result, Store, Versioned};
use model::commands::ExecutedCommand;
use model::decisions::DecisionsKey;
use model::id::{ClusterName, PlacementKey};
use model::overrides::OverrideRef;

/// The key of the store's own record.
pub const STORE_KEY: &str = "store";
/// Prefix of source records.
pub const SOURCE_PREFIX: &str = "source/";
/// Prefix of placement records.
pub const PLACEMENT_PREFIX: &str = "placement/";
/// Prefix of all resource snapshots.
pub const SNAPSHOT_PREFIX: &str = "snapshot/";
/// Prefix of all policy snapshots.
pub const POLICY_PREFIX: &str = "policy/";
/// Prefix of all bindings.
pub const BINDING_PREFIX: &str = "binding/";
/// Prefix of all staged update runs.
pub const RUN_PREFIX: &str = "run/";
/// Prefix of all snapshots of overrides.
pub const OVERRIDE_PREFIX: &str = "override/";
/// Prefix of all work statuses.
pub const WORK_PREFIX: &str = "work/";
/// Prefix of cluster records.
pub const CLUSTER_PREFIX: &str = "cluster/";
/// Prefix of OCM Placements' records.
pub const OCM_PREFIX: &str = "ocm/";
/// Prefix of exported decisions.
pub const DECISIONS_PREFIX: &str = "decisions/";
/// Prefix of the records of agents' tokens. The HTTP interface leaves the digest of the token out.
pub const AGENT_PREFIX: &str = "agent/";
/// Prefix of the records of hubs.
pub const HUB_PREFIX: &str = "hub/";

/// Prefix of the records about how far receivers of notifications were told.
pub const NOTIFIED_PREFIX: &str = "notified/";

/// Prefix of the bot's records: written texts, handled comments, and the key for marks of hidden values. Readers of other
/// records may have no access to the repository, so the HTTP interface never returns these.
pub const FORGE_PREFIX: &str = "forge/";

/// Prefix of the commands of comments that were executed, until their comments are recorded as handled. The core writes them, with
/// what the commands change; the bot deletes them.
pub const EXECUTED_PREFIX: &str = "forge/executed/";

/// The key of the record with the key of digests of plaintext. Whoever has it can check guesses, so the HTTP interface never returns it.
pub const DIGEST_KEY: &str = "digest-key";

/// The key of the commits that the branch dropped, and how those of several sources begin. Readers of other records may have no access to the repository, so the HTTP interface
/// never returns it.
pub const DROPPED_KEY: &str = "commits/dropped";

/// Digits of an index in a key: enough for every `u64`, so that byte order is number order.
const INDEX_DIGITS: usize = 20;

/// Returns the key of the last reading of the clock.
pub fn clock_key() -> String {
    "clock/seen".to_owned()
}

/// Returns the key of the commits that a source's branch dropped; the name is empty where there is one source.
pub fn dropped_key(source: &str) -> String {
    if source.is_empty() { DROPPED_KEY.to_owned() } else { format!("{DROPPED_KEY}/{}", escape(source)) }
}

/// Returns the key of a source's record.
pub fn source_key(name: &str) -> String {
    format!("{SOURCE_PREFIX}{}", escape(name))
}

/// Returns the key of a placement's record.
pub fn placement_key(placement: &PlacementKey) -> String {
    format!("{PLACEMENT_PREFIX}{}", escape_placement(placement))
}

/// Returns the key of a resource snapshot; keys of one placement are ordered by index.
pub fn snapshot_key(placement: &PlacementKey, index: u64) -> String {
    format!("{}{index:0INDEX_DIGITS$}", snapshot_prefix(placement))
}

/// Returns the prefix of a placement's resource snapshots.
pub fn snapshot_prefix(placement: &PlacementKey) -> String {
    format!("{SNAPSHOT_PREFIX}{}/", escape_placement(placement))
}

/// Returns the key of a policy snapshot; keys of one placement are ordered by index.
pub fn policy_key(placement: &PlacementKey, index: u64) -> String {
    format!("{}{index:0INDEX_DIGITS$}", policy_prefix(placement))
}

/// Returns the prefix of a placement's policy snapshots.
pub fn policy_prefix(placement: &PlacementKey) -> String {
    format!("{POLICY_PREFIX}{}/", escape_placement(placement))
}

/// Returns the key of a binding, by its name: a cluster may have two while an older one is being removed.
pub fn binding_key(placement: &PlacementKey, name: &str) -> String {
    format!("{}{}", binding_prefix(placement), escape(name))
}

/// Returns the prefix of a placement's bindings.
pub fn binding_prefix(placement: &PlacementKey) -> String {
    format!("{BINDING_PREFIX}{}/", escape_placement(placement))
}

/// Returns the key of a staged update run of a placement.
pub fn run_key(placement: &PlacementKey, name: &str) -> String {
    format!("{}{}", run_prefix(placement), escape(name))
}

/// Returns the prefix of a placement's staged update runs.
pub fn run_prefix(placement: &PlacementKey) -> String {
    format!("{RUN_PREFIX}{}/", escape_placement(placement))
}

/// Returns the key of a snapshot of an override; keys of one override are ordered by index.
pub fn override_key(id: &OverrideRef) -> String {
    let namespace = id.key.namespace.as_ref().map_or(String::new(), |namespace| format!("{namespace}/"));
    format!("{OVERRIDE_PREFIX}{}/{:0INDEX_DIGITS$}", escape(&format!("{namespace}{}", id.key.name)), id.index)
}

/// Returns the key of a cluster's work status for a placement.
pub fn work_key(placement: &PlacementKey, cluster: &ClusterName) -> String {
    format!("{}{}", work_prefix(placement), escape(cluster.as_str()))
}

/// Returns the prefix of a placement's work statuses.
pub fn work_prefix(placement: &PlacementKey) -> String {
    format!("{WORK_PREFIX}{}/", escape_placement(placement))
}

/// Returns the key of a cluster's record.
pub fn cluster_key(cluster: &ClusterName) -> String {
    format!("{CLUSTER_PREFIX}{}", escape(cluster.as_str()))
}

/// Returns the key of the record of an agent's token.
pub fn agent_key(name: &str) -> String {
    format!("{AGENT_PREFIX}{}", escape(name))
}

/// Returns the key of a command of a comment that was executed.
pub fn executed_key(command: &ExecutedCommand) -> String {
    format!("{EXECUTED_PREFIX}{}", command.id())
}

/// Returns the key of an OCM Placement's record.
pub fn ocm_key(namespace: &str, name: &str) -> String {
    format!("{OCM_PREFIX}{}", escape(&format!("{namespace}/{name}")))
}

/// Returns the key of a placement's export.
pub fn decisions_key(key: &DecisionsKey) -> String {
    let (namespace, slash) = key.namespace.as_ref().map_or(("", ""), |namespace| (namespace.as_str(), "/"));
    format!("{DECISIONS_PREFIX}{}/{}", escape(&key.kind), escape(&format!("{namespace}{slash}{}", key.name)))
}

/// Returns the key of a hub's record, by the namespace of its decisions.
pub fn hub_key(namespace: &str) -> String {
    format!("{HUB_PREFIX}{}", escape(namespace))
}

/// Returns the key of how far a receiver of notifications was told, by its name in the configuration.
pub fn notified_key(receiver: &str) -> String {
    format!("{NOTIFIED_PREFIX}{}", escape(receiver))
}

/// Returns the placement that a key of `prefix` names in its first segment; `None` where the key is of another kind.
pub fn placement_of(key: &str, prefix: &str) -> Option<PlacementKey> {
    let segment = key.strip_prefix(prefix)?.split('/').next()?;
    unescape(segment)?.parse().ok()
}

/// Returns the cluster that a key of `prefix` names in its last segment; `None` where the key is of another kind.
///
/// For kinds whose last segment is a cluster: bindings, works and clusters.
pub fn cluster_of(key: &str, prefix: &str) -> Option<ClusterName> {
    let segment = key.strip_prefix(prefix)?.rsplit('/').next()?;
    unescape(segment).map(ClusterName::new)
}

/// A record from the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Record<T> {
    /// Where it is.
    pub key: String,
    /// The version of its last write.
    pub version: u64,
    /// Its value.
    pub value: T,
}

/// Reads a record.
///
/// # Errors
/// `Unreadable` where there is a record that is no `T`: absent and unreadable are never the same.
pub fn load<T: DeserializeOwned>(store: &dyn Store, key: &str) -> Result<Option<Record<T>>> {
    store.get(key)?.map(|versioned| decode(key.to_owned(), &versioned)).transpose()
}

/// Reads all records under a prefix, ordered by key. One unreadable record fails the call, named.
pub fn load_all<T: DeserializeOwned>(store: &dyn Store, prefix: &str) -> Result<Vec<Record<T>>> {
    store.list(prefix)?.into_iter().map(|(key, versioned)| decode(key, &versioned)).collect()
}

/// Returns the step that writes a record.
pub fn put<T: Serialize>(key: String, value: &T, expected: Expected) -> Result<Op> {
    match serde_json::to_vec(value) {
        Ok(value) => Ok(Op::Put { key, value, expected }),
        Err(source) => Err(Error::Unwritable { key, source }),
    }
}

/// Reads a record that was listed.
///
/// # Errors
/// As [`load`].
pub fn decode<T: DeserializeOwned>(key: String, versioned: &Versioned) -> Result<Record<T>> {
    match serde_json::from_slice(&versioned.value) {
        Ok(value) => Ok(Record { key, version: versioned.version, value }),
        Err(source) => Err(Error::Unreadable { key, source }),
    }
}

fn escape_placement(placement: &PlacementKey) -> String {
    escape(&placement.to_string())
}

/// Percent-encodes everything but letters, digits, `-`, `.` and `_`, so that a segment has no `/` and names of Kubernetes
/// objects stay readable.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_') {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("writing to a String cannot fail");
        }
    }
    out
}

/// Undoes `escape`; `None` for a text that `escape` does not make.
pub fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            out.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            out.push(byte);
            rest = tail;
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests;
