//! Pieces that pages share: links, times, signs, lines to copy.

use std::fmt::Write as _;

use jiff::Timestamp;
use maud::{Markup, html};

use super::badge::Tone;
use super::{Site, Visit};
use crate::subjects::quoted;
use crate::table::age;
use model::id::{ClusterName, CommitId, PlacementKey};
use model::text::lines;

/// Returns a name as one segment of a path.
pub(super) fn encoded(name: &str) -> String {
    let mut encoded = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a String takes it");
        }
    }
    encoded
}

/// Returns the address of a placement.
pub(super) fn placement_path(site: &Site, key: &PlacementKey) -> String {
    let namespace = key.namespace.as_deref().map(|namespace| format!("{}/", encoded(namespace))).unwrap_or_default();
    format!("{}/placements/{namespace}{}", site.base, encoded(&key.name))
}

/// Returns the address of a cluster.
pub(super) fn cluster_path(site: &Site, name: &str) -> String {
    format!("{}/clusters/{}", site.base, encoded(name))
}

/// Links a placement.
pub(super) fn placement_link(site: &Site, key: &PlacementKey) -> Markup {
    html! { a href=(placement_path(site, key)) { (key) } }
}

/// Links a cluster.
pub(super) fn cluster_link(site: &Site, name: &ClusterName) -> Markup {
    html! { a href=(cluster_path(site, name.as_str())) { (name) } }
}

/// Links the page of a commit.
pub(super) fn commit_link(site: &Site, commit: &CommitId) -> Markup {
    html! { a.commit href=(format!("{}/commits/{}", site.base, encoded(commit.as_str()))) title=(commit) { code { (commit.short()) } } }
}

/// Says what a commit is about, where that is known.
pub(super) fn subject(visit: &Visit, commit: &CommitId) -> Markup {
    let subject = visit.subjects.subject(commit).filter(|subject| !subject.is_empty());
    html! {
        @if let Some(subject) = subject { " " span.subject { (quoted(&subject)) } }
    }
}

/// Writes how long ago something was, or how far ahead it is, with the time itself beside it.
pub(super) fn time(at: Timestamp, now: Timestamp) -> Markup {
    let words = if at > now { format!("in {}", age(now, at)) } else { age(at, now) };
    let exact = format!("{at:.0}");
    html! { time datetime=(exact) title=(exact) { (words) } }
}

/// Writes a sign with words; the sign is for the eye only.
pub(super) fn toned(tone: Tone, words: &str) -> Markup {
    toned_as(tone, words, words)
}

/// Writes a sign with words that grow older by themselves: only another `value` is a change.
pub(super) fn toned_as(tone: Tone, words: &str, value: &str) -> Markup {
    html! {
        span class=(format!("state {}", tone.class())) data-value=(said(value)) {
            span.sign aria-hidden="true" { (tone.sign()) } " " (said(words))
        }
    }
}

/// Writes a line to copy, with its button.
pub(super) fn to_copy(line: &str) -> Markup {
    html! {
        span.line {
            code { (line) } " "
            button.copy type="button" data-copy=(line) aria-label=(format!("Copy: {line}")) { "copy" }
        }
    }
}

/// Returns foreign text as it can be read: what is not seen, or turns text around, is shown as an escape.
pub(super) fn said(text: &str) -> String {
    lines(text).into_owned()
}

/// Returns how many, with a word for them as a page has it: a link, or text alone where there are none.
pub(super) fn count_link(count: usize, words: &str, href: &str, tone: Tone) -> Markup {
    html! {
        li class=[(count > 0).then(|| tone.class())] data-value=(count) {
            @if count > 0 { a href=(href) { b { (count) } " " (words) } } @else { b { "0" } " " (words) }
        }
    }
}

/// Writes where on a listing a page is, with links to those beside it.
pub(super) fn pager(page: usize, pages: usize, href: impl Fn(usize) -> String) -> Markup {
    html! {
        @if pages > 1 {
            nav.pager aria-label="Pages of the list" {
                @if page > 1 { a rel="prev" href=(href(page - 1)) { "previous" } " " }
                "page " (page) " of " (pages)
                @if page < pages { " " a rel="next" href=(href(page + 1)) { "next" } }
            }
        }
    }
}

/// Links a command that the visitor may send; nothing where the page is for looking.
pub(super) fn act_link(visit: &Visit, verb: &str, fields: &[(&str, &str)]) -> Markup {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("verb", verb).extend_pairs(fields);
    html! {
        @if visit.visitor.may_command {
            a class=(format!("act act-{verb}")) href=(format!("{}/act?{}", visit.site.base, query.finish())) { (verb) }
            " "
        }
    }
}
