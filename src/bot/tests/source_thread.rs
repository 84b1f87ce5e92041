//! The source's thread, as far as the console asks it.

use crate::source_request::{CandidateError, SourceRequest};
use model::commit::Commit;
use model::id::CommitId;
use model::manifest::InputError;

/// Answers as the source's thread does; `landed` are the commits that a tip brought, newest first.
pub(super) fn answer(request: SourceRequest, landed: impl Fn(&CommitId) -> Option<Vec<CommitId>>) {
    match request {
        SourceRequest::Branch { reply, .. } => drop(reply.send(Some("main".to_owned()))),
        SourceRequest::Landed { to, reply, .. } => {
            let commits = landed(&to).unwrap_or_else(|| vec![to]);
            let commit =
                |commit| Commit { commit, subject: "a change".into(), author_email: "ann@forge.example".into() };
            drop(reply.send(Ok(commits.into_iter().map(commit).collect())));
        }
        SourceRequest::Candidate { reply, .. } => drop(reply.send(Err(CandidateError::Refused(vec![mistake()])))),
        _ => {}
    }
}

/// A mistake in a file.
pub(super) fn mistake() -> InputError {
    let (object, field, hint) = (None, None, None);
    InputError { path: "x.yaml".into(), line: 3, object, field, message: "is no number".into(), hint }
}
