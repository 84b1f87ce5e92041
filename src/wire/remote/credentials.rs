//! Who may connect: tokens by their digests.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use engine::agent_tokens::AgentTokens;

/// SHA-256 of a token. It opens nothing.
pub type TokenDigest = [u8; 32];

/// A token that is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Its digest.
    pub digest: TokenDigest,
    /// The pools that the agent may join.
    pub pools: BTreeSet<String>,
}

/// All valid tokens, by the names of their agents.
#[derive(Debug, Default)]
pub struct Credentials {
    /// Those in files.
    fixed: BTreeMap<String, Credential>,
    /// Those in the store.
    stored: BTreeMap<String, Credential>,
}

impl Credentials {
    /// Takes the tokens of the store in place of the earlier ones.
    pub fn set_stored(&mut self, tokens: &AgentTokens) {
        let known = tokens.iter().filter_map(|(name, token)| {
            let digest = digest_from(&token.sha256)?;
            Some((name.clone(), Credential { digest, pools: token.pools.clone() }))
        });
        self.stored = known.collect();
    }

    /// Takes the token of a file.
    pub fn set_fixed(&mut self, name: &str, token: &str, pools: BTreeSet<String>) {
        self.fixed.insert(name.to_owned(), Credential { digest: digest_of(token), pools });
    }

    /// Returns the credential that an agent's token is. How long it takes tells nothing about a token.
    pub fn check(&self, name: &str, token: &str) -> Option<Credential> {
        let sent = digest_of(token);
        let known = [self.fixed.get(name), self.stored.get(name)];
        let nobody = Credential { digest: [0; 32], pools: BTreeSet::new() };
        // An unknown name costs as much as a known one; the digest of no token is known to be zero.
        known.into_iter().fold(None, |found, credential| {
            let is_sent = bool::from(credential.unwrap_or(&nobody).digest.ct_eq(&sent));
            if is_sent { credential.cloned() } else { found }
        })
    }

    /// Tells whether a token is still valid for an agent with these pools.
    pub fn is_valid(&self, name: &str, digest: &TokenDigest, pools: &BTreeSet<String>) -> bool {
        let known = [self.fixed.get(name), self.stored.get(name)];
        known.into_iter().flatten().any(|known| known.digest == *digest && pools.is_subset(&known.pools))
    }
}

fn digest_of(token: &str) -> TokenDigest {
    Sha256::digest(token.trim()).into()
}

fn digest_from(sha256: &str) -> Option<TokenDigest> {
    let mut digest = [0; 32];
    if sha256.len() != 2 * digest.len() || !sha256.is_ascii() {
        return None;
    }
    for (byte, position) in digest.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(sha256.get(position..position + 2)?, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::agent::AgentToken;

    #[test]
    fn a_token_is_valid_for_its_agent_alone_until_it_is_revoked() {
        let mut credentials = Credentials::default();
        credentials.set_fixed("fixed", "one", BTreeSet::from(["eu".to_owned()]));
        let token = AgentToken {
            name: "stored".to_owned(),
            sha256: format!("{:x}", Sha256::digest("two")),
            pools: BTreeSet::new(),
            created_by: "ann".to_owned(),
            created_at: jiff::Timestamp::UNIX_EPOCH,
        };
        credentials.set_stored(&AgentTokens::from([("stored".to_owned(), token.clone())]));
        for (name, token, is_known) in [
            ("fixed", "one", true),
            ("stored", "two", true),
            ("fixed", "two", false),
            ("stored", "one", false),
            ("stored", "", false),
            ("nobody", "two", false),
        ] {
            assert_eq!(credentials.check(name, token).is_some(), is_known, "{name} {token}");
        }
        let digest = digest_of("two");
        assert!(credentials.is_valid("stored", &digest, &BTreeSet::new()));
        assert!(
            !credentials.is_valid("stored", &digest, &BTreeSet::from(["eu".to_owned()])),
            "the pool is not its own"
        );
        credentials.set_stored(&AgentTokens::from([("stored".to_owned(), token.without_digest())]));
        assert_eq!(credentials.check("stored", "two"), None, "a record without a digest is no token");
        credentials.set_stored(&AgentTokens::new());
        assert_eq!(credentials.check("stored", "two"), None);
        assert!(!credentials.is_valid("stored", &digest, &BTreeSet::new()));
    }
}
