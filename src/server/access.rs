//! Read access, and the host names that the daemon answers to.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::Shared;
use super::page::known;
use super::serve::Peer;

/// Read access, and the host names that the daemon answers to.
#[derive(Clone, Debug)]
pub struct Access {
    /// Records, journal, explanations and metrics need a token.
    pub read_needs_token: bool,
    /// The daemon is reachable only from this machine: it answers only to this machine's names and to `hosts`.
    pub on_loopback: bool,
    /// Further names it answers to; if empty, a daemon that is reachable from elsewhere answers to every name.
    pub hosts: Arc<[String]>,
}

impl Access {
    /// Tells whether a request's host name is allowed: a web page in a user's browser can point its own name to this machine's
    /// address, and would read the answers. Only browsers are a danger, and they always send the name.
    fn answers_to(&self, headers: &HeaderMap) -> bool {
        let Some(host) = headers.get(header::HOST) else { return true };
        if !self.on_loopback && self.hosts.is_empty() {
            return true;
        }
        let Ok(host) = host.to_str() else { return false };
        let name = without_port(host);
        if let Ok(address) = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            // Unlike a name, an address cannot be redirected: beyond loopback every address is allowed.
            return address.is_loopback() || !self.on_loopback || self.is_named(name);
        }
        name.eq_ignore_ascii_case("localhost") || self.is_named(name)
    }

    fn is_named(&self, name: &str) -> bool {
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// Returns the name or address of a `Host`; an IPv6 address keeps its brackets.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) && (!name.contains(':') || name.ends_with(']')) => name,
        _ => host,
    }
}

fn is_port(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Lets requests pass that call the daemon by one of its names.
pub(super) async fn names_us(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    if shared.access.answers_to(request.headers()) {
        return next.run(request).await;
    }
    let message = "the daemon does not serve this name; use localhost, or add the name to http.hosts of gitfleet.yaml";
    (StatusCode::MISDIRECTED_REQUEST, message).into_response()
}

/// Passes requests with read access: with a token, or of whoever may see the page.
pub(super) async fn may_read(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    if !shared.access.read_needs_token {
        return next.run(request).await;
    }
    let headers = request.headers();
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0);
    if shared.page.as_ref().is_some_and(|page| known(page, headers, peer).is_some()) {
        return next.run(request).await;
    }
    match shared.commanders.owner(headers).or_else(|_| shared.watchers.owner(headers)) {
        Ok(_) => next.run(request).await,
        Err((status, message)) => {
            let mut answer = (status, message).into_response();
            if status == StatusCode::UNAUTHORIZED {
                answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            answer
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d09_a_name_that_is_not_ours_is_not_answered_on_loopback() {
        let access = |on_loopback, hosts: &[&str]| Access {
            read_needs_token: false,
            on_loopback,
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        };
        let answers = |access: &Access, host: &str| {
            access.answers_to(&HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(host).expect("a host"))]))
        };
        let own = access(true, &[]);
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.0.0.2", "[::1]", "[::1]:8080"] {
            assert!(answers(&own, host), "{host}");
        }
        let strange =
            ["evil.example", "evil.example:8080", "localhost.evil.example", "192.0.2.1", "[2001:db8::1]:80", ""];
        for host in strange {
            assert!(!answers(&own, host), "{host}");
            assert!(answers(&access(false, &[]), host), "{host}: reached from elsewhere, where a token is needed");
        }
        assert!(own.answers_to(&HeaderMap::new()), "no browser leaves it out");
        for on_loopback in [true, false] {
            let named = access(on_loopback, &["fleet.example"]);
            assert!(answers(&named, "Fleet.Example:443"));
            assert!(!answers(&named, "evil.example"));
            assert_eq!(
                answers(&named, "192.0.2.1:8080"),
                !on_loopback,
                "an address is no name that somebody could move"
            );
        }
    }
}
