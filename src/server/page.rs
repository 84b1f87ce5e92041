//! The page: HTML for people, from the fleet that the daemon published last.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::sync::{oneshot, watch};

use super::api::{Published, starting};
use super::journal::last_of_full;
use super::sessions::Sessions;
use super::stream::id_of;
use super::{Question, Shared};
use model::explanation::{Explanation, Query};
use model::id::{ClusterName, PlacementKey};
use system::clock;
use views::page;
use views::page::assets::Asset;
use views::page::events::{EventsQuery, Listed};
use views::page::placement::{Tab, TabContent};
use views::page::query::{ListQuery, ROWS_MAX};
use views::page::{HtmlPage, Site, Visit, Visitor};
use views::simulation::SimulatedRun;

mod acts;
mod forecasts;
mod lines;
mod recent;
mod visitor;

pub(super) use acts::{act, ask, sign_in, sign_in_form, sign_out};
pub use forecasts::Forecasts;
use forecasts::forecast;
use lines::LoadedLines;
pub use recent::RecentFragments;
use recent::{FragmentKey, Rendered};
pub use visitor::TrustedProxy;
use visitor::{Asker, FRAGMENT, KnownVisitor};
pub(super) use visitor::{anybody, known, may_visit};

/// The fleet.
pub const PAGE_PATH: &str = "/";
/// One placement, and its picture.
pub(crate) const PAGE_PLACEMENT_PATH: &str = "/placements/{*name}";
/// All clusters.
pub(crate) const PAGE_CLUSTERS_PATH: &str = "/clusters";
/// One cluster.
pub(crate) const PAGE_CLUSTER_PATH: &str = "/clusters/{name}";
/// One commit.
pub(crate) const PAGE_COMMIT_PATH: &str = "/commits/{commit}";
/// What happened.
pub(crate) const PAGE_EVENTS_PATH: &str = "/events";
/// The state of a placement in a word.
pub(crate) const BADGE_PATH: &str = "/badge/{*name}";
/// What pages load.
pub(crate) const ASSET_PATH: &str = "/assets/{name}";
/// Commands: what would happen, and then what happened.
pub(crate) const ACT_PATH: &str = "/act";
/// Where tokens are shown.
pub(crate) const SIGN_IN_PATH: &str = "/sign-in";
/// Where sessions end.
pub(crate) const SIGN_OUT_PATH: &str = "/sign-out";

/// Entries of the journal that one page of events searches.
pub const EVENTS_PAGE_SEARCHED_MAX: usize = 5_000;
/// Bytes of a page below which compression saves no packet.
const COMPRESSED_BYTES_MIN: usize = 1_200;
/// How long a browser may keep a file whose address has its version: a year.
const KEPT: &str = "public, max-age=31536000, immutable";

/// What the page needs beside the fleet.
#[derive(Debug)]
pub struct PageSettings {
    /// What all pages share.
    pub site: Site,
    /// People reach it over TLS.
    pub is_https: bool,
    /// Host and port by which people reach it, where that is known.
    pub public_host: Option<String>,
    /// The proxy whose word on who asks counts.
    pub proxy: Option<TrustedProxy>,
    /// Badges are for everybody.
    pub public_badge: bool,
    /// Pictures of stages are for everybody.
    pub public_graph: bool,
    /// Who signed in.
    pub sessions: Sessions,
    /// What was made a moment ago.
    pub recent: RecentFragments,
    /// What the simulation predicted of runs.
    pub forecasts: Forecasts,
}

/// What is known of a request for a page.
struct PageRequest {
    shared: Shared,
    settings: Arc<PageSettings>,
    visitor: Option<KnownVisitor>,
    /// Path and query.
    address: String,
    query: String,
    is_fragment: bool,
    takes_gzip: bool,
}

impl PageRequest {
    fn of(shared: Shared, request: &Request) -> Option<Self> {
        let headers = request.headers();
        let encodings = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
        Some(Self {
            settings: shared.page.clone()?,
            shared,
            visitor: request.extensions().get::<Asker>().and_then(|asker| asker.0.clone()),
            address: request.uri().to_string(),
            query: request.uri().query().unwrap_or_default().to_owned(),
            is_fragment: headers.contains_key(FRAGMENT),
            takes_gzip: encodings.split(',').any(|encoding| encoding.trim().split(';').next() == Some("gzip")),
        })
    }

