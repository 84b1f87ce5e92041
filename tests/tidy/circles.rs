//! Circles of files: in a crate, no file that another one needs needs that one in turn, over others either.
//!
//! A file needs another if a path of it, `use` or not, leads to an item there. A module that is declared, or imported as a whole, is none.
//! What a file imports is the item of the file that defines it, so who asks a parent for what it re-exports does not need the parent.
//! Tests may name anything.

use std::collections::{BTreeMap, BTreeSet};

use super::text::{File, Named};
use super::{none, sources};

/// The circles that are still there, each a line as `found` makes it. End them; nothing is added there.
const CIRCLES: &str = include_str!("circles.txt");

/// How many imports of imports a name may pass.
const IMPORTS_MAX: usize = 8;
/// The words before the name of an item.
const KINDS: [&str; 9] = ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "macro_rules"];

/// A file as a module of its crate.
struct Module<'a> {
    path: &'a str,
    /// The names of the modules that lead to it.
    place: Vec<String>,
    /// The paths that it names, single names only where a `use` brings them in.
    named: Vec<Named>,
    /// Its imports by their names.
    imports: BTreeMap<String, Vec<String>>,
    /// The modules all of whose items it imports.
    globs: Vec<Vec<String>>,
    /// The names of its own items, except what macros make.
    items: BTreeSet<&'a str>,
}

impl<'a> Module<'a> {
    fn new(file: &'a File) -> Self {
        let place = file.children().split('/').skip(2).map(str::to_owned).collect();
        let words = file.shipped.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        let next = words.clone().skip(1);
        let items = words.zip(next).filter(|(kind, _)| KINDS.contains(kind)).map(|(_, name)| name).collect();
        let mut named = file.named();
        named.retain(|named| named.import.is_some() || named.segments.len() > 1);
        let (mut imports, mut globs) = (BTreeMap::new(), Vec::new());
        for Named { import, segments, .. } in &named {
            match import.as_deref() {
                Some("*") => globs.push(segments[..segments.len() - 1].to_vec()),
                Some(name) => drop(imports.entry(name.to_owned()).or_insert_with(|| segments.clone())),
                None => {}
            }
        }
        Self { path: &file.path, place, named, imports, globs, items }
    }
}

/// Where a path leads.
#[derive(Clone, Copy)]
enum Target {
    Module(usize),
    /// An item of a module.
    Item(usize),
    /// Another crate, or the same file.
    Elsewhere,
}

/// The files of one crate that are shipped.
struct Crate<'a> {
    modules: Vec<Module<'a>>,
    by_place: BTreeMap<Vec<String>, usize>,
}

