//! The journal, page by page.

use axum::Json;
use axum::extract::{Query as UrlQuery, State};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::Shared;
use model::records::JournalEntry;

/// Where the journal is read.
pub const JOURNAL_PATH: &str = "/api/v1/journal";

/// Entries that one answer searches, about 3 MB.
pub const JOURNAL_PAGE: usize = 10_000;

/// The parameters of a journal request.
#[derive(Deserialize)]
pub(super) struct Query {
    /// Only what concerns this placement.
    placement: Option<String>,
    /// Only what came after this number.
    #[serde(default)]
    after: u64,
}

/// A part of the journal, oldest first.
#[derive(Serialize, Deserialize)]
pub struct JournalPage {
    /// The entries with their numbers.
    pub entries: Vec<(u64, JournalEntry)>,
    /// The number to ask with for more; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Returns the number of the last entry of a page that is full: more entries may follow.
pub(super) fn last_of_full(page: &[(u64, JournalEntry)], length: usize) -> Option<u64> {
    let (number, _) = page.last()?;
    if page.len() == length { Some(*number) } else { None }
}

/// Answers with the entries after a number, of a placement or of all.
pub(super) async fn read(State(shared): State<Shared>, UrlQuery(query): UrlQuery<Query>) -> Response {
    match super::read_store(&shared, move |store| store.journal(query.after, JOURNAL_PAGE)).await {
        Ok(mut entries) => {
            // Before the filter: a page without matching entries is not the end.
            let next = last_of_full(&entries, JOURNAL_PAGE);
            if let Some(wanted) = &query.placement {
                entries.retain(|(_, entry)| entry.concerns(wanted));
            }
            Json(JournalPage { entries, next }).into_response()
        }
        Err(failure) => failure.into_response(),
    }
}
