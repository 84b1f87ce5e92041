//! What Argo CD's ApplicationSet controller does with decisions, as a function: the `clusterDecisionResource` generator and
//! what becomes of the Applications.
//!
//! Source: Argo CD, duck-type generator and ApplicationSet controller.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Parameters of one Application.
pub type Parameters = BTreeMap<String, String>;

/// A cluster Argo CD knows by a secret: name and server.
pub type Cluster<'a> = (&'a str, &'a str);

/// Runs the generator over the objects its label selector found, in any order. `config_map` is `data` of the ConfigMap.
///
/// # Errors
/// The reconcile fails, by an error or by a panic that is recovered: every Application stays as it is.
pub fn generate(
    config_map: Option<&Value>,
    objects: &[&Value],
    clusters: &[Cluster],
) -> Result<Vec<Parameters>, String> {
    let data = config_map.ok_or("error reading configMapRef")?;
    let text = |key: &str| data[key].as_str().unwrap_or_default();
    if text("kind").is_empty() || text("apiVersion").find('/').is_none_or(|at| at == 0) {
        return Err("there is a problem with the apiVersion, kind or resourceName provided".to_owned());
    }
    if objects.is_empty() {
        return Err("no clusterDecisionResources found".to_owned());
    }
    let mut objects = objects.to_vec();
    objects.sort_by_key(|object| object["metadata"]["name"].as_str().unwrap_or_default());
    let list_key = if text("statusListKey").is_empty() { "clusters" } else { text("statusListKey") };
    let mut items: Vec<&Value> = Vec::new();
    for object in objects {
        let status = object["status"].as_object().filter(|status| !status.is_empty());
        let Some(status) = status else { continue };
        let list = status.get(list_key).and_then(Value::as_array);
        items.extend(list.ok_or_else(|| format!("panic: status.{list_key} is no list"))?);
    }
    let mut found = Vec::new();
    for item in items {
        let item = item.as_object().ok_or("panic: an item is no map")?;
        let wanted = item.get(text("matchKey")).and_then(Value::as_str).unwrap_or_default();
        let Some((name, server)) = clusters.iter().find(|(name, _)| !wanted.is_empty() && *name == wanted) else {
            continue;
        };
        let mut parameters: Parameters = [("name", *name), ("server", server.trim_end_matches('/'))]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
        parameters.extend(item.iter().map(|(key, value)| (key.clone(), go(value))));
        found.push(parameters);
    }
    Ok(found)
}

/// Writes a value as Go's `%v` does.
fn go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let entries: Vec<String> = map.iter().map(|(key, value)| format!("{key}:{}", go(value))).collect();
            format!("map[{}]", entries.join(" "))
        }
        other => other.to_string(),
    }
}

/// What the controller leaves: the Applications, named by cluster, and what it complains about.
#[derive(Debug, PartialEq, Eq)]
pub struct Reconciled {
    /// The Applications there are.
    pub applications: BTreeSet<String>,
    /// Errors in the ApplicationSet's status.
    pub errors: Vec<String>,
}

/// Runs the controller with the default policy and an Application for each `clusterName`.
pub fn reconcile(before: &BTreeSet<String>, generated: Result<Vec<Parameters>, String>) -> Reconciled {
    let mut errors = Vec::new();
    let parameters = match generated {
        Ok(parameters) => parameters,
        Err(error) => return Reconciled { applications: before.clone(), errors: vec![error] },
    };
    let mut applications = BTreeSet::new();
    for set in parameters {
        let name = set.get("clusterName").cloned().unwrap_or_default();
        if !applications.insert(name.clone()) {
            errors.push(format!("contains applications with duplicate name: {name}"));
        }
    }
    Reconciled { applications, errors }
}
