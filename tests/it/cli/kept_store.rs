//! Stores that were written earlier: a store of an earlier version is opened, shows what it showed then, and is left as it is.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;
use testservers::repository;

use crate::cli::golden::LISTINGS;
use crate::cli::golden::fleet::{GoldenFleet, typed};
use crate::cli::golden::kept::Kept;
use crate::cli::golden::plain::{without_ages, without_now};
use crate::cli::scratch::{CONFIG, FLEET, Scratch};

/// The folder of the store of an earlier version, below `tests/fixtures`; its name has the commit of that version.
const EARLIER: &str = "store-940c194";
/// The fleet as it was packed, and the backup that was made of its store.
const PACKED: &str = "fleet.tar.gz";
/// The variable that names a folder to pack a fleet into, for the next version.
const KEEP: &str = "GITFLEET_KEEP_STORE";
/// What is packed of a fleet.
const FOLDERS: [&str; 3] = [FLEET, "members", "store"];
const FILES: [&str; 3] = [CONFIG, "ann", BACKUP];
/// A backup of the store, beside it.
const BACKUP: &str = "store.backup";
/// Where the repository is, for every process that works in the folder of the fleet: no record names a temporary folder.
const URL: &str = "file:///proc/self/cwd/fleet";

/// What is asked without a daemon.
const SHOWN: [&str; 14] = [
    "status",
    "status --all",
    "describe placement web",
    "describe placement search",
    "describe run search-0",
    "describe approval search-0-after-staging",
    "describe cluster p2",
    "history search",
    "events --limit 0",
    "explain web",
    "explain apps/best",
    "diff search",
    "export decisions -o wide",
    "export journal",
];

/// Runs a command on the store.
fn run(scratch: &Scratch, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    typed(&words, &scratch.run(&[&words[..], &["-c", CONFIG]].concat()))
}

/// Packs a fleet whose daemon has ended.
fn pack(scratch: &Scratch, to: &Path) {
    crate::cli::git::git(&scratch.path(FLEET), &["gc", "-q", "--aggressive", "--prune=now"]).expect("git packs");
    let mut tar = tar::Builder::new(GzEncoder::new(File::create(to).expect("a file"), Compression::best()));
    for name in FOLDERS {
        tar.append_dir_all(name, scratch.path(name)).expect("a folder");
    }
    for name in FILES {
        tar.append_path_with_name(scratch.path(name), name).expect("a file");
    }
    tar.into_inner().expect("it is written").finish().expect("it is written");
}

/// Unpacks a fleet into a folder of its own.
fn unpack(from: &Path) -> Scratch {
    let scratch = Scratch::new();
    let packed = GzDecoder::new(File::open(from).expect("the fleet is there"));
    tar::Archive::new(packed).unpack(scratch.path("")).expect("it is unpacked");
    scratch
}

fn earlier() -> Scratch {
    unpack(&repository().join("tests/fixtures").join(EARLIER).join(PACKED))
}

/// Returns the records of a store as text by their keys, and its journal: what a backup holds.
fn held(scratch: &Scratch, name: &str) -> BTreeMap<String, String> {
    let told = scratch.run(&["store", "backup", name, "-c", CONFIG]);
    assert_eq!(told.code, 0, "{}{}", told.out, told.err);
    read(&fs::read_to_string(scratch.path(name)).expect("the backup"))
}

fn read(backup: &str) -> BTreeMap<String, String> {
    let lines = backup.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let entry = |(number, line): (usize, Value)| {
        let Some(key) = line["record"][0].as_str() else { return (format!("journal/{number:04}"), line.to_string()) };
        let value = STANDARD.decode(line["record"][1].as_str().expect("a value")).expect("base64");
        (key.to_owned(), String::from_utf8_lossy(&value).into_owned())
    };
    let numbered = lines.enumerate().map(entry);
    // The clock is read whenever something is stored.
    numbered.filter(|(key, _)| key != "clock/seen").collect()
}

fn text(held: &BTreeMap<String, String>) -> String {
    held.iter().map(|(key, value)| format!("{key} {value}\n")).collect()
}

/// Returns the files of all members with what they hold, what is hidden in them too.
fn delivered(scratch: &Scratch) -> BTreeMap<String, Vec<u8>> {
    let entries = |path: &Path| fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry").path());
    let files = entries(&scratch.path("members")).flat_map(|member| entries(&member).collect::<Vec<_>>());
    files.map(|path| (path.to_string_lossy().into_owned(), fs::read(&path).expect("a file"))).collect()
}

