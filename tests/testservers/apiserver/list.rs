//! Gets and lists, in pages.

use std::ops::Bound;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::answer::{Answer, Status, bad_request, expired, invalid_options, not_found};
use super::body::{Form, Name, Object, Pen, push};
use super::cluster::Cluster;
use super::request::{Objects, Query};
use super::selectors::Selector;

/// The version that means "whatever you have".
const ANY_VERSION: &str = "0";

/// Answers a get.
pub(super) fn get(cluster: &Cluster, pen: &Pen, objects: &Objects) -> Result<Answer, Status> {
    let name = objects.name.as_deref().unwrap_or_default();
    let mut state = cluster.lock();
    let found = state.table(&pen.kind).objects.get(&Name::new(&objects.namespace, name));
    let object = found.ok_or_else(|| not_found(&pen.kind, name))?;
    let mut out = Vec::with_capacity(1024);
    pen.write(&mut out, object, false);
    Ok(Answer::bytes(200, out))
}

/// Where a list begins.
struct Page {
    version: Option<u64>,
    after: Option<Name>,
    limit: usize,
}

impl Page {
    fn read(query: &Query) -> Result<Self, Status> {
        let limit = query.number("limit").unwrap_or_default().unwrap_or_default();
        let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let wanted = query.get("resourceVersion");
        let Some(token) = query.get("continue") else {
            // API servers answer such a list from memory, and whole.
            let limit = if wanted == Some(ANY_VERSION) { usize::MAX } else { limit };
            return Ok(Self { version: None, after: None, limit });
        };
        if wanted.is_some_and(|version| version != ANY_VERSION) {
            return Err(bad_request("specifying resource version is not allowed when using continue"));
        }
        let bytes = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).ok();
        let token: Option<Value> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let read = token.and_then(|token| {
            let (namespace, name) = token["start"].as_str()?.split_once('/')?;
            Some((token["rv"].as_u64()?, Name::new(namespace, name)))
        });
        let (version, after) = read.ok_or_else(|| bad_request("invalid continue token: continue key is not valid"))?;
        Ok(Self { version: Some(version), after: Some(after), limit })
    }

    fn token(version: u64, last: &Name) -> String {
        let start = format!("{}/{}", last.namespace, last.name);
        URL_SAFE_NO_PAD.encode(json!({"v": "meta.k8s.io/v1", "rv": version, "start": start}).to_string())
    }
}

/// Answers a list.
pub(super) fn list(cluster: &Cluster, pen: &Pen, objects: &Objects, query: &Query) -> Result<Answer, Status> {
    let selector = Selector::read(query.get("labelSelector"), query.get("fieldSelector"))?;
    let page = Page::read(query)?;
    let mut state = cluster.lock();
    let now = state.version;
    check_version(query, now)?;
    let table = state.table(&pen.kind);
    let version = page.version.unwrap_or(now);
    if version < table.forgotten && page.version.is_some() {
        return Err(expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
             the continue parameter",
        ));
    }
    let from = match page.after {
        Some(after) => Bound::Excluded(after),
        None => Bound::Included(Name::new(&objects.namespace, "")),
    };
    let is_in = |name: &Name| objects.namespace.is_empty() || *name.namespace == *objects.namespace;
    let mut found = table.objects.range::<Name, _>((from, Bound::Unbounded)).take_while(|(name, _)| is_in(name));
    let mut items = Vec::new();
    let mut last: Option<&Arc<Name>> = None;
    let mut count = 0;
    let mut more = false;
    for (name, object) in found.by_ref().filter(|(name, object)| selector.matches(name, &object.body)) {
        if count == page.limit {
            more = true;
            break;
        }
        if count > 0 {
            items.push(b',');
        }
        item(pen, &mut items, object);
        (last, count) = (Some(name), count + 1);
    }
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if let (true, Some(last)) = (more, last) {
        metadata["continue"] = json!(Page::token(version, last));
        if selector.is_empty() {
            metadata["remainingItemCount"] = json!(found.count() + 1);
        }
    }
    drop(state);
    let (kind, api_version) = match pen.form {
        Form::Whole => (pen.kind.list.as_str(), pen.api_version.as_str()),
        Form::Metadata => ("PartialObjectMetadataList", "meta.k8s.io/v1"),
    };
    let mut out = Vec::with_capacity(items.len() + 256);
    push(&mut out, format_args!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{metadata},"items":["#));
    out.append(&mut items);
    out.extend_from_slice(b"]}");
    Ok(Answer::bytes(200, out))
}

fn item(pen: &Pen, items: &mut Vec<u8>, object: &Object) {
    pen.write(items, object, true);
}

/// Checks the version that a list asks for.
pub(super) fn check_version(query: &Query, now: u64) -> Result<(), Status> {
    let wanted = query.number("resourceVersion")?;
    match (query.get("resourceVersionMatch"), wanted) {
        (Some(_), None) if !query.is("watch") => {
            let why = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided";
            Err(invalid_options("ListOptions", "resourceVersionMatch", why))
        }
        (_, Some(wanted)) if wanted > now => {
            Err(Status::new(504, "Timeout", format!("Timeout: Too large resource version: {wanted}, current: {now}")))
        }
        (Some("Exact"), Some(wanted)) if wanted < now => {
            Err(expired(format!("The resourceVersion for the provided list is too old: {wanted} ({now})")))
        }
        _ => Ok(()),
    }
}
