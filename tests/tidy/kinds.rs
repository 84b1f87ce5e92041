//! The table of built-in kinds says what every release of Kubernetes says. k8s-openapi has the types of one release in a build, and the
//! sources of all: they are read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use model::kinds::{BUILT_IN, lookup};
use model::tree::Scope;

use super::licences::metadata;
use super::none;

/// The package.
const PACKAGE: &str = "k8s-openapi";
/// How the folders of its releases begin, before the number.
const RELEASE: &str = "v1_";
/// How the part of a file begins that says what a kind is. It ends where a line closes it.
const BEGIN: &str = "impl crate::Resource for ";

/// A kind in a version: group, version and kind.
type KindVersion = (String, String, String);
/// The kinds of a release, each with its plural and its scope.
type Release = BTreeMap<KindVersion, (String, Scope)>;

/// Returns the kinds of each release, by its number.
fn releases() -> BTreeMap<u32, Release> {
    let metadata = metadata();
    let package = metadata["packages"].as_array().unwrap().iter().find(|package| package["name"] == PACKAGE).unwrap();
    let sources = Path::new(package["manifest_path"].as_str().unwrap()).with_file_name("src");
    let mut releases = BTreeMap::new();
    for entry in fs::read_dir(sources).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if let Some(number) = name.strip_prefix(RELEASE).and_then(|number| number.parse().ok()) {
            read(&path, releases.entry(number).or_default());
        }
    }
    assert!(
        releases.len() > 1 && releases.values().all(|kinds| kinds.len() > 50),
        "are its sources still read rightly?"
    );
    releases
}

/// Reads the kinds of a folder.
fn read(folder: &Path, release: &mut Release) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, release);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        release.extend(text.split(BEGIN).skip(1).filter_map(|part| kind(part.split("\n}").next()?)));
    }
}

/// Reads a kind; `None` of a part of an object, such as `scale`, and of an answer that is no object, such as `APIGroupList`.
fn kind(part: &str) -> Option<(KindVersion, (String, Scope))> {
    let constant = |name: &str| {
        let value = part.split(&format!("const {name}: &'static str = \"")).nth(1)?.split('"').next()?;
        Some(value.to_owned())
    };
    let scope = match part.split("type Scope = crate::").nth(1)?.split(';').next()? {
        "ClusterResourceScope" => Scope::Cluster,
        "NamespaceResourceScope" => Scope::Namespaced,
        _ => return None,
    };
    let plural = constant("URL_PATH_SEGMENT").filter(|plural| !plural.is_empty())?;
    Some(((constant("GROUP")?, constant("VERSION")?, constant("KIND")?), (plural, scope)))
}

#[test]
fn the_table_of_kinds_says_what_every_release_says() {
    let releases = releases();
    let mut complaints = BTreeSet::new();
    for (release, kinds) in &releases {
        for ((group, version, kind), (plural, scope)) in kinds {
            match lookup(group, kind) {
                None => {
                    complaints.insert(format!("{kind} of {group:?} is missing: 1.{release} has it"));
                }
                Some(known) if (known.plural, known.scope) != (plural.as_str(), *scope) => {
                    complaints
                        .insert(format!("{kind} of {group:?} is {plural}, {scope:?} in {version} of 1.{release}"));
                }
                Some(_) => {}
            }
        }
    }
    let (_, newest) = releases.last_key_value().unwrap();
    for (at, known) in BUILT_IN.iter().enumerate() {
        let (group, version, kind) = (known.group.to_owned(), known.version.to_owned(), known.kind.to_owned());
        let all = newest.keys().filter(|(of, _, name)| (of, name) == (&group, &kind));
        let best = all.map(|(_, version, _)| version).max_by_key(|version| stability(version));
        let is_first = !BUILT_IN[..at].iter().any(|earlier| (earlier.group, earlier.kind) == (known.group, known.kind));
        if is_first && best != Some(&version) {
            complaints
                .insert(format!("{kind} of {group:?} is first in {version}; the most stable version is {best:?}"));
        }
        let key = (group, version, kind);
        if known.is_settled != releases.values().all(|kinds| kinds.contains_key(&key)) {
            complaints.insert(format!("{key:?} is settled where every release has it, and nowhere else"));
        }
    }
    none(&complaints.into_iter().collect::<Vec<_>>(), "src/model/kinds.rs has the table.");
}

/// Orders versions as Kubernetes does: stable ones, then betas, then alphas; of each, the highest number.
fn stability(version: &str) -> (bool, bool, Vec<u32>) {
    let numbers = version.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok());
    let is_stable = !version.contains("alpha") && !version.contains("beta");
    (is_stable, version.contains("beta"), numbers.collect())
}
