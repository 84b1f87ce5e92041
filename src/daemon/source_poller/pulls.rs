//! Pull requests: what a merge into the accepted commit would hold.

use super::super::commit_reader;
use super::{CandidateError, Follower};
use crate::git;
use crate::model::id::CommitId;
use crate::model::manifest::InputError;
use crate::plan::pull_request::Candidate;

/// A refused pull request.
pub(super) struct RefusedPull {
    head: CommitId,
    /// The accepted commit it was merged with.
    base: CommitId,
    errors: Vec<InputError>,
}

impl Follower {
    /// Reads the merge of a pull request into the accepted commit.
    pub(super) fn candidate(&mut self, number: u64, head: &CommitId, fetch: bool) -> Result<Candidate, CandidateError> {
        let unreadable = |why: String| CandidateError::Unreadable(format!("pull request {number}: {why}"));
        if self.joined.is_some() {
            return Err(unreadable("pull requests of several sources are not planned yet".to_owned()));
        }
        let Some(accepted) = self.accepted.clone() else {
            return Err(unreadable("no commit is accepted yet that it could be compared with".to_owned()));
        };
        if let Some(known) = self.refused.get(&number).filter(|known| known.head == *head && known.base == accepted) {
            return Err(CandidateError::Refused(known.errors.clone()));
        }
        self.refused.remove(&number);
        if fetch {
            let fetched = match self.branches[0].source.fetch_pull(number, &self.stop) {
                Ok(fetched) => fetched,
                // The same head would be too large again: it is refused, or each poll would fetch up to the limit.
                Err(error @ git::Error::FetchTooLarge { .. }) => {
                    let errors = vec![commit_reader::about_the_whole(error.to_string())];
                    return Err(self.refuse(number, head, &accepted, errors));
                }
                Err(error) => return Err(unreadable(error.in_full())),
            };
            // The answer would be shown as the plan of the requested commit.
            if fetched != *head {
                let (now, asked) = (fetched.short(), head.short());
                return Err(unreadable(format!("its head has moved to {now} and is {asked} no more; ask again")));
            }
        }
        let read = commit_reader::read_candidate(self.branches[0].source.reader(), &accepted, head, &self.cache);
        let read = read.and_then(|candidate| self.within_limits(&candidate.tree).map(|()| candidate));
        read.map_err(|error| match error {
            commit_reader::Error::Refused(errors) => self.refuse(number, head, &accepted, errors),
            error => unreadable(error.in_full()),
        })
    }

    /// Remembers that a pull request was refused.
    fn refuse(&mut self, number: u64, head: &CommitId, base: &CommitId, errors: Vec<InputError>) -> CandidateError {
        let refused = RefusedPull { head: head.clone(), base: base.clone(), errors: errors.clone() };
        self.refused.insert(number, refused);
        CandidateError::Refused(errors)
    }

    pub(super) fn forget(&mut self, number: u64) {
        self.refused.remove(&number);
        if let Err(error) = self.branches[0].source.reader().forget_pull(number) {
            tracing::warn!(%error, number, "what was fetched for a pull request could not be removed");
        }
    }
}
