//! Exported decisions as pages on a hub, and the order of writes in which no cluster ever vanishes.
//!
//! Argo CD reads all pages of a placement together, at any moment, and deletes the Application of a missing cluster. Each write
//! is atomic, several are not. Hence a cluster keeps its page while its group keeps that page; additions are written before
//! removals; a page becomes visible only when it is complete; the last page is emptied, never deleted. A cluster that changes
//! pages is on both for a moment: a second Application of one name is an error that changes nothing, a missing one is deleted.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use model::api::ocm::PAGE_CLUSTERS_MAX;
use model::decisions::{ExportedGroup, Page, PageWrite};

/// The text between a placement's name and a page's number.
///
/// Source: OCM's controller names its objects this way.
const INFIX: &str = "-decision-";

/// Returns the name of a page: `<label>-decision-<number>`.
pub fn page_name(label: &str, number: u32) -> String {
    format!("{label}{INFIX}{number}")
}

/// Returns the label value and the number in a page's name; `None` for other names.
pub fn page_of(name: &str) -> Option<(&str, u32)> {
    let (label, number) = name.rsplit_once(INFIX)?;
    let parsed: u32 = number.parse().ok()?;
    (parsed > 0 && parsed.to_string() == number).then_some((label, parsed))
}

/// The desired state of one page.
#[derive(Debug, Default)]
struct Layout {
    group: usize,
    clusters: BTreeSet<String>,
}

/// Returns the writes that bring a placement's pages to its groups, in the order in which they must be executed.
///
/// Between any two of them: a visible cluster that is still wanted stays visible; if anything was visible and anything is
/// wanted, something is visible; a page exists. With one group no cluster is visible twice, unless it was before.
pub fn page_writes(existing: &[Page], groups: &[ExportedGroup]) -> Vec<PageWrite> {
    let one_empty = [ExportedGroup::default()];
    let groups = if groups.is_empty() { &one_empty } else { groups };
    let layout = lay_out(existing, groups);
    let known: BTreeMap<u32, &Page> = existing.iter().map(|page| (page.number, page)).collect();
    let mut writes = unseen_pages(&known, &layout, groups);
    writes.extend(seen_pages(&known, &layout));
    for (number, wanted) in &layout {
        let label = group_label(wanted.group, groups);
        if known.get(number).is_some_and(|page| page.visible && page.group.as_ref() != Some(&label)) {
            writes.push(PageWrite::Label { number: *number, index: label.0, group: label.1 });
        }
    }
    let gone = known.keys().filter(|number| !layout.contains_key(number));
    writes.extend(gone.map(|number| PageWrite::Delete { number: *number }));
    writes
}

/// Returns the writes that remove the clusters of a placement that is gone. While somebody reads its pages one of them stays,
/// empty: without any page Argo CD would report an error and keep every Application.
pub fn retiring_writes(existing: &[Page], is_read: bool) -> Vec<PageWrite> {
    let kept = existing.iter().filter(|page| is_read && page.visible).map(|page| page.number).min();
    let mut writes = Vec::new();
    for page in existing {
        if Some(page.number) == kept && page.clusters.as_ref().is_none_or(|clusters| !clusters.is_empty()) {
            writes.push(PageWrite::Status { number: page.number, clusters: Vec::new() });
        } else if Some(page.number) != kept {
            writes.push(PageWrite::Delete { number: page.number });
        }
    }
    writes
}

fn group_label(group: usize, groups: &[ExportedGroup]) -> (u32, String) {
    (u32::try_from(group).unwrap_or(u32::MAX), groups[group].name.clone())
}

/// Assigns clusters to pages: to their present page, as far as groups and the size of a page allow.
fn lay_out(existing: &[Page], groups: &[ExportedGroup]) -> BTreeMap<u32, Layout> {
    let home: BTreeMap<&str, usize> = groups
        .iter()
        .enumerate()
        .flat_map(|(index, group)| group.clusters.iter().map(move |cluster| (cluster.cluster_name.as_str(), index)))
        .collect();
    // A visible cluster stays on its visible page.
    let mut pages: Vec<&Page> = existing.iter().collect();
    pages.sort_by_key(|page| (!page.visible, page.number));
    let mut layout: BTreeMap<u32, Layout> = BTreeMap::new();
    let mut spare: Vec<&Page> = Vec::new();
    let mut settled: BTreeSet<&str> = BTreeSet::new();
    for page in pages {
        let Some(group) = serves(page, &home) else {
            spare.push(page);
            continue;
        };
        let mut clusters = BTreeSet::new();
        for cluster in page.clusters.iter().flatten() {
            let stays = home.get(cluster.as_str()) == Some(&group) && clusters.len() < PAGE_CLUSTERS_MAX;
            if stays && settled.insert(cluster) {
                clusters.insert(cluster.clone());
            }
        }
        layout.insert(page.number, Layout { group, clusters });
    }
    let mut free = (1..).filter(|number| existing.iter().all(|page| page.number != *number));
    for (index, group) in groups.iter().enumerate() {
        let label = group_label(index, groups);
        let mut rest: Vec<&str> = group.clusters.iter().map(|cluster| cluster.cluster_name.as_str()).collect();
        rest.retain(|cluster| !settled.contains(cluster));
        rest.sort_unstable();
        rest.dedup();
        let mut rest = rest.into_iter().map(str::to_owned).peekable();
        for page in layout.values_mut().filter(|page| page.group == index) {
            let room = PAGE_CLUSTERS_MAX - page.clusters.len();
            page.clusters.extend(rest.by_ref().take(room));
        }
        while rest.peek().is_some() || layout.values().all(|page| page.group != index) {
            let own = spare.iter().position(|page| page.group.as_ref() == Some(&label)).unwrap_or(0);
            let number =
                if spare.is_empty() { free.next().expect("numbers do not end") } else { spare.remove(own).number };
            let clusters = rest.by_ref().take(PAGE_CLUSTERS_MAX).collect();
            layout.insert(number, Layout { group: index, clusters });
        }
        drop_empty_pages(&mut layout, index);
    }
    layout
}

