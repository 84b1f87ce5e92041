//! Bearer tokens: identify the caller.

use axum::http::{HeaderMap, StatusCode, header};
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

/// The tokens that are known, with the names of their owners.
#[derive(Debug, Default)]
pub struct Tokens(Vec<(String, SecretString)>);

impl Tokens {
    /// Takes names and tokens.
    pub fn new(tokens: Vec<(String, SecretString)>) -> Self {
        Self(tokens)
    }

    /// Returns the owner of the request's token. The duration reveals nothing about a token but its length.
    ///
    /// # Errors
    /// Status and message: 401 without a bearer token, 403 for an unknown one.
    pub fn owner(&self, headers: &HeaderMap) -> Result<&str, (StatusCode, &'static str)> {
        let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let sent =
            sent.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let Some((_, sent)) = sent else {
            return Err((StatusCode::UNAUTHORIZED, "a bearer token is needed: Authorization: Bearer TOKEN"));
        };
        self.named(sent).ok_or((StatusCode::FORBIDDEN, "the token is not known to this daemon"))
    }

    /// Returns the owner of a token. The duration reveals nothing about a token but its length.
    pub fn named(&self, token: &str) -> Option<&str> {
        let sent = token.trim().as_bytes();
        let is_sent = |token: &SecretString| bool::from(token.expose_secret().as_bytes().ct_eq(sent));
        // Every token is compared, so that the duration does not reveal which one matched.
        self.0.iter().fold(None, |found, (name, token)| if is_sent(token) { Some(name.as_str()) } else { found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_known_token_has_an_owner() {
        let token = |name: &str, text: &str| (name.to_owned(), SecretString::from(text));
        let tokens = Tokens::new(vec![token("argo", "s3cret"), token("ci", "other")]);
        for (header, expected) in [
            (Some("Bearer s3cret"), Ok("argo")),
            (Some("bearer other"), Ok("ci")),
            (Some("Bearer s3cre"), Err(403)),
            (Some("Bearer s3crets"), Err(403)),
            (Some("Bearer "), Err(403)),
            (Some("Basic s3cret"), Err(401)),
            (Some("s3cret"), Err(401)),
            (None, Err(401)),
        ] {
            let headers = header.map(|value| (header::AUTHORIZATION, value.parse().unwrap())).into_iter().collect();
            assert_eq!(tokens.owner(&headers).map_err(|(code, _)| code.as_u16()), expected, "{header:?}");
        }
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, "Bearer ".parse().unwrap())]);
        assert!(Tokens::default().owner(&headers).is_err());
    }
}
