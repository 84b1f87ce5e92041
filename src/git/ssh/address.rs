//! What a location that is read over ssh names: user, host, port and path, checked so that none is taken for an option.

use gix::bstr::ByteSlice;
use gix::url::Scheme;

/// Characters that a path may not have: they mean something to a shell between single quotes, or to a person's terminal.
const PATH_REFUSED: [char; 3] = ['\'', '!', '\\'];

/// A repository on a host that is reached over ssh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SshAddress {
    pub user: String,
    pub host: String,
    pub port: Option<u16>,
    /// As the host's `git-upload-pack` gets it.
    pub path: String,
}

/// Tells whether a location is read over ssh: `ssh://...`, or `USER@HOST:PATH` as git takes it, with a `:` before the first `/`.
pub(crate) fn is_ssh(location: &str) -> bool {
    match location.split_once("://") {
        Some((scheme, _)) => scheme.eq_ignore_ascii_case("ssh") || scheme.eq_ignore_ascii_case("git+ssh"),
        None => location.split('/').next().unwrap_or_default().contains(':'),
    }
}

/// Tells whether a text has letters, digits, `.`, `_`, `-` and some more characters only, and does not look like an option.
fn is_word(text: &str, more: &[char]) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') || more.contains(&c))
}

impl SshAddress {
    /// Reads a location for which [`is_ssh`] holds.
    ///
    /// # Errors
    /// What is wrong with it, and how to write it, for users. Never repeats the location: it may hold a password.
    pub(super) fn parse(location: &str) -> Result<Self, &'static str> {
        let url = gix::url::parse(location.as_bytes().as_bstr()).map_err(|_| "it is not a URL")?;
        if url.scheme != Scheme::Ssh {
            return Err("it is not a URL of ssh: write ssh://git@HOST/PATH");
        }
        if url.password().is_some() {
            return Err("a password stands in it, which ends in logs: use a key, `source.ssh.keyFile`");
        }
        let user = url.user().ok_or("it names no user: write ssh://git@HOST/PATH, or git@HOST:PATH")?;
        let host = url.host().ok_or("it names no host: write ssh://git@HOST/PATH")?;
        let host = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host);
        // ssh itself refuses less, and differently from version to version.
        if !is_word(user, &[]) {
            return Err("the user may have letters, digits and . _ - only, and not begin with -");
        }
        if !is_word(host, &[':']) {
            return Err("the host may have letters, digits and . _ - : only, and not begin with -");
        }
        if url.port == Some(0) {
            return Err("there is no port 0");
        }
        let path = url.path.to_str().map_err(|_| "the path is not UTF-8")?;
        // As git does it: the host's shell of git knows what `~` is.
        let path = if path.starts_with("/~") { &path[1..] } else { path };
        if path.is_empty() || path == "/" {
            return Err("it names no repository: write ssh://git@HOST/PATH");
        }
        if path.starts_with('-') || path.contains(PATH_REFUSED) || path.contains(char::is_control) {
            return Err("the path may not begin with -, nor have quotes, ! , \\ or control characters");
        }
        Ok(Self { user: user.to_owned(), host: host.to_owned(), port: url.port, path: path.to_owned() })
    }

    /// Returns the host as a file of known hosts names it.
    pub(super) fn known_as(&self) -> String {
        match self.port {
            Some(port) if port != 22 => format!("[{}]:{port}", self.host),
            _ => self.host.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(location: &str) -> Result<(String, String, Option<u16>, String), &'static str> {
        SshAddress::parse(location).map(|a| (a.user, a.host, a.port, a.path))
    }

    #[test]
    fn addresses_are_read_as_git_reads_them() {
        let rows = [
            ("ssh://git@git.example/a/b.git", ("git", "git.example", None, "/a/b.git")),
            ("ssh://git@git.example:2222/a.git", ("git", "git.example", Some(2222), "/a.git")),
            ("ssh://git@[::1]:2222/a.git", ("git", "::1", Some(2222), "/a.git")),
            ("ssh://git@git.example/~ann/a.git", ("git", "git.example", None, "~ann/a.git")),
            ("git@git.example:a/b.git", ("git", "git.example", None, "a/b.git")),
            ("git@git.example:/a/b.git", ("git", "git.example", None, "/a/b.git")),
            ("org-123@github.com:a/b c.git", ("org-123", "github.com", None, "a/b c.git")),
        ];
        for (location, (user, host, port, path)) in rows {
            assert!(is_ssh(location), "{location}");
            let expected = (user.to_owned(), host.to_owned(), port, path.to_owned());
            assert_eq!(read(location), Ok(expected), "{location}");
        }
        for location in ["https://git.example/a:b", "file:///a:b", "/srv/a:b", "./a:b", "fleet", "http://h:80/a"] {
            assert!(!is_ssh(location), "{location}");
        }
    }

    #[test]
    fn what_could_be_an_option_or_a_command_is_refused() {
        let rows = [
            "ssh://-oProxyCommand=id/a",
            "ssh://-oProxyCommand=id@git.example/a",
            "ssh://git@-oProxyCommand=id/a",
            "git@-oProxyCommand=id:a",
            "-oProxyCommand=id@git.example:a",
            "ssh://git@git.example;id/a",
            "ssh://git@git.example%20-oProxyCommand=id/a",
            "ssh://git%20-v@git.example/a",
            "ssh://git%0aHost@git.example/a",
            "ssh://$(id)@git.example/a",
            "ssh://git@`id`/a",
            "ssh://git@git.example/a'; id; '",
            "ssh://git@git.example/a!id",
            "ssh://git@git.example/a\\b",
            "ssh://git@git.example/a\nb",
            "git@git.example:-oProxyCommand=id",
            "git@git.example:--upload-pack=id",
            "git@git.example:a'b",
            "ssh://git@git.example/",
            "ssh://git@git.example",
            "ssh://git.example/a",
            "git.example:a",
            "ssh://git:hunter2@git.example/a",
            "ssh://git@git.example:0/a",
            "ssh://git@git.example:99999/a",
            "ssh:///a",
            "ssh://@/a",
            "ssh://",
        ];
        for location in rows {
            assert!(is_ssh(location), "{location}");
            let refused = read(location).expect_err(location);
            assert!(!refused.contains("hunter2"), "{refused}");
        }
    }

    #[test]
    fn a_host_is_named_as_in_a_file_of_known_hosts() {
        for (location, expected) in [
            ("git@git.example:a", "git.example"),
            ("ssh://git@git.example:22/a", "git.example"),
            ("ssh://git@git.example:2222/a", "[git.example]:2222"),
        ] {
            assert_eq!(SshAddress::parse(location).unwrap().known_as(), expected);
        }
    }
}
