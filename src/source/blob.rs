//! Parses one file: documents, identities, and gitfleet's own kinds checked.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::budget::{COMMIT, OBJECTS_MAX, Weight};
use super::encryption;
use super::truth;
use crate::blob_error::{BlobError, shortened};
use model::api::annotations::{DEFAULT_NAMESPACE, PATH};
use model::api::groups::{CLUSTER_GROUP, is_of_other_hubs};
use model::api::identity::identify;
use model::api::table;
use model::api::table::{Checked, GITFLEET_GROUP, PLACEMENT_GROUP};
use model::api::{FieldError, envelope};
use model::encrypted::{Encrypted, MadeOf, is_encrypted, take_made_of};
use model::id::{Digest, ObjectId};
use model::kinds;
use model::manifest::malformed_metadata;
use model::tree::{NoObject, Scope};
use model::yaml;
use model::yaml::{Cost, Meter, TruthKey};

/// Bytes of one file; manifests of etcd's limit (1.5 MiB) fit several times.
pub const BLOB_BYTES_MAX: usize = 5 * 1024 * 1024;

/// How every git LFS pointer begins.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/v1";

/// Errors of one file that are listed.
const ERRORS_MAX: usize = 1_000;

/// Warnings about one file that are listed.
const WARNINGS_MAX: usize = 100;

/// Complaints of one file for which the exact line is looked up; the others name the document's.
const EXACT_LINES_MAX: usize = 50;

/// The content of a file, independent of its path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedBlob {
    /// The objects, lists unfolded.
    pub documents: Vec<ParsedDocument>,
    /// Every error that depends on this file alone.
    pub errors: Vec<BlobError>,
    /// Warnings.
    pub warnings: Vec<BlobError>,
    /// A placement that names a folder or gives a namespace has errors: what it sees is not known.
    pub unread_sight: bool,
    /// Documents that are no Kubernetes objects: line, and what they are.
    pub skipped: Vec<(u32, NoObject)>,
    /// Size of the content.
    pub size_bytes: usize,
    /// Its weight in the budget.
    pub weight: Weight,
}

/// One object.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedDocument {
    /// Its identity.
    pub id: ObjectId,
    /// The object, as written, without a namespace that its kind does not have.
    pub object: Arc<Value>,
    /// One-based line.
    pub line: u32,
    /// Zero-based position among the objects of the file.
    pub ordinal: u32,
    /// Its kind, if it is one of gitfleet's; `None` for payload.
    pub checked: Option<Checked>,
    /// What a CustomResourceDefinition defines: group, kind, scope.
    pub defines: Option<(String, String, Scope)>,
    /// Where it is encrypted.
    pub encrypted: Option<Encrypted>,
}

impl ParsedDocument {
    /// Tells whether it is for clusters: of a foreign kind, or an envelope.
    pub fn is_payload(&self) -> bool {
        match self.checked {
            None => true,
            // Envelopes are selected like payload, so that a selection of one can be reported.
            Some(Checked::Other) => self.id.group == PLACEMENT_GROUP && self.id.kind.ends_with("Envelope"),
            Some(_) => false,
        }
    }
}

impl ParsedBlob {
    /// Returns the files that SOPS encrypted: this one, or those that its objects were rendered from.
    pub fn encrypted_files(&self) -> BTreeSet<Arc<str>> {
        self.documents.iter().filter_map(|document| Some(Arc::clone(&document.encrypted.as_ref()?.file))).collect()
    }

    /// Adds the digest of the values in plaintext to each object of an encrypted file. `digests` are in the order of the file's objects.
    pub fn set_values(&mut self, file: &str, digests: &[Digest]) {
        for encrypted in self.documents.iter_mut().filter_map(|document| document.encrypted.as_mut()) {
            if *encrypted.file == *file {
                encrypted.values = digests.get(encrypted.ordinal as usize).cloned();
            }
        }
    }

    fn objects(&self) -> usize {
        self.documents.len() + self.errors.len() + self.skipped.len()
    }
}

/// Returns what a file says: its objects, or why not. A file may hold what a commit may.
pub fn parse_blob(content: &[u8]) -> ParsedBlob {
    parse_blob_within(content, &COMMIT.meter())
}

