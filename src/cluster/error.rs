//! Errors of members.

use model::error::ErrorClass;

/// An error of a member.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The access configuration cannot be used.
    #[error("cannot use the access to cluster {cluster} ({path}): {reason}")]
    Access {
        /// The member.
        cluster: String,
        /// The kubeconfig or folder.
        path: String,
        /// Why.
        reason: String,
    },
    /// The member does not answer, or not in time.
    #[error("cluster {cluster} does not answer: {reason}")]
    Unreachable {
        /// The member.
        cluster: String,
        /// Why, as a chain of causes.
        reason: String,
    },
    /// The member answers and refuses access.
    #[error("cluster {cluster} refuses the credentials: {reason}")]
    Denied {
        /// The member.
        cluster: String,
        /// The API server's words.
        reason: String,
    },
    /// The API server refused a request about one object.
    #[error("{object}: the API server refused it ({code} {reason}): {message}")]
    Refused {
        /// The object.
        object: String,
        /// HTTP status.
        code: u16,
        /// The API server's reason.
        reason: String,
        /// The API server's message.
        message: String,
    },
    /// A member that is a folder cannot have a file for one object.
    #[error("{object}: its file cannot be written: {reason}")]
    File {
        /// The object.
        object: String,
        /// Why.
        reason: String,
    },
    /// The member answers, but one request got no usable answer: it took too long, or the answer was interrupted.
    #[error("{object}: {reason}")]
    Unanswered {
        /// What was asked for or written.
        object: String,
        /// Why, as a chain of causes.
        reason: String,
    },
    /// A request about one object cannot be made, or a file not be read.
    #[error("{object} cannot be sent: {reason}")]
    Unsendable {
        /// The object.
        object: String,
        /// Why, as a chain of causes.
        reason: String,
    },
    /// The member knows no such kind.
    #[error("cluster {cluster} knows no kind {kind}; is its CustomResourceDefinition installed?")]
    UnknownKind {
        /// The member.
        cluster: String,
        /// `Kind.group`.
        kind: String,
    },
}

impl Error {
    /// Tells whether the member as a whole cannot be worked with now; everything else concerns one object.
    pub fn is_offline(&self) -> bool {
        matches!(self, Self::Access { .. } | Self::Unreachable { .. } | Self::Denied { .. })
    }

    /// Returns what a person can do so that a kind can be listed, as the end of a sentence.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Refused { code: 403, .. } => {
                "; allow `list` and `watch` of it to the account that gitfleet uses there (`gitfleet member bootstrap` prints \
                 the rules)"
            }
            Self::Unsendable { .. } => "; move it away or correct it",
            _ => "; it is tried again by itself",
        }
    }

    /// Tells whether the API server said that there is no such object or path.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }
}

impl Error {
    /// Returns what to do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Refused { code: 409, .. } => ErrorClass::Conflict,
            Self::Unreachable { .. } | Self::Unanswered { .. } | Self::Refused { code: 429 | 500.., .. } => {
                ErrorClass::Transient
            }
            Self::Denied { .. } | Self::Refused { code: 401 | 403, .. } => ErrorClass::Denied,
            Self::Access { .. }
            | Self::Refused { .. }
            | Self::File { .. }
            | Self::Unsendable { .. }
            | Self::UnknownKind { .. } => ErrorClass::Invalid,
        }
    }
}
