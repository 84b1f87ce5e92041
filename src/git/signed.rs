//! Commits with their signatures.

use gix::objs::{CommitRef, CommitRefIter};

use super::repository::Reader;
use super::{Error, SIGNED_SIZE_MAX_BYTES};
use model::id::{BlobId, CommitId};

/// A commit as it was signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signed {
    /// It was read.
    Read {
        /// The commit without its signature: what the signature is about.
        payload: Vec<u8>,
        /// The texts of its signatures; git writes one at most. Of several, the payload lacks the first alone.
        signatures: Vec<Vec<u8>>,
    },
    /// It was not read, because of its size in bytes.
    TooLarge(u64),
}

impl Reader {
    /// Returns the commits that `to` has and `from` has not, by all parents and in no order that means anything; `max` of them and one
    /// where there are more. Without `from` that is `to` alone.
    ///
    /// A `from` that is gone has nothing: then these are all commits of `to`.
    ///
    /// # Errors
    /// `ObjectMissing` where `to` is not there; `Repository` where a commit between cannot be read.
    pub fn gained(&self, from: Option<&CommitId>, to: &CommitId, max: usize) -> Result<Vec<CommitId>, Error> {
        let Some(from) = from else { return Ok(vec![to.clone()]) };
        let reading = Error::at(self.location(), "read commits of");
        let repo = self.ancestry();
        let tip = self.commit_id(&repo, to)?;
        // Whoever may write files beside the objects could claim other parents in a commit graph.
        let walk = repo.rev_walk([tip]).use_commit_graph(false).with_hidden(self.commit_id(&repo, from).ok());
        let mut commits = Vec::new();
        for found in walk.all().map_err(&reading)?.take(max + 1) {
            let found = found.map_err(|error| reading(gix::Error::from_error(error)))?;
            commits.push(CommitId::new(found.id().to_string()));
        }
        Ok(commits)
    }

    /// Reads a commit as it was signed.
    ///
    /// # Errors
    /// `ObjectMissing` where it is not there; `Repository` where it is no commit.
    pub fn signed(&self, commit: &CommitId) -> Result<Signed, Error> {
        let reading = Error::at(self.location(), "read a commit of");
        let repo = self.local();
        let size = self.size_in(&repo, &BlobId::new(commit.to_string()))?;
        if size > SIGNED_SIZE_MAX_BYTES {
            return Ok(Signed::TooLarge(size));
        }
        let id = self.commit_id(&repo, commit)?;
        let object = self.find(&repo, id)?.try_into_commit().map_err(&reading)?;
        let name = gix::objs::commit::signature_field_name(id.kind());
        let parsed = CommitRef::from_bytes(&object.data, id.kind()).map_err(&reading)?;
        let signatures = parsed.extra_headers().find_all(name).map(|text| text.to_vec()).collect();
        let signed = CommitRefIter::signature(&object.data, id.kind()).map_err(&reading)?;
        let payload = signed.map_or_else(|| object.data.clone(), |(_, payload)| Vec::from(payload.to_bstring()));
        Ok(Signed::Read { payload, signatures })
    }
}
