//! What an object is after a write: its content and who owns which of its fields.

use serde_json::{Map, Value, json};

use super::answer::{Status, apply_conflict, bad_request};
use super::fields::Fields;
use super::kinds::Kind;
use super::merge::{compare, merge, remove};
use super::schema::Schema;

/// Metadata that the server keeps; what requests say of it is read separately.
const OF_THE_SERVER: [&str; 8] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
];
/// Who owns the fields of an object that nobody owned until somebody applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Somebody who writes; an apply and an update of the same manager are two.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Author {
    pub manager: String,
    pub applies: bool,
    pub api_version: String,
    pub subresource: String,
}

impl Author {
    /// Returns the author as conflicts name it.
    fn spelled(&self) -> String {
        if self.applies {
            format!("{:?}", self.manager)
        } else {
            format!("{:?} using {}", self.manager, self.api_version)
        }
    }
}

/// An author's fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manager {
    pub author: Author,
    pub fields: Fields,
}

impl Manager {
    /// Reads an entry of `managedFields`.
    pub(super) fn read(entry: &Value) -> Self {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let author = Author {
            manager: text("manager"),
            applies: entry["operation"] == "Apply",
            api_version: text("apiVersion"),
            subresource: text("subresource"),
        };
        Self { author, fields: Fields::from_json(&entry["fieldsV1"]) }
    }

    /// Returns the entry without its time.
    pub(super) fn to_json(&self) -> Value {
        let Author { manager, applies, api_version, subresource } = &self.author;
        let mut entry = json!({
            "manager": manager, "operation": if *applies { "Apply" } else { "Update" }, "apiVersion": api_version,
            "fieldsType": "FieldsV1", "fieldsV1": self.fields.to_json(),
        });
        if !subresource.is_empty() {
            entry["subresource"] = json!(subresource);
        }
        entry
    }
}

/// An object without what the server keeps of it: no type, uid, version or times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    pub content: Value,
    pub managers: Vec<Manager>,
}

/// An object as a request brings it.
pub(super) struct Sent {
    /// What a manifest holds of it.
    pub content: Value,
    pub name: Option<String>,
    pub uid: Option<String>,
    pub version: Option<String>,
    pub managed_fields: Option<Value>,
}

impl Sent {
    /// Takes the object of a request apart.
    pub(super) fn read(mut object: Value, kind: &Kind, api_version: &str) -> Result<Self, Status> {
        let type_ = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        if !object.is_object() || type_("apiVersion").is_empty() || type_("kind").is_empty() {
            return Err(bad_request(format!("invalid object type: /, Kind={}", type_("kind"))));
        }
        if type_("kind") != kind.name || type_("apiVersion") != api_version {
            return Err(bad_request(format!(
                "{} in version {:?} cannot be handled as a {}",
                type_("kind"),
                type_("apiVersion"),
                kind.name
            )));
        }
        Ok(Self::of(std::mem::take(&mut object)))
    }

    /// Takes an object apart whose type is known.
    pub(super) fn of(mut object: Value) -> Self {
        let mut kept = Map::new();
        if let Some(fields) = object.as_object_mut() {
            fields.remove("apiVersion");
            fields.remove("kind");
            let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
            if let Some(metadata) = metadata.as_object_mut() {
                for name in OF_THE_SERVER {
                    kept.extend(metadata.remove(name).map(|value| (name.to_owned(), value)));
                }
            }
        }
        let text = |value: Option<&Value>| value.and_then(Value::as_str).filter(|t| !t.is_empty()).map(str::to_owned);
        Self {
            name: text(object.pointer("/metadata/name")),
            uid: text(kept.get("uid")),
            version: text(kept.get("resourceVersion")),
            managed_fields: kept.remove("managedFields").filter(|value| !value.is_null()),
            content: object,
        }
    }
}

