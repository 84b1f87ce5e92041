//! The person at the command line, and the token that identifies them to the daemon.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use secrecy::{ExposeSecret as _, SecretString};

use model::text::hexadecimal;

/// The file in the store's folder with the token of the running daemon; only its own user can read it.
const TOKEN_FILE: &str = "token";
/// Bytes of chance in a token.
const TOKEN_BYTES: usize = 32;

/// Returns the user of the operating system, by user id: an environment variable says what anybody wants. A user without a
/// name is known by number.
pub(crate) fn os_user() -> String {
    let id = nix::unistd::Uid::current();
    let known = nix::unistd::User::from_uid(id).ok().flatten();
    known.map_or_else(|| format!("uid {id}"), |user| user.name)
}

/// Returns where the daemon of a store leaves its token.
pub(crate) fn token_path(store: &Path) -> PathBuf {
    store.join(TOKEN_FILE)
}

/// Returns a new token.
///
/// # Errors
/// The system has no randomness.
pub(crate) fn random_token() -> anyhow::Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    let random = rustls::crypto::aws_lc_rs::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| anyhow::anyhow!("the system gives no random bytes for a token"))?;
    Ok(hexadecimal(&bytes))
}

/// Creates a new token in a file that only this user can read; the token of an earlier process is no longer valid.
///
/// # Errors
/// The file cannot be written, or the system has no randomness.
pub(crate) fn issue_token(store: &Path) -> anyhow::Result<SecretString> {
    let token = SecretString::from(random_token()?);
    let path = token_path(store);
    leave(&path, &token).with_context(|| format!("writing the token of the API to {}", path.display()))?;
    Ok(token)
}

/// Replaces the file as a whole, so that nobody reads half a token, and with no moment in which others may read it.
fn leave(path: &Path, token: &SecretString) -> std::io::Result<()> {
    let new = path.with_extension("new");
    // A crash before the rename leaves it.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Only a file that is new has this mode from its first byte on.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(token.expose_secret().as_bytes())?;
    drop(file);
    fs::rename(new, path)
}

/// Removes the token of an earlier process: the configuration names who may command.
///
/// # Errors
/// It is there and cannot be removed.
pub(crate) fn revoke_token(store: &Path) -> anyhow::Result<()> {
    let path = token_path(store);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing the token {} of an earlier process", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use config::read_secret;

    #[test]
    fn a_token_is_new_each_time_and_for_its_user_only() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("token.new"), "left by a crash").expect("a file");
        let first = issue_token(folder.path()).expect("a token");
        let second = issue_token(folder.path()).expect("a token");
        assert_ne!(first.expose_secret(), second.expose_secret());
        assert_eq!(second.expose_secret().len(), 2 * TOKEN_BYTES);
        let path = token_path(folder.path());
        assert_eq!(read_secret(&path).expect("it is there").expose_secret(), second.expose_secret());
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
        for _ in 0..2 {
            revoke_token(folder.path()).expect("gone is gone");
            assert!(!path.exists());
        }
    }
}
