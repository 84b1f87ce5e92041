//! The keys of results: digests of everything that a result depends on.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use model::id::BlobId;
use model::rendering::{Capabilities, RELEASE_FILE, RELEASE_NAMESPACE};
use source::RenderedFolder;

/// What a key depends on beside files and versions: options of the program, and what is made of its result. To be raised when that changes.
const KUSTOMIZE_OPTIONS: &str = "2";

/// The same for Helm.
const HELM_OPTIONS: &str = "1";

/// Returns the key of a folder's result: of the program's version, of what it is asked, and of the names and contents of the files that it
/// may read.
pub(super) fn of_folder(folder: &RenderedFolder, version: &str, files: &[(Arc<str>, BlobId)]) -> String {
    let mut digest = Sha256::new();
    for part in asked(folder, version) {
        add(&mut digest, &part);
    }
    for (path, blob) in files {
        add(&mut digest, path);
        add(&mut digest, blob.as_str());
    }
    format!("{:x}", digest.finalize())
}

/// Returns the key of what a folder is rendered to with one more file of values.
pub(super) fn of_variant(folder: &str, path: &str, values: &[u8]) -> String {
    let mut digest = Sha256::new();
    // By the values as they are given to the program, not by whose they are: clusters may differ and get the same.
    for part in [folder, "values", path] {
        add(&mut digest, part);
    }
    digest.update(values);
    format!("{:x}", digest.finalize())
}

/// Returns what a folder's result depends on beside files. What a release does not say is no part of its key: a folder with another key
/// is rendered again, and one with random values is then rolled out.
fn asked(folder: &RenderedFolder, version: &str) -> Vec<String> {
    let program = folder.renderer().program();
    let Some(release) = &folder.release else {
        return [KUSTOMIZE_OPTIONS, program, version, &folder.path, ""].map(str::to_owned).into();
    };
    let has_capabilities = release.capabilities != Capabilities::default();
    let is_plain = release.chart == folder.path
        && release.namespace == RELEASE_NAMESPACE
        && release.values.is_empty()
        && !has_capabilities;
    let mut parts: Vec<String> =
        [HELM_OPTIONS, program, version, &folder.path, &release.name].map(str::to_owned).into();
    if !is_plain {
        parts.insert(0, RELEASE_FILE.to_owned());
        parts.extend([release.chart.clone(), release.namespace.clone(), release.values.len().to_string()]);
        parts.extend(release.values.iter().cloned());
    }
    if has_capabilities {
        parts.push(release.capabilities.kube_version.clone().unwrap_or_default());
        parts.push(release.capabilities.api_versions.len().to_string());
        parts.extend(release.capabilities.api_versions.iter().cloned());
    }
    parts
}

/// Adds a text with its length, so that no two lists of texts are one.
fn add(digest: &mut Sha256, text: &str) {
    digest.update((text.len() as u64).to_be_bytes());
    digest.update(text);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use model::rendering::Release;

    #[test]
    fn texts_of_a_key_cannot_run_together() {
        let key = |parts: &[&str]| {
            let mut digest = Sha256::new();
            for part in parts {
                add(&mut digest, part);
            }
            digest.finalize()
        };
        assert_ne!(key(&["a", "bc"]), key(&["ab", "c"]));
        assert_ne!(key(&["a", ""]), key(&["", "a"]));
    }

    fn chart(release: Release) -> RenderedFolder {
        let path = "web".to_owned();
        let marker = "web/Chart.yaml".to_owned();
        let reads = BTreeSet::new();
        RenderedFolder { path, marker, release: Some(release), reads }
    }

    #[test]
    fn a_key_is_of_all_that_a_release_says() {
        let plain = || Release {
            chart: "web".into(),
            name: "web".into(),
            namespace: "default".into(),
            values: Vec::new(),
            capabilities: Capabilities::default(),
        };
        // A chart without a release keeps the key that it had before there were any: it would be rendered again.
        assert_eq!(asked(&chart(plain()), "v4.3.1"), ["1", "helm", "v4.3.1", "web", "web"]);
        // So does a release that says nothing of capabilities.
        let other = || Release { namespace: "other".into(), ..plain() };
        let key = ["release.gitfleet.yaml", "1", "helm", "v4.3.1", "web", "web", "web", "other", "0"];
        assert_eq!(asked(&chart(other()), "v4.3.1"), key);
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let on = |kube_version: Option<&str>, api_versions: &[&str]| Release {
            capabilities: Capabilities {
                kube_version: kube_version.map(str::to_owned),
                api_versions: texts(api_versions),
            },
            ..plain()
        };
        let releases = [
            plain(),
            other(),
            Release { name: "other".into(), ..plain() },
            Release { chart: "other".into(), ..plain() },
            Release { values: texts(&["a", "b"]), ..plain() },
            Release { values: texts(&["b", "a"]), ..plain() },
            Release { values: texts(&["a"]), ..plain() },
            on(Some("v1.34.0"), &[]),
            on(Some("v1.33.0"), &[]),
            on(None, &["a/v1", "b/v1"]),
            on(None, &["a/v1"]),
            on(Some("v1.34.0"), &["a/v1"]),
        ];
        let keys: BTreeSet<Vec<String>> =
            releases.iter().map(|release| asked(&chart(release.clone()), "v4.3.1")).collect();
        assert_eq!(keys.len(), releases.len(), "{keys:#?}");
    }
}
