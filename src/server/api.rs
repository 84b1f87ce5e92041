//! What people see, by views and by pages. Answers are made from the last fleet that the daemon published, so nobody who reads holds
//! the core up, and cost what they show.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Query as UrlQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::{OnceCell, watch};

use super::Shared;
use super::journal::last_of_full;
use decide::status::rollout::StateKind;
use model::id::{ClusterName, PlacementKey};
use model::records::JournalEntry;
use model::target::TargetWord;
use system::clock;
use views::detail::PlacementDetail;
use views::fleet::FleetView;
use views::lists;
use views::lists::{ListFilter, ListPage, ListPart, Order, PAGE_ITEMS, PAGE_ITEMS_MAX};
use views::summary::{Summary, Totals};

/// What `gitfleet status` shows.
pub const SUMMARY_PATH: &str = "/api/v1/summary";
/// Placements, page by page.
pub const PLACEMENTS_PATH: &str = "/api/v1/placements";
/// One placement.
pub const PLACEMENT_PATH: &str = "/api/v1/placements/{*name}";
/// Clusters, page by page.
pub const CLUSTERS_PATH: &str = "/api/v1/clusters";
/// Bindings, page by page.
pub const BINDINGS_PATH: &str = "/api/v1/bindings";
/// Works, page by page.
pub const WORKS_PATH: &str = "/api/v1/works";
/// The journal, page by page.
pub const EVENTS_PATH: &str = "/api/v1/events";

/// Entries of the journal that one answer about events searches.
pub const EVENTS_SEARCHED_MAX: usize = 2_000;
/// How long an answer waits for the fleet to show what was stored before the question came; longer than the daemon pauses between two
/// publications.
const FRESH_TIME: Duration = Duration::from_millis(500);

/// How long an answer waits for a daemon that reads its store.
const START_TIME: Duration = Duration::from_secs(8);

/// What the daemon published last.
#[derive(Debug, Default)]
pub struct Published {
    /// The fleet.
    pub fleet: FleetView,
    /// How many batches of this process are in it; the records that it began with are the first.
    pub written: u64,
    /// Its totals as JSON, where somebody asked: the same for every page that is open.
    totals: OnceCell<Arc<str>>,
}

impl Published {
    /// Returns the totals of the fleet as JSON; worked out once.
    pub(super) async fn totals(self: &Arc<Self>) -> Arc<str> {
        let work_out = async || {
            let published = Arc::clone(self);
            let totals = move || json_of(&Totals::of(&published.fleet, clock::now()));
            let made = tokio::task::spawn_blocking(totals).await.unwrap_or_else(|_| b"{}".to_vec());
            String::from_utf8(made).unwrap_or_default().into()
        };
        Arc::clone(self.totals.get_or_init(work_out).await)
    }
}

/// Where handlers find the fleet.
#[derive(Clone, Debug)]
pub struct Views {
    published: watch::Receiver<Arc<Published>>,
    written: watch::Receiver<u64>,
    /// Tells versions of this process from those of others.
    pub(super) process: u64,
}

/// Publishes the fleet.
#[derive(Debug)]
pub struct Publisher {
    published: watch::Sender<Arc<Published>>,
    written: watch::Sender<u64>,
}

impl Publisher {
    /// Makes the two ends. `process` is another number for each process.
    pub fn new(process: u64) -> (Self, Views) {
        let (published, receiver) = watch::channel(Arc::default());
        // What the process begins with counts as its first batch: nothing is shown before that is.
        let (written, counted) = watch::channel(1);
        (Self { published, written }, Views { published: receiver, written: counted, process })
    }

    /// Notes that the store holds one batch more, which the published fleet does not show yet.
    pub fn note_written(&self) {
        self.written.send_modify(|written| *written += 1);
    }

    /// Tells whether the store holds something that was not published, and somebody may look.
    pub fn is_behind(&self) -> bool {
        !self.published.is_closed() && self.published.borrow().written < *self.written.borrow()
    }

    /// Returns the fleet that was published last.
    pub fn last(&self) -> Arc<Published> {
        Arc::clone(&self.published.borrow())
    }

    /// Publishes a fleet that shows everything that is stored; returns how many batches that is.
    pub fn publish(&self, fleet: FleetView) -> u64 {
        let written = *self.written.borrow();
        self.published.send_replace(Arc::new(Published { fleet, written, totals: OnceCell::new() }));
        written
    }
}

