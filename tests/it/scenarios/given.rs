//! The fleet that most scenarios start with.

use crate::scenarios::read::Given;

/// The canary c1, and p1 and p2, which are prod; a Namespace with one ConfigMap; a strategy that asks between them.
const TREE: &str = "\
cluster c1 env=canary
cluster p1 env=prod
cluster p2 env=prod
namespace app
cm app/cm v=1
strategy s
  canary env=canary, after Approval
  prod env=prod, max 100%
";

/// The configuration. The source has a name, so that nothing depends on where the folder is.
pub const CONFIGURATION: &str = "\
apiVersion: gitfleet.io/v1alpha1
kind: Configuration
source: {url: ./fleet, branch: main, identity: fleet}
members: [{name: \"*\", directory: \"./members/{name}\"}]
store: {path: ./store}
http: {listen: \"127.0.0.1:0\"}
";

/// Returns the lines of its files, as of a commit.
pub fn tree(given: Given) -> Vec<(usize, &'static str)> {
    let web = match given {
        Given::Rolling => "placement web: of namespace app, max-unavailable 1",
        Given::Tree | Given::Staged => "placement web: of namespace app, staged s",
    };
    let lines = TREE.lines().map(|line| (line.len() - line.trim_start().len(), line.trim()));
    lines.chain([(0, web)]).collect()
}

/// Returns the steps that roll it out, as lines.
pub fn rollout(given: Given) -> &'static [&'static str] {
    match given {
        Given::Tree => &[],
        Given::Rolling => &["once 0"],
        Given::Staged => &["once 3", "gitfleet approve web-0 canary", "once 0"],
    }
}
