//! The plugin generator of Argo CD: decisions as parameters, without any object in Argo CD's cluster.
//!
//! An empty answer deletes Applications there, an error keeps them: everything uncertain is an error.
//!
//! Source: Argo CD, ApplicationSet plugin generator.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Shared;
use super::bodies::Unread;
use engine::store::Store;
use engine::store::records;
use engine::store::records::{CLUSTER_PREFIX, DECISIONS_PREFIX};
use model::decisions::DecisionsRecord;
use model::id::ClusterName;
use model::records::ClusterRecord;
use system::clock;

/// The path of the generator's requests, defined by Argo CD.
pub const GETPARAMS_PATH: &str = "/api/v1/getparams.execute";

/// Largest question in bytes: names, and what an ApplicationSet has for its template.
pub(crate) const QUESTION_BYTES_MAX: usize = 64 * 1024;

/// The records of clusters by name.
type Clusters = BTreeMap<ClusterName, ClusterRecord>;

/// What the generator sends. Parameters that do not belong to gitfleet are for the template.
#[derive(Deserialize)]
struct GetParamsRequest {
    #[serde(default)]
    input: Input,
}

#[derive(Default, Deserialize)]
struct Input {
    #[serde(default)]
    parameters: Map<String, Value>,
}

/// Answers one request. The token is checked before a byte of the body is read.
pub(super) async fn execute(State(shared): State<Shared>, request: HttpRequest) -> Response {
    let (parts, body) = request.into_parts();
    let owner = shared.readers.owner(&parts.headers).or_else(|_| shared.commanders.owner(&parts.headers));
    if let Err((status, message)) = owner {
        let mut answer = refusal(status, message);
        if status == StatusCode::UNAUTHORIZED {
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
        }
        return answer;
    }
    let body = match shared.turns.questions.whole(&parts.headers, body).await {
        Ok(body) => body,
        Err(Unread::Large) => {
            let message = format!("a question has at most {QUESTION_BYTES_MAX} bytes");
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, &message);
        }
        Err(Unread::Late) => return refusal(StatusCode::REQUEST_TIMEOUT, "the question did not come in time"),
    };
    let parameters = match serde_json::from_slice::<GetParamsRequest>(&body) {
        Ok(request) => request.input.parameters,
        Err(error) => return refusal(StatusCode::BAD_REQUEST, &format!("the request is not the generator's: {error}")),
    };
    let (records, clusters) = match super::read_store(&shared, read).await {
        Ok(found) => found,
        Err((status, message)) => return refusal(status, &message),
    };
    match answer(&records, &clusters, &parameters, clock::now()) {
        Ok(parameters) => Json(json!({"output": {"parameters": parameters}})).into_response(),
        Err((status, message)) => refusal(status, &message),
    }
}

/// Reads the decisions, and the clusters that they are about.
fn read(store: &dyn Store) -> engine::store::Result<(Vec<DecisionsRecord>, Clusters)> {
    let decisions = records::load_all::<DecisionsRecord>(store, DECISIONS_PREFIX)?;
    let clusters = records::load_all::<ClusterRecord>(store, CLUSTER_PREFIX)?;
    Ok((
        decisions.into_iter().map(|record| record.value).collect(),
        clusters.into_iter().map(|record| (record.value.name.clone(), record.value)).collect(),
    ))
}

/// Argo CD shows `message` of an answer that is no success.
fn refusal(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({"message": message}))).into_response()
}

/// Returns one set of parameters per cluster of the named placement, all strings.
fn answer(
    records: &[DecisionsRecord],
    clusters: &Clusters,
    parameters: &Map<String, Value>,
    now: Timestamp,
) -> Result<Vec<Value>, (StatusCode, String)> {
    let text = |name: &str| match parameters.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(other) => Err((StatusCode::BAD_REQUEST, format!("input.parameters.{name} must be a text, not {other}"))),
    };
    let name = text("placement")?.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| {
        (StatusCode::BAD_REQUEST, "input.parameters.placement is missing: it names the placement".to_owned())
    })?;
    let record = DecisionsRecord::find(records, text("kind")?, text("namespace")?, name)
        .map_err(|message| (StatusCode::NOT_FOUND, message))?;
    let groups = record.groups.iter().enumerate();
    let sets = groups.flat_map(|(index, group)| {
        group.clusters.iter().map(move |cluster| {
            let mut set = json!({
                "name": cluster.cluster_name,
                "clusterName": cluster.cluster_name,
                "reason": cluster.reason,
                "placement": record.key.name,
                "placementKind": record.key.kind,
                "placementNamespace": record.key.namespace.as_deref().unwrap_or_default(),
                "decisionGroup": group.name,
                "decisionGroupIndex": index.to_string(),
            });
            if let (Some(set), Some(record)) = (set.as_object_mut(), clusters.get(&cluster.cluster_name)) {
                set.extend(facts(record, now));
            }
            set
        })
    });
    Ok(sets.collect())
}

/// Returns what is known of a cluster, each fact under a key with a dot, which no other parameter has.
fn facts(cluster: &ClusterRecord, now: Timestamp) -> impl Iterator<Item = (String, Value)> {
    keyed("labels", cluster.labels.clone())
        .chain(keyed("annotations", cluster.annotations.clone()))
        .chain(keyed("properties", cluster.known_properties(now)))
}

fn keyed(kind: &'static str, facts: BTreeMap<String, String>) -> impl Iterator<Item = (String, Value)> {
    facts.into_iter().map(move |(name, text)| (format!("cluster.{kind}.{name}"), Value::from(text)))
}

#[cfg(test)]
mod tests;