    fn list_query(&self) -> ListQuery {
        ListQuery::read(&self.query)
    }

    /// Makes something of the last fleet, on a thread that may take its time.
    async fn made<T: Send + 'static>(
        &self,
        published: Arc<Published>,
        make: impl FnOnce(&Visit) -> T + Send + 'static,
    ) -> Result<T, Response> {
        let settings = Arc::clone(&self.settings);
        let process = self.shared.views.process;
        let visitor = self.visitor.clone();
        let history = Arc::clone(&self.shared.history);
        let known = |(source, pulls): (&String, &watch::Receiver<_>)| (source.clone(), Arc::clone(&pulls.borrow()));
        let pulls: BTreeMap<_, _> = self.shared.pulls.iter().map(known).collect();
        let work = tokio::task::spawn_blocking(move || {
            let form_token =
                visitor.as_ref().map(|known| settings.sessions.form_token(&known.identity)).unwrap_or_default();
            let visit = Visit {
                site: &settings.site,
                fleet: &published.fleet,
                subjects: history.as_ref(),
                pulls: &pulls,
                now: clock::now(),
                visitor: Visitor {
                    name: visitor.as_ref().map(|known| known.name.as_str()),
                    signed_in: visitor.as_ref().is_some_and(|known| known.session.is_some()),
                    may_command: visitor.as_ref().is_some_and(|known| known.may_command),
                    form_token: &form_token,
                },
                change: &id_of(process, published.fleet.version),
            };
            make(&visit)
        });
        work.await.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response())
    }

    /// Makes a page of a fleet; `None` means that what it is about is not there.
    async fn rendered(
        &self,
        published: Arc<Published>,
        make: impl FnOnce(&Visit) -> Option<HtmlPage> + Send + 'static,
    ) -> Result<Rendered, Response> {
        let is_fragment = self.is_fragment;
        let takes_gzip = self.takes_gzip;
        let _turn = self.settings.recent.turn().await;
        let render = move |visit: &Visit| {
            let found = make(visit);
            let status = if found.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
            let page = found.unwrap_or_else(HtmlPage::nothing_here);
            let text = if is_fragment { page::fragment(visit, &page) } else { page::document(visit, &page) };
            let (body, is_compressed) = compressed(text.into_string().into_bytes(), takes_gzip);
            Rendered { status, body: body.into(), is_compressed }
        };
        self.made(published, render).await
    }

    /// Answers with a page of a fleet, for nobody else.
    async fn own_page(
        self,
        published: Option<Arc<Published>>,
        make: impl FnOnce(&Visit) -> Option<HtmlPage> + Send + 'static,
    ) -> Response {
        let Some(published) = published else { return starting() };
        self.rendered(published, make).await.map_or_else(|refused| refused, Rendered::answer)
    }

    /// Answers with a page of the last fleet; a fragment that was made a moment ago is given again.
    async fn page(self, make: impl FnOnce(&Visit) -> Option<HtmlPage> + Send + 'static) -> Response {
        let last = self.last().await;
        let Some(published) = last.clone() else { return self.own_page(last, make).await };
        if !self.is_fragment {
            return self.own_page(last, make).await;
        }
        let key = FragmentKey {
            version: published.fleet.version,
            address: self.address.clone(),
            may_command: self.visitor.as_ref().is_some_and(|known| known.may_command),
            takes_gzip: self.takes_gzip,
        };
        let place = self.settings.recent.place(key, Instant::now());
        let rendered = place.get_or_try_init(|| self.rendered(published, make)).await;
        rendered.cloned().map_or_else(|refused| refused, Rendered::answer)
    }

    /// Returns the last fleet, without a wait for what was stored just now: a page that is open learns of that at once.
    async fn last(&self) -> Option<Arc<Published>> {
        match self.shared.views.latest() {
            Some(last) => Some(last),
            None => self.shared.views.fresh().await,
        }
    }
}