/// Parses a file and counts its weight. If the meter runs over, possibly because of other files, the result is incomplete and
/// must not be used.
pub fn parse_blob_within(content: &[u8], meter: &Meter<'_>) -> ParsedBlob {
    // The weight of this file must be known alone, though all files of a commit share one limit.
    let meter = meter.part();
    let mut blob = ParsedBlob { size_bytes: content.len(), ..ParsedBlob::default() };
    if content.len() > BLOB_BYTES_MAX {
        let message = format!("has {} bytes, the limit is {BLOB_BYTES_MAX}", content.len());
        blob.errors = vec![BlobError::new(0, message, "split the file, or add it to .gitfleetignore")];
    } else if content.starts_with(LFS_POINTER) {
        let message = "is a git LFS pointer, not a manifest";
        blob.errors = vec![BlobError::new(0, message, "commit the file without LFS")];
    } else {
        match std::str::from_utf8(content) {
            Ok(text) => {
                let blob = &mut blob;
                Reading { text, blob, meter: &meter, exact_lines: 0, file: None, made_of: None }.documents();
            }
            Err(error) => {
                let before = &content[..error.valid_up_to()];
                let line = before.split(|&b| b == b'\n').count();
                let line = u32::try_from(line).unwrap_or(u32::MAX);
                blob.errors = vec![BlobError::new(line, "is not UTF-8 text", "save the file as UTF-8")];
            }
        }
    }
    blob.weight = Weight { cost: meter.sum(), objects: blob.objects() };
    blob
}

/// The position of a value in a file.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// Line to name.
    line: u32,
    /// First line of its document, and the path in it, for looking fields up.
    document: u32,
    path: &'a str,
}

struct Reading<'t, 'b> {
    text: &'t str,
    blob: &'b mut ParsedBlob,
    meter: &'b Meter<'b>,
    exact_lines: usize,
    /// The text, once it is needed for an encrypted object.
    file: Option<Arc<str>>,
    /// What the present object was rendered from, if that is encrypted.
    made_of: Option<(Arc<str>, u32, MadeOf)>,
}

impl Reading<'_, '_> {
    fn documents(&mut self) {
        for document in yaml::documents(self.text, self.meter) {
            if self.is_full() {
                return;
            }
            match document {
                Ok(document) => {
                    let place = Place { line: document.line, document: document.line, path: "" };
                    self.object(document.value, place, &document.item_lines, document.truth_keys);
                }
                Err(error) => self.blob.errors.push(BlobError {
                    line: error.line,
                    object: None,
                    field: None,
                    message: error.message,
                    hint: error.hint,
                }),
            }
        }
    }

    /// Tells whether the rest of the file must be skipped, and reports that once.
    fn is_full(&mut self) -> bool {
        // No error here: the refusal of the commit names the file that exceeds the budget.
        if self.meter.ran_over() {
            return true;
        }
        let hint = "split the file, or correct what is listed first";
        let message = if self.blob.errors.len() >= ERRORS_MAX {
            format!("has more than {ERRORS_MAX} errors; the rest is not read")
        } else if self.blob.objects() > OBJECTS_MAX {
            format!("has more than {OBJECTS_MAX} objects, the limit for a commit")
        } else {
            return false;
        };
        if self.blob.errors.last().is_none_or(|last| last.message != message) {
            self.blob.errors.push(BlobError::new(0, message, hint));
        }
        true
    }

    fn object(&mut self, mut value: Value, place: Place<'_>, item_lines: &[u32], keys: Vec<TruthKey>) {
        let (api_version, kind) = match (value.get("apiVersion"), value.get("kind")) {
            // Values files and pipelines are common beside manifests: they are reported as skipped and refuse nothing.
            (None, None) => return self.blob.skipped.push((place.line, no_object(&value))),
            (Some(Value::String(api_version)), Some(Value::String(kind))) => (api_version.clone(), kind.clone()),
            (None, Some(_)) => {
                return self.field_error(place, None, FieldError::new("apiVersion", "required and missing"));
            }
            (Some(_), None) => return self.field_error(place, None, FieldError::new("kind", "required and missing")),
            (Some(_), Some(_)) => {
                return self.field_error(place, None, FieldError::new("", "apiVersion and kind must be text"));
            }
        };
        // A custom kind may end with List without being one.
        let is_list = kind == "List" || (kind.ends_with("List") && value.get("items").is_some_and(Value::is_array));
        self.made_of = take_made_of(&mut value);
        if is_encrypted(&value) {
            let (bytes, objects) = match &self.made_of {
                Some((file, ordinal, _)) => (file.len(), *ordinal as usize),
                None => (self.text.len(), self.blob.documents.len()),
            };
            if let Some(error) = encryption::refusal(&value, is_list, bytes, objects) {
                return self.field_error(place, None, error);
            }
        }
        if is_list {
            return self.list(value, (&api_version, &kind), place, item_lines, keys);
        }
        // A repository may contain gitfleet's own configuration; it is neither payload nor a mistake.
        if kind == "Configuration" && api_version.split_once('/').is_some_and(|(group, _)| group == GITFLEET_GROUP) {
            return;
        }
        match identify(&value) {
            Ok(id) => self.identified(value, id, place, keys),
            Err(error) => self.field_error(place, Some(&kind), error),
        }
    }

