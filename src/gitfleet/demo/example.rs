//! The files of the demo: those of `examples-repo`, which are part of the program.

use std::net::SocketAddr;

/// The name of the configuration in the demo's folder.
pub(super) const CONFIGURATION: &str = "gitfleet.yaml";

/// A table of files by their path below `examples-repo`: the crate has a link to it, so that its package has the files.
macro_rules! files {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples-repo/", $path)))),*]
    };
}

/// The example, by path.
const FILES: &[(&str, &str)] = files![
    ".gitfleetignore",
    "apps/load-test.yaml",
    "apps/payments.yaml",
    "apps/search.yaml",
    "apps/shop.yaml",
    "clusters/dev-eu.yaml",
    "clusters/prod-eu-1.yaml",
    "clusters/prod-us-1.yaml",
    "clusters/prod-us-2.yaml",
    "clusters/staging-eu.yaml",
    "placements/load-test.yaml",
    "placements/payments.yaml",
    "placements/platform.yaml",
    "placements/search.yaml",
    "placements/shop.yaml",
    "platform/platform.yaml",
    "platform/policies.yaml",
    "strategies/dev-to-prod.yaml",
];

/// What git is not to commit: the members' folders, and the daemon's store.
const GIT_IGNORE: (&str, &str) = (".gitignore", "/.gitfleet/\n/rendered/\n/gitfleet.yaml\n");

/// Returns the files of the first commit, by path.
pub(super) fn files() -> Vec<(String, String)> {
    let all = FILES.iter().chain([&GIT_IGNORE]);
    all.map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

/// Returns the text of a file of the example.
pub(super) fn file(path: &str) -> Option<&'static str> {
    FILES.iter().find(|(known, _)| *known == path).map(|(_, text)| *text)
}

/// Returns the configuration of the demo's daemon.
pub(super) fn configuration(address: SocketAddr) -> String {
    format!(
        "# The daemon's configuration for the demo. Paths are relative to this file.\n\
         apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\n\
         source: {{url: ., branch: main}}\n\
         members:\n  - {{name: \"*\", directory: \"./rendered/{{name}}\"}}\n\
         store: {{path: ./.gitfleet}}\n\
         http: {{listen: \"{address}\"}}\n"
    )
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::{Path, PathBuf};

    use super::*;
    use config::Configuration;

    fn below(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() { below(&path, found) } else { found.push(path) }
        }
    }

    #[test]
    fn every_file_of_the_example_is_in_the_program() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples-repo");
        let mut found = Vec::new();
        below(&root, &mut found);
        let relative = |path: PathBuf| path.strip_prefix(&root).expect("below").display().to_string();
        let others = |path: &String| {
            // What people make there by its README.
            let made = path.starts_with("rendered/") || path.starts_with(".gitfleet/") || path.starts_with("teams/");
            !made && !["README.md", CONFIGURATION].contains(&path.as_str())
        };
        let found: BTreeSet<String> = found.into_iter().map(relative).filter(others).collect();
        assert_eq!(found, FILES.iter().map(|(path, _)| (*path).to_owned()).collect());
    }

    #[test]
    fn the_configuration_has_no_errors() {
        let text = configuration(SocketAddr::from(([127, 0, 0, 1], 8080)));
        let parsed = Configuration::parse(&text, Path::new("/demo"), &BTreeMap::new());
        assert_eq!(parsed.map(|configuration| configuration.source.url), Ok("/demo".to_owned()));
    }
}
