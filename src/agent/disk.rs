//! The state folder: the members, their last orders, and the objects of those, all sealed; and the highest epoch, in plain text.
//!
//! The state is written whole now and then, and what changes in between is added to a file beside it.
//!
//! A file that is damaged or that another token sealed counts as missing: it is fetched again. Without the epoch the agent does not start.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use secrecy::SecretString;
use serde_json::Value;

use super::changes::{ChangeLog, OrderChange};
use super::seal::Seal;
use model::id::{ClusterName, Digest, PlacementKey};
use model::records::WorkStatus;
use wire::remote::agent::{AgentDisk, Assignment, OrderDigests};
use wire::{AgentOrder, CONTENT_BYTES_MAX, inflate, pack, pack_bytes};

/// Bytes of one file.
const FILE_BYTES_MAX: u64 = CONTENT_BYTES_MAX as u64;
/// The sealed list of members and orders.
const STATE: &str = "state";
/// What changed since that was written.
const CHANGES: &str = "changes";
/// The highest epoch.
const EPOCH: &str = "epoch";
/// More changes than there can be orders: the next one writes the state whole.
const LOST: usize = usize::MAX;
/// The folder of orders and objects.
const CONTENT: &str = "content";

/// The state folder of an agent.
pub(super) struct Disk {
    folder: PathBuf,
    seal: Seal,
    /// The assignment as it is on disk, as far as the disk could be written.
    assignment: Assignment,
    log: ChangeLog,
    /// Orders that were changed since the state was written whole; [`LOST`] where the disk lacks some of the changes.
    changed: usize,
    /// The highest epoch of a server.
    epoch: u64,
    /// The objects of each order that is kept.
    contents: BTreeMap<Digest, BTreeSet<Digest>>,
    /// Objects that members' tasks hold: equal ones are in memory once.
    loaded: BTreeMap<Digest, Weak<Value>>,
}

impl Disk {
    /// Opens the folder, and makes it where it is missing.
    ///
    /// # Errors
    /// The folder cannot be made, or the highest epoch in it cannot be read: without it the agent would follow a server that was replaced.
    pub(super) fn open(folder: &Path, token: &SecretString) -> io::Result<Self> {
        fs::create_dir_all(folder.join(CONTENT))?;
        let seal = Seal::new(token);
        let state = read(&folder.join(STATE)).unwrap_or_default();
        let (log, made) = ChangeLog::open(folder.join(CHANGES), &seal, &state);
        let mut disk = Self {
            folder: folder.to_owned(),
            seal,
            assignment: Assignment::default(),
            log,
            changed: made.len(),
            epoch: read_epoch(&folder.join(EPOCH))?,
            contents: BTreeMap::new(),
            loaded: BTreeMap::new(),
        };
        let json = disk.seal.open(STATE, &state).and_then(|packed| inflate(&packed).ok());
        match json.and_then(|json| serde_json::from_slice(&json).ok()) {
            Some(assignment) => {
                disk.assignment = assignment;
                for change in made {
                    disk.replay(change);
                }
            }
            None if folder.join(STATE).exists() => {
                tracing::warn!(folder = %folder.display(), "the state cannot be opened: it is damaged, or sealed with another token; fetching it again");
            }
            None => {}
        }
        Ok(disk)
    }

    /// Changes an order of the assignment as it was changed before.
    fn replay(&mut self, change: OrderChange) {
        let OrderChange { cluster, placement, order, outdated } = change;
        let Assignment { orders, outdated: all_outdated, .. } = &mut self.assignment;
        for (all, digest) in [(orders, order), (all_outdated, outdated)] {
            match digest {
                Some(digest) => drop(all.entry(cluster.clone()).or_default().insert(placement.clone(), digest)),
                None => drop(all.get_mut(&cluster).and_then(|orders| orders.remove(&placement))),
            }
        }
    }

    fn opened(&self, name: &str, file: &Path) -> Option<Vec<u8>> {
        let sealed = read(&self.folder.join(file))?;
        inflate(&self.seal.open(name, &sealed)?).ok()
    }

    fn content_file(&self, digest: &Digest) -> PathBuf {
        self.named_file(digest.as_str())
    }

