//! Backups: a store as one file. Lines of JSON between a line with the format and one with the checksum of all others.
//!
//! A backup comes from one consistent read of the records, also while a daemon writes. The journal may contain a few later
//! entries.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::records::{self, CLUSTER_PREFIX, STORE_KEY};
use super::{Expected, Op, Result, Store};
use model::records::{JournalEntry, StoreRecord};

/// The first line of a backup; the number grows when an older gitfleet could not read the format.
const HEADER: &str = "gitfleet-backup 1";
/// The start of the last line.
const CHECKSUM: &str = "sha256 ";
/// The start of every backup, of any version.
const MAGIC: &str = "gitfleet-backup ";

/// One line of a backup.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Line {
    /// A record: its key, and its bytes in base64.
    Record(String, String),
    /// An entry of the journal, oldest first.
    Journal(JournalEntry),
}

/// Returns everything a store holds as the text of a backup.
///
/// # Errors
/// The store cannot be read.
#[expect(clippy::missing_panics_doc, reason = "keys, text and journal entries are JSON")]
pub fn write(store: &dyn Store) -> Result<String> {
    let records = store.list("")?;
    let journal = store.journal(0, usize::MAX)?;
    let mut text = format!("{HEADER}\n");
    let records = records.into_iter().map(|(key, found)| Line::Record(key, STANDARD.encode(found.value)));
    for line in records.chain(journal.into_iter().map(|(_, entry)| Line::Journal(entry))) {
        text.push_str(&serde_json::to_string(&line).expect("a line is JSON"));
        text.push('\n');
    }
    let checksum = format!("{CHECKSUM}{:x}\n", Sha256::digest(&text));
    text.push_str(&checksum);
    Ok(text)
}

/// Returns the operations that fill an empty store from a backup.
///
/// # Errors
/// The text is no backup, is from a newer gitfleet, or was truncated or changed; as text for users.
pub fn read(text: &str) -> std::result::Result<Vec<Op>, String> {
    let Some(version) = text.lines().next().filter(|line| line.starts_with(MAGIC)) else {
        return Err("it is no backup of gitfleet's".to_owned());
    };
    // Before the checksum: another format may have it in another place.
    if version != HEADER {
        return Err(format!("it is a {version:?} and this gitfleet reads {HEADER:?}; use the gitfleet that wrote it"));
    }
    let (body, last) = text.trim_end_matches('\n').rsplit_once('\n').ok_or("it is cut: it has one line")?;
    let body = format!("{body}\n");
    let checksum = last.strip_prefix(CHECKSUM).ok_or("it is cut: its last line is no checksum")?;
    if checksum != format!("{:x}", Sha256::digest(&body)) {
        return Err("it is damaged: its checksum is not that of its content".to_owned());
    }
    let op = |line: &str| {
        Ok(match serde_json::from_str(line).map_err(|error| format!("a line of it cannot be read: {error}"))? {
            Line::Record(key, value) => {
                let value = STANDARD.decode(value).map_err(|error| format!("record {key}: {error}"))?;
                Op::Put { key, value, expected: Expected::Absent }
            }
            Line::Journal(entry) => Op::Journal(entry),
        })
    };
    body.lines().skip(1).map(op).collect()
}

/// Returns the operations that fill an empty store from a backup, so that the next process takes over what members hold beyond
/// it: snapshots, pauses and holds. `by` is the person who restores it.
///
/// # Errors
/// As [`read`].
pub fn restore(text: &str, by: &str, now: Timestamp) -> std::result::Result<Vec<Op>, String> {
    let mut ops = read(text)?;
    let is_it = |op: &Op| matches!(op, Op::Put { key, .. } if key == STORE_KEY);
    let mut record = match ops.iter().position(is_it).map(|at| ops.remove(at)) {
        Some(Op::Put { value, .. }) => serde_json::from_slice(&value)
            .map_err(|error| format!("what it says of its store cannot be read: {error}"))?,
        _ => StoreRecord::new(now),
    };
    let clusters = ops.iter().filter_map(|op| match op {
        Op::Put { key, .. } => records::cluster_of(key, CLUSTER_PREFIX),
        _ => None,
    });
    record.restore(clusters, by, now);
    ops.extend(record.adoption_entry().map(Op::Journal));
    ops.push(records::put(STORE_KEY.to_owned(), &record, Expected::Any).map_err(|error| error.to_string())?);
    Ok(ops)
}

#[cfg(test)]
mod tests;
