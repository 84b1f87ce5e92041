//! How much is read, fetched and kept at most, and how long that may take.

use std::time::Duration;

/// The largest file that is read, in bytes: etcd refuses objects far smaller than this.
pub const BLOB_SIZE_MAX_BYTES: u64 = 5 * 1024 * 1024;
/// The most that is read at once, in bytes: bounds memory whatever a commit holds.
pub const READ_SIZE_MAX_BYTES: u64 = 256 * 1024 * 1024;
/// The largest list of one folder's entries that is read, in bytes: about 400,000 entries.
pub const TREE_SIZE_MAX_BYTES: u64 = 16 * 1024 * 1024;
/// The longest path that is read, in bytes: longer names would multiply with the number of files.
pub const PATH_SIZE_MAX_BYTES: usize = 1024;
/// The most files of a source that are read.
pub const FILES_MAX: usize = 20_000;
/// The most names in a path, file included.
pub const PATH_DEPTH_MAX: usize = 32;
/// The most tree entries visited, read or not: small objects can describe billions of paths by repeating trees.
pub const ENTRIES_MAX: usize = 1_000_000;
/// The most problems of one commit that are named: a person fixes a few, and the rest follows.
pub const ERRORS_MAX: usize = 1_000;
/// The largest object that a fetch may bring, in bytes: it is made in memory to be checked, whether or not it is read later.
pub const OBJECT_SIZE_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// The most objects that one fetch may bring.
pub const PACK_OBJECTS_MAX: u64 = 1_500_000;
/// The most bytes that one fetch may receive: they are kept on disk.
pub const PACK_RECEIVED_MAX_BYTES: u64 = 1024 * 1024 * 1024;
/// The most bytes that all objects of one fetch may have together once inflated: checking them takes seconds for each GiB.
pub const PACK_INFLATED_MAX_BYTES: u64 = 64 * 1024 * 1024 * 1024;
/// The largest manifest of an artifact that is read, in bytes: registries take no larger ones.
pub const OCI_MANIFEST_MAX_BYTES: u64 = 4 * 1024 * 1024;
/// The largest layer of an artifact that is read, in bytes, as it is in the registry.
pub const OCI_LAYER_MAX_BYTES: u64 = 128 * 1024 * 1024;
/// The most bytes that the files of an artifact may have together.
pub const OCI_UNPACKED_MAX_BYTES: u64 = READ_SIZE_MAX_BYTES;
/// The most entries of an artifact's archive, folders included.
pub const OCI_ENTRIES_MAX: usize = 2 * FILES_MAX;
/// How large our repository of an artifact may become before the commits that nothing names are left out, in bytes.
pub const OCI_KEPT_MAX_BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// The most signatures beside an artifact that are read.
pub const OCI_SIGNATURES_MAX: usize = 50;
/// The largest text that a signature of an artifact signs, in bytes.
pub const OCI_SIGNATURE_MAX_BYTES: u64 = 64 * 1024;
/// How long one poll of a remote may fetch. A first fetch of a large repository takes a minute or two.
pub const FETCH_TIME_MAX: Duration = Duration::from_mins(10);
/// How long the head of a pull request may be fetched: nothing else is read meanwhile, and strangers may push anything.
pub const PULL_FETCH_TIME_MAX: Duration = Duration::from_mins(1);
/// The most bytes of objects that are packed together for another copy of the repository, before they are deflated. What comes of them
/// fits into one record of the store.
pub const PACKED_SIZE_MAX_BYTES: u64 = 40 * 1024 * 1024;
/// The largest commit whose signature is checked, in bytes, without its files: a merge repeats the signed tags that it merges.
pub const SIGNED_SIZE_MAX_BYTES: u64 = 1024 * 1024;
/// The most commits that are listed between two.
pub const LANDED_MAX: usize = 100;
/// How long connecting over ssh may take, to the end of the key exchange.
pub const SSH_CONNECT_TIME_MAX: Duration = Duration::from_secs(20);
/// How long a host may be silent on a connection of ssh before it is asked whether it is there; three times, then it counts as gone.
pub const SSH_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// How long a git server that is reached over ssh may send nothing during an exchange. While it works, it sends a keep-alive packet every 5 s.
pub const SSH_SILENCE_MAX: Duration = Duration::from_mins(1);
/// How often a running fetch checks its stop flag.
pub const WATCHDOG_INTERVAL: Duration = Duration::from_millis(50);
/// How long a watched folder must be quiet before it counts as changed: files are saved one by one.
pub const WATCH_DEBOUNCE: Duration = Duration::from_millis(100);
/// How long a repository must be quiet before what moved after the first word of a burst is told too.
pub const WATCH_COALESCE: Duration = Duration::from_millis(5);
/// The longest delay of a change report for a location that never becomes quiet.
pub const WATCH_DEBOUNCE_MAX: Duration = Duration::from_secs(2);
/// How many packs a mirror may have before it is rebuilt: every fetch that brings something adds one.
pub const PACKS_MAX: usize = 200;
/// Packs a repository may have open at once; gix fixes the number when it opens. Well above `PACKS_MAX`, also for a user's repository.
pub(crate) const PACK_SLOTS: u16 = 2048;
