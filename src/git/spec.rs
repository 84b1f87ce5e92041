//! What is followed, and what is found there.

use std::path::PathBuf;

use secrecy::SecretString;

use super::https::HttpsAccess;
use super::ssh::SshAccess;
use model::id::CommitId;

/// What to follow.
#[derive(Clone, Debug, Default)]
pub struct SourceSpec {
    /// An https, http, ssh, oci or file URL, `USER@HOST:PATH`, or the path of a local repository or of a plain folder.
    pub location: String,
    /// The branch; absent means the checked-out branch of a local repository, the default branch of a remote.
    pub branch: Option<String>,
    /// The subtree that is read; `.` is all.
    pub path: String,
    /// The token for an https remote, or for an http one where that is allowed.
    pub token: Option<SecretString>,
    /// The account of a registry that the token belongs to.
    pub user: Option<String>,
    /// Whether the token may be sent in clear text, and a registry is spoken to so.
    pub allow_insecure_http: bool,
    /// Whether the signatures beside an artifact are read.
    pub signatures: bool,
    /// How hosts are reached over ssh.
    pub ssh: Option<SshAccess>,
    /// How servers are reached over https.
    pub https: HttpsAccess,
    /// Folders of a plain folder that are never read: the folders of directory members. The state folder always is.
    pub excluded: Vec<PathBuf>,
    /// Record every file of a plain folder, and not only what may be a manifest: programs that render folders read others too.
    pub everything: bool,
}

/// Where a branch is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tip {
    /// The commit.
    pub commit: CommitId,
    /// The branch's short name; `None` for a plain folder and a detached `HEAD`.
    pub branch: Option<String>,
}
