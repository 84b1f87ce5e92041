//! What changed in an agent's orders since its state was written whole: a file that only grows, so a change costs what it changed.
//!
//! Each record is sealed under its number and the state that it follows: none counts after another state, or at another place. Reading ends at
//! the first record that is not whole, such as one that a crash cut short.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::seal::Seal;
use model::id::{ClusterName, Digest, PlacementKey};
use wire::{inflate, pack};

/// Bytes of the file that are read: a state is written whole before there are so many.
const FILE_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Bytes of the length before each record.
const LENGTH_BYTES: usize = size_of::<u32>();

/// What the assignment says now of one order.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OrderChange {
    pub cluster: ClusterName,
    pub placement: PlacementKey,
    /// The current order; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Digest>,
    /// The order from before the agent last lost its lease; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outdated: Option<Digest>,
}

/// The file of changes.
pub(super) struct ChangeLog {
    file: PathBuf,
    /// Names the state that the records follow.
    state: String,
    /// Whole records in the file, and their bytes.
    records: u64,
    bytes: u64,
}

impl ChangeLog {
    /// Opens the file of the changes to a state, as its file holds that; returns them in the order in which they were made.
    pub(super) fn open(file: PathBuf, seal: &Seal, state: &[u8]) -> (Self, Vec<OrderChange>) {
        let mut log = Self { file, state: id_of(state), records: 0, bytes: 0 };
        let mut bytes = Vec::new();
        // Without the file there are no changes.
        drop(File::open(&log.file).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)));
        let mut rest = &bytes[..];
        let mut changes = Vec::new();
        while let Some((record, after)) = log.next(seal, rest) {
            log.records += 1;
            log.bytes += (rest.len() - after.len()) as u64;
            rest = after;
            changes.extend(record);
        }
        (log, changes)
    }

    /// Takes the next record off the file's bytes; `None` where it is not whole, or follows another state.
    fn next<'a>(&self, seal: &Seal, bytes: &'a [u8]) -> Option<(Vec<OrderChange>, &'a [u8])> {
        let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
        let (sealed, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        let packed = seal.open(&self.name(), sealed)?;
        Some((serde_json::from_slice(&inflate(&packed).ok()?).ok()?, rest))
    }

    /// Returns what the next record is sealed under.
    fn name(&self) -> String {
        format!("changes/{}/{}", self.state, self.records)
    }

    /// Adds changes, durably.
    ///
    /// # Errors
    /// The file cannot be written; then it holds what it held.
    pub(super) fn append(&mut self, seal: &Seal, changes: &[OrderChange]) -> io::Result<()> {
        let packed = pack(changes).map_err(io::Error::other)?;
        let sealed = seal.seal(&self.name(), &packed).ok_or_else(|| io::Error::other("there are no random bytes"))?;
        let length = u32::try_from(sealed.len()).map_err(io::Error::other)?;
        let record = [&length.to_be_bytes()[..], &sealed].concat();
        let mut file = OpenOptions::new().create(true).truncate(false).write(true).open(&self.file)?;
        // What an earlier state left, or a write that failed.
        file.set_len(self.bytes)?;
        file.seek(SeekFrom::Start(self.bytes))?;
        file.write_all(&record)?;
        file.sync_data()?;
        self.records += 1;
        self.bytes += record.len() as u64;
        Ok(())
    }

    /// Begins again after another state, which contains all changes.
    pub(super) fn follow(&mut self, state: &[u8]) {
        (self.state, self.records, self.bytes) = (id_of(state), 0, 0);
        // What stays in the file follows no state any more.
        drop(OpenOptions::new().write(true).open(&self.file).and_then(|file| file.set_len(0)));
    }
}

fn id_of(state: &[u8]) -> String {
    format!("{:x}", Sha256::digest(state))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use secrecy::SecretString;

    use super::*;

    fn change(number: usize) -> OrderChange {
        OrderChange {
            cluster: format!("c-{number}").as_str().into(),
            placement: PlacementKey::cluster_scoped("web"),
            order: Some(format!("order {number}").as_str().into()),
            outdated: None,
        }
    }

    #[test]
    fn changes_are_read_as_far_as_they_are_whole_and_of_this_state() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("changes");
        let seal = Seal::new(&SecretString::from("token".to_owned()));
        let open = |state: &[u8]| ChangeLog::open(path.clone(), &seal, state);
        let (mut log, none) = open(b"one");
        assert_eq!(none, []);
        log.append(&seal, &[change(1), change(2)]).expect("it is written");
        let whole = fs::metadata(&path).expect("a file").len();
        log.append(&seal, &[change(3)]).expect("it is written");
        assert_eq!(open(b"one").1, [change(1), change(2), change(3)]);
        assert_eq!(open(b"two").1, [], "they follow another state");
        // A crash in the middle of the last write.
        let bytes = fs::read(&path).expect("a file");
        assert!(!bytes.windows(3).any(|part| part == b"web"), "it is sealed");
        for end in usize::try_from(whole).expect("it is small") + 1..bytes.len() {
            fs::write(&path, &bytes[..end]).expect("a file");
            assert_eq!(open(b"one").1, [change(1), change(2)], "cut at {end}");
        }
        let (mut cut, _) = open(b"one");
        cut.append(&seal, &[change(4)]).expect("it is written");
        assert_eq!(open(b"one").1, [change(1), change(2), change(4)]);
        // A record at another place.
        let first = usize::try_from(whole).expect("it is small");
        let swapped = [&bytes[first..], &bytes[..first]].concat();
        fs::write(&path, swapped).expect("a file");
        assert_eq!(open(b"one").1, []);
        // The next state has them all; what is left of the file, as after a crash before it is emptied, follows nothing.
        fs::write(&path, &bytes).expect("a file");
        let (mut log, _) = open(b"one");
        log.follow(b"two");
        fs::write(&path, &bytes).expect("a file");
        log.append(&seal, &[change(5)]).expect("it is written");
        assert_eq!(open(b"two").1, [change(5)]);
    }
}
