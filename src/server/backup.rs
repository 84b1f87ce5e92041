//! Serves a backup of the whole store: only to callers who may command, because it contains everything.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::Shared;
use engine::store::backup;

/// Where backups are read from.
pub const BACKUP_PATH: &str = "/api/v1/backup";

/// Answers with the text of a backup.
pub(super) async fn read(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    // Even if reading is open to everybody: a backup contains the key for marks of hidden values.
    if let Err((status, message)) = shared.commanders.owner(&headers) {
        return (status, message).into_response();
    }
    match super::read_store(&shared, backup::write).await {
        Ok(text) => Json(json!({"backup": text})).into_response(),
        Err(failure) => failure.into_response(),
    }
}
