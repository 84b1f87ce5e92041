//! Rights of a comment's author: permission, teams, and contribution to the change.

use std::collections::BTreeSet;

use super::Console;
use super::comment_policy::Answer;
use super::commit_rollout::CommitRollout;
use crate::forge::Error;
use crate::model::commands::Person;
use crate::model::forge::{Credentials, ForgeUser, Part, Permission, PullRequest};
use crate::model::id::CommitId;
use crate::model::runs::Channel;

/// Teams that one strategy may name.
const TEAMS_MAX: usize = 10;

impl Console {
    /// Requests the author's permission, teams and contribution, now. What cannot be determined counts against the author.
    pub(super) async fn person(
        &self,
        rollout: &CommitRollout,
        author: &ForgeUser,
        url: &str,
        evaluates: bool,
    ) -> Result<Person, Answer> {
        let cannot = |what: &str, error: &Error| {
            tracing::warn!(person = author.login, reason = %error, "a command is refused, because {what} cannot be looked up");
            Answer::of(format!(
                "{what} could not be looked up, so nothing was done; write the command again in a moment"
            ))
        };
        let forge = &self.handles.forge;
        let permission = match forge.permission(&author.login).await {
            // With configured approvers our account need not be allowed to ask. Then nobody has a permission.
            Err(Error::Forbidden { .. }) if !self.settings.approvers.is_empty() => Permission::None,
            answer => answer.map_err(|error| cannot("what you may do here", &error))?,
        };
        let mut teams = BTreeSet::new();
        for team in self.teams(rollout) {
            // An author who cannot be looked up is in no team: other rules may still admit them.
            match forge.is_team_member(&team, &author.login).await {
                Ok(true) => drop(teams.insert(team)),
                Ok(false) => {}
                Err(error) => tracing::warn!(team, reason = %error, "who is in a team cannot be looked up"),
            }
        }
        let mut took_part = None;
        if evaluates {
            // Without a pull request only deliveries tell who brought the change: the accounts that pushed it.
            let direct =
                rollout.thread.is_some_and(|thread| thread.is_issue) && self.settings.parts.contains(&Part::Pushed);
            if direct && self.deliveries.pushers(&[rollout.commit.clone()].into()).any(|user| user.id == author.id) {
                took_part = Some(format!("pushed commit {}", rollout.commit.short()));
            }
            for number in self.rollouts.carried(rollout) {
                let pull = forge.pull(number).await.map_err(|error| cannot("who made this change", &error))?;
                let Some(pull) = pull else {
                    return Err(cannot("who made this change", &Self::unknown("pull request")));
                };
                if self.branch.as_ref().is_some_and(|branch| pull.base != *branch) {
                    return Err(Answer::of(format!(
                        "this pull request goes into {}, which is not rolled out",
                        pull.base
                    )));
                }
                let part = self.part(&pull, author).await.map_err(|error| match &error {
                    Error::Refused { why, .. } => Answer::of(format!(
                        "who made this change cannot be known, so nobody approves it here: {why}; approve it with \
                         gitfleet approve, on the command line"
                    )),
                    _ => cannot("who made this change", &error),
                })?;
                took_part = took_part.or(part.map(|part| format!("{} #{number}", part.description())));
            }
        }
        let credentials = Credentials { id: author.id, permission, teams, took_part, comment: url.to_owned() };
        Ok(Person { credentials: Some(credentials), ..Person::of(author.login.clone(), Channel::Comment) })
    }

    /// Returns the author's first contribution to a pull request among those that the configuration names.
    async fn part(&self, pull: &PullRequest, who: &ForgeUser) -> crate::forge::Result<Option<Part>> {
        let parts = &self.settings.parts;
        let is_who = |user: &ForgeUser| user.id == who.id;
        let merger = pull.merged.as_ref().and_then(|merge| merge.by.as_ref());
        let known = [(Part::Opened, is_who(&pull.author)), (Part::Merged, merger.is_some_and(is_who))];
        let known = known.into_iter().find(|(part, is_it)| *is_it && parts.contains(part));
        if known.is_some() || !parts.contains(&Part::Authored) && !parts.contains(&Part::Pushed) {
            return Ok(known.map(|(part, _)| part));
        }
        let commits = self.handles.forge.commits(pull).await?;
        // Deliveries may name pushes that the host's API does not.
        let ends: BTreeSet<CommitId> = commits.all.iter().cloned().chain([pull.head.clone()]).collect();
        let is_pusher = commits.pushers.iter().chain(self.deliveries.pushers(&ends)).any(is_who);
        let found = [(Part::Authored, commits.authors.iter().any(is_who)), (Part::Pushed, is_pusher)];
        Ok(found.into_iter().find(|(part, is_it)| *is_it && parts.contains(part)).map(|(part, _)| part))
    }

    /// Returns the teams named as approvers by the configuration or by a strategy with a waiting gate.
    fn teams(&self, rollout: &CommitRollout) -> BTreeSet<String> {
        let narrowed = rollout.gates().filter_map(|(_, _, gate)| gate.approvers.as_deref());
        let entries = narrowed.flat_map(|all| all.split(',')).chain(self.settings.approvers.iter().map(String::as_str));
        let teams = entries.filter_map(|entry| entry.trim().strip_prefix("team:"));
        teams.map(str::to_owned).collect::<BTreeSet<_>>().into_iter().take(TEAMS_MAX).collect()
    }
}
