//! Fuzz target: whatever the files say that ask for programs, nothing outside of the tree is read, and nothing is decided twice.

use std::collections::BTreeMap;
use std::convert::Infallible;

use model::id::BlobId;
use model::rendering::Renderer;
use model::yaml::parse_documents;
use serde_json::Value;
use source::{Files, KnownMarkers, ValuesTemplate, folders, refused_input};

/// Stands between two files of one input.
const BETWEEN: &[u8] = b"\n%%%\n";

/// Files of a made-up tree; an input is at most so many.
const PATHS: [&str; 6] = [
    "app/kustomization.yaml",
    "base/kustomization.yaml",
    "app/patch.yaml",
    "chart/Chart.yaml",
    "env/release.gitfleet.yaml",
    VALUES,
];

const VALUES: &str = "chart/values.gitfleet.yaml";

struct Tree(BTreeMap<&'static str, Vec<u8>>);

impl Files for Tree {
    type Error = Infallible;

    fn below(&mut self, folder: &str) -> Result<Vec<String>, Infallible> {
        let is_in =
            |path: &&str| folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        Ok(self.0.keys().copied().filter(is_in).map(str::to_owned).collect())
    }

    fn id(&mut self, path: &str) -> Result<Option<BlobId>, Infallible> {
        Ok(self.0.get_key_value(path).map(|(path, _)| BlobId::from(*path)))
    }

    fn content(&mut self, path: &str) -> Result<Option<Vec<u8>>, Infallible> {
        Ok(self.0.get(path).cloned())
    }
}

pub(super) fn run(input: &[u8]) {
    let mut tree = Tree(PATHS.into_iter().zip(split(input)).collect());
    for (path, content) in &tree.0 {
        if let Some(error) = refused_input(path, content) {
            assert_eq!(error.path, *path, "an error names its file");
        }
    }
    if let Some(content) = tree.0.get(VALUES) {
        values(content);
    }
    let is_marker = |path: &&&str| Renderer::of_file(path.rsplit('/').next().unwrap_or_default()).is_some();
    let markers: Vec<String> = tree.0.keys().filter(is_marker).map(|path| (*path).to_owned()).collect();
    let mut said = KnownMarkers::default();
    let Ok(found) = folders(&markers, &mut tree, &mut said);
    let Ok(again) = folders(&markers, &mut tree, &mut said);
    assert_eq!(found, again, "what is known says the same");
    for folder in &found.rendered {
        let release = folder.release.iter().flat_map(|release| release.values.iter().chain([&release.chart]));
        for path in folder.reads.iter().chain(release).chain([&folder.path]) {
            assert!(!path.starts_with('/') && path.split('/').all(|part| part != ".."), "{path} is out of the tree");
        }
        if let Some(release) = &folder.release {
            let words = [&release.name, &release.namespace];
            let of_capabilities = release.capabilities.kube_version.iter().chain(&release.capabilities.api_versions);
            for word in words.into_iter().chain(of_capabilities) {
                assert!(!word.starts_with('-') && !word.contains([',', ' ', '"']), "{word} is an option of Helm");
            }
        }
    }
    for error in &found.errors {
        assert!(
            PATHS.contains(&error.path.as_str()) && !error.message.is_empty(),
            "an error names its file: {error:?}"
        );
    }
}

/// What a label holds stays in the text that names it.
fn values(content: &[u8]) {
    let template = match ValuesTemplate::read(VALUES, content) {
        Ok(template) => template,
        Err(errors) => return assert!(!errors.is_empty(), "a refusal has a reason"),
    };
    let filled = |value: &str| {
        let inputs = template.reads.iter().map(|field| (field.clone(), value.to_owned())).collect();
        template.filled(&inputs).ok().map(|text| shape(&String::from_utf8(text).expect("it was text")))
    };
    if let (Some(plain), Some(hostile)) = (filled("a"), filled("'\" }}: {{\n- b: &c\n# d")) {
        assert_eq!(plain, hostile, "a label is more than a text");
    }
}

/// Returns a file of values without what its texts say.
fn shape(text: &str) -> Vec<Value> {
    fn masked(value: &Value) -> Value {
        match value {
            Value::String(_) => Value::String(String::new()),
            Value::Array(list) => Value::Array(list.iter().map(masked).collect()),
            Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), masked(value))).collect(),
            other => other.clone(),
        }
    }
    let documents = parse_documents(text).into_iter();
    documents.map(|document| masked(&document.expect("what is filled can be read").value)).collect()
}

fn split(mut input: &[u8]) -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    while files.len() + 1 < PATHS.len()
        && let Some(at) = input.windows(BETWEEN.len()).position(|window| window == BETWEEN)
    {
        files.push(input[..at].to_vec());
        input = &input[at + BETWEEN.len()..];
    }
    files.push(input.to_vec());
    files
}
