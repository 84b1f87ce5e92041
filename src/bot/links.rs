//! Addresses of what people may want to open.

use super::commit_rollout::CommitRollout;
use model::forge::ThreadNumber;

/// Where statuses link to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// The address of the repository on the git host, as people open it; without a slash at its end.
    pub repository: String,
    /// The public address of the daemon's own page, without a slash at its end; absent without one.
    pub page: Option<String>,
}

impl Links {
    /// Returns the address of a conversation. Both hosts forward from an issue's address to that of a pull request.
    pub(crate) fn thread(&self, number: ThreadNumber) -> String {
        format!("{}/issues/{number}", self.repository)
    }

    /// Returns the best address there is about a rollout: the daemon's page, else its comment, its conversation, its commit.
    pub(crate) fn rollout(&self, rollout: &CommitRollout) -> String {
        if let Some(page) = &self.page {
            return format!("{page}/commits/{}", rollout.tree.as_ref().unwrap_or(&rollout.commit));
        }
        match (&rollout.url, rollout.thread) {
            (Some(url), _) => url.clone(),
            (None, Some(thread)) => self.thread(thread.number),
            (None, None) => format!("{}/commit/{}", self.repository, rollout.commit),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::commit_rollout::Thread;

    #[test]
    fn the_best_address_there_is() {
        let now = Timestamp::UNIX_EPOCH;
        let mut rollout = CommitRollout::begin("abc1234".into(), None, now);
        let mut links = Links { repository: "https://forge.example/o/r".to_owned(), page: None };
        assert_eq!(links.rollout(&rollout), "https://forge.example/o/r/commit/abc1234");
        rollout.thread = Some(Thread { number: 7, is_issue: false });
        assert_eq!(links.rollout(&rollout), "https://forge.example/o/r/issues/7");
        rollout.url = Some("https://forge.example/o/r/pulls/7#issuecomment-3".to_owned());
        assert_eq!(links.rollout(&rollout), "https://forge.example/o/r/pulls/7#issuecomment-3");
        links.page = Some("https://fleet.example".to_owned());
        assert_eq!(links.rollout(&rollout), "https://fleet.example/commits/abc1234");
        rollout.tree = Some("def5678".into());
        assert_eq!(
            links.rollout(&rollout),
            "https://fleet.example/commits/def5678",
            "the page knows the tree's commits"
        );
    }
}
