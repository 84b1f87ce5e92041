//! Sessions and commands in the page. A form is taken only from a page that was made for whoever sends it.

use std::collections::BTreeMap;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::recent::Rendered;
use super::visitor::{cookie, is_from_here, place, see_other};
use super::{KnownVisitor, PageRequest, PageSettings, absent};
use crate::Shared;
use crate::commands::sent;
use crate::serve::Peer;
use crate::sessions::SESSION_TIME;
use model::commands::{Command, Grant, Person};
use model::id::CommitId;
use model::runs::Channel;
use model::tree::JoinedSource;
use views::page;
use views::page::{Visit, Visitor};
use views::subjects::Subjects;

/// Fields that one form may have.
const FIELDS_MAX: usize = 20;

/// Reads a form.
///
/// # Errors
/// The answer to one that cannot be read, or that a page of another site sent.
async fn form(shared: &Shared, page: &PageSettings, request: Request) -> Result<Vec<(String, String)>, Response> {
    if !is_from_here(page, request.headers()) {
        let why = "this form was not sent by a page of this daemon; set http.publicUrl where a proxy changes its name";
        return Err((StatusCode::FORBIDDEN, why).into_response());
    }
    let (parts, body) = request.into_parts();
    let body = shared.turns.commands.whole(&parts.headers, body).await;
    let body = body.map_err(|_| (StatusCode::BAD_REQUEST, "the form cannot be read").into_response())?;
    Ok(form_urlencoded::parse(&body)
        .take(FIELDS_MAX)
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect())
}

fn field<'a>(fields: &'a [(String, String)], name: &str) -> &'a str {
    fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).unwrap_or_default()
}

/// Shows the form for a token.
pub(crate) async fn sign_in_form(State(shared): State<Shared>, request: Request) -> Response {
    let Some(page) = shared.page.clone() else { return absent() };
    let query: Vec<(String, String)> = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes())
        .into_owned()
        .take(FIELDS_MAX)
        .collect();
    sign_in_page(&page, StatusCode::OK, place(field(&query, "to")), None)
}

/// Says nothing of commits: whoever is not signed in sees none.
#[derive(Debug)]
struct NoSubjects;

impl Subjects for NoSubjects {
    fn subject(&self, _: &CommitId) -> Option<String> {
        None
    }

    fn joined(&self, _: &CommitId) -> Vec<JoinedSource> {
        Vec::new()
    }
}

fn sign_in_page(page: &PageSettings, status: StatusCode, to: &str, problem: Option<&str>) -> Response {
    // Whoever sees the form may see nothing else yet.
    let fleet = views::fleet::FleetView::default();
    let visitor = Visitor::default();
    let pulls = BTreeMap::new();
    let now = system::clock::now();
    let visit =
        Visit { site: &page.site, fleet: &fleet, subjects: &NoSubjects, pulls: &pulls, now, visitor, change: "" };
    let text = page::document(&visit, &page::sign_in::page(&page.site, to, problem));
    Rendered { status, body: text.into_string().into(), is_compressed: false }.answer()
}

/// Opens a session for the owner of a token, and leads to where they wanted to go.
pub(crate) async fn sign_in(State(shared): State<Shared>, request: Request) -> Response {
    let Some(page) = shared.page.clone() else { return absent() };
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0);
    let fields = match form(&shared, &page, request).await {
        Ok(fields) => fields,
        Err(answer) => return answer,
    };
    let token = field(&fields, "token");
    let to = place(field(&fields, "to"));
    let commander = shared.commanders.named(token).map(|name| (name, true));
    let Some((owner, may_command)) = commander.or_else(|| shared.watchers.named(token).map(|name| (name, false)))
    else {
        tracing::warn!(?peer, "somebody tried to sign in with a token that is not known");
        let problem = "This token is not known to this daemon, or is for something else.";
        return sign_in_page(&page, StatusCode::FORBIDDEN, to, Some(problem));
    };
    let Some(number) = page.sessions.open(&owner, may_command, Instant::now()) else {
        return (StatusCode::SERVICE_UNAVAILABLE, "the system gives no random bytes for a session").into_response();
    };
    tracing::info!(?peer, person = owner, "signed in");
    let mut answer = see_other(&format!("{}{to}", page.site.base));
    answer.headers_mut().insert(header::SET_COOKIE, cookie(&page, &number, SESSION_TIME.as_secs()));
    answer
}