/// Applies an object, as server-side apply does.
pub(super) fn apply(
    kind: &Kind,
    live: Option<&Manifest>,
    mut applied: Value,
    author: &Author,
    force: bool,
) -> Result<Manifest, Status> {
    let schema = Schema { is_custom: kind.is_custom };
    let empty = Manifest { content: json!({}), managers: Vec::new() };
    let before = live.unwrap_or(&empty);
    let mut managers = before.managers.clone();
    if live.is_some() && managers.is_empty() {
        let fields = Fields::added(&before.content, schema, "", "").owned();
        let first = Author { manager: BEFORE_FIRST_APPLY.to_owned(), applies: false, ..author.clone() };
        managers.extend((!fields.is_empty()).then_some(Manager { author: first, fields }));
    }
    keep_to_part(kind, &author.subresource, &mut applied);
    let mine = Fields::applied(&applied, schema);
    let mut content = merge(&before.content, &applied, schema, "", "");
    let mut kept = mine.clone();
    let mut last = Fields::default();
    for manager in &managers {
        if manager.author == *author { last = manager.fields.clone() } else { kept.add(&manager.fields) }
    }
    remove(&mut content, &last.minus(&kept), &kept, schema);
    complete(kind, &mut content, &before.content, &author.subresource);
    let changes = compare(&before.content, &content, schema);
    managers.retain(|manager| manager.author != *author);
    let conflicts: Vec<(String, Vec<String>)> = managers
        .iter()
        .map(|manager| (manager.author.spelled(), manager.fields.common(&changes.set).paths()))
        .filter(|(_, paths)| !paths.is_empty())
        .collect();
    if !force && !conflicts.is_empty() {
        return Err(apply_conflict(&conflicts));
    }
    yielded(&mut managers, &changes.set, &changes.removed);
    managers.push(Manager { author: author.clone(), fields: mine });
    Ok(Manifest { content, managers: in_order(managers) })
}

/// Replaces or creates an object, as updates and patches of other kinds do. `managed` are the entries that the request names.
pub(super) fn update(
    kind: &Kind,
    live: Option<&Manifest>,
    mut content: Value,
    managed: Option<&Value>,
    author: &Author,
) -> Manifest {
    let schema = Schema { is_custom: kind.is_custom };
    let empty = Manifest { content: json!({"metadata": {}}), managers: Vec::new() };
    let before = live.unwrap_or(&empty);
    let entries = managed.and_then(Value::as_array).filter(|entries| !entries.is_empty());
    let mut managers = match entries {
        // One empty entry says that there are none.
        Some(entries) => entries.iter().filter(|entry| entry["manager"].is_string()).map(Manager::read).collect(),
        None => before.managers.clone(),
    };
    complete(kind, &mut content, &before.content, &author.subresource);
    let changes = compare(&before.content, &content, schema);
    let mine = managers.iter().position(|manager| manager.author == *author).map(|at| managers.remove(at));
    let mut mine = mine.map(|manager| manager.fields).unwrap_or_default().without(&changes.removed);
    mine.add(&changes.set);
    yielded(&mut managers, &changes.set, &changes.removed);
    managers.push(Manager { author: author.clone(), fields: mine });
    Manifest { content, managers: in_order(managers) }
}

/// Takes fields away from managers; who has none left is none.
fn yielded(managers: &mut [Manager], set: &Fields, removed: &Fields) {
    for manager in managers {
        manager.fields = manager.fields.minus(set).without(removed);
    }
}

fn in_order(mut managers: Vec<Manager>) -> Vec<Manager> {
    managers.retain(|manager| !manager.fields.is_empty());
    managers.sort_by(|a, b| {
        let key = |m: &Manager| (!m.author.applies, m.author.applies.then(|| m.author.manager.clone()));
        key(a).cmp(&key(b))
    });
    managers
}

/// Takes out of an applied object what this request does not write.
fn keep_to_part(kind: &Kind, subresource: &str, applied: &mut Value) {
    let Some(fields) = applied.as_object_mut().filter(|_| kind.has_status) else { return };
    if subresource == "status" {
        fields.retain(|name, _| name == "status");
    } else {
        fields.remove("status");
    }
}

/// Keeps the part that is not written as it was, and fills in what the server does.
fn complete(kind: &Kind, content: &mut Value, before: &Value, subresource: &str) {
    if kind.has_status {
        if subresource == "status" {
            let status = content["status"].take();
            content.clone_from(before);
            content["status"] = status;
        } else if let Some(status) = before.get("status") {
            content["status"] = status.clone();
        } else if let Some(fields) = content.as_object_mut() {
            fields.insert("status".to_owned(), json!({}));
        }
    }
    if kind.is_core("Namespace") {
        let name = content.pointer("/metadata/name").cloned().unwrap_or_default();
        content["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
        content["spec"]["finalizers"] = json!(["kubernetes"]);
        if content["status"]["phase"].is_null() {
            content["status"]["phase"] = json!("Active");
        }
    }
    if kind.is_definition() && subresource.is_empty() {
        let versions = content.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
        let stored = versions.filter(|version| version["storage"] == true).map(|version| version["name"].clone());
        let yes = |type_: &str| json!({"type": type_, "status": "True", "reason": type_, "message": ""});
        content["status"] = json!({
            "acceptedNames": content.pointer("/spec/names"), "storedVersions": stored.collect::<Vec<_>>(),
            "conditions": [yes("NamesAccepted"), yes("Established")],
        });
    }
}