    fn named_file(&self, name: &str) -> PathBuf {
        Path::new(CONTENT).join(self.seal.name(name))
    }

    fn content(&self, digest: &Digest) -> Option<Vec<u8>> {
        self.opened(digest.as_str(), &self.content_file(digest))
    }

    fn keep(&self, digest: &Digest, packed: &[u8]) -> io::Result<()> {
        self.write_sealed(digest.as_str(), &self.content_file(digest), packed).map(drop)
    }

    /// Writes content under a name; returns it as it is in the file.
    fn write_sealed(&self, name: &str, file: &Path, packed: &[u8]) -> io::Result<Vec<u8>> {
        let sealed =
            self.seal.seal(name, packed).ok_or_else(|| io::Error::other("the system gives no random bytes"))?;
        write(&self.folder.join(file), &sealed)?;
        Ok(sealed)
    }

    fn note_contents(&mut self, digest: &Digest, order: &AgentOrder) {
        self.contents.insert(digest.clone(), order.objects().into_iter().cloned().collect());
    }

    /// Removes the orders and objects that no current order names.
    fn sweep(&mut self) {
        let current: BTreeSet<&Digest> = self.assignment.kept().map(|(_, _, digest)| digest).collect();
        self.contents.retain(|digest, _| current.contains(digest));
        if current.iter().any(|digest| !self.contents.contains_key(*digest)) {
            // One of them is still to be fetched or cannot be read: what it names is not known.
            return;
        }
        self.loaded.retain(|_, object| object.strong_count() > 0);
        let named = self.contents.values().flatten().chain(self.contents.keys());
        let named = named.map(|digest| self.seal.name(digest.as_str()));
        let reports = self.assignment.kept();
        let reports = reports.map(|(cluster, placement, _)| self.seal.name(&report_name(cluster, placement)));
        let named: BTreeSet<String> = named.chain(reports).collect();
        let Ok(entries) = fs::read_dir(self.folder.join(CONTENT)) else { return };
        for entry in entries.flatten() {
            if !entry.file_name().to_str().is_some_and(|name| named.contains(name)) {
                complain(fs::remove_file(entry.path()));
            }
        }
    }
}

impl AgentDisk for Disk {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn assignment(&mut self) -> &mut Assignment {
        &mut self.assignment
    }

    fn note_epoch(&mut self, epoch: u64) {
        if epoch > self.epoch {
            self.epoch = epoch;
            if let Err(error) = write(&self.folder.join(EPOCH), epoch.to_string().as_bytes()) {
                tracing::error!(%error, epoch, "the highest epoch cannot be stored: after a restart this agent follows a server that was replaced");
            }
        }
    }

    fn save(&mut self) {
        let packed = pack(&self.assignment).map_err(io::Error::other);
        let written = packed.and_then(|packed| self.write_sealed(STATE, Path::new(STATE), &packed));
        self.changed = if written.is_ok() { 0 } else { LOST };
        complain(written.map(|state| self.log.follow(&state)));
        self.sweep();
    }

    fn save_orders(&mut self, orders: &[(ClusterName, PlacementKey)]) {
        if orders.is_empty() {
            return;
        }
        self.changed = self.changed.saturating_add(orders.len());
        // So an order costs the same to write whole and to sweep, however many there are.
        if self.changed >= self.assignment.count() {
            return self.save();
        }
        let now = |(cluster, placement): &(ClusterName, PlacementKey)| {
            let of = |all: &OrderDigests| all.get(cluster).and_then(|orders| orders.get(placement)).cloned();
            OrderChange {
                cluster: cluster.clone(),
                placement: placement.clone(),
                order: of(&self.assignment.orders),
                outdated: of(&self.assignment.outdated),
            }
        };
        let made: Vec<OrderChange> = orders.iter().map(now).collect();
        let added = self.log.append(&self.seal, &made);
        if added.is_err() {
            self.changed = LOST;
        }
        complain(added);
    }

    fn order(&mut self, digest: &Digest) -> Option<AgentOrder> {
        let order = AgentOrder::decode(digest, &self.content(digest)?).ok().flatten()?;
        self.note_contents(digest, &order);
        Some(order)
    }

