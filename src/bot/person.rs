//! Rights of a comment's author: permission, teams, and contribution to the change.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};

use super::Console;
use super::comment_policy::Answer;
use super::commit_rollout::CommitRollout;
use forge::{Error, Forge, Result};
use model::commands::Person;
use model::forge::{Commits, Credentials, ForgeUser, Part, Permission, PullRequest, ThreadNumber};
use model::id::CommitId;
use model::runs::Channel;

/// Teams that one strategy may name.
const TEAMS_MAX: usize = 10;
/// Requests about one person's teams, or about their pull requests, that may be under way at a time.
const READS_MAX: usize = 4;

/// What is to be asked about a person.
pub(super) struct PersonQuestions {
    forge: Arc<dyn Forge>,
    author: ForgeUser,
    teams: BTreeSet<String>,
    /// The pull requests whose contributors count.
    pulls: BTreeSet<ThreadNumber>,
    parts: BTreeSet<Part>,
    approves: bool,
}

/// What the forge answered about a person, just now.
pub(super) struct PersonFacts {
    permission: Result<Permission>,
    teams: Vec<(String, Result<bool>)>,
    pulls: Vec<(ThreadNumber, Result<Option<PullFacts>>)>,
    approves: bool,
}

/// A pull request, and its commits where they matter.
struct PullFacts {
    pull: PullRequest,
    commits: Option<Result<Commits>>,
}

impl PersonQuestions {
    /// Asks everything, together: the questions do not depend on each other.
    pub(crate) fn answers(&self) -> BoxFuture<'_, PersonFacts> {
        let teams = futures::stream::iter(self.teams.clone())
            .map(move |team| async move {
                let answer = self.forge.is_team_member(&team, &self.author.login).await;
                (team, answer)
            })
            .buffered(READS_MAX)
            .collect();
        let pulls = futures::stream::iter(self.pulls.clone())
            .map(move |number| async move { (number, self.pull(number).await) })
            .buffered(READS_MAX)
            .collect();
        let all = async move {
            let (permission, teams, pulls) = tokio::join!(self.forge.permission(&self.author.login), teams, pulls);
            PersonFacts { permission, teams, pulls, approves: self.approves }
        };
        all.boxed()
    }

    async fn pull(&self, number: ThreadNumber) -> Result<Option<PullFacts>> {
        let Some(pull) = self.forge.pull(number).await? else { return Ok(None) };
        let is_known = own_part(&pull, &self.author, &self.parts).is_some();
        let matters = !is_known && (self.parts.contains(&Part::Authored) || self.parts.contains(&Part::Pushed));
        let commits = if matters { Some(self.forge.commits(&pull).await) } else { None };
        Ok(Some(PullFacts { pull, commits }))
    }
}

/// Returns what an account did with the pull request itself, among those parts that count.
fn own_part(pull: &PullRequest, who: &ForgeUser, parts: &BTreeSet<Part>) -> Option<Part> {
    let is_who = |user: &ForgeUser| user.id == who.id;
    let merger = pull.merged.as_ref().and_then(|merge| merge.by.as_ref());
    let known = [(Part::Opened, is_who(&pull.author)), (Part::Merged, merger.is_some_and(is_who))];
    known.into_iter().find(|(part, is_it)| *is_it && parts.contains(part)).map(|(part, _)| part)
}

impl Console {
    /// Returns what is to be asked about the author of a command.
    pub(super) fn questions(&self, rollout: &CommitRollout, author: &ForgeUser, approves: bool) -> PersonQuestions {
        PersonQuestions {
            forge: self.forge(),
            author: author.clone(),
            teams: self.teams(rollout),
            pulls: if approves { self.rollouts.carried(rollout) } else { BTreeSet::new() },
            parts: self.settings.parts.clone(),
            approves,
        }
    }

    /// Returns the other sources whose changes are part of what waits, where nobody may approve their own change: whoever made those could
    /// do so in this repository.
    pub(super) fn made_elsewhere(&self, rollout: &CommitRollout) -> BTreeSet<String> {
        let own = self.own.as_ref().filter(|_| !self.settings.rules.self_approval);
        own.map(|own| own.others(rollout)).unwrap_or_default()
    }

    /// Returns why nobody approves a rollout here, if that is so.
    pub(super) fn no_approval(&self, rollout: &CommitRollout) -> Option<Answer> {
        self.voice(rollout).no_approval().map(Answer::of)
    }

