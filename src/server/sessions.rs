//! Sessions of people who showed a token in the page. A browser keeps a number that only the daemon knows the meaning of, and not the
//! token; a session ends with its token, and all end with the daemon.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use model::text::hexadecimal;
use system::random::{RANDOM_BYTES, random};

/// Sessions at a time; one more ends the oldest.
pub const SESSIONS_MAX: usize = 1_000;
/// How long a session lasts.
pub const SESSION_TIME: Duration = Duration::from_hours(12);
/// The sessions that are open.
pub struct Sessions {
    open: Mutex<BTreeMap<[u8; 32], Session>>,
    key: [u8; RANDOM_BYTES],
}

/// One session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    /// The owner of the token.
    pub(super) owner: String,
    /// The token is one for commands.
    pub(super) may_command: bool,
    since: Instant,
}

impl Session {
    fn lasts(&self, now: Instant) -> bool {
        now.duration_since(self.since) < SESSION_TIME
    }
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sessions(..)")
    }
}

impl Sessions {
    /// Begins without any; `None` where the system has no randomness.
    pub fn new() -> Option<Self> {
        Some(Self { open: Mutex::default(), key: random()? })
    }

    /// Opens a session; returns what the browser keeps. `None` where the system has no randomness.
    pub(super) fn open(&self, owner: &str, may_command: bool, now: Instant) -> Option<String> {
        let number = hexadecimal(&random()?);
        let session = Session { owner: owner.to_owned(), may_command, since: now };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, session| session.lasts(now));
        if open.len() >= SESSIONS_MAX
            && let Some(oldest) = open.iter().min_by_key(|(_, session)| session.since).map(|(hash, _)| *hash)
        {
            open.remove(&oldest);
        }
        open.insert(hash(&number), session);
        Some(number)
    }

    /// Returns the session of a number, where it lasts.
    pub(super) fn find(&self, number: &str, now: Instant) -> Option<Session> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(&hash(number)).filter(|session| session.lasts(now)).cloned()
    }

    /// Tells whether nobody signed in.
    pub(super) fn is_empty(&self) -> bool {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Ends a session.
    pub(super) fn close(&self, number: &str) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&hash(number));
    }

    /// Ends the sessions of an owner whose token is valid no more. The name may have one token for commands and another for reading.
    pub fn close_of(&self, owner: &str, may_command: bool) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, session| session.owner != owner || session.may_command != may_command);
    }

    /// Returns what a form of somebody holds. Another site cannot know it, and it is of no use to anybody else.
    pub(super) fn form_token(&self, identity: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.key);
        hexadecimal(hmac::sign(&key, identity.as_bytes()).as_ref())
    }

    /// Tells whether a form came from a page that was made for somebody. The duration reveals nothing.
    pub(super) fn is_form_of(&self, identity: &str, sent: &str) -> bool {
        self.form_token(identity).as_bytes().ct_eq(sent.as_bytes()).into()
    }
}

/// Numbers are found by their hash, so that the time of a search reveals nothing of them.
fn hash(number: &str) -> [u8; 32] {
    Sha256::digest(number).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_with_its_time_with_its_owner_and_for_the_next_of_too_many() {
        let sessions = Sessions::new().expect("randomness");
        let begin = Instant::now();
        let opened = |owner, at| sessions.open(owner, owner == "ann", at).expect("randomness");
        let ann = opened("ann", begin);
        assert_eq!(
            sessions.find(&ann, begin).map(|found| (found.owner, found.may_command)),
            Some(("ann".into(), true))
        );
        assert_eq!(sessions.find("0", begin), None);
        let ben = opened("ben", begin);
        sessions.close(&ben);
        assert_eq!(sessions.find(&ben, begin), None);
        let eve = opened("eve", begin);
        sessions.close_of("eve", true);
        assert!(sessions.find(&eve, begin).is_some(), "it was opened with the other token");
        sessions.close_of("eve", false);
        assert_eq!(sessions.find(&eve, begin), None);
        let late = begin + (SESSION_TIME / 2);
        let end = begin + SESSION_TIME;
        let cat = opened("cat", late);
        assert!(sessions.find(&ann, late).is_some());
        assert_eq!(sessions.find(&ann, end), None);
        assert!(sessions.find(&cat, end).is_some());
        for _ in 0..SESSIONS_MAX {
            opened("dan", end);
        }
        assert_eq!(sessions.find(&cat, end), None, "the oldest ends");
        assert_eq!(sessions.open.lock().expect("nobody panicked").len(), SESSIONS_MAX);
    }

    #[test]
    fn a_form_is_for_one_person_and_one_process() {
        let one = Sessions::new().expect("randomness");
        let other = Sessions::new().expect("randomness");
        let token = one.form_token("ann");
        assert!(one.is_form_of("ann", &token));
        for (sessions, name, token) in [(&one, "ben", token.as_str()), (&other, "ann", &token), (&one, "ann", "")] {
            assert!(!sessions.is_form_of(name, token));
        }
    }
}