/// Drops the empty pages of a group; one stays if it has no other, so that readers find the group.
fn drop_empty_pages(layout: &mut BTreeMap<u32, Layout>, group: usize) {
    let is_filled = layout.values().any(|page| page.group == group && !page.clusters.is_empty());
    let mut needs_one = !is_filled;
    layout.retain(|_, page| {
        if page.group != group || !page.clusters.is_empty() {
            return true;
        }
        let is_kept = needs_one;
        needs_one = false;
        is_kept
    });
}

/// Returns the group that most of a page's clusters belong to; in a tie the page's own group, then the first. Every decision
/// numbers the groups again, so a page that keeps its clusters changes its labels, and no cluster moves.
fn serves(page: &Page, home: &BTreeMap<&str, usize>) -> Option<usize> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for cluster in page.clusters.iter().flatten() {
        if let Some(group) = home.get(cluster.as_str()) {
            *counts.entry(*group).or_default() += 1;
        }
    }
    let own = page.group.as_ref().and_then(|(index, _)| usize::try_from(*index).ok());
    let most = counts.into_iter().max_by_key(|(group, count)| (*count, Some(*group) == own, Reverse(*group)));
    most.map(|(group, _)| group)
}

/// Returns the writes for invisible pages: they are filled first and shown then, those with clusters before empty ones.
fn unseen_pages(
    known: &BTreeMap<u32, &Page>,
    layout: &BTreeMap<u32, Layout>,
    groups: &[ExportedGroup],
) -> Vec<PageWrite> {
    let mut writes = Vec::new();
    let mut unseen: Vec<(&u32, &Layout)> =
        layout.iter().filter(|(number, _)| known.get(number).is_none_or(|page| !page.visible)).collect();
    unseen.sort_by_key(|(number, wanted)| (wanted.clusters.is_empty(), **number));
    for (number, wanted) in &unseen {
        let page = known.get(number);
        if page.is_none() {
            writes.push(PageWrite::Create { number: **number });
        }
        let clusters: Vec<String> = wanted.clusters.iter().cloned().collect();
        if page.and_then(|page| page.clusters.as_ref()) != Some(&clusters) {
            writes.push(PageWrite::Status { number: **number, clusters });
        }
    }
    for (number, wanted) in unseen {
        let (index, group) = group_label(wanted.group, groups);
        writes.push(PageWrite::Label { number: *number, index, group });
    }
    writes
}

/// Returns the writes for visible pages. A page gives up a wanted cluster only when the new page shows it; if pages wait for
/// each other, one of them takes its new clusters first and gives up the old ones later.
fn seen_pages(known: &BTreeMap<u32, &Page>, layout: &BTreeMap<u32, Layout>) -> Vec<PageWrite> {
    let target: BTreeMap<&str, u32> =
        layout.iter().flat_map(|(number, page)| page.clusters.iter().map(|c| (c.as_str(), *number))).collect();
    let mut seen: BTreeMap<u32, BTreeSet<String>> = layout
        .iter()
        .map(|(number, wanted)| match known.get(number).filter(|page| page.visible) {
            Some(page) => (*number, page.clusters.iter().flatten().cloned().collect()),
            None => (*number, wanted.clusters.clone()),
        })
        .collect();
    let mut open: Vec<u32> = Vec::new();
    for (number, wanted) in layout {
        if known.get(number).is_some_and(|page| page.visible && !is_exact(page, wanted)) {
            open.push(*number);
        }
    }
    let mut writes = Vec::new();
    while !open.is_empty() {
        // Pages that take clusters come first: others may give theirs up only then.
        let mut candidates: Vec<usize> = (0..open.len()).collect();
        candidates.retain(|at| !layout[&open[*at]].clusters.is_subset(&seen[&open[*at]]));
        if candidates.is_empty() {
            candidates = (0..open.len()).collect();
        }
        let safe = candidates.iter().copied().find(|at| {
            let wanted = &layout[&open[*at]].clusters;
            gives_up_safely(&seen[&open[*at]], wanted, &target, &seen)
        });
        let (number, clusters) = if let Some(at) = safe {
            let number = open.remove(at);
            (number, layout[&number].clusters.clone())
        } else {
            let number = open[candidates[0]];
            (number, &seen[&number] | &layout[&number].clusters)
        };
        writes.push(PageWrite::Status { number, clusters: clusters.iter().cloned().collect() });
        seen.insert(number, clusters);
    }
    writes
}

/// Tells whether a page has exactly the wanted clusters, in order.
fn is_exact(page: &Page, wanted: &Layout) -> bool {
    page.clusters.as_ref().is_some_and(|clusters| clusters.iter().eq(&wanted.clusters))
}

/// Tells whether each cluster that a page loses is shown on its new page, or wanted on none. `target` has the new page of each
/// cluster, `seen` the clusters that each page shows.
fn gives_up_safely(
    shown: &BTreeSet<String>,
    wanted: &BTreeSet<String>,
    target: &BTreeMap<&str, u32>,
    seen: &BTreeMap<u32, BTreeSet<String>>,
) -> bool {
    let mut lost = shown.difference(wanted);
    lost.all(|cluster| target.get(cluster.as_str()).is_none_or(|to| seen[to].contains(cluster)))
}

#[cfg(test)]
mod tests;