impl Views {
    /// Returns the last fleet, which shows what was stored before; `None` while the daemon still reads its store.
    pub(super) async fn fresh(&self) -> Option<Arc<Published>> {
        let wanted = *self.written.borrow();
        let mut published = self.published.clone();
        let patience = if published.borrow().written == 0 { START_TIME } else { FRESH_TIME };
        let newer = published.wait_for(|published| published.written >= wanted);
        // An older answer is better than none: the daemon may be busy, or ending.
        drop(tokio::time::timeout(patience, newer).await);
        let last = Arc::clone(&self.published.borrow());
        (last.written > 0).then_some(last)
    }

    /// Returns the last fleet without waiting for what was stored since; `None` while the daemon still reads its store.
    pub(super) fn latest(&self) -> Option<Arc<Published>> {
        let last = Arc::clone(&self.published.borrow());
        (last.written > 0).then_some(last)
    }

    /// Returns what follows the published fleets.
    pub(super) fn follow(&self) -> watch::Receiver<Arc<Published>> {
        self.published.clone()
    }
}

/// What lists are asked with.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    limit: Option<usize>,
    #[serde(rename = "continue")]
    after: Option<String>,
    placement: Option<String>,
    cluster: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    state: Option<StateKind>,
    online: Option<bool>,
    #[serde(default)]
    sort: Sort,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Sort {
    #[default]
    Name,
    State,
    Age,
}

/// Why there is no answer.
type Refused = (StatusCode, String);

impl ListQuery {
    fn part(&self) -> ListPart {
        ListPart { limit: self.limit, after: self.after.clone() }
    }

    fn order(&self) -> Order {
        match self.sort {
            Sort::Name => Order::Name,
            Sort::State => Order::State,
            Sort::Age => Order::Age,
        }
    }

    /// Returns the filter; what it names must be there.
    fn filter(&self, fleet: &FleetView) -> Result<ListFilter, Refused> {
        let placement = self.placement.as_deref().map(|name| key_of(fleet, name)).transpose()?;
        let cluster = self.cluster.as_deref().map(ClusterName::from);
        if let Some(unknown) = cluster.as_ref().filter(|name| !fleet.clusters.contains_key(*name)) {
            return Err((StatusCode::NOT_FOUND, format!("there is no cluster {unknown}")));
        }
        Ok(ListFilter {
            placement,
            cluster,
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            state: self.state,
            online: self.online,
        })
    }
}

/// Returns the key of a placement that is there.
fn key_of(fleet: &FleetView, name: &str) -> Result<PlacementKey, Refused> {
    let key = TargetWord::read(name).placement();
    fleet
        .placements
        .contains_key(&key)
        .then_some(key)
        .ok_or_else(|| (StatusCode::NOT_FOUND, format!("there is no placement {name}")))
}

/// Makes an answer from the fleet on a thread that may take its time.
async fn made<T: Send + 'static>(
    shared: &Shared,
    make: impl FnOnce(&FleetView) -> Result<T, Refused> + Send + 'static,
) -> Result<T, Response> {
    let Some(published) = shared.views.fresh().await else { return Err(starting()) };
    match tokio::task::spawn_blocking(move || make(&published.fleet)).await {
        Ok(answer) => answer.map_err(IntoResponse::into_response),
        Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()),
    }
}

/// Answers that there is nothing to show yet.
pub(super) fn starting() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "the daemon reads its store; ask again in a moment").into_response()
}

/// Answers with JSON and its tag, or says that the caller has it.
fn tagged(headers: &HeaderMap, body: Vec<u8>, tagged: &[u8]) -> Response {
    // Half of a digest tells answers apart.
    let digest = format!("{:x}", Sha256::digest(tagged));
    let tag = format!("\"{}\"", &digest[..digest.len() / 2]);
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_known = known.flat_map(|value| value.split(',')).any(|known| {
        let known = known.trim();
        known == "*" || known.trim_start_matches("W/") == tag
    });
    let tag = HeaderValue::try_from(tag).expect("hexadecimal digits in quotes");
    let cache = (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if is_known {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, tag), cache]).into_response();
    }
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    ([(header::ETAG, tag), cache, kind], body).into_response()
}

fn json_of(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("views have text keys only")
}

fn answered(headers: &HeaderMap, body: Result<Vec<u8>, Response>) -> Response {
    match body {
        Ok(body) => tagged(headers, body.clone(), &body),
        Err(refused) => refused,
    }
}

/// Answers with what `gitfleet status` shows.
pub(super) async fn summary(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let history = Arc::clone(&shared.history);
    let make = move |fleet: &FleetView| {
        let subject = fleet.source.accepted.as_ref().and_then(|commit| history.subject(commit));
        Ok(json_of(&Summary::with_subject(fleet, subject.as_deref(), clock::now())))
    };
    let body = made(&shared, make).await;
    answered(&headers, body)
}

