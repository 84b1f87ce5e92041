//! Who asks for a page: by a session, by the word of an authenticating proxy, or by a token.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse as _, Response};
use ipnet::IpNet;
use maud::{DOCTYPE, html};

use super::PageSettings;
use crate::Shared;
use crate::serve::Peer;

/// The cookie with the number of a session.
const COOKIE: &str = "gitfleet-session";
/// Characters of a name that a proxy may give.
const NAME_CHARS_MAX: usize = 200;
/// Asks for the content of a page alone.
pub(super) const FRAGMENT: &str = "gitfleet-fragment";

/// A proxy whose word on who asks counts.
#[derive(Clone, Debug)]
pub struct TrustedProxy {
    /// The header with the name.
    pub header: HeaderName,
    /// Where the proxy is.
    pub from: Vec<IpNet>,
    /// The names that may command.
    pub commanders: BTreeSet<String>,
}

/// Somebody who is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownVisitor {
    /// The name that commands are recorded under.
    pub(super) name: String,
    /// Whether they may command.
    pub(super) may_command: bool,
    /// The number of the session; absent where a proxy vouches.
    pub(super) session: Option<String>,
    /// What forms are bound to.
    pub(super) identity: String,
}

/// Returns who asks, where a session or the proxy says so. The proxy goes first: it knows who is there now.
pub(crate) fn known(page: &PageSettings, headers: &HeaderMap, peer: Option<IpAddr>) -> Option<KnownVisitor> {
    by_proxy(page, headers, peer).or_else(|| by_session(page, headers))
}

fn by_proxy(page: &PageSettings, headers: &HeaderMap, peer: Option<IpAddr>) -> Option<KnownVisitor> {
    let proxy = page.proxy.as_ref()?;
    let peer = peer?;
    if !proxy.from.iter().any(|network| network.contains(&peer)) {
        return None;
    }
    // Two of them are no answer: one may come from whoever asks.
    let mut given = headers.get_all(&proxy.header).iter();
    let name = given.next()?;
    if given.next().is_some() {
        return None;
    }
    let name = name.to_str().ok()?.trim();
    let is_plain = !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.bytes().all(|byte| byte.is_ascii_graphic());
    is_plain.then(|| KnownVisitor {
        name: name.to_owned(),
        may_command: page.site.commands && proxy.commanders.contains(name),
        session: None,
        identity: format!("proxy {name}"),
    })
}

fn by_session(page: &PageSettings, headers: &HeaderMap) -> Option<KnownVisitor> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let (_, number) = pairs.find(|(name, _)| *name == COOKIE)?;
    let session = page.sessions.find(number, Instant::now())?;
    Some(KnownVisitor {
        name: session.owner,
        may_command: page.site.commands && session.may_command,
        session: Some(number.to_owned()),
        identity: format!("session {number}"),
    })
}

/// Returns the cookie of a session: for this daemon's pages only, for no script, and for no request that another site causes.
pub(super) fn cookie(page: &PageSettings, number: &str, seconds: u64) -> HeaderValue {
    let path = &page.site.base;
    let secure = if page.is_https { "; Secure" } else { "" };
    let cookie = format!("{COOKIE}={number}; Path={path}/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::try_from(cookie).expect("the base path and hexadecimal digits are plain text")
}

/// Tells whether a browser says that a page of this daemon sent a request, or says nothing.
pub(super) fn is_from_here(page: &PageSettings, headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("unreadable"));
    if let Some(site) = text(HeaderName::from_static("sec-fetch-site")) {
        return site == "same-origin";
    }
    let Some(origin) = text(header::ORIGIN) else { return true };
    let host = origin.split_once("://").map(|(_, host)| host);
    let is_ours = |ours: Option<&str>| ours.is_some_and(|ours| host == Some(ours));
    is_ours(text(header::HOST)) || is_ours(page.public_host.as_deref())
}

/// Passes on requests for pages by whoever may read, and says with them who that is. The others are led to the form where tokens are
/// shown, and back.
pub(crate) async fn may_visit(State(shared): State<Shared>, mut request: Request, next: Next) -> Response {
    let Some(page) = shared.page.clone() else { return StatusCode::NOT_FOUND.into_response() };
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0);
    let visitor = known(&page, request.headers(), peer);
    let may_read = visitor.is_some()
        || !shared.access.read_needs_token
        || is_public(&page, request.uri().path())
        || shared.commanders.owner(request.headers()).is_ok()
        || shared.watchers.owner(request.headers()).is_ok();
    let answer = if may_read {
        request.extensions_mut().insert(Asker(visitor));
        next.run(request).await
    } else {
        turned_away(&page, &request)
    };
    guarded(answer)
}

/// Who asks, as far as that is known.
#[derive(Clone, Debug)]
pub(super) struct Asker(pub(super) Option<KnownVisitor>);

/// Passes on requests for what everybody may see.
pub(crate) async fn anybody(request: Request, next: Next) -> Response {
    guarded(next.run(request).await)
}

/// Tells whether a picture is for everybody.
fn is_public(page: &PageSettings, path: &str) -> bool {
    page.public_badge && path.starts_with("/badge/") && path.strip_suffix(".svg").is_some()
        || page.public_graph && path.starts_with("/placements/") && path.ends_with("/graph.svg")
}

fn turned_away(page: &PageSettings, request: &Request) -> Response {
    let headers = request.headers();
    if request.method() != Method::GET || headers.contains_key(FRAGMENT) {
        return (StatusCode::UNAUTHORIZED, "sign in first").into_response();
    }
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let base = &page.site.base;
    // A browser leaves the cookie out where another site leads here. It sends it where our own page does.
    let is_led = headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site" || site == "same-site");
    if is_led && !page.sessions.is_empty() {
        let here = html! {
            (DOCTYPE) html lang="en" {
                head { meta charset="utf-8"; title { "gitfleet" } meta http-equiv="refresh" content=(format!("0; url={base}{path}")); }
                body { p { a href=(format!("{base}{path}")) { "Continue" } } }
            }
        };
        return Html(here.into_string()).into_response();
    }
    let to = form_urlencoded::Serializer::new(String::new()).append_pair("to", path).finish();
    see_other(&format!("{base}/sign-in?{to}"))
}

/// Leads elsewhere with a `GET`.
pub(super) fn see_other(to: &str) -> Response {
    match HeaderValue::try_from(to) {
        Ok(to) => (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response(),
        Err(_) => StatusCode::BAD_REQUEST.into_response(),
    }
}

/// Returns a place below the base path that somebody may be led to: none on another host.
pub(super) fn place(to: &str) -> &str {
    let is_path = to.starts_with('/') && !to.starts_with("//") && to.parse::<Uri>().is_ok();
    if is_path && !to.contains(['\\', '\r', '\n']) { to } else { "/" }
}

/// Adds what browsers need to keep others out of a page.
fn guarded(mut answer: Response) -> Response {
    const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                          form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    answer
}
