//! What happened: the journal, the newest first.

use maud::{Markup, html};

use super::badge::Tone;
use super::sentence::sentence;
use super::words::{cluster_link, placement_link, said, time, toned};
use super::{HtmlPage, Section, Visit};
use model::id::ClusterName;
use model::records::JournalEntry;

/// Entries of the journal that were found, the newest first.
#[derive(Debug, Default)]
pub struct Listed {
    /// The entries with their numbers.
    pub entries: Vec<(u64, JournalEntry)>,
    /// Where the search ended: entries with smaller numbers were not searched. Absent at the beginning of the journal.
    pub next: Option<u64>,
}

/// Which entries are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventsQuery {
    /// Of this placement: `NAME` or `NAMESPACE/NAME`.
    pub placement: String,
    /// On this cluster.
    pub cluster: String,
    /// Only what went wrong.
    pub trouble: bool,
    /// Only entries with smaller numbers.
    pub before: Option<u64>,
}

impl EventsQuery {
    /// Reads the query of an address; what cannot be read counts as absent.
    pub fn read(query: &str) -> Self {
        let mut read = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "q" | "placement" => value.trim().clone_into(&mut read.placement),
                "cluster" => value.trim().clone_into(&mut read.cluster),
                "trouble" => read.trouble = value == "1",
                "before" => read.before = value.parse().ok(),
                _ => {}
            }
        }
        read
    }

    /// Tells whether it asks for an entry.
    pub fn takes(&self, entry: &JournalEntry) -> bool {
        let cluster = entry.cluster.as_ref().map(ClusterName::as_str);
        (self.placement.is_empty() || entry.concerns(&self.placement))
            && (self.cluster.is_empty() || cluster == Some(self.cluster.as_str()))
            && (!self.trouble || entry.is_warning())
    }

    /// Writes the query of an address without the place in the journal.
    fn write(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in [("placement", &*self.placement), ("cluster", &self.cluster)] {
            if !value.is_empty() {
                query.append_pair(name, value);
            }
        }
        if self.trouble {
            query.append_pair("trouble", "1");
        }
        query.finish()
    }
}

/// Returns the page.
pub fn page(visit: &Visit, query: &EventsQuery, found: &Listed) -> HtmlPage {
    let here = format!("{}/events", visit.site.base);
    let other = EventsQuery { trouble: !query.trouble, before: None, ..query.clone() };
    let main = html! {
        h1 { "Events" }
        form.choice method="get" action=(here) {
            label for="events-placement" { "placement " }
            input #events-placement name="placement" value=(query.placement);
            " " label for="events-cluster" { "cluster " }
            input #events-cluster name="cluster" value=(query.cluster);
            " " button type="submit" { "Show" }
        }
        nav.filters aria-label="Filters" {
            a #trouble href=(format!("{here}?{}", other.write())) aria-current=[query.trouble.then_some("true")] { "only trouble" }
        }
        (listed(visit, found, &format!("{here}?{}", query.write()), true))
    };
    HtmlPage { searched: query.placement.clone(), ..HtmlPage::new("Events", Section::Events, main) }
}

/// Lists entries; `more` is the address that shows them, to which the place is added for those before.
pub(super) fn listed(visit: &Visit, found: &Listed, more: &str, named: bool) -> Markup {
    html! {
        @if found.entries.is_empty() { p { "Nothing was found here." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Events" {
                table.events {
                    thead { tr {
                        th scope="col" { "when" }
                        @if named { th scope="col" { "placement" } }
                        th scope="col" { "cluster" } th scope="col" { "what" }
                    } }
                    tbody { @for (number, entry) in &found.entries { (row(visit, *number, entry, named)) } }
                }
            }
        }
        @if let Some(next) = found.next {
            nav.pager aria-label="Pages of the list" { a rel="next" href=(format!("{more}&before={next}")) { "earlier" } }
        }
    }
}

fn row(visit: &Visit, number: u64, entry: &JournalEntry, named: bool) -> Markup {
    html! {
        tr id=(format!("event-{number}")) {
            td { (time(entry.at, visit.now)) }
            @if named {
                td {
                    @match &entry.placement {
                        Some(key) if visit.fleet.placements.contains_key(key) => { (placement_link(visit.site, key)) }
                        Some(key) => { (key) }
                        None => { @if let Some(ocm) = entry.facts.get("ocmPlacement").and_then(serde_json::Value::as_str) { (said(ocm)) } }
                    }
                }
            }
            td { @if let Some(cluster) = &entry.cluster { (cluster_link(visit.site, cluster)) } }
            td title=(entry.event) {
                @let words = sentence(entry);
                @if entry.is_warning() { (toned(Tone::Bad, &words)) } @else { (said(&words)) }
            }
        }
    }
}