/// Answers with a page of placements.
pub(super) async fn placements(
    State(shared): State<Shared>,
    headers: HeaderMap,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> Response {
    let page = move |fleet: &FleetView| {
        let filter = query.filter(fleet)?;
        let filter = ListFilter { name: filter.placement.as_ref().map(ToString::to_string).or(filter.name), ..filter };
        Ok(json_of(&lists::placements(fleet, &filter, query.order(), &query.part(), clock::now())))
    };
    answered(&headers, made(&shared, page).await)
}

/// Answers with one placement.
pub(super) async fn placement(State(shared): State<Shared>, headers: HeaderMap, Path(name): Path<String>) -> Response {
    let detail = move |fleet: &FleetView| {
        let key = key_of(fleet, &name)?;
        let placed = &fleet.placements[&key];
        Ok(json_of(&PlacementDetail::of(placed, fleet, clock::now())))
    };
    answered(&headers, made(&shared, detail).await)
}

/// Answers with a page of clusters.
pub(super) async fn clusters(
    State(shared): State<Shared>,
    headers: HeaderMap,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> Response {
    let now = clock::now();
    let page = move |fleet: &FleetView| {
        let filter = query.filter(fleet)?;
        let filter = ListFilter { name: filter.cluster.as_ref().map(ToString::to_string).or(filter.name), ..filter };
        Ok(lists::clusters(fleet, &filter, &query.part(), now))
    };
    match made(&shared, page).await {
        Ok(page) => {
            // What answers was seen just now: that alone makes no other answer.
            let tag = json_of(&page);
            tagged(&headers, json_of(&seen(page)), &tag)
        }
        Err(refused) => refused,
    }
}

/// Writes when each cluster was seen.
fn seen(page: ListPage) -> Value {
    let now = clock::now();
    let lines = page.items.iter().filter_map(|item| serde_json::from_str::<Value>(item.get()).ok());
    let lines = lines.map(|mut line| {
        lists::see_now(&mut line, now);
        line
    });
    let mut answer = json!({"items": lines.collect::<Vec<_>>()});
    if let Some(next) = page.next {
        answer["continue"] = next.into();
    }
    answer
}

/// Answers with a page of bindings.
pub(super) async fn bindings(
    State(shared): State<Shared>,
    headers: HeaderMap,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> Response {
    let page = move |fleet: &FleetView| Ok(json_of(&lists::bindings(fleet, &query.filter(fleet)?, &query.part())));
    answered(&headers, made(&shared, page).await)
}

/// Answers with a page of works.
pub(super) async fn works(
    State(shared): State<Shared>,
    headers: HeaderMap,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> Response {
    let page =
        move |fleet: &FleetView| Ok(json_of(&lists::works(fleet, &query.filter(fleet)?, &query.part(), clock::now())));
    answered(&headers, made(&shared, page).await)
}

/// What events are asked with.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    limit: Option<usize>,
    #[serde(default)]
    after: u64,
    #[serde(rename = "continue")]
    next: Option<u64>,
    placement: Option<String>,
    cluster: Option<String>,
}

/// An entry of the journal with its number.
#[derive(Serialize)]
struct NumberedEvent {
    number: u64,
    #[serde(flatten)]
    entry: JournalEntry,
}

/// Answers with entries of the journal, oldest first.
pub(super) async fn events(
    State(shared): State<Shared>,
    headers: HeaderMap,
    UrlQuery(query): UrlQuery<EventsQuery>,
) -> Response {
    let after = query.next.unwrap_or(query.after);
    let found = match super::read_store(&shared, move |store| store.journal(after, EVENTS_SEARCHED_MAX)).await {
        Ok(found) => found,
        Err(failure) => return failure.into_response(),
    };
    let limit = query.limit.unwrap_or(PAGE_ITEMS).clamp(1, PAGE_ITEMS_MAX);
    let is_meant = |entry: &JournalEntry| {
        query.placement.as_deref().is_none_or(|wanted| entry.concerns(wanted))
            && query
                .cluster
                .as_deref()
                .is_none_or(|wanted| entry.cluster.as_ref().is_some_and(|c| c.as_str() == wanted))
    };
    // Whether or not they match: a page without events is not the end.
    let mut next = last_of_full(&found, EVENTS_SEARCHED_MAX);
    let mut items: Vec<NumberedEvent> = Vec::new();
    for (number, entry) in found.into_iter().filter(|(_, entry)| is_meant(entry)) {
        if items.len() == limit {
            next = items.last().map(|event| event.number);
            break;
        }
        items.push(NumberedEvent { number, entry });
    }
    let mut answer = json!({"items": items});
    if let Some(next) = next {
        answer["continue"] = next.into();
    }
    let body = json_of(&answer);
    tagged(&headers, body.clone(), &body)
}

#[cfg(test)]
mod tests;
