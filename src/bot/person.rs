//! Rights of a comment's author: permission, teams, and contribution to the change.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};

use super::comment_policy::Answer;
use super::commit_rollout::CommitRollout;
use super::deliveries::Deliveries;
use super::settings::Approvals;
use forge::{Error, Forge, Result};
use model::commands::Person;
use model::forge::{Commits, Credentials, ForgeUser, Part, Permission, PullRequest, ThreadNumber};
use model::id::CommitId;
use model::runs::Channel;

/// Teams that one strategy may name.
const TEAMS_MAX: usize = 10;
/// Requests about one person's teams, or about their pull requests, that may be under way at a time.
const READS_MAX: usize = 4;

/// What cannot be looked up where a contribution cannot.
const WHO_MADE: &str = "who made this change";

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
    if parts.contains(&Part::Opened) && pull.author.id == who.id {
        return Some(Part::Opened);
    }
    let merger = pull.merged.as_ref().and_then(|merge| merge.by.as_ref());
    if parts.contains(&Part::Merged) && merger.is_some_and(|merger| merger.id == who.id) {
        return Some(Part::Merged);
    }
    None
}

/// Logs that something about a person cannot be looked up, and returns the answer to their command.
fn cannot_look_up(author: &ForgeUser, what: &str, error: &Error) -> Answer {
    tracing::warn!(person = author.login, what, reason = %error, "a command is refused, because something about its author cannot be looked up");
    Answer::of(format!("{what} could not be looked up, so nothing was done; write the command again in a moment"))
}

/// The facts that decide whether a person may give commands to a rollout.
pub(super) struct CommandContext<'a> {
    pub rollout: &'a CommitRollout,
    /// Who may approve, as the configuration says it.
    pub approvals: &'a Approvals,
    /// Who pushed what.
    pub deliveries: &'a Deliveries,
    /// The followed branch, once it is known.
    pub branch: Option<&'a str>,
    /// Why the rollout is not approved here, if that is so.
    pub no_approval: Option<Answer>,
}

impl CommandContext<'_> {
    /// Returns the questions to the git host about the author of commands. `pulls` are those whose contributors count.
    pub(super) fn questions(
        &self,
        forge: Arc<dyn Forge>,
        author: &ForgeUser,
        approves: bool,
        pulls: BTreeSet<ThreadNumber>,
    ) -> PersonQuestions {
        PersonQuestions {
            forge,
            author: author.clone(),
            teams: self.teams(),
            pulls,
            parts: self.approvals.parts.clone(),
            approves,
        }
    }

    /// Returns the author's permission, teams and contribution. What cannot be determined counts against the author.
    ///
    /// # Errors
    /// Why the commands are refused whatever the rules say.
    pub(super) fn person(
        &self,
        author: &ForgeUser,
        url: &str,
        facts: PersonFacts,
    ) -> std::result::Result<Person, Answer> {
        let permission = match facts.permission {
            // With configured approvers our account need not be allowed to ask. Then nobody has a permission.
            Err(Error::Forbidden { .. }) if self.approvals.configured().next().is_some() => Permission::None,
            answer => answer.map_err(|error| cannot_look_up(author, "what you may do here", &error))?,
        };
        if facts.approves
            && let Some(answer) = &self.no_approval
        {
            return Err(answer.clone());
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
        let mut took_part = if facts.approves { self.direct_part(author) } else { None };
        for (number, found) in facts.pulls {
            let part = self.part_in(author, found)?;
            took_part = took_part.or(part.map(|part| format!("{} #{number}", part.description())));
        }
        let credentials = Credentials { id: author.id, permission, teams, took_part, comment: url.to_owned() };
        Ok(Person { credentials: Some(credentials), ..Person::of(author.login.clone(), Channel::Comment) })
    }

    /// Tells whether the author pushed a commit that no pull request brought: only deliveries tell who did.
    fn direct_part(&self, author: &ForgeUser) -> Option<String> {
        let is_direct = self.rollout.thread.is_some_and(|thread| thread.is_issue);
        if !is_direct || !self.approvals.parts.contains(&Part::Pushed) {
            return None;
        }
        let commits = [self.rollout.commit.clone()].into();
        let pushed = self.deliveries.pushers(&commits).any(|user| user.id == author.id);
        pushed.then(|| format!("pushed commit {}", self.rollout.commit.short()))
    }

    /// Returns the author's contribution to a pull request whose change waits.
    fn part_in(
        &self,
        author: &ForgeUser,
        found: Result<Option<PullFacts>>,
    ) -> std::result::Result<Option<Part>, Answer> {
        let found = found.map_err(|error| cannot_look_up(author, WHO_MADE, &error))?;
        let Some(PullFacts { pull, commits }) = found else {
            let unknown = Error::NotFound { what: "pull request".to_owned() };
            return Err(cannot_look_up(author, WHO_MADE, &unknown));
        };
        if self.branch.is_some_and(|branch| pull.base != branch) {
            return Err(Answer::of(format!("this pull request goes into {}, which is not rolled out", pull.base)));
        }
        self.part(&pull, commits, author).map_err(|error| match &error {
            Error::Refused { why, .. } => Answer::of(format!(
                "who made this change cannot be known, so nobody approves it here: {why}; approve it with \
                 gitfleet approve, on the command line"
            )),
            _ => cannot_look_up(author, WHO_MADE, &error),
        })
    }

    /// Returns the author's first contribution to a pull request among those that the configuration names.
    fn part(&self, pull: &PullRequest, commits: Option<Result<Commits>>, who: &ForgeUser) -> Result<Option<Part>> {
        let parts = &self.approvals.parts;
        let Some(commits) = commits else { return Ok(own_part(pull, who, parts)) };
        let commits = commits?;
        if parts.contains(&Part::Authored) && commits.authors.iter().any(|user| user.id == who.id) {
            return Ok(Some(Part::Authored));
        }
        // Deliveries may name pushes that the host's API does not.
        let ends: BTreeSet<CommitId> = commits.all.iter().cloned().chain([pull.head.clone()]).collect();
        let mut pushers = commits.pushers.iter().chain(self.deliveries.pushers(&ends));
        if parts.contains(&Part::Pushed) && pushers.any(|user| user.id == who.id) {
            return Ok(Some(Part::Pushed));
        }
        Ok(None)
    }

    /// Returns the teams named as approvers by what waits, by its strategy or the owners of its file, or by the configuration. Those of
    /// what waits come first: the configuration may name more than are asked about.
    fn teams(&self) -> BTreeSet<String> {
        let narrowed = self.rollout.gates().filter_map(|(_, _, gate)| gate.approvers.as_deref());
        let owners = self.rollout.gates().flat_map(|(_, _, gate)| &gate.owners).map(String::as_str);
        let entries = narrowed.flat_map(|all| all.split(',')).chain(owners).chain(self.approvals.configured());
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
