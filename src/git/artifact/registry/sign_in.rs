//! How a registry is signed in to: by name and token, or with what the server of its choice gives for them.
//!
//! Source: Distribution's token authentication specification.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use reqwest::blocking::Response;
use reqwest::header::{HeaderValue, WWW_AUTHENTICATE};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use super::super::super::error::Secrets;
use super::super::super::{Cause, Error};
use super::RegistryClient;
use crate::artifact::registry::connection::failed;
/// The largest answer of a server for tokens, in bytes.
const TOKEN_MAX_BYTES: u64 = 64 * 1024;
/// The user name beside a token where the configuration names none: most registries with tokens take any.
const TOKEN_USER: &str = "x-access-token";

#[derive(Deserialize)]
struct GivenToken {
    token: Option<String>,
    access_token: Option<String>,
}

impl RegistryClient<'_> {
    /// Returns what to sign in with after a registry refused a request; `None` where it asks for nothing that is here.
    ///
    /// # Errors
    /// `InsecureToken` where it wants the credentials to go somewhere in clear text; otherwise as a poll.
    pub(super) fn sign_in(&self, refusal: &Response, asked: &str) -> Result<Option<HeaderValue>, Error> {
        // Another host, that a redirect led to, gets nothing.
        if !Url::parse(asked).is_ok_and(|asked| asked.origin() == refusal.url().origin()) {
            return Ok(None);
        }
        let challenges = refusal.headers().get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let challenges: Vec<(&str, &str)> =
            challenges.filter_map(|challenge| challenge.trim().split_once(' ')).collect();
        if let Some((_, parameters)) = challenges.iter().find(|(scheme, _)| scheme.eq_ignore_ascii_case("Bearer")) {
            return self.bearer(parameters).map(Some);
        }
        if challenges.iter().any(|(scheme, _)| scheme.eq_ignore_ascii_case("Basic")) {
            return Ok(self.login().and_then(|login| header("Basic", &login)));
        }
        Ok(None)
    }

    /// Returns user and token as a header has them.
    fn login(&self) -> Option<SecretString> {
        let token = self.spec.token.as_ref()?;
        let user = self.spec.user.as_deref().unwrap_or(TOKEN_USER);
        Some(STANDARD.encode(format!("{user}:{}", token.expose_secret())).into())
    }

    /// Gets a token for reading the repository from the server that the registry names.
    fn bearer(&self, parameters: &str) -> Result<HeaderValue, Error> {
        let realm = parameter(parameters, "realm").and_then(|realm| Url::parse(&realm).ok());
        let Some(mut realm) = realm else {
            let cause = Cause::text("it names no server that gives tokens", &Secrets::default());
            return Err(Error::Remote { location: self.spec.location.clone(), cause });
        };
        let is_local = realm.host_str().is_some_and(is_loopback);
        if realm.scheme() != "https" && !(realm.scheme() == "http" && is_local) {
            let reason = "the registry has tokens given out over plain http, where anybody may read the credentials";
            return Err(Error::InsecureToken { location: self.spec.location.clone(), reason });
        }
        let scope = parameter(parameters, "scope");
        let scope = scope.unwrap_or_else(|| format!("repository:{}:pull", self.reference.repository));
        let service = parameter(parameters, "service");
        realm.query_pairs_mut().append_pair("scope", &scope).extend_pairs(service.map(|service| ("service", service)));
        let mut request = self.client.get(realm);
        if let Some(authorization) = self.login().and_then(|login| header("Basic", &login)) {
            request = request.header(reqwest::header::AUTHORIZATION, authorization);
        }
        let answer = request.send().map_err(|error| failed(self.spec, error))?;
        let body = self.read(answer, &self.reference.name, TOKEN_MAX_BYTES)?;
        let given = serde_json::from_slice::<GivenToken>(&body).ok();
        let token = given.and_then(|given| given.token.or(given.access_token));
        token.and_then(|token| header("Bearer", &token.into())).ok_or_else(|| Error::Remote {
            location: self.spec.location.clone(),
            cause: Cause::text("the server for tokens gave none", &Secrets::default()),
        })
    }
}

fn header(scheme: &str, value: &SecretString) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("{scheme} {}", value.expose_secret())).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Tells whether a host is this machine, so that nobody else reads what is sent there.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Returns a parameter of a challenge such as `realm="https://auth.example/token",service="registry.example"`.
fn parameter(parameters: &str, name: &str) -> Option<String> {
    let mut rest = parameters;
    loop {
        let (key, after) = rest.trim_start_matches([' ', ',']).split_once('=')?;
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(',').unwrap_or((after, "")),
        };
        if key.trim().eq_ignore_ascii_case(name) {
            return Some(value.trim().to_owned());
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let challenge =
            r#"realm="https://auth.example/token?a=b",service=registry.example, scope="repository:a:pull,push""#;
        for (name, wanted) in [
            ("realm", Some("https://auth.example/token?a=b")),
            ("service", Some("registry.example")),
            ("Scope", Some("repository:a:pull,push")),
            ("error", None),
        ] {
            assert_eq!(parameter(challenge, name).as_deref(), wanted, "{name}");
        }
        for broken in ["", "realm", "realm=\"https://a", "=,=,"] {
            assert_eq!(parameter(broken, "realm"), None, "{broken}");
        }
        for (host, wanted) in [
            ("localhost", true),
            ("127.0.0.1", true),
            ("[::1]", true),
            ("127.0.0.1.example", false),
            ("10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(host), wanted, "{host}");
        }
    }
}