fn compressed(body: Vec<u8>, takes_gzip: bool) -> (Vec<u8>, bool) {
    if !takes_gzip || body.len() < COMPRESSED_BYTES_MIN {
        return (body, false);
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    match encoder.write_all(&body).and_then(|()| encoder.finish()) {
        Ok(smaller) => (smaller, true),
        Err(_) => (body, false),
    }
}

/// Answers with the page of the fleet.
pub(super) async fn fleet(State(shared): State<Shared>, request: Request) -> Response {
    let Some(asked) = PageRequest::of(shared, &request) else { return absent() };
    let query = asked.list_query();
    asked.page(move |visit| Some(page::fleet::page(visit, &query))).await
}

/// Answers with all clusters.
pub(super) async fn clusters(State(shared): State<Shared>, request: Request) -> Response {
    let Some(asked) = PageRequest::of(shared, &request) else { return absent() };
    let query = asked.list_query();
    asked.page(move |visit| Some(page::clusters::page(visit, &query))).await
}

/// Answers with one cluster.
pub(super) async fn cluster(State(shared): State<Shared>, Path(name): Path<String>, request: Request) -> Response {
    let Some(asked) = PageRequest::of(shared, &request) else { return absent() };
    let name = ClusterName::from(name.as_str());
    asked.page(move |visit| Some(page::cluster::page(visit, visit.fleet.clusters.get(&name)?))).await
}

/// Answers with one commit.
pub(super) async fn commit(State(shared): State<Shared>, Path(commit): Path<String>, request: Request) -> Response {
    let Some(asked) = PageRequest::of(shared, &request) else { return absent() };
    let query = asked.list_query();
    let make = move |visit: &Visit| {
        let commit = page::commit::found(visit.fleet, &commit)?;
        Some(page::commit::page(visit, &commit, &query))
    };
    asked.page(make).await
}

/// Answers with what happened.
pub(super) async fn events(State(shared): State<Shared>, request: Request) -> Response {
    let Some(asked) = PageRequest::of(shared, &request) else { return absent() };
    let query = EventsQuery::read(&asked.query);
    let found = match search(&asked.shared, query.clone()).await {
        Ok(found) => found,
        Err(answer) => return answer,
    };
    asked.page(move |visit| Some(page::events::page(visit, &query, &found))).await
}

/// Searches the journal from its end, or from where an earlier page ended.
async fn search(shared: &Shared, query: EventsQuery) -> Result<Listed, Response> {
    let read = super::read_store(shared, move |store| {
        let found = store.journal_back(query.before, EVENTS_PAGE_SEARCHED_MAX)?;
        let mut next = last_of_full(&found, EVENTS_PAGE_SEARCHED_MAX);
        let mut entries: Vec<_> = found.into_iter().filter(|(_, entry)| query.takes(entry)).collect();
        if entries.len() > ROWS_MAX {
            entries.truncate(ROWS_MAX);
            next = entries.last().map(|(number, _)| *number);
        }
        Ok(Listed { entries, next })
    });
    read.await.map_err(axum::response::IntoResponse::into_response)
}

/// What is loaded for a tab before its page is made.
enum Loaded {
    Overview { group: String, predicted: Option<Box<SimulatedRun>> },
    Diff { from: Option<u64>, to: Option<u64>, lines: Option<LoadedLines> },
    Explain(Result<Box<Explanation>, String>, ListQuery),
    Events(Listed),
    History,
}

/// Answers with one placement, or with the picture of its stages.
pub(super) async fn placement(State(shared): State<Shared>, Path(name): Path<String>, request: Request) -> Response {
    let Some(asked) = PageRequest::of(shared, &request) else { return absent() };
    if let Some(name) = name.strip_suffix("/graph.svg").map(str::to_owned) {
        return picture(asked, name, page::placement::graph_picture).await;
    }
    let key = placement_key(&name);
    let loaded = match load(&asked, &key).await {
        Ok(loaded) => loaded,
        Err(answer) => return answer,
    };
    let make = move |visit: &Visit| {
        let placed = visit.fleet.placements.get(&key)?;
        let content = match &loaded {
            Loaded::Overview { group, predicted } => TabContent::Overview { group, predicted: predicted.as_deref() },
            Loaded::Diff { from, to, lines } => {
                TabContent::Diff { from: *from, to: *to, contents: lines.as_ref().map(LoadedLines::contents) }
            }
            Loaded::Explain(explanation, query) => {
                TabContent::Explain(explanation.as_deref().map_err(String::as_str), query)
            }
            Loaded::Events(found) => TabContent::Events(found),
            Loaded::History => TabContent::History,
        };
        Some(page::placement::page(visit, placed, &content))
    };
    asked.page(make).await
}

async fn load(asked: &PageRequest, key: &PlacementKey) -> Result<Loaded, Response> {
    let field = |name: &str| {
        let mut fields = form_urlencoded::parse(asked.query.as_bytes());
        fields.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    };
    let number = |name: &str| field(name).and_then(|text| text.parse().ok());
    Ok(match Tab::named(&field("tab").unwrap_or_default()) {
        Tab::Overview => {
            let predicted = forecast(asked, key).await.map(Box::new);
            Loaded::Overview { group: asked.list_query().group, predicted }
        }
        Tab::History => Loaded::History,
        Tab::Diff => {
            let from = number("from");
            let to = number("to");
            let lines = match field("lines") {
                Some(_) => LoadedLines::load(asked, key, from, to, field("cluster")).await,
                None => None,
            };
            Loaded::Diff { from, to, lines }
        }
        Tab::Events => {
            let query = EventsQuery { placement: key.to_string(), before: number("before"), ..EventsQuery::default() };
            Loaded::Events(search(&asked.shared, query).await?)
        }
        Tab::Explain => Loaded::Explain(explained(&asked.shared, key).await, asked.list_query()),
    })
}

/// Returns the key that a name in an address stands for.
fn placement_key(name: &str) -> PlacementKey {
    let Ok(key) = name.parse();
    key
}

/// Asks the core why a placement is where it is.
async fn explained(shared: &Shared, key: &PlacementKey) -> Result<Box<Explanation>, String> {
    let Some(_turn) = shared.turns.read().await else { return Err("others are being answered; load it again".into()) };
    let (reply, answer) = oneshot::channel();
    let query = Query { placement: key.to_string(), kind: Some(key.kind().to_owned()) };
    // Without a receiver the question is dropped, and its reply with it.
    drop(shared.questions.send(Question::Explain { query, reply }).await);
    answer.await.map_err(|_| "the daemon is ending".to_owned())?.map(Box::new)
}

/// Answers with the state of a placement in a word.
pub(super) async fn badge(State(shared): State<Shared>, Path(name): Path<String>, request: Request) -> Response {
    let Some(asked) = PageRequest::of(shared, &request) else { return absent() };
    let name = name.strip_suffix(".svg").map(str::to_owned).unwrap_or_default();
    picture(asked, name, |visit, placed| Some(page::placement::badge_picture(visit, placed))).await
}

async fn picture(
    asked: PageRequest,
    name: String,
    draw: impl FnOnce(&Visit, &views::fleet::Placed) -> Option<maud::Markup> + Send + 'static,
) -> Response {
    let Some(published) = asked.shared.views.latest() else { return starting() };
    let make = move |visit: &Visit| draw(visit, visit.fleet.placements.get(&placement_key(&name))?);
    match asked.made(published, make).await {
        Ok(Some(picture)) => {
            let head = [(header::CONTENT_TYPE, "image/svg+xml"), (header::CACHE_CONTROL, "no-cache")];
            (head, picture.into_string()).into_response()
        }
        Ok(None) => absent(),
        Err(answer) => answer,
    }
}

/// Answers with a file that pages load.
pub(super) async fn asset(Path(name): Path<String>, headers: HeaderMap, request: Request) -> Response {
    let Some(asset) = Asset::named(&name) else { return absent() };
    let version = asset.version();
    let tag = format!("\"{version}\"");
    let is_versioned = request.uri().query().is_some_and(|query| query == format!("v={version}"));
    let head = [
        (header::CONTENT_TYPE, asset.content_type.to_owned()),
        (header::CACHE_CONTROL, if is_versioned { KEPT.to_owned() } else { "no-cache".to_owned() }),
        (header::ETAG, tag.clone()),
        (header::VARY, "Accept-Encoding".to_owned()),
    ];
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known == tag.as_str()) {
        return (StatusCode::NOT_MODIFIED, head).into_response();
    }
    (head, asset.content).into_response()
}

fn absent() -> Response {
    (StatusCode::NOT_FOUND, "there is nothing of this name").into_response()
}

#[cfg(test)]
mod tests;
