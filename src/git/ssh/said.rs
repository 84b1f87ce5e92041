//! What ssh and the host said, as an error with what to do.

use super::access::SshAccess;
use super::address::SshAddress;
use crate::{Cause, Error};

/// What hosts say where there is no repository, or none for this key.
const NO_REPOSITORY: [&str; 5] = [
    "does not appear to be a git repository",
    "repository not found",
    "cannot find repository",
    "could not be found",
    "repository does not exist",
];

/// Sorts what was said where a connection failed. `by_ssh` tells whether ssh itself failed: a host's words are not taken for its own.
///
/// Source: the messages of OpenSSH 9.2 in the language C (`sshconnect.c`, `sshconnect2.c`, `clientloop.c`), of git's `upload-pack`, and of
/// GitHub, GitLab and Gitea where there is no such repository.
pub(super) fn error(
    address: &SshAddress,
    access: &SshAccess,
    location: &str,
    said: &str,
    by_ssh: bool,
    cause: Cause,
) -> Error {
    let words = said.to_ascii_lowercase();
    let ssh_says = |text: &str| by_ssh && words.contains(text);
    let location = location.to_owned();
    if ssh_says("host key verification failed") || ssh_says("host identification has changed") {
        return Error::Untrusted { location, reason: host_key_reason(address, access, &words), cause };
    }
    if ssh_says("unprotected private key file") || ssh_says("bad permissions") {
        let reason = "others may read it, so ssh does not use it: chmod 600".to_owned();
        return Error::AccessFile { location, path: access.key_file.clone(), reason };
    }
    if ssh_says("load key ") {
        let reason = "ssh cannot read it as a private key without a passphrase".to_owned();
        return Error::AccessFile { location, path: access.key_file.clone(), reason };
    }
    if ssh_says("no user exists for uid") {
        let reason = "the user that gitfleet runs as is not in /etc/passwd, which ssh demands: add an entry".to_owned();
        return Error::SshProgram { location, reason };
    }
    if ssh_says("permission denied (") || ssh_says("too many authentication failures") {
        let reason = "the host refuses the key, or it has a passphrase: `source.ssh.keyFile` must have none, and the host \
                      must know its public half";
        return Error::AccessDenied { location, reason, cause };
    }
    if NO_REPOSITORY.iter().any(|text| words.contains(text)) {
        let reason = "the host knows no such repository, or the key may not see it".to_owned();
        return Error::NotARepository { location, reason };
    }
    Error::Unreachable { location, cause }
}

fn host_key_reason(address: &SshAddress, access: &SshAccess, words: &str) -> String {
    let host = address.known_as();
    let file = access.known_hosts_file.display();
    if words.contains("host identification has changed") {
        return format!(
            "its host key is another than {file} has for {host}. Somebody may be in between, or the host has a new key: ask \
             who runs it, and replace the line only then"
        );
    }
    if words.contains("revoked") {
        return format!("{file} has its host key as revoked: ask who runs {host}");
    }
    let port = address.port.map(|port| format!("-p {port} ")).unwrap_or_default();
    format!(
        "{file} has no key of {host}: `ssh-keyscan {port}{}` prints them; compare with what whoever runs the host \
         publishes, and add a line",
        address.host
    )
}
