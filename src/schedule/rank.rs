//! Ranks the clusters that pass: scores, their order, and one pick after the other with a topology spread.

use std::collections::{BTreeMap, BinaryHeap};

use fixedbitset::FixedBitSet;

use super::score::{self, Term};
use super::spread::{Effect, Spread, evaluate};
use super::{Error, Request};
use model::api::placement::PlacementPolicy;
use model::explanation::Refusal;

/// A cluster that passed the filters. The order is the picking order reversed: by topology spread, affinity, obsolete binding,
/// then name, so that in a tie the largest name comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    /// Topology spread score.
    pub topology: i32,
    /// Affinity score.
    pub affinity: i32,
    /// 1 if the cluster has a binding of an earlier policy: an edit should move few clusters.
    pub obsolete: i32,
    /// The cluster; slots are in the order of names.
    pub slot: usize,
}

/// The clusters in picking order.
#[derive(Default)]
pub(super) struct Ranking<'a> {
    /// The picked ones, in the order they were picked.
    pub picked: Vec<Candidate>,
    /// How many of them the last cycle picked: with a spread there is one cycle per pick.
    pub fresh: usize,
    /// The best of those that scored and were not picked, up to the requested number.
    pub next: Vec<Candidate>,
    /// How many scored and were not picked.
    pub scored: usize,
    /// The clusters that the last cycle rejected for their domain.
    pub violating: FixedBitSet,
    /// The terms of the affinity score.
    pub terms: Vec<Term<'a>>,
    /// The constraints with the counts of the last cycle.
    pub spreads: Vec<Spread<'a>>,
    /// The effect of a pick in the last cycle, by constraint and domain.
    pub effects: Vec<Vec<Effect>>,
}

impl Ranking<'_> {
    /// Returns why the spread rejects a cluster in the last cycle.
    pub(crate) fn refusal(&self, slot: usize) -> Option<Refusal> {
        let (number, effect) =
            evaluate(&self.spreads, &self.effects, |number| self.spreads[number].domain(slot)).err()?;
        Some(self.spreads[number].refusal(effect))
    }
}

/// Picks `wanted` of the clusters in `passed` and lists `listed` of the others.
///
/// `chosen` are the placement's clusters, `obsolete` those with a binding of an earlier policy.
///
/// Source: KubeFleet, scoring and picking; with a spread constraint of either kind one cycle picks one cluster, and the next
/// cycle counts again.
pub(super) fn rank<'a>(
    request: &Request<'a>,
    policy: &'a PlacementPolicy,
    passed: &FixedBitSet,
    (chosen, obsolete): (&FixedBitSet, &FixedBitSet),
    (wanted, listed): (usize, usize),
) -> Result<Ranking<'a>, Error> {
    let terms = score::terms(request)?;
    let mut candidates = Vec::with_capacity(passed.count_ones(..));
    candidates.extend(passed.difference(chosen).map(|slot| Candidate {
        topology: 0,
        affinity: terms.iter().map(|term| term.score(slot)).fold(0, i32::saturating_add),
        obsolete: i32::from(obsolete.contains(slot)),
        slot,
    }));
    let mut spreads: Vec<Spread<'a>> =
        policy.topology_spread_constraints.iter().map(|c| Spread::of(request.clusters, c, chosen)).collect();
    // Constraints that reject come first, as in KubeFleet.
    spreads.sort_by_key(|spread| !spread.rejects());
    let mut ranking = if spreads.is_empty() {
        let picked = best(&mut candidates, wanted, listed);
        Ranking { fresh: picked.len(), picked, scored: candidates.len(), next: candidates, ..Ranking::default() }
    } else {
        pick_one_by_one(spreads, candidates, wanted, request.clusters.len())
    };
    ranking.terms = terms;
    best(&mut ranking.next, 0, listed);
    ranking.next.truncate(listed);
    Ok(ranking)
}

/// Takes the best `wanted` candidates, in order, and leaves the best `listed` of the others in order in front.
fn best(candidates: &mut Vec<Candidate>, wanted: usize, listed: usize) -> Vec<Candidate> {
    let sorted = wanted.saturating_add(listed).min(candidates.len());
    if 0 < sorted && sorted < candidates.len() {
        // Only the front is sorted: few clusters of a large fleet are picked or listed.
        candidates.select_nth_unstable_by(sorted - 1, |a, b| b.cmp(a));
    }
    candidates[..sorted].sort_unstable_by(|a, b| b.cmp(a));
    candidates.drain(..wanted.min(sorted)).collect()
}

/// Candidates with the same domain in every constraint: their topology scores are always equal.
struct Cell {
    domains: Vec<u32>,
    heap: BinaryHeap<Candidate>,
}

fn cells(spreads: &[Spread<'_>], candidates: Vec<Candidate>) -> Vec<Cell> {
    let mut by_domains: BTreeMap<Vec<u32>, Vec<Candidate>> = BTreeMap::new();
    let mut domains = Vec::with_capacity(spreads.len());
    for candidate in candidates {
        domains.clear();
        domains.extend(spreads.iter().map(|spread| spread.domain(candidate.slot)));
        // Looked up first: the key is copied once per cell, not once per candidate.
        if let Some(cell) = by_domains.get_mut(&domains) {
            cell.push(candidate);
        } else {
            by_domains.insert(domains.clone(), vec![candidate]);
        }
    }
    by_domains.into_iter().map(|(domains, candidates)| Cell { domains, heap: candidates.into() }).collect()
}

fn pick_one_by_one(mut spreads: Vec<Spread<'_>>, candidates: Vec<Candidate>, wanted: usize, len: usize) -> Ranking<'_> {
    let mut cells = cells(&spreads, candidates);
    let mut picked = Vec::new();
    let (effects, fresh) = loop {
        let effects: Vec<Vec<Effect>> = spreads.iter().map(Spread::effects).collect();
        if wanted == 0 {
            break (effects, 0);
        }
        let heads = cells.iter().enumerate().filter_map(|(number, cell)| {
            let topology = evaluate(&spreads, &effects, |number| cell.domains[number]).ok()?;
            // In the heaps every topology score is 0, so a head is the best of its cell.
            Some((Candidate { topology, ..*cell.heap.peek()? }, number))
        });
        // A cycle without a pick ends the search, as in KubeFleet.
        let Some((candidate, number)) = heads.max() else { break (effects, 0) };
        cells[number].heap.pop();
        picked.push(candidate);
        if picked.len() == wanted {
            // The last pick is not counted: refusals are described with the counts of its cycle.
            break (effects, 1);
        }
        for spread in &mut spreads {
            spread.choose(candidate.slot);
        }
        if picked.len() == 1 {
            // The first cycle takes back every other obsolete binding, so the bonus is gone.
            forget_obsolete(&mut cells);
        }
    };
    let mut violating = FixedBitSet::with_capacity(len);
    let mut next = Vec::new();
    for cell in cells {
        match evaluate(&spreads, &effects, |number| cell.domains[number]) {
            Ok(topology) => next.extend(cell.heap.into_iter().map(|c| Candidate { topology, ..c })),
            Err(_) => violating.extend(cell.heap.into_iter().map(|candidate| candidate.slot)),
        }
    }
    Ranking { picked, fresh, scored: next.len(), next, violating, terms: Vec::new(), spreads, effects }
}

fn forget_obsolete(cells: &mut [Cell]) {
    for cell in cells.iter_mut().filter(|cell| cell.heap.iter().any(|candidate| candidate.obsolete > 0)) {
        cell.heap = cell.heap.drain().map(|candidate| Candidate { obsolete: 0, ..candidate }).collect();
    }
}
