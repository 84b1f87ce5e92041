//! Bearer tokens: identify the caller.

use std::sync::{PoisonError, RwLock};

use axum::http::{HeaderMap, StatusCode, header};
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

/// The tokens that are known, with the names of their owners. Each may be replaced while the daemon runs.
#[derive(Debug, Default)]
pub struct Tokens(RwLock<Vec<(String, SecretString)>>);

impl Tokens {
    /// Takes names and tokens.
    pub fn new(tokens: Vec<(String, SecretString)>) -> Self {
        Self(RwLock::new(tokens))
    }

    /// Replaces the token of an owner, who must be known; the one before is valid no more. Tells whether it is another one.
    pub fn replace(&self, owner: &str, token: SecretString) -> bool {
        let mut tokens = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let Some((_, known)) = tokens.iter_mut().find(|(name, _)| name == owner) else { return false };
        let is_other = known.expose_secret() != token.expose_secret();
        *known = token;
        is_other
    }

    /// Returns the owner of the request's token. The duration reveals nothing about a token but its length.
    ///
    /// # Errors
    /// Status and message: 401 without a bearer token, 403 for an unknown one.
    pub fn owner(&self, headers: &HeaderMap) -> Result<String, (StatusCode, &'static str)> {
        let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let sent =
            sent.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let Some((_, sent)) = sent else {
            return Err((StatusCode::UNAUTHORIZED, "a bearer token is needed: Authorization: Bearer TOKEN"));
        };
        self.named(sent).ok_or((StatusCode::FORBIDDEN, "the token is not known to this daemon"))
    }

    /// Returns the owner of a token. The duration reveals nothing about a token but its length.
    pub fn named(&self, token: &str) -> Option<String> {
        let sent = token.trim().as_bytes();
        let is_sent = |token: &SecretString| bool::from(token.expose_secret().as_bytes().ct_eq(sent));
        // Every token is compared, so that the duration does not reveal which one matched.
        let tokens = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let owner = tokens.iter().fold(None, |found, (name, token)| if is_sent(token) { Some(name) } else { found });
        owner.cloned()
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
            let owner = tokens.owner(&headers).map_err(|(code, _)| code.as_u16());
            assert_eq!(owner, expected.map(str::to_owned), "{header:?}");
        }
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, "Bearer ".parse().unwrap())]);
        assert!(Tokens::default().owner(&headers).is_err());
    }

    #[test]
    fn a_replaced_token_is_valid_no_more() {
        let tokens = Tokens::new(vec![("ci".to_owned(), SecretString::from("old"))]);
        assert!(!tokens.replace("ci", SecretString::from("old")), "it is the same");
        assert!(!tokens.replace("nobody", SecretString::from("new")));
        assert!(tokens.replace("ci", SecretString::from("new")));
        assert_eq!((tokens.named("old"), tokens.named("new").as_deref()), (None, Some("ci")));
    }
}