/// Ends the session.
pub(crate) async fn sign_out(State(shared): State<Shared>, request: Request) -> Response {
    let Some(asked) = PageRequest::of(shared.clone(), &request) else { return absent() };
    let page = asked.settings;
    let fields = match form(&shared, &page, request).await {
        Ok(fields) => fields,
        Err(answer) => return answer,
    };
    if let Some(known) = asked.visitor.filter(|known| is_form_of(&page, known, &fields))
        && let Some(number) = known.session
    {
        page.sessions.close(&number);
    }
    let mut answer = see_other(&format!("{}/", page.site.base));
    answer.headers_mut().insert(header::SET_COOKIE, cookie(&page, "", 0));
    answer
}

fn is_form_of(page: &PageSettings, known: &KnownVisitor, fields: &[(String, String)]) -> bool {
    page.sessions.is_form_of(&known.identity, field(fields, "form"))
}

/// Returns who commands, with what they may do.
fn person(shared: &Shared, known: &KnownVisitor) -> Person {
    // Who comes through the proxy has no token, and hence none with less than everything.
    let grant = if known.session.is_some() { shared.grants.get(&known.name).cloned() } else { None };
    Person { grant: grant.unwrap_or_else(Grant::default), ..Person::of(known.name.clone(), Channel::Api) }
}

fn forbidden(is_known: bool) -> Response {
    let why = if is_known { "you may look here, and not command" } else { "sign in first" };
    (StatusCode::FORBIDDEN, why).into_response()
}

/// Asks whether a command is to be sent, with what it would do.
pub(crate) async fn ask(State(shared): State<Shared>, request: Request) -> Response {
    let Some(asked) = PageRequest::of(shared.clone(), &request) else { return absent() };
    let Some(known) = asked.visitor.clone().filter(|known| known.may_command) else {
        return forbidden(asked.visitor.is_some());
    };
    let fields: Vec<(String, String)> =
        form_urlencoded::parse(asked.query.as_bytes()).into_owned().take(FIELDS_MAX).collect();
    let Some(command) = page::act::command(&fields) else {
        return (StatusCode::BAD_REQUEST, "this is no command").into_response();
    };
    let preview = if page::act::has_preview(command.verb) {
        match sent(&shared.previews, command.clone(), person(&shared, &known)).await {
            Ok(preview) => Some(preview),
            Err(ending) => return (StatusCode::SERVICE_UNAVAILABLE, ending).into_response(),
        }
    } else {
        None
    };
    let last = asked.last().await;
    asked.own_page(last, move |visit| Some(page::act::question(visit, &command, preview.as_ref()))).await
}

/// Sends a command, and says what came of it.
pub(crate) async fn act(State(shared): State<Shared>, request: Request) -> Response {
    let Some(asked) = PageRequest::of(shared.clone(), &request) else { return absent() };
    let Some(known) = asked.visitor.clone().filter(|known| known.may_command) else {
        return forbidden(asked.visitor.is_some());
    };
    let fields = match form(&shared, &asked.settings, request).await {
        Ok(fields) => fields,
        Err(answer) => return answer,
    };
    if !is_form_of(&asked.settings, &known, &fields) {
        return (StatusCode::FORBIDDEN, "this form is of another session; load the page again").into_response();
    }
    let Some(command) = page::act::command(&fields) else {
        return (StatusCode::BAD_REQUEST, "this is no command").into_response();
    };
    let done = match executed(&shared, command.clone(), person(&shared, &known)).await {
        Ok(done) => done,
        Err(ending) => return (StatusCode::SERVICE_UNAVAILABLE, ending).into_response(),
    };
    // What was done is in the page that follows.
    let fresh = shared.views.fresh().await;
    asked.own_page(fresh, move |visit| Some(page::act::answer(visit, &command, &done))).await
}

async fn executed(shared: &Shared, command: Command, person: Person) -> Result<Result<String, String>, &'static str> {
    let answer = sent(&shared.instructions, command, person).await?;
    Ok(answer.map(|done| done.message).map_err(|refusal| refusal.message))
}
