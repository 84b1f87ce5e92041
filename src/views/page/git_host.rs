//! Where git hosts show commits, the lines that they changed, files, and pull requests.
//!
//! A commit that joins several sources is on no git host: those that it joins are, each in the repository of its source.

use maud::{Markup, html};

use super::{Visit, words};
use model::forge::ThreadNumber;
use model::id::CommitId;

/// Pull requests of one commit that are linked, the newest first; the rest is counted.
const PULLS_MAX: usize = 3;
/// Sources of one commit that are linked; the rest is counted.
const SOURCES_MAX: usize = 5;

/// A repository on a git host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitLinks {
    /// The name of its source, which is the folder of its files in the tree; empty where it is the only one.
    pub source: String,
    /// The address of the repository, without a slash at the end.
    pub repository: String,
    /// GitHub has other words for files and pull requests than Gitea and Forgejo.
    pub is_github: bool,
    /// The folder of the repository that is followed: empty for all of it.
    pub folder: String,
}

impl GitLinks {
    /// Returns where a commit is shown.
    pub fn commit(&self, commit: &CommitId) -> String {
        format!("{}/commit/{commit}", self.repository)
    }

    /// Returns where a pull request is shown.
    pub fn pull(&self, number: ThreadNumber) -> String {
        let pulls = if self.is_github { "pull" } else { "pulls" };
        format!("{}/{pulls}/{number}", self.repository)
    }

    /// Returns where the changes between two commits are shown.
    pub fn compare(&self, from: &CommitId, to: &CommitId) -> String {
        format!("{}/compare/{from}...{to}", self.repository)
    }

    /// Returns where a line of a file is shown. The path is that of the source.
    pub fn line(&self, commit: &CommitId, path: &str, line: u32) -> String {
        let files = if self.is_github { "blob" } else { "src/commit" };
        let folders = self.folder.split('/').chain(path.split('/')).filter(|part| !["", "."].contains(part));
        let path: Vec<String> = folders.map(words::encoded).collect();
        format!("{}/{files}/{commit}/{}#L{line}", self.repository, path.join("/"))
    }

    /// Returns words that say of which source something is, where there are several.
    fn of_source(&self) -> String {
        if self.source.is_empty() { String::new() } else { format!(" of {}", self.source) }
    }
}

/// A commit in the repository of its source.
struct HostedCommit<'a> {
    links: &'a GitLinks,
    commit: CommitId,
}

/// Returns where git hosts have a commit of the tree, in the order of the sources.
fn places<'a>(visit: &Visit<'a>, commit: &CommitId) -> Vec<HostedCommit<'a>> {
    let links = &visit.site.links;
    if let [only] = &links[..]
        && only.source.is_empty()
    {
        return vec![HostedCommit { links: only, commit: commit.clone() }];
    }
    if links.is_empty() {
        return Vec::new();
    }
    let mut places = Vec::new();
    for joined in visit.subjects.joined(commit) {
        if let Some(links) = links.iter().find(|links| links.source == joined.name) {
            places.push(HostedCommit { links, commit: joined.commit });
        }
    }
    places
}

/// Links a commit on the git host, and the pull requests that brought it, the newest first, where they are known. Of a commit that joins
/// sources, the commit of each of them is linked.
pub(super) fn host_link(visit: &Visit, commit: &CommitId) -> Markup {
    let places = places(visit, commit);
    let more = places.len().saturating_sub(SOURCES_MAX);
    html! {
        @if places.iter().any(|place| !place.links.source.is_empty()) { "on the git host: " }
        @for (number, place) in places.iter().take(SOURCES_MAX).enumerate() {
            @if number > 0 { ", " }
            (hosted_link(visit, place))
        }
        @if more > 0 { " and " (more) " more" }
    }
}

fn hosted_link(visit: &Visit, HostedCommit { links, commit }: &HostedCommit<'_>) -> Markup {
    let name = if links.source.is_empty() { "change on the git host" } else { &links.source };
    let pulls = visit.pulls.get(&links.source).and_then(|pulls| pulls.get(commit));
    let more = pulls.map_or(0, |pulls| pulls.len().saturating_sub(PULLS_MAX));
    html! {
        a.outside href=(links.commit(commit)) rel="noreferrer" { (name) }
        @for number in pulls.into_iter().flatten().rev().take(PULLS_MAX) {
            ", " a.outside href=(links.pull(*number)) rel="noreferrer" { "pull request #" (number) }
        }
        @if more > 0 { " and " (more) " more" }
    }
}

/// Links the lines that differ between two commits on the git host, of each source that differs.
pub(super) fn compare_link(visit: &Visit, from: &CommitId, to: &CommitId) -> Markup {
    let before = places(visit, from);
    html! {
        @for HostedCommit { links, commit } in places(visit, to) {
            @if let Some(from) = before.iter().find(|place| place.links == links) {
                // The only source is linked in any case, as its commit is.
                @if links.source.is_empty() || from.commit != commit {
                    "; " a.outside href=(links.compare(&from.commit, &commit)) rel="noreferrer" { "the changed lines" (links.of_source()) " on the git host" }
                }
            }
        }
    }
}

/// Finds files of one commit on the git host.
pub(super) struct HostedFiles<'a>(Vec<HostedCommit<'a>>);

impl<'a> HostedFiles<'a> {
    /// Looks up once where the commit is.
    pub(super) fn of(visit: &Visit<'a>, commit: &CommitId) -> Self {
        Self(places(visit, commit))
    }

    /// Returns where a line of a file of the tree is shown; `None` where no git host has it.
    pub(super) fn line(&self, path: &str, line: u32) -> Option<String> {
        self.0.iter().find_map(|HostedCommit { links, commit }| {
            let path = match &links.source[..] {
                "" => path,
                source => path.strip_prefix(source)?.strip_prefix('/')?,
            };
            Some(links.line(commit, path, line))
        })
    }
}