    /// Returns the author's permission, teams and contribution. What cannot be determined counts against the author.
    pub(super) fn person(
        &self,
        rollout: &CommitRollout,
        author: &ForgeUser,
        url: &str,
        facts: PersonFacts,
    ) -> std::result::Result<Person, Answer> {
        let cannot = |what: &str, error: &Error| {
            tracing::warn!(person = author.login, what, reason = %error, "a command is refused, because something about its author cannot be looked up");
            Answer::of(format!(
                "{what} could not be looked up, so nothing was done; write the command again in a moment"
            ))
        };
        let permission = match facts.permission {
            // With configured approvers our account need not be allowed to ask. Then nobody has a permission.
            Err(Error::Forbidden { .. }) if self.configured_approvers().next().is_some() => Permission::None,
            answer => answer.map_err(|error| cannot("what you may do here", &error))?,
        };
        if let Some(answer) = self.no_approval(rollout).filter(|_| facts.approves) {
            return Err(answer);
        }
        let mut teams = BTreeSet::new();
        for (team, is_member) in facts.teams {
            // An author who cannot be looked up is in no team: other rules may still admit them.
            match is_member {
                Ok(true) => drop(teams.insert(team)),
                Ok(false) => {}
                Err(error) => tracing::warn!(team, reason = %error, "who is in a team cannot be looked up"),
            }
        }
        let mut took_part = self.direct_part(rollout, author).filter(|_| facts.approves);
        for (number, found) in facts.pulls {
            let found = found.map_err(|error| cannot("who made this change", &error))?;
            let Some(PullFacts { pull, commits }) = found else {
                return Err(cannot("who made this change", &Self::unknown("pull request")));
            };
            if self.branch.as_ref().is_some_and(|branch| pull.base != *branch) {
                return Err(Answer::of(format!("this pull request goes into {}, which is not rolled out", pull.base)));
            }
            let part = self.part(&pull, commits, author).map_err(|error| match &error {
                Error::Refused { why, .. } => Answer::of(format!(
                    "who made this change cannot be known, so nobody approves it here: {why}; approve it with \
                     gitfleet approve, on the command line"
                )),
                _ => cannot("who made this change", &error),
            })?;
            took_part = took_part.or(part.map(|part| format!("{} #{number}", part.description())));
        }
        let credentials = Credentials { id: author.id, permission, teams, took_part, comment: url.to_owned() };
        Ok(Person { credentials: Some(credentials), ..Person::of(author.login.clone(), Channel::Comment) })
    }

    /// Tells whether the author pushed a commit that no pull request brought: only deliveries tell who did.
    fn direct_part(&self, rollout: &CommitRollout, author: &ForgeUser) -> Option<String> {
        let is_direct = rollout.thread.is_some_and(|thread| thread.is_issue);
        let counts = is_direct && self.settings.parts.contains(&Part::Pushed);
        let commits = [rollout.commit.clone()].into();
        let pushed = counts && self.deliveries.pushers(&commits).any(|user| user.id == author.id);
        pushed.then(|| format!("pushed commit {}", rollout.commit.short()))
    }

    /// Returns the author's first contribution to a pull request among those that the configuration names.
    fn part(&self, pull: &PullRequest, commits: Option<Result<Commits>>, who: &ForgeUser) -> Result<Option<Part>> {
        let parts = &self.settings.parts;
        let Some(commits) = commits else { return Ok(own_part(pull, who, parts)) };
        let (commits, is_who) = (commits?, |user: &ForgeUser| user.id == who.id);
        // Deliveries may name pushes that the host's API does not.
        let ends: BTreeSet<CommitId> = commits.all.iter().cloned().chain([pull.head.clone()]).collect();
        let is_pusher = commits.pushers.iter().chain(self.deliveries.pushers(&ends)).any(is_who);
        let found = [(Part::Authored, commits.authors.iter().any(is_who)), (Part::Pushed, is_pusher)];
        Ok(found.into_iter().find(|(part, is_it)| *is_it && parts.contains(part)).map(|(part, _)| part))
    }

    fn configured_approvers(&self) -> impl Iterator<Item = &str> {
        self.settings.approvers.iter().chain(&self.settings.approvers_by_path).map(String::as_str)
    }

    /// Returns the teams named as approvers by what waits, by its strategy or the owners of its file, or by the configuration. Those of
    /// what waits come first: the configuration may name more than are asked about.
    fn teams(&self, rollout: &CommitRollout) -> BTreeSet<String> {
        let narrowed = rollout.gates().filter_map(|(_, _, gate)| gate.approvers.as_deref());
        let owners = rollout.gates().flat_map(|(_, _, gate)| &gate.owners).map(String::as_str);
        let entries = narrowed.flat_map(|all| all.split(',')).chain(owners).chain(self.configured_approvers());
        let mut teams = BTreeSet::new();
        for team in entries.filter_map(|entry| entry.trim().strip_prefix("team:")) {
            if teams.len() >= TEAMS_MAX && !teams.contains(team) {
                tracing::warn!(
                    team,
                    limit = TEAMS_MAX,
                    "more teams are approvers than are asked about; nobody counts as a member of this one"
                );
                break;
            }
            teams.insert(team.to_owned());
        }
        teams
    }
}