    fn list(
        &mut self,
        mut list: Value,
        (api_version, kind): (&str, &str),
        place: Place<'_>,
        item_lines: &[u32],
        keys: Vec<TruthKey>,
    ) {
        let mut keys = truth::by_element(keys);
        let items = match list.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            // Go writes an empty list of a type as null.
            None | Some(Value::Null) => return,
            Some(_) => return self.field_error(place, Some(kind), FieldError::new("items", "must be a list")),
        };
        for (index, mut item) in items.into_iter().enumerate() {
            if self.is_full() {
                return;
            }
            let line = item_lines.get(index).copied().unwrap_or(place.line);
            let path = format!("{}items[{index}].", place.path);
            let place = Place { line, path: &path, ..place };
            let Value::Object(fields) = &mut item else {
                let error = FieldError::new("", "an element of a List must be an object");
                self.field_error(place, Some(kind), error);
                continue;
            };
            // A typed list says once what its elements are.
            if let Some(element) = kind.strip_suffix("List").filter(|element| !element.is_empty()) {
                // Fields that a list adds to each element use memory like literal ones.
                if !self.meter.count(Cost::text(api_version).and(Cost::text(element))) {
                    return;
                }
                fields.entry("apiVersion").or_insert_with(|| api_version.into());
                fields.entry("kind").or_insert_with(|| element.into());
            }
            self.object(item, place, &[], keys.remove(&index).unwrap_or_default());
        }
    }

    /// Drops the namespace of an object whose kind is known to be cluster-scoped, and says so.
    ///
    /// Source: `EnsureObjectNamespaceMatchesRequestNamespace` in Kubernetes' `k8s.io/apiserver/pkg/registry/rest/meta.go`.
    fn drop_namespace(&mut self, value: &mut Value, id: &mut ObjectId, line: u32) {
        let is_cluster_scoped = kinds::lookup(&id.group, &id.kind).is_some_and(|kind| kind.scope == Scope::Cluster);
        // The file of an encrypted object is kept as it is.
        if !is_cluster_scoped || id.namespace.is_empty() || is_encrypted(value) {
            return;
        }
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("namespace");
        }
        id.namespace.clear();
        if self.blob.warnings.len() < WARNINGS_MAX {
            self.blob.warnings.push(BlobError {
                line,
                object: Some(shortened(id.to_string())),
                field: Some("metadata.namespace".to_owned()),
                message: format!("a {} is cluster-scoped, so the namespace has no effect", id.kind),
                hint: Some("remove metadata.namespace".to_owned()),
            });
        }
    }

    /// Says of an object for another hub that nothing becomes of it.
    fn warn_of_other_hubs(&mut self, id: &ObjectId, line: u32) {
        if is_of_other_hubs(&id.group, &id.kind) && self.blob.warnings.len() < WARNINGS_MAX {
            self.blob.warnings.push(BlobError {
                line,
                object: Some(shortened(id.to_string())),
                field: None,
                message: format!("gitfleet does not read {} of {}, and no placement delivers it", id.kind, id.group),
                hint: Some(format!("write it in group {PLACEMENT_GROUP} or {CLUSTER_GROUP}, or remove it")),
            });
        }
    }

    fn identified(&mut self, mut value: Value, mut id: ObjectId, place: Place<'_>, keys: Vec<TruthKey>) {
        self.drop_namespace(&mut value, &mut id, place.line);
        let name = id.to_string();
        let (wrong, odd): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| truth::refuses(key, &id, &value));
        let room = WARNINGS_MAX.saturating_sub(self.blob.warnings.len());
        self.blob.warnings.extend(odd.into_iter().take(room).map(|key| truth::complaint(key, &name)));
        if !wrong.is_empty() {
            return self.blob.errors.extend(wrong.into_iter().map(|key| truth::complaint(key, &name)));
        }
        self.warn_of_other_hubs(&id, place.line);
        let checked = match table::find(&id.group, &id.version, &id.kind) {
            Err(error) => return self.field_error(place, Some(&name), error),
            Ok(None) => payload_errors(&value).map(|()| None),
            // Decisions read it, and nothing is decrypted for them.
            Ok(Some(_)) if is_encrypted(&value) => return self.field_error(place, Some(&name), encryption::own_kind()),
            Ok(Some(kind)) => kind.check(&value).map(Some),
        };
        let checked = match checked {
            Ok(checked) => checked,
            Err(errors) => {
                let annotations = value.pointer("/metadata/annotations");
                let has_sight =
                    annotations.is_some_and(|it| it.get(PATH).is_some() || it.get(DEFAULT_NAMESPACE).is_some());
                self.blob.unread_sight |= id.kind.ends_with("Placement") && has_sight;
                for error in errors {
                    self.field_error(place, Some(&name), error);
                }
                return;
            }
        };
        let ordinal = u32::try_from(self.blob.documents.len()).unwrap_or(u32::MAX);
        let defines = definition(&id, &value);
        let encrypted = is_encrypted(&value).then(|| match self.made_of.take() {
            Some((file, ordinal, made_of)) => Encrypted { file, ordinal, values: None, made_of: Some(made_of) },
            None => Encrypted { file: self.file(), ordinal, values: None, made_of: None },
        });
        let object = Arc::new(value);
        self.blob.documents.push(ParsedDocument { id, object, line: place.line, ordinal, checked, defines, encrypted });
    }

    /// Returns the whole file, which is in memory once.
    fn file(&mut self) -> Arc<str> {
        if self.file.is_none() {
            // Where that is too much, the commit is refused for it.
            let _ = self.meter.count(Cost::text(self.text));
        }
        Arc::clone(self.file.get_or_insert_with(|| self.text.into()))
    }

    fn field_error(&mut self, place: Place<'_>, object: Option<&str>, error: FieldError) {
        let mut line = place.line;
        // Each search parses the document once more.
        if !error.field.is_empty() && self.exact_lines < EXACT_LINES_MAX {
            self.exact_lines += 1;
            let found = yaml::line_of(self.text, place.document, &format!("{}{}", place.path, error.field));
            // A search that fails answers with the document's first line; the element of a List stands further down.
            line = line.max(found);
        }
        self.blob.errors.push(BlobError {
            line,
            object: object.map(|object| shortened(object.to_owned())),
            field: Some(error.field).filter(|field| !field.is_empty()).map(shortened),
            message: shortened(error.message),
            hint: error.hint.map(shortened),
        });
    }
}

fn no_object(value: &Value) -> NoObject {
    match value {
        Value::Object(_) => NoObject::Untyped,
        Value::Array(_) => NoObject::List,
        _ => NoObject::Scalar,
    }
}

/// Checks a manifest of a foreign kind: its spec is for the members to evaluate.
fn payload_errors(value: &Value) -> Result<(), Vec<FieldError>> {
    if let Some((field, why)) = malformed_metadata(value) {
        let hint = "write a map of texts; put numbers, true and false in quotes";
        return Err(vec![FieldError::new(field, why).hint(hint)]);
    }
    let errors = envelope::identity_errors(value);
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn definition(id: &ObjectId, value: &Value) -> Option<(String, String, Scope)> {
    if id.kind != "CustomResourceDefinition" || id.group != "apiextensions.k8s.io" {
        return None;
    }
    let spec = value.get("spec")?;
    let group = spec.get("group")?.as_str()?;
    let kind = spec.get("names")?.get("kind")?.as_str()?;
    let scope = if spec.get("scope")?.as_str()? == "Cluster" { Scope::Cluster } else { Scope::Namespaced };
    Some((group.to_owned(), kind.to_owned(), scope))
}
