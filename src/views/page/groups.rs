//! The placements of the matrix in groups: each with its name and how its placements stand. A group in which nothing is left to do is
//! closed: its heading stands for its rows, until it is asked for alone.

use std::collections::{BTreeMap, BTreeSet};

use super::matrix::MatrixRow;
use super::query::ListQuery;
use super::standing::PlacementStanding;
use model::api::annotations::STAGED_UPDATE_STRATEGY;
use model::api::placement::StrategyType;

/// By what placements are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    /// By namespace.
    Namespace,
    /// By how clusters are updated: the name of the staged update strategy, or rolling.
    Strategy,
    /// By state.
    State,
}

impl Grouping {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::Namespace, Self::Strategy, Self::State];

    /// Returns the one that an address asks for.
    pub(super) fn of(query: &ListQuery) -> Option<Self> {
        Self::ALL.into_iter().find(|grouping| grouping.word() == query.group)
    }

    /// Returns its word, in addresses and for people.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Strategy => "strategy",
            Self::State => "state",
        }
    }

    /// Returns the name of a placement's group. What is not a name in Kubernetes has a space in it.
    pub(super) fn name_of(self, row: &MatrixRow) -> String {
        let record = &row.placed.records.record;
        match self {
            Self::Namespace => record.key.namespace.clone().unwrap_or_else(|| "no namespace".to_owned()),
            Self::State => row.standing.words().to_owned(),
            Self::Strategy => match record.annotations.get(STAGED_UPDATE_STRATEGY) {
                Some(strategy) => strategy.clone(),
                None if record.spec.strategy.type_ == StrategyType::External => "runs of documents".to_owned(),
                None => "rolling update".to_owned(),
            },
        }
    }

    /// Returns the place of a placement's group among the others: states the most urgent first, all others by name.
    fn place_of(self, row: &MatrixRow) -> Option<PlacementStanding> {
        (self == Self::State).then_some(row.standing)
    }

    /// Tells whether it would make more than one group.
    pub(super) fn parts(self, rows: &[MatrixRow]) -> bool {
        rows.iter().map(|row| self.name_of(row)).collect::<BTreeSet<_>>().len() > 1
    }
}

/// The heading of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Heading {
    /// Its name.
    pub(super) name: String,
    /// How many of its placements are in which state, the most urgent first.
    pub(super) states: Vec<(PlacementStanding, usize)>,
    /// It stands for its rows.
    pub(super) is_closed: bool,
}

impl Heading {
    fn of(name: String, rows: &[MatrixRow], is_alone: bool) -> Self {
        let mut states = Vec::new();
        for standing in PlacementStanding::ALL {
            let count = rows.iter().filter(|row| row.standing == standing).count();
            if count > 0 {
                states.push((standing, count));
            }
        }
        let is_closed = !is_alone && rows.iter().all(|row| row.standing == PlacementStanding::Done);
        Self { name, states, is_closed }
    }
}

/// Rows that stand together.
pub(super) struct MatrixGroup<'a> {
    /// Absent where rows are not grouped.
    pub(super) heading: Option<Heading>,
    /// The rows; none below a closed heading.
    pub(super) rows: Vec<MatrixRow<'a>>,
}

/// Returns the groups of the page that is asked for, its number as there is one, and how many pages there are. A closed group takes the
/// place of one row.
pub(super) fn groups<'a>(query: &ListQuery, rows: Vec<MatrixRow<'a>>) -> (Vec<MatrixGroup<'a>>, usize, usize) {
    let Some(by) = Grouping::of(query) else {
        let (rows, page, pages) = query.part(rows);
        return (vec![MatrixGroup { heading: None, rows }], page, pages);
    };
    let mut named: BTreeMap<_, Vec<MatrixRow>> = BTreeMap::new();
    for row in rows {
        named.entry((by.place_of(&row), by.name_of(&row))).or_default().push(row);
    }
    let mut headings = Vec::new();
    let mut lines = Vec::new();
    for (number, ((_, name), rows)) in named.into_iter().enumerate() {
        let heading = Heading::of(name, &rows, !query.within.is_empty());
        if heading.is_closed {
            lines.push((number, None));
        } else {
            lines.extend(rows.into_iter().map(|row| (number, Some(row))));
        }
        headings.push(heading);
    }
    let (lines, page, pages) = query.part(lines);
    let mut shown: BTreeMap<usize, Vec<MatrixRow>> = BTreeMap::new();
    for (number, row) in lines {
        shown.entry(number).or_default().extend(row);
    }
    let mut groups = Vec::new();
    for (number, rows) in shown {
        groups.push(MatrixGroup { heading: headings.get(number).cloned(), rows });
    }
    (groups, page, pages)
}
