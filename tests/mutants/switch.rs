//! How mutants are written into a file: only by putting text before, into and behind expressions, so that one may be inside another.

use std::collections::BTreeMap;
use std::ops::Range;

use proc_macro2::LineColumn;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Arm, Expr, ExprBinary, ExprUnary, ImplItemConst, ImplItemFn, ItemConst, ItemFn, ItemStatic, UnOp};

use crate::draw::{Genre, Listed};

/// An expression that mutants change, as bytes of the file.
pub struct Place {
    whole: Range<usize>,
    operator: Range<usize>,
    /// Nothing can be asked at compile time, and what a condition binds is bound on one way only.
    pub is_switchable: bool,
}

/// A kind, and the line and column where `cargo mutants` sees it.
type Key = (Genre, usize, usize);

fn key_of(mutant: &Listed) -> Key {
    (mutant.genre, mutant.span.start.line, mutant.span.start.column)
}

/// The places of a file.
#[derive(Default)]
pub struct Places {
    all: BTreeMap<Key, Place>,
    /// How many constants the visitor is in.
    constants: usize,
}

impl Places {
    /// Finds all places of a file.
    pub fn of(text: &str) -> syn::Result<Self> {
        let mut places = Self::default();
        places.visit_file(&syn::parse_file(text)?);
        Ok(places)
    }

    /// Returns the place of a mutant.
    pub fn find(&self, mutant: &Listed) -> Option<&Place> {
        self.all.get(&key_of(mutant))
    }

    fn note(&mut self, genre: Genre, operator: proc_macro2::Span, whole: &Expr) {
        let LineColumn { line, column } = operator.start();
        let is_switchable = self.constants == 0 && !binds(whole);
        let place = Place { whole: whole.span().byte_range(), operator: operator.byte_range(), is_switchable };
        self.all.insert((genre, line, column + 1), place);
    }

    fn within(&mut self, is_constant: bool, visit: impl FnOnce(&mut Self)) {
        self.constants += usize::from(is_constant);
        visit(self);
        self.constants -= usize::from(is_constant);
    }
}

/// Tells whether a condition has a `let` among what it joins.
fn binds(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(joined) => binds(&joined.left) || binds(&joined.right),
        _ => false,
    }
}

impl Visit<'_> for Places {
    fn visit_expr(&mut self, whole: &Expr) {
        match whole {
            Expr::Binary(ExprBinary { op, .. }) => self.note(Genre::BinaryOperator, op.span(), whole),
            Expr::Unary(ExprUnary { op: op @ UnOp::Not(_), .. }) => self.note(Genre::UnaryOperator, op.span(), whole),
            _ => {}
        }
        visit::visit_expr(self, whole);
    }

    fn visit_arm(&mut self, arm: &Arm) {
        if let Some((_, guard)) = &arm.guard {
            self.note(Genre::MatchArmGuard, guard.span(), guard);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_item_const(&mut self, item: &ItemConst) {
        self.within(true, |places| visit::visit_item_const(places, item));
    }

    fn visit_item_static(&mut self, item: &ItemStatic) {
        self.within(true, |places| visit::visit_item_static(places, item));
    }

    fn visit_impl_item_const(&mut self, item: &ImplItemConst) {
        self.within(true, |places| visit::visit_impl_item_const(places, item));
    }

    fn visit_item_fn(&mut self, item: &ItemFn) {
        self.within(item.sig.constness.is_some(), |places| visit::visit_item_fn(places, item));
    }

    fn visit_impl_item_fn(&mut self, item: &ImplItemFn) {
        self.within(item.sig.constness.is_some(), |places| visit::visit_impl_item_fn(places, item));
    }
}

/// What is put before an expression, in the place of its operator, and behind it.
type Texts = (String, Option<String>, String);

/// Returns what switches between an expression and its mutants, each a question and a replacement.
fn texts(genre: Genre, operator: &str, mutants: &[(String, &str)]) -> Texts {
    let asked = &mutants[0].0;
    match (genre, operator) {
        (Genre::MatchArmGuard, _) => {
            let before = mutants.iter().fold(String::new(), |before, (asked, forced)| {
                before + &if *forced == "true" { format!("({asked} || (") } else { format!("(!{asked} && (") }
            });
            (before, None, "))".repeat(mutants.len()))
        }
        (Genre::UnaryOperator, _) => (format!("({asked} ^ "), None, ")".to_owned()),
        (_, "&&") => ("(if (".to_owned(), Some(format!(") == {asked} {{ {asked} }} else {{ (")), ") })".to_owned()),
        (_, "||") => ("(if (".to_owned(), Some(format!(") != {asked} {{ !{asked} }} else {{ (")), ") })".to_owned()),
        // Each operand is evaluated once.
        _ => {
            let ways = mutants
                .iter()
                .fold(String::new(), |ways, (asked, other)| ways + &format!("if {asked} {{ l {other} r }} else "));
            let behind = format!(")) {{ (l, r) => {ways}{{ l {operator} r }} }})");
            ("(match (&(".to_owned(), Some("), &(".to_owned()), behind)
        }
    }
}

/// Returns the text of a file with these mutants, each with its number, behind a switch: the function of that name.
pub fn switched<'a>(
    text: &str,
    places: &Places,
    switch: &str,
    mutants: impl Iterator<Item = (usize, &'a Listed)>,
) -> String {
    let mut by_place: BTreeMap<Key, Vec<(usize, &Listed)>> = BTreeMap::new();
    for (number, mutant) in mutants {
        by_place.entry(key_of(mutant)).or_default().push((number, mutant));
    }
    // What ends at a byte comes before what begins there; what is within another begins later and ends earlier.
    let mut edits: Vec<(Range<usize>, (u8, isize), String)> = Vec::new();
    for (key, mutants) in &by_place {
        let Place { whole, operator, .. } = &places.all[key];
        let asked: Vec<(String, &str)> = mutants
            .iter()
            .map(|(number, mutant)| (format!("{switch}({number})"), mutant.replacement.as_str()))
            .collect();
        let (before, in_place, behind) = texts(key.0, &text[operator.clone()], &asked);
        let size =
            isize::try_from(whole.len() * 2).unwrap_or(isize::MAX - 1) + isize::from(key.0 == Genre::MatchArmGuard);
        edits.push((whole.start..whole.start, (2, -size), before));
        edits.extend(in_place.map(|in_place| (operator.clone(), (1, 0), in_place)));
        edits.push((whole.end..whole.end, (0, size), behind));
    }
    edits.sort_by_key(|(at, rank, _)| (at.start, *rank));
    let (mut changed, mut done) = (String::with_capacity(text.len() * 2), 0);
    for (at, _, put) in &edits {
        changed.push_str(&text[done..at.start]);
        changed.push_str(put);
        done = at.end;
    }
    changed.push_str(&text[done..]);
    changed
}
