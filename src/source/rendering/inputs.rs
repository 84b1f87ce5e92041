//! What no file that Kustomize reads may ask for: functions and plugins that are programs, and addresses in settings of built-in
//! plugins, which it would fetch.

use serde_json::Value;

use super::complaint;
use super::kustomization::{folded, is_remote};
use model::manifest::InputError;
use model::yaml;

/// The annotations that make a file the settings of a program or container.
const FUNCTIONS: [&str; 2] = ["config.kubernetes.io/function", "config.k8s.io/function"];

/// The version of built-in plugins.
const BUILTIN: &str = "builtin";

/// Fields of built-in plugins that name files.
const PATHS: [&str; 8] = ["path", "paths", "files", "env", "envs", "crds", "configurations", "resources"];

/// Returns why a file that Kustomize would read is refused.
pub fn refused_input(path: &str, content: &[u8]) -> Option<InputError> {
    let text = std::str::from_utf8(content).ok()?;
    if FUNCTIONS.iter().any(|function| text.contains(function))
        || (may_hide(text) && values(text).any(|value| asks_for_function(&value)))
    {
        let message = "asks for a function, which is a program or a container";
        return Some(complaint(path, message, "commit what the function makes: no program of a tree is run"));
    }
    let remote = may_be_plugin(text) && values(text).any(|value| has_remote_plugin(&value));
    let hint = "commit what it has, and name that: nothing is fetched while a folder is rendered";
    remote.then(|| complaint(path, "a built-in plugin names a remote file, or one by its absolute path", hint))
}

/// Returns the documents of a text that can be read.
fn values(text: &str) -> impl Iterator<Item = Value> {
    yaml::parse_documents(text).into_iter().flatten().map(|document| document.value)
}

/// Tells whether a text may say more than is written there: in double quotes a backslash begins any character.
fn may_hide(text: &str) -> bool {
    text.contains('\\')
}

fn may_be_plugin(text: &str) -> bool {
    text.contains(BUILTIN) || may_hide(text)
}

fn asks_for_function(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| FUNCTIONS.contains(&name.as_str()) || asks_for_function(value))
        }
        Value::Array(list) => list.iter().any(asks_for_function),
        _ => false,
    }
}

/// Tells whether a value is, or holds as text, the settings of a built-in plugin that name something to fetch.
fn has_remote_plugin(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            let is_plugin = fields.iter().any(|(name, value)| folded(name) == "apiversion" && value == BUILTIN);
            (is_plugin && names_remote(value, false)) || fields.values().any(has_remote_plugin)
        }
        Value::Array(list) => list.iter().any(has_remote_plugin),
        // Kustomizations may hold plugins as text.
        Value::String(text) if may_be_plugin(text) && text.contains('\n') => {
            values(text).any(|value| has_remote_plugin(&value))
        }
        _ => false,
    }
}

fn names_remote(value: &Value, is_path: bool) -> bool {
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| names_remote(value, is_path || PATHS.contains(&folded(name).as_str())))
        }
        Value::Array(list) => list.iter().any(|one| names_remote(one, is_path)),
        Value::String(text) => is_path && (is_remote(text) || text.starts_with('/')),
        _ => false,
    }
}
