//! The records for programs, written row by row: an answer needs the memory of a few rows, however large the fleet is.

use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt as _, stream};
use serde::de::IgnoredAny;
use tokio::sync::mpsc;

use super::turns::PIECE_BYTES;
use super::{Shared, store_failure};
use engine::store;
use engine::store::Store;
use engine::store::records::{AGENT_PREFIX, DIGEST_KEY, DROPPED_KEY, FORGE_PREFIX};
use model::agent::AgentToken;

/// Pieces of an answer that wait for a slow reader.
const PIECES_MAX: usize = 2;

/// Prefixes that one request may name.
pub const PREFIXES_MAX: usize = 256;

/// Returns the prefixes that a query names; all records where it names none.
fn prefixes(query: Option<&str>) -> Vec<String> {
    let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let mut prefixes: Vec<String> =
        pairs.filter(|(name, _)| name == "prefix").map(|(_, prefix)| prefix.into_owned()).collect();
    if prefixes.is_empty() {
        prefixes.push(String::new());
    }
    prefixes
}

/// Answers with the records whose keys start with a `prefix`: `{"version": 7, "records": [["placement/web", {...}], ...]}`, all from
/// one moment.
pub(super) async fn records(State(shared): State<Shared>, RawQuery(query): RawQuery) -> Response {
    let prefixes = prefixes(query.as_deref());
    if prefixes.len() > PREFIXES_MAX {
        return (StatusCode::BAD_REQUEST, format!("a request names at most {PREFIXES_MAX} prefixes")).into_response();
    }
    // Before the records: a change in between is reported again, and never missed.
    let version = *shared.changes.borrow();
    let (pieces, mut written) = mpsc::channel(PIECES_MAX);
    let written_by = tokio::task::spawn_blocking(move || {
        let mut answer =
            RecordsAnswer { piece: format!("{{\"version\":{version},\"records\":[").into(), rows: 0, pieces };
        if let Err(error) = answer.write(shared.store.as_ref(), &prefixes) {
            // Whoever asked may be gone.
            drop(answer.pieces.blocking_send(Err(error)));
        }
    });
    let first = match written.recv().await {
        Some(Ok(first)) => first,
        Some(Err(error)) => return store_failure(&error).into_response(),
        None => {
            let why = written_by.await.err().map(|error| error.to_string()).unwrap_or_default();
            return (StatusCode::INTERNAL_SERVER_ERROR, why).into_response();
        }
    };
    let rest = stream::unfold(written, |mut written| async { Some((written.recv().await?, written)) });
    let body = Body::from_stream(stream::iter([Ok(first)]).chain(rest));
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// An answer that is being written.
struct RecordsAnswer {
    piece: Vec<u8>,
    rows: usize,
    pieces: mpsc::Sender<store::Result<Bytes>>,
}

impl RecordsAnswer {
    fn write(&mut self, store: &dyn Store, prefixes: &[String]) -> store::Result<()> {
        let prefixes: Vec<&str> = prefixes.iter().map(String::as_str).collect();
        let mut is_read = true;
        store.scan_each(&prefixes, &mut |key, value, _| {
            // The key for marks of hidden values is there, with which short values can be guessed; and what files of the repository hold.
            if key.starts_with(AGENT_PREFIX) {
                // Without the digest of the token: nobody who reads needs it.
                let public = serde_json::from_slice::<AgentToken>(value).map(AgentToken::without_digest);
                self.row(key, &public.and_then(|token| serde_json::to_vec(&token)).unwrap_or_default());
                is_read = self.piece.len() < PIECE_BYTES || self.send();
            } else if !key.starts_with(FORGE_PREFIX) && !key.starts_with(DROPPED_KEY) && key != DIGEST_KEY {
                self.row(key, value);
                is_read = self.piece.len() < PIECE_BYTES || self.send();
            }
            is_read
        })?;
        if is_read {
            self.piece.extend_from_slice(b"]}");
            self.send();
        }
        Ok(())
    }

    fn row(&mut self, key: &str, value: &[u8]) {
        // A damaged record must not make the other ones unreadable.
        let is_json = serde_json::from_slice::<IgnoredAny>(value).is_ok();
        let separator: &[u8] = if self.rows > 0 { b",[" } else { b"[" };
        let key = serde_json::to_vec(key).expect("text is JSON");
        for part in [separator, &key, b",", if is_json { value } else { b"null" }, b"]"] {
            self.piece.extend_from_slice(part);
        }
        self.rows += 1;
    }

    /// Sends what is written; tells whether somebody still reads.
    fn send(&mut self) -> bool {
        self.pieces.blocking_send(Ok(std::mem::take(&mut self.piece).into())).is_ok()
    }
}