impl<'a> Crate<'a> {
    fn new(files: &[&'a File]) -> Self {
        let modules: Vec<Module> = files.iter().map(|file| Module::new(file)).collect();
        // Of lib.rs and main.rs, the first is meant.
        let by_place = modules.iter().enumerate().rev().map(|(at, module)| (module.place.clone(), at)).collect();
        Self { modules, by_place }
    }

    fn child(&self, module: usize, name: &str) -> Option<usize> {
        let mut place = self.modules[module].place.clone();
        place.push(name.to_owned());
        self.by_place.get(&place).copied()
    }

    /// Returns the module that `use a::*` takes a name from.
    fn glob(&self, module: usize, name: &str, depth: usize) -> Option<usize> {
        self.modules[module].globs.iter().find_map(|place| {
            let Target::Module(from) = self.resolve(module, place, depth + 1) else { return None };
            let has = self.modules[from].items.contains(name) || self.modules[from].imports.contains_key(name);
            has.then_some(from)
        })
    }

    /// Follows a path as a file writes it.
    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Target {
        let Some((first, rest)) = path.split_first().filter(|_| depth <= IMPORTS_MAX) else { return Target::Elsewhere };
        if first == "crate" {
            return self.walk(self.by_place[&Vec::new()], rest, depth);
        }
        let is_known = self.modules[from].imports.contains_key(first)
            || self.child(from, first).is_some()
            || self.glob(from, first, depth).is_some();
        if is_known { self.walk(from, path, depth) } else { Target::Elsewhere }
    }

    /// Follows a path from a module on.
    fn walk(&self, module: usize, path: &[String], depth: usize) -> Target {
        let Some((name, rest)) = path.split_first() else { return Target::Module(module) };
        if let Some(child) = self.child(module, name) {
            return self.walk(child, rest, depth);
        }
        if name == "*" || self.modules[module].items.contains(name.as_str()) {
            return Target::Item(module);
        }
        if let Some(import) = self.modules[module].imports.get(name) {
            return match self.resolve(module, import, depth + 1) {
                Target::Module(to) => self.walk(to, rest, depth + 1),
                found => found,
            };
        }
        Target::Item(self.glob(module, name, depth).unwrap_or(module))
    }

    /// Returns which files each file needs, and one place where it says so.
    fn arrows(&self) -> Vec<BTreeMap<usize, String>> {
        let of_module = |(from, module): (usize, &Module)| {
            let mut arrows = BTreeMap::new();
            for named in &module.named {
                if let Target::Item(to) = self.resolve(from, &named.segments, 0)
                    && to != from
                {
                    let place = format!("{}:{}: {}", module.path, named.line, named.segments.join("::"));
                    arrows.entry(to).or_insert(place);
                }
            }
            arrows
        };
        self.modules.iter().enumerate().map(of_module).collect()
    }
}

/// Returns the files of each circle, in order: those that reach each other.
fn circles(arrows: &[BTreeMap<usize, String>]) -> BTreeSet<Vec<usize>> {
    let reached: Vec<BTreeSet<usize>> = (0..arrows.len())
        .map(|start| {
            let (mut reached, mut next) = (BTreeSet::new(), vec![start]);
            while let Some(at) = next.pop() {
                next.extend(arrows[at].keys().filter(|to| reached.insert(**to)));
            }
            reached
        })
        .collect();
    let on_circles = (0..arrows.len()).filter(|at| reached[*at].contains(at));
    on_circles.map(|at| reached[at].iter().copied().filter(|to| reached[*to].contains(&at)).collect()).collect()
}

/// Returns the circles of all crates, such as `model: id.rs kinds.rs`, with the places that make each.
fn found(sources: &[File]) -> BTreeMap<String, Vec<String>> {
    let mut crates: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in sources.iter().filter(|file| !file.shipped.is_empty()) {
        crates.entry(file.path.split('/').nth(1).unwrap()).or_default().push(file);
    }
    let mut found = BTreeMap::new();
    for (name, files) in crates {
        let arrows = Crate::new(&files).arrows();
        for circle in circles(&arrows) {
            let paths: Vec<&str> = circle.iter().map(|at| &files[*at].path["src//".len() + name.len()..]).collect();
            let inside = circle.iter().flat_map(|from| arrows[*from].iter().filter(|(to, _)| circle.contains(to)));
            let places = inside.map(|(to, place)| format!("    {place} is in {}", files[*to].path)).collect();
            found.insert(format!("{name}: {}", paths.join(" ")), places);
        }
    }
    found
}

/// Returns how many files stand on circles.
pub fn files_on_circles() -> usize {
    found(sources()).keys().map(|circle| circle.split(' ').skip(1).count()).sum()
}

/// Tells whether all files of a circle are on another of the same crate.
fn is_part(part: &str, whole: &str) -> bool {
    part.split(' ').all(|word| whole.split(' ').any(|other| other == word))
}

#[test]
fn no_files_need_each_other() {
    let found = found(sources());
    let listed: BTreeSet<&str> = CIRCLES.lines().collect();
    let mut complaints = Vec::new();
    for (circle, places) in found.iter().filter(|(circle, _)| !listed.contains(circle.as_str())) {
        if listed.iter().any(|listed| is_part(circle, listed)) {
            complaints.push(format!("a circle is smaller, write this for it: {circle}"));
        } else {
            complaints.push(format!("a new circle: {circle}"));
            complaints.extend(places.clone());
        }
    }
    let gone = listed.iter().filter(|listed| !found.keys().any(|circle| is_part(circle, listed)));
    complaints.extend(gone.map(|circle| format!("a circle is gone, remove it from the list: {circle}")));
    none(
        &complaints,
        "Move what two files need of each other into one that needs neither; tests/tidy/circles.txt only becomes shorter.",
    );
}

#[test]
fn circles_are_found() {
    for (case, lib, a, b, expected) in [
        ("a parent that declares only", "mod a; struct X;", "use super::X;", "", ""),
        ("a parent that names an item", "mod a; struct X; fn f() { a::g() }", "use super::X;", "", "c: lib.rs a.rs"),
        ("three in a row", "struct X; fn f() { a::g() }", "use super::b::f;", "use super::X;", "c: lib.rs a.rs b.rs"),
        ("a re-export", "pub use a::{X as Y};", "struct X; fn f() { super::b::f() }", "use crate::Y;", "c: a.rs b.rs"),
        ("a re-export of all", "pub use a::*;", "struct X; use super::b::f;", "use super::X;", "c: a.rs b.rs"),
        ("a module by its name", "", "use crate::b; fn f() { b::g() }", "use super::a::f;", "c: a.rs b.rs"),
        ("a module alone", "", "use crate::b;", "use super::a::f;", ""),
        ("another crate's item from the parent", "use d::X; use a::Y;", "use super::X;", "", ""),
        ("what only tests name", "use a::X; fn f() {}", "#[cfg(test)] mod tests { use crate::f; }", "", ""),
    ] {
        let files = [("lib", lib), ("a", a), ("b", b)];
        let files = files.map(|(name, text)| File::new(format!("src/c/{name}.rs"), format!("{text}\n")));
        let circles: Vec<String> = found(&files).into_keys().collect();
        assert_eq!(circles.join(", "), expected, "{case}");
    }
}