    fn keep_order(&mut self, digest: &Digest, json: &[u8]) -> Result<Option<AgentOrder>, wire::Error> {
        let order = AgentOrder::decode(digest, json)?;
        if let Some(order) = &order {
            complain(self.keep(digest, &pack_bytes(json)?));
            self.note_contents(digest, order);
        }
        Ok(order)
    }

    fn object(&mut self, digest: &Digest) -> Option<Arc<Value>> {
        if let Some(loaded) = self.loaded.get(digest).and_then(Weak::upgrade) {
            return Some(loaded);
        }
        let object: Arc<Value> = Arc::new(serde_json::from_slice(&self.content(digest)?).ok()?);
        self.loaded.insert(digest.clone(), Arc::downgrade(&object));
        Some(object)
    }

    fn keep_object(&mut self, digest: &Digest, object: &Arc<Value>) {
        self.loaded.insert(digest.clone(), Arc::downgrade(object));
        let packed = pack(&**object).map_err(io::Error::other);
        complain(packed.and_then(|packed| self.keep(digest, &packed)));
    }

    fn report(&self, cluster: &ClusterName, placement: &PlacementKey) -> Option<Arc<WorkStatus>> {
        let name = report_name(cluster, placement);
        let json = self.opened(&name, &self.named_file(&name))?;
        serde_json::from_slice(&json).ok().map(Arc::new)
    }

    fn keep_report(&mut self, cluster: &ClusterName, placement: &PlacementKey, status: &Arc<WorkStatus>) {
        let name = report_name(cluster, placement);
        let sealed = pack(status.as_ref()).ok().and_then(|packed| self.seal.seal(&name, &packed));
        let sealed = sealed.ok_or_else(|| io::Error::other("a report cannot be sealed"));
        complain(sealed.and_then(|sealed| replace(&self.folder.join(self.named_file(&name)), &sealed)));
    }
}

/// Returns what the report about a placement on a member is sealed under.
fn report_name(cluster: &ClusterName, placement: &PlacementKey) -> String {
    format!("report/{cluster}/{placement}")
}

/// A disk that cannot be written costs a fetch after the next start; the agent continues with what it has in memory.
fn complain(written: io::Result<()>) {
    if let Err(error) = written {
        tracing::warn!(%error, "the state folder cannot be written; after a restart its content is fetched again");
    }
}

/// Reads the highest epoch; 0 where no server was seen yet.
fn read_epoch(path: &Path) -> io::Result<u64> {
    let wrong = |kind, why: &str| {
        let way_out = "if no server of an earlier epoch runs any more, remove it";
        io::Error::new(kind, format!("{} {why}; {way_out}", path.display()))
    };
    let mut text = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut text));
    match read {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(wrong(error.kind(), &format!("cannot be read: {error}"))),
    }
    let number = std::str::from_utf8(&text).ok().and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| wrong(io::ErrorKind::InvalidData, "holds no number"))
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Replaces a file as a whole, durably.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = temporary(path, bytes)?;
    file.as_file().sync_data()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Replaces a file as a whole; a power failure may leave it empty.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    temporary(path, bytes)?.persist(path).map(drop).map_err(|error| error.error)
}

