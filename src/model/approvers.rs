//! Who may approve by comment, by the file that holds a placement.

use serde::{Deserialize, Deserializer, Serialize};

use super::folder::holds;
use super::id::{CommitId, PlacementKey};

/// Approvers of the configuration that depend on the file of a placement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApproversByPath {
    /// Folders with their approvers, the deepest first.
    folders: Vec<(String, Vec<String>)>,
    /// Whether the CODEOWNERS file of the accepted commit names approvers.
    pub code_owners: bool,
}

impl ApproversByPath {
    /// Takes the folders of the configuration.
    pub fn new(mut folders: Vec<(String, Vec<String>)>, code_owners: bool) -> Self {
        folders.sort_by(|(a, _), (b, _)| (b.len(), a).cmp(&(a.len(), b)));
        Self { folders, code_owners }
    }

    /// Returns the deepest folder around a file, with its approvers.
    pub fn of(&self, path: &str) -> Option<(&str, &[String])> {
        let found = self.folders.iter().find(|(folder, _)| holds(folder, path));
        found.map(|(folder, approvers)| (folder.as_str(), approvers.as_slice()))
    }

    /// Returns the approvers of all folders.
    pub fn all(&self) -> impl Iterator<Item = &String> {
        self.folders.iter().flat_map(|(_, approvers)| approvers)
    }
}

/// What decides who may approve rollouts of a placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ownership {
    /// The file that holds it, in the tree of the source.
    pub path: String,
    /// The owners that the CODEOWNERS file names for that file; if empty, the configuration decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<String>,
    /// Whom the strategy's annotation names; absent means no restriction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrowed: Option<String>,
}

/// An ownership that a commit replaced. It counts beside the present one until that commit is rolled out: no commit chooses who
/// approves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplacedOwnership {
    /// What was replaced.
    pub before: Ownership,
    /// The commit that did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<CommitId>,
    /// What that commit brought was rolled out since. It ends with the next commit, whatever is open then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub agreed: bool,
    /// The placement that it was of, where the commit gives objects of that one to another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<PlacementKey>,
}

/// Reads replaced ownerships. A store of an earlier version has one instead of a list.
pub(crate) fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ReplacedOwnership>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Many(Vec<ReplacedOwnership>),
        One(ReplacedOwnership),
    }
    Ok(match Stored::deserialize(deserializer)? {
        Stored::Many(all) => all,
        Stored::One(one) => vec![one],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_of_an_earlier_version_has_one_replaced_ownership() {
        let one = r#"{"before": {"path": "a.yaml", "owners": ["user:ann"]}, "by": "c1"}"#;
        let read = |text: &str| one_or_many(&mut serde_json::Deserializer::from_str(text)).expect("it can be read");
        let earlier = read(one);
        assert_eq!(earlier.len(), 1);
        assert_eq!(earlier[0].before.owners, ["user:ann"]);
        assert_eq!(read(&format!("[{one}]")), earlier);
    }

    #[test]
    fn the_deepest_folder_around_a_file_decides() {
        let folders = [("teams", "user:all"), ("teams/shop", "user:shop"), ("x", "user:x")];
        let folders = folders.map(|(folder, approver)| (folder.to_owned(), vec![approver.to_owned()]));
        let by_path = ApproversByPath::new(folders.into(), false);
        for (path, wanted) in [
            ("teams/shop/a.yaml", Some(("teams/shop", "user:shop"))),
            ("teams/shopping/a.yaml", Some(("teams", "user:all"))),
            ("teams/shop#2", Some(("teams/shop", "user:shop"))),
            ("x", Some(("x", "user:x"))),
            ("xy/a.yaml", None),
            ("a.yaml", None),
        ] {
            let found = by_path.of(path).map(|(folder, approvers)| (folder, approvers[0].as_str()));
            assert_eq!(found, wanted, "{path}");
        }
    }
}