fn objects(scratch: &Scratch) -> String {
    LISTINGS.iter().map(|kind| without_now(&run(scratch, &format!("get {kind} -o json")))).collect()
}

#[test]
fn a_fleet_that_moved_is_shown_as_before_without_a_daemon() {
    let GoldenFleet { scratch, daemon, .. } = GoldenFleet::play(URL);
    daemon.end();
    let (shown, before) = (objects(&scratch), held(&scratch, BACKUP));
    let packed = scratch.path(PACKED);
    pack(&scratch, &packed);
    let moved = unpack(&packed);
    assert_eq!(objects(&moved), shown);
    assert_eq!(text(&held(&moved, "again")), text(&before));
    if let Some(folder) = std::env::var_os(KEEP) {
        fs::copy(&packed, Path::new(&folder).join(PACKED)).expect("it is kept");
    }
}

#[test]
fn a_store_of_an_earlier_version_shows_what_it_showed() {
    let scratch = earlier();
    let mut kept = Kept::in_folder(EARLIER);
    let tables = LISTINGS.iter().map(|kind| format!("get {kind} -o wide"));
    let shown = SHOWN.iter().map(ToString::to_string).chain(tables).map(|line| run(&scratch, &line));
    kept.compare("shown.txt", &without_ages(&shown.collect::<String>()));
    kept.compare("objects.txt", &objects(&scratch));
    kept.compare("records.txt", &text(&held(&scratch, "again")));
    kept.finish();
}

#[test]
fn a_backup_of_an_earlier_version_is_restored() {
    let scratch = earlier();
    let (before, shown) = (held(&scratch, "before"), objects(&scratch));
    fs::remove_dir_all(scratch.path("store")).expect("the store is lost");
    scratch.run(&["store", "restore", BACKUP, "-c", CONFIG]).text(0);
    // That it was restored is recorded as well.
    let is_older = |key: &str, value: &str| key != "store" && !value.contains("\"StoreAdopted\"");
    let mut after = held(&scratch, "after");
    after.retain(|key, value| is_older(key, value));
    for (key, value) in before.into_iter().filter(|(key, value)| is_older(key, value)) {
        assert_eq!(after.remove(&key), Some(value), "{key}");
    }
    assert_eq!(after, BTreeMap::new());
    assert_eq!(objects(&scratch), shown);
}

/// Fields of placements that the earlier version did not have: they follow from what it kept.
const NEW_FIELDS: [&str; 3] = ["failed", "succeeded", "behind"];

/// Returns a record without them.
fn known(record: &str) -> String {
    let Ok(mut value) = serde_json::from_str::<serde_json::Value>(record) else { return record.to_owned() };
    let Some(fields) = value.as_object_mut().filter(|fields| fields.contains_key("annotations")) else {
        return record.to_owned();
    };
    fields.retain(|field, _| !NEW_FIELDS.contains(&field.as_str()));
    value.to_string()
}

#[test]
fn a_daemon_on_a_store_of_an_earlier_version_changes_nothing() {
    let scratch = earlier();
    let (before, members) = (held(&scratch, "before"), delivered(&scratch));
    let found = scratch.run(&["run", "-c", CONFIG, "--once"]);
    assert!(found.code == 1 && found.err.contains("not all at the accepted commit"), "{}", found.err);
    // A machine whose clock says something else shifts what waits, and says so; each start asks the members and the source again.
    let time = regex::Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").expect("a pattern");
    let without_times = |held: BTreeMap<String, String>| -> BTreeMap<String, String> {
        let lasting = held.into_iter().filter(|(_, value)| !value.contains("\"ClockCorrected\""));
        lasting.map(|(key, value)| (key, known(&time.replace_all(&value, "TIME")))).collect()
    };
    let (before, mut after) = (without_times(before), without_times(held(&scratch, "after")));
    for (key, value) in before {
        assert_eq!(after.remove(&key), Some(value), "{key}");
    }
    assert_eq!(after, BTreeMap::new());
    // Inventories keep since when something is held or paused: that shifts, too.
    let text = |content: Vec<u8>| time.replace_all(&String::from_utf8_lossy(&content), "TIME").into_owned();
    let without_times = |delivered: BTreeMap<String, Vec<u8>>| -> BTreeMap<String, String> {
        delivered.into_iter().map(|(path, content)| (path, text(content))).collect()
    };
    assert_eq!(without_times(delivered(&scratch)), without_times(members));
}
