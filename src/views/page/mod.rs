//! The live page, as HTML made of values: it shows what `status` and the comments say, and decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use maud::{Markup, html};

use crate::comments::style::CommandStyle;
use crate::fleet::FleetView;
use crate::subjects::Subjects;
use model::forge::CommitPulls;
use model::id::PlacementKey;

pub mod act;
pub mod assets;
pub mod badge;
pub mod changes;
pub mod cluster;
pub mod clusters;
pub mod commit;
pub mod events;
mod explain;
pub mod fleet;
mod git_host;
pub mod graph;
mod grid;
mod groups;
mod history;
mod layout;
mod matrix;
mod needs;
mod pictures;
pub mod placement;
pub mod query;
mod sentence;
pub mod sign_in;
mod standing;
pub mod timeline;
mod words;

pub use git_host::GitLinks;
pub use layout::{document, fragment};

/// What all pages of a daemon share.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// The path that all links begin with: empty, or a slash and more, without one at the end.
    pub base: String,
    /// The repositories on git hosts: one, or one for each of several sources that has one.
    pub links: Vec<GitLinks>,
    /// How commands in comments are written; absent without a git host.
    pub voice: Option<CommandStyle>,
    /// Known people may command in the page.
    pub commands: bool,
}

/// Who asks for a page.
#[derive(Clone, Copy, Debug, Default)]
pub struct Visitor<'a> {
    /// The name, where it is known.
    pub name: Option<&'a str>,
    /// Signed in here, and not by a proxy: so they can sign out.
    pub signed_in: bool,
    /// Commands are offered.
    pub may_command: bool,
    /// What every form holds, so that no other site sends it.
    pub form_token: &'a str,
}

/// What a page is made for: a request at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Visit<'a> {
    /// What all pages share.
    pub site: &'a Site,
    /// What is shown.
    pub fleet: &'a FleetView,
    /// What commits are about.
    pub subjects: &'a dyn Subjects,
    /// The pull requests that brought commits, by the name of the source; it is empty where there is one.
    pub pulls: &'a BTreeMap<String, Arc<CommitPulls>>,
    /// The moment.
    pub now: Timestamp,
    /// Who asks.
    pub visitor: Visitor<'a>,
    /// The id of the last change that the page shows, for the stream of changes.
    pub change: &'a str,
}

/// The place of a page among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The fleet and its placements.
    Fleet,
    /// Clusters.
    Clusters,
    /// The journal.
    Events,
    /// Elsewhere.
    None,
}

/// The changes at which a page is loaded again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Follows {
    /// None.
    Nothing,
    /// All.
    Fleet,
    /// Those of one placement.
    Placement(PlacementKey),
}

/// One page without what all have in common.
#[derive(Debug)]
pub struct HtmlPage {
    /// Its title.
    pub title: String,
    /// Its place.
    pub section: Section,
    /// The changes at which it is loaded again.
    pub follows: Follows,
    /// The text that is searched for.
    pub searched: String,
    /// Its content.
    pub main: Markup,
}

impl HtmlPage {
    /// Makes a page that follows the fleet.
    fn new(title: impl Into<String>, section: Section, main: Markup) -> Self {
        Self { title: title.into(), section, follows: Follows::Fleet, searched: String::new(), main }
    }

    /// Makes a page that stays as it is, such as one with a form.
    fn still(title: impl Into<String>, main: Markup) -> Self {
        Self { follows: Follows::Nothing, ..Self::new(title, Section::None, main) }
    }

    /// Returns the page of something that is not there.
    pub fn nothing_here() -> Self {
        let main = html! { h1 { "Nothing here" } p { "The fleet has nothing of this name, or not any more." } };
        Self::new("Nothing here", Section::None, main)
    }
}

#[cfg(test)]
mod tests;
