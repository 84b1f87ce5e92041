//! A folder of its own for each test, and the binary run in it without anybody's settings.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::fleet::git;
use crate::{program, repository};

/// The folder with the tree in every scratch.
pub const FLEET: &str = "fleet";
/// The configuration that [`Scratch::configure`] writes.
pub const CONFIG: &str = "gitfleet.yaml";

/// A folder that goes with the test.
pub struct Scratch {
    dir: TempDir,
}

/// What the binary left.
pub struct Outcome {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Outcome {
    /// Reads standard output as JSON, and checks the exit code on the way.
    pub fn json(&self, code: i32) -> Value {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        serde_json::from_str(&self.out).expect("standard output is JSON")
    }

    /// Checks the exit code; returns standard output.
    pub fn text(&self, code: i32) -> &str {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        &self.out
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Scratch {
    /// Makes an empty folder with an empty home in it.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(dir.path().join("home")).expect("a home");
        fs::create_dir(dir.path().join(FLEET)).expect("a folder for the tree");
        Self { dir }
    }

    /// Makes a fleet of `east` and `west` as [`Scratch::with_web_on`] does.
    pub fn with_web() -> Self {
        Self::with_web_on(&["east", "west"])
    }

    /// Makes a fleet of these clusters, and commits a placement `web` of the namespace `web` with the ConfigMap `a`. Nothing is
    /// rolled out. The region of a cluster is the first letter of its name.
    pub fn with_web_on(clusters: &[&str]) -> Self {
        let scratch = Self::new();
        scratch.configure();
        let clusters: String = clusters.iter().map(|name| cluster(name, &name[..1])).collect();
        scratch.write("clusters.yaml", &clusters);
        scratch.write("web.yaml", &namespace("web", &[("a", "1")]));
        scratch.write("placement.yaml", &placement("web", "web", ""));
        scratch.commit("first");
        scratch
    }

    /// Returns a path below the folder.
    pub fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Writes a file of the tree.
    pub fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.path(FLEET).join(path);
        fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder");
        fs::write(&path, text).expect("a file");
        self
    }

    /// Removes a file of the tree.
    pub fn remove(&self, path: &str) -> &Self {
        fs::remove_file(self.path(FLEET).join(path)).expect("the file is there");
        self
    }

    /// Commits the tree; returns the commit.
    pub fn commit(&self, message: &str) -> String {
        git::commit_all(&self.path(FLEET), message).expect("git commits")
    }

    /// Writes a configuration: the tree's repository, every member a folder.
    pub fn configure(&self) -> &Self {
        let text = "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {url: ./fleet, branch: main}\n\
                    members:\n  - {name: \"*\", directory: \"./members/{name}\"}\nstore: {path: ./store}\n\
                    http: {listen: \"127.0.0.1:0\"}\n";
        fs::write(self.path(CONFIG), text).expect("a file");
        self
    }

    /// Returns the command in this folder, without the environment of whoever runs the tests.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(args).current_dir(self.dir.path()).env_clear().stdin(Stdio::null());
        command.env("HOME", self.path("home")).env("NO_COLOR", "1");
        command
    }

    /// Runs the binary to its end.
    pub fn run(&self, args: &[&str]) -> Outcome {
        let output = self.command(args).output().expect("the binary starts");
        Outcome {
            code: output.status.code().expect("it ends by itself"),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }

    /// Reads what a member's folder holds: visible file names, in order.
    pub fn member(&self, name: &str) -> Vec<String> {
        let folder = self.path("members").join(name);
        let entries = fs::read_dir(&folder).map(|entries| entries.collect::<Result<Vec<_>, _>>().expect("entries"));
        let names = entries.unwrap_or_default().into_iter().map(|e| e.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
        names.sort();
        names
    }
}

/// Returns a MemberCluster with a label `region`.
pub fn cluster(name: &str, region: &str) -> String {
    format!(
        "---\napiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata:\n  name: {name}\n  labels: \
         {{region: {region:?}}}\nspec: {{}}\n"
    )
}

/// Returns a Namespace with ConfigMaps of these names and values.
pub fn namespace(name: &str, maps: &[(&str, &str)]) -> String {
    let mut text = format!("---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n");
    text.extend(maps.iter().map(|(map, value)| {
        format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {map}\n  namespace: {name}\ndata:\n  key: {value:?}\n")
    }));
    text
}

/// Returns a ClusterResourcePlacement of a Namespace; `more` are lines of its spec.
pub fn placement(name: &str, namespace: &str, more: &str) -> String {
    annotated_placement(name, "{}", namespace, more)
}

/// As [`placement`], with annotations.
pub fn annotated_placement(name: &str, annotations: &str, namespace: &str, more: &str) -> String {
    format!(
        "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata:\n  name: {name}\n  \
         annotations: {annotations}\nspec:\n  resourceSelectors:\n    - {{group: \"\", version: v1, kind: Namespace, name: \
         {namespace}}}\n{more}"
    )
}

/// Returns a file that stands beside the tests.
pub fn fixture(path: &str) -> String {
    let path = repository().join("tests/fixtures").join(path);
    fs::read_to_string(&path).expect("the fixture is there")
}