fn temporary(path: &Path, bytes: &[u8]) -> io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    file.write_all(bytes)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_that_cannot_be_read_is_not_forgotten() {
        let folder = tempfile::tempdir().expect("a folder");
        let token = SecretString::from("token".to_owned());
        let open = || Disk::open(folder.path(), &token);
        let mut disk = open().expect("it opens");
        assert_eq!(disk.epoch(), 0);
        disk.note_epoch(7);
        assert_eq!(open().expect("it opens").epoch(), 7);
        for damage in [b"".as_slice(), b"x", b"-1", b"\xff"] {
            fs::write(folder.path().join(EPOCH), damage).expect("it is written");
            let error = open().err().expect("with an epoch of 0 any server would count").to_string();
            assert!(error.contains("epoch holds no number"), "{error}");
        }
        fs::remove_file(folder.path().join(EPOCH)).expect("it is there");
        fs::create_dir(folder.path().join(EPOCH)).expect("a folder");
        let error = open().err().expect("it cannot be read").to_string();
        assert!(error.contains("epoch cannot be read: ") && error.contains("remove it"), "{error}");
    }

    #[test]
    fn an_order_costs_what_it_changes_and_survives_the_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let token = SecretString::from("token".to_owned());
        let mut disk = Disk::open(folder.path(), &token).expect("it opens");
        let placement = PlacementKey::cluster_scoped("web");
        let give = |disk: &mut Disk, number: usize, digest: &str| {
            let cluster = ClusterName::from(format!("c-{number}").as_str());
            disk.assignment.orders.entry(cluster.clone()).or_default().insert(placement.clone(), digest.into());
            disk.save_orders(&[(cluster, placement.clone())]);
        };
        let size = |name: &str| fs::metadata(folder.path().join(name)).map_or(0, |found| found.len());
        let mut whole = 0;
        for number in 0..500 {
            let before = size(STATE);
            give(&mut disk, number, "first");
            whole += usize::from(size(STATE) != before);
        }
        assert!(whole < 20, "the whole state was written {whole} times for 500 orders");
        give(&mut disk, 6, "second");
        assert_eq!(size(CHANGES), 0, "there are as many changes as orders");
        let state = size(STATE);
        let changes = size(CHANGES);
        give(&mut disk, 7, "second");
        assert_eq!(size(STATE), state);
        assert!(size(CHANGES) - changes < 300, "one order takes {} bytes", size(CHANGES) - changes);
        // Forgotten, and one from before a lease.
        let of = |number: usize| ClusterName::from(format!("c-{number}").as_str());
        disk.assignment.orders.remove(&of(8));
        let late = disk.assignment.orders.remove(&of(9)).expect("an order");
        disk.assignment.outdated.insert(of(9), late);
        disk.save_orders(&[(of(8), placement.clone()), (of(9), placement.clone())]);
        assert_eq!(size(STATE), state);
        let mut again = Disk::open(folder.path(), &token).expect("it opens");
        let without_empty = |all: &OrderDigests| {
            let full = all.iter().filter(|(_, orders)| !orders.is_empty());
            full.map(|(cluster, orders)| (cluster.clone(), orders.clone())).collect::<OrderDigests>()
        };
        assert_eq!(without_empty(&again.assignment.orders), disk.assignment.orders);
        assert_eq!(again.assignment.outdated, disk.assignment.outdated);
        again.save();
        let once_more = Disk::open(folder.path(), &token).expect("it opens");
        assert_eq!((size(CHANGES), &once_more.assignment), (0, &again.assignment));
    }

    #[test]
    fn what_could_not_be_written_is_written_with_the_next_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let token = SecretString::from("token".to_owned());
        let mut disk = Disk::open(folder.path(), &token).expect("it opens");
        let placement = PlacementKey::cluster_scoped("web");
        let give = |disk: &mut Disk, name: &str, digest: &str| {
            disk.assignment.orders.entry(name.into()).or_default().insert(placement.clone(), digest.into());
            disk.save_orders(&[(name.into(), placement.clone())]);
        };
        let kept = || Disk::open(folder.path(), &token).expect("it opens").assignment.orders;
        for name in ["a", "b", "c", "d", "e"] {
            give(&mut disk, name, "first");
        }
        disk.save();
        // Neither of the two files can be written.
        fs::remove_file(folder.path().join(CHANGES)).expect("a file");
        fs::create_dir(folder.path().join(CHANGES)).expect("a folder");
        give(&mut disk, "a", "second");
        assert_ne!(kept(), disk.assignment.orders);
        let state = fs::read(folder.path().join(STATE)).expect("a file");
        fs::remove_file(folder.path().join(STATE)).expect("a file");
        fs::create_dir(folder.path().join(STATE)).expect("a folder");
        give(&mut disk, "b", "second");
        fs::remove_dir(folder.path().join(STATE)).expect("a folder");
        fs::write(folder.path().join(STATE), state).expect("a file");
        fs::remove_dir(folder.path().join(CHANGES)).expect("a folder");
        give(&mut disk, "c", "second");
        assert_eq!(kept(), disk.assignment.orders);
    }
}
