//! Pull requests: what a merge into the accepted commit would hold.

use super::super::commit_reader::{self, SourceAt};
use super::Poller;
use bot::source_request::CandidateError;
use model::commit::Commit;
use model::id::CommitId;
use model::manifest::InputError;
use plan::pull_request::Candidate;

/// A refused pull request.
pub(super) struct RefusedPull {
    head: CommitId,
    /// The accepted commit it was merged with.
    base: CommitId,
    errors: Vec<InputError>,
}

impl Poller {
    /// Reads the merge of a pull request of a source into the accepted commit.
    pub(super) fn candidate(
        &mut self,
        source: &str,
        number: u64,
        head: &CommitId,
        fetch: bool,
    ) -> Result<Candidate, CandidateError> {
        let unreadable = |why: String| CandidateError::Unreadable(format!("pull request {number}: {why}"));
        let Some(index) = self.branches.iter().position(|branch| branch.name == source) else {
            return Err(unreadable(format!("no source {source:?} is followed")));
        };
        let Some(accepted) = self.accepted.clone() else {
            return Err(unreadable("no commit is accepted yet that it could be compared with".to_owned()));
        };
        let key = (source.to_owned(), number);
        if let Some(known) = self.refused.get(&key).filter(|known| known.head == *head && known.base == accepted) {
            return Err(CandidateError::Refused(known.errors.clone()));
        }
        self.refused.remove(&key);
        if fetch {
            let fetched = match self.branches[index].source.fetch_pull(number, &self.stop) {
                Ok(fetched) => fetched,
                // The same head would be too large again: it is refused, or each poll would fetch up to the limit.
                Err(error @ git::Error::FetchTooLarge { .. }) => {
                    let errors = vec![commit_reader::about_the_whole(error.to_string())];
                    return Err(self.refuse(key, head, &accepted, errors));
                }
                Err(error) => return Err(unreadable(error.in_full())),
            };
            // The answer would be shown as the plan of the requested commit.
            if fetched != *head {
                let now = fetched.short();
                let asked = head.short();
                return Err(unreadable(format!("its head has moved to {now} and is {asked} no more; ask again")));
            }
        }
        let read = self.read_merge(source, &accepted, head);
        self.sync_results();
        let read = read.and_then(|candidate| self.within_limits(&candidate.tree).map(|()| candidate));
        read.map_err(|error| match error {
            commit_reader::Error::Refused(errors) => self.refuse(key, head, &accepted, errors),
            error => unreadable(error.in_full()),
        })
    }

    fn read_merge(
        &self,
        source: &str,
        accepted: &CommitId,
        head: &CommitId,
    ) -> Result<Candidate, commit_reader::Error> {
        if self.joined.is_none() {
            return commit_reader::read_candidate(self.branches[0].source.reader(), accepted, head, &self.cache);
        }
        let at = self.branches.iter().filter_map(|branch| {
            let commit = branch.accepted.as_ref()?;
            Some(SourceAt { name: &branch.name, reader: branch.source.reader(), commit })
        });
        let sources: Vec<SourceAt<'_>> = at.collect();
        commit_reader::read_joined_candidate(&self.all_blobs(), accepted, &sources, (source, head), &self.cache)
    }

    /// Remembers that a pull request was refused.
    fn refuse(
        &mut self,
        key: (String, u64),
        head: &CommitId,
        base: &CommitId,
        errors: Vec<InputError>,
    ) -> CandidateError {
        let refused = RefusedPull { head: head.clone(), base: base.clone(), errors: errors.clone() };
        self.refused.insert(key, refused);
        CandidateError::Refused(errors)
    }

    pub(super) fn forget(&mut self, source: &str, number: u64) {
        self.refused.remove(&(source.to_owned(), number));
        let Some(branch) = self.branch_of(source) else { return };
        if let Err(error) = branch.source.reader().forget_pull(number) {
            tracing::warn!(%error, number, "what was fetched for a pull request could not be removed");
        }
    }

    /// Returns the commits that the branch of a source gained, newest first.
    pub(super) fn landed(&self, source: &str, from: Option<&CommitId>, to: &CommitId) -> Result<Vec<Commit>, String> {
        let branch = self.branch_of(source).ok_or_else(|| format!("no source {source:?} is followed"))?;
        branch.source.reader().landed(from, to).map_err(|error| error.in_full())
    }
}
