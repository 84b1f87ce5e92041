//! Which mutants are tried.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Operators that compare, and those that join conditions.
const OPERATORS: [&str; 8] = ["==", "!=", "<", ">", "<=", ">=", "&&", "||"];

/// A mutant as `cargo mutants` lists it.
#[derive(Deserialize)]
pub struct Listed {
    pub file: String,
    pub genre: Genre,
    name: String,
    pub replacement: String,
    pub span: Span,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Genre {
    BinaryOperator,
    UnaryOperator,
    MatchArmGuard,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
pub struct Span {
    pub start: Position,
}

/// Line and column, both from 1 on.
#[derive(Deserialize, Clone, Copy)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl Listed {
    /// Returns what is changed in which function, without its place.
    fn change(&self) -> &str {
        self.name.split_once(": ").map_or(self.name.as_str(), |(_, change)| change)
    }

    /// Returns where it is, the function and the change, separated by tabs.
    pub fn shown(&self) -> String {
        let (change, function) = self.change().rsplit_once(" in ").unwrap_or((self.change(), ""));
        let Position { line, column } = self.span.start;
        format!("{}:{line}:{column}\t{function}\t{change}", self.file)
    }

    fn is_candidate(&self) -> bool {
        match self.genre {
            Genre::BinaryOperator => OPERATORS.contains(&self.replacement.as_str()),
            Genre::UnaryOperator => self.change().starts_with("delete !"),
            Genre::MatchArmGuard => true,
            Genre::Other => false,
        }
    }
}

/// Returns those that change a comparison, a guard, or how conditions are joined.
pub fn candidates(all: Vec<Listed>) -> Vec<Listed> {
    all.into_iter().filter(Listed::is_candidate).collect()
}

/// Returns the mutants in the order of a lot. Each has its own number in it, which depends on the file, the function and the change, but not on
/// the line: when code changes, the others stay drawn.
pub fn by_lot(all: Vec<Listed>, lot: u64) -> Vec<Listed> {
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    let mut numbered: Vec<(u64, Listed)> = Vec::new();
    for mutant in all {
        let name = format!("{} {}", mutant.file, mutant.change());
        let again = seen.entry(name.clone()).or_insert(0);
        *again += 1;
        numbered.push((number(lot, &name, *again), mutant));
    }
    numbered.sort_by_key(|(number, _)| *number);
    numbered.into_iter().map(|(_, mutant)| mutant).collect()
}

/// FNV-1a over the name, then mixed. Source: the finaliser of SplitMix64.
fn number(lot: u64, name: &str, again: u64) -> u64 {
    let bytes = lot.to_le_bytes().into_iter().chain(name.bytes()).chain(again.to_le_bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}
