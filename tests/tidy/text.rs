//! Rust files as text: without comments, strings and test modules, so that the rules can look for words.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{fs, iter};

use testservers::repository;

/// A Rust file.
pub struct File {
    /// Its path below the repository, with slashes.
    pub path: String,
    /// The text as it stands.
    pub text: String,
    /// The text with comments and the inside of strings blanked; each byte stays where it was.
    pub code: String,
    /// The same, with what is compiled for tests only blanked too.
    pub shipped: String,
    /// The text with comments blanked, strings kept.
    pub uncommented: String,
}

/// A path as Rust writes it, such as `crate::model::id::Digest`, and the line it stands on.
pub struct Named {
    /// Line, from 1.
    pub line: usize,
    /// The segments; `crate`, `self` and `super` are resolved to `crate`.
    pub segments: Vec<String>,
    /// What the file calls it, if a `use` brings it in.
    pub import: Option<String>,
}

/// A function of a file.
pub struct Function {
    /// Its name.
    pub name: String,
    /// The bytes from its signature to its closing brace.
    pub place: Range<usize>,
    /// Lines from its signature to its closing brace.
    pub lines: usize,
}

/// A struct with named fields.
pub struct Struct {
    /// Its name.
    pub name: String,
    /// The byte where it begins.
    pub start: usize,
    /// The names of its fields.
    pub fields: Vec<String>,
}

pub fn root() -> &'static Path {
    repository()
}

/// Reads every Rust file below a folder, in order. What only tests compile has an empty `shipped`.
pub fn files(folder: &str) -> Vec<File> {
    let mut paths = Vec::new();
    collect(&root().join(folder), &mut paths);
    paths.sort();
    let mut files: Vec<File> = paths.iter().map(|path| File::read(path)).collect();
    let test_only: BTreeSet<String> = files.iter().flat_map(File::test_modules).collect();
    for file in &mut files {
        if test_only.iter().any(|stem| file.path == format!("{stem}.rs") || file.path.starts_with(&format!("{stem}/")))
        {
            file.shipped.clear();
        }
    }
    assert!(!files.is_empty(), "no Rust file in {folder}");
    files
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

impl File {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        Self::new(path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/"), text)
    }

    /// Returns a file that stands at a path below the repository.
    pub fn new(path: String, text: String) -> Self {
        let (code, uncommented) = blanked(&text);
        let shipped = without_tests(&code);
        Self { path, text, code, shipped, uncommented }
    }

    /// Returns where the modules of `#[cfg(test)] mod name;` are, without `.rs`.
    fn test_modules(&self) -> Vec<String> {
        let found = test_items(&self.code).into_iter().filter_map(|(start, end)| {
            let name = self.code[start..end].strip_suffix(';')?.rsplit_once("mod ")?.1.trim();
            Some(format!("{}/{name}", self.children()))
        });
        found.collect()
    }

    /// Returns the folder that holds the modules this file declares.
    pub fn children(&self) -> &str {
        let own = self.path.trim_end_matches(".rs");
        let is_door = own.ends_with("/mod") || own.ends_with("/lib") || own.ends_with("/main");
        if is_door { own.rsplit_once('/').expect("a door stands in a folder").0 } else { own }
    }

    /// Returns the line of a byte, from 1.
    pub fn line(&self, at: usize) -> usize {
        self.text[..at].matches('\n').count() + 1
    }

    /// Returns every path that the shipped code names.
    pub fn named(&self) -> Vec<Named> {
        let mut found = Vec::new();
        let (mut at, mut line, mut counted) = (0, 1, 0);
        let code = &self.shipped;
        while let Some(start) = code[at..].find(is_ident).map(|offset| at + offset) {
            let word = ident(&code[start..]);
            at = start + word.len();
            line += code[counted..start].bytes().filter(|byte| *byte == b'\n').count();
            counted = start;
            if word == "use" {
                let end = code[at..].find(';').map_or(code.len(), |offset| at + offset);
                let mut imports = Vec::new();
                expand(&code[at..end].replace(char::is_whitespace, " "), "", &mut imports);
                let named =
                    |(path, name): (String, _)| Named { line, segments: self.resolved(&path), import: Some(name) };
                found.extend(imports.into_iter().map(named));
                at = end;
            } else {
                let mut path = word.to_owned();
                while let Some(rest) = code[at..].strip_prefix("::").filter(|rest| rest.starts_with(is_ident)) {
                    let next = ident(rest);
                    path = format!("{path}::{next}");
                    at += 2 + next.len();
                }
                found.push(Named { line, segments: self.resolved(&path), import: None });
            }
        }
        found
    }

    fn resolved(&self, path: &str) -> Vec<String> {
        // Of src/CRATE/..., what follows the crate.
        let mut module: Vec<&str> = self.children().split('/').skip(2).collect();
        let mut segments: Vec<&str> = path.split("::").collect();
        let is_relative = matches!(segments[0], "self" | "super");
        while matches!(segments.first(), Some(&("self" | "super"))) {
            if segments.remove(0) == "super" {
                module.pop();
            }
        }
        let start = if is_relative { iter::once("crate").chain(module).collect() } else { Vec::new() };
        start.into_iter().chain(segments).map(str::to_owned).collect()
    }

    /// Returns the functions of the shipped code.
    pub fn functions(&self) -> Vec<Function> {
        let code = &self.shipped;
        let mut found = Vec::new();
        for (start, _) in code.match_indices("fn ") {
            let rest = &code[start + 3..];
            if code[..start].ends_with(is_ident) || !rest.starts_with(is_ident) {
                continue;
            }
            let end = start + item_end(&code[start..]);
            let lines = code[start..end].matches('\n').count() + 1;
            found.push(Function { name: ident(rest).to_owned(), place: start..end, lines });
        }
        found
    }

    /// Returns the structs of the shipped code that have named fields, read as rustfmt writes them.
    pub fn structs(&self) -> Vec<Struct> {
        let code = &self.shipped;
        let mut found = Vec::new();
        for (start, _) in code.match_indices("struct ") {
            let item = &code[start..start + item_end(&code[start..])];
            let Some((head, body)) = item.split_once('{') else { continue };
            let before = self.line_before(start);
            let indent = before.len() - before.trim_start().len() + 4;
            let lines = body.lines().filter_map(|line| line.get(indent..)?.split_once(':'));
            // What else is indented by one step, attributes and closing brackets, does not begin with a name.
            let fields = lines.map(|(field, _)| field).filter(|field| field.starts_with(is_ident));
            let fields = fields.filter_map(|field| field.rsplit(' ').next()).map(str::to_owned).collect();
            found.push(Struct { name: ident(&head["struct ".len()..]).to_owned(), start, fields });
        }
        found
    }

    /// Returns the types that the file has methods of, other than those of traits.
    pub fn implemented(&self) -> BTreeSet<String> {
        let heads = self.shipped.split("\nimpl").skip(1).filter_map(|rest| rest.split('{').next());
        heads.filter_map(implemented).collect()
    }

    /// Tells whether the file defines a type.
    pub fn defines(&self, name: &str) -> bool {
        ["struct", "enum", "union"].iter().any(|kind| {
            let definition = format!("{kind} {name}");
            let mut found = self.shipped.match_indices(&definition);
            found.any(|(at, _)| ident(&self.shipped[at + kind.len() + 1..]) == name)
        })
    }

    /// Returns what the shipped code has before a byte on its line.
    pub fn line_before(&self, at: usize) -> &str {
        let start = self.shipped[..at].rfind('\n').map_or(0, |end| end + 1);
        &self.shipped[start..at]
    }

    /// Returns the comments and attributes above the item that has a byte in its first line, from the last line upwards.
    pub fn above(&self, at: usize) -> impl Iterator<Item = &str> {
        let end = self.text[..at].rfind('\n').unwrap_or(0);
        let lines = self.text[..end].lines().rev().zip(self.code[..end].lines().rev());
        let own = lines.take_while(|(text, code)| !text.is_empty() && !code.ends_with(['{', '}', ';']));
        own.map(|(text, _)| text.trim())
    }
}

fn is_ident(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn ident(text: &str) -> &str {
    &text[..text.find(|c| !is_ident(c)).unwrap_or(text.len())]
}

/// Writes out the paths of a `use` tree, with their names: `a::{b, c::d as e}` is `a::b`, called `b`, and `a::c::d`, called `e`.
fn expand(tree: &str, prefix: &str, found: &mut Vec<(String, String)>) {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        let (path, alias) = tree.split_once(" as ").map_or((tree, None), |(path, alias)| (path, Some(alias.trim())));
        let path = format!("{prefix}{}", path.trim());
        let path = path.strip_suffix("::self").unwrap_or(&path);
        let name = alias.unwrap_or_else(|| path.rsplit("::").next().unwrap_or_default());
        found.push((path.to_owned(), name.to_owned()));
        return;
    };
    let prefix = format!("{prefix}{}", head.replace(' ', ""));
    let body = rest.trim_end().strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut start) = (0, 0);
    for (at, c) in body.char_indices().chain([(body.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !body[start..at].trim().is_empty() {
                    expand(&body[start..at], &prefix, found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// Returns the type whose methods a block has, from what is between `impl` and the brace; `None` where they are a trait's.
fn implemented(head: &str) -> Option<String> {
    // An arrow closes no bracket.
    let head = head.split("\nwhere").next()?.replace("->", "");
    let mut depth = 0;
    let end = head.find(|c| {
        depth += i32::from(c == '<') - i32::from(c == '>');
        depth == 0
    });
    let item = &head[end? + 1..];
    let path = item.split('<').next()?.trim();
    (!item.contains(" for ")).then(|| path.rsplit("::").next().unwrap_or(path).to_owned())
}

/// Returns how far an item reaches: to its `;`, or over its braces.
pub fn item_end(code: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => {
                depth = depth.saturating_sub(1);
                if c == '}' && depth == 0 {
                    return at + 1;
                }
            }
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// Returns the items behind `#[cfg(test)]`, with their attributes.
fn test_items(code: &str) -> Vec<(usize, usize)> {
    let starts = code.match_indices("#[cfg(test)]").map(|(start, found)| (start, start + found.len()));
    starts
        .map(|(start, mut at)| {
            while code[at..].trim_start().starts_with("#[") {
                at += code[at..].find('#').expect("an attribute follows");
                let mut depth = 0;
                at += 1 + code[at..]
                    .find(|c| {
                        depth += i32::from(c == '[') - i32::from(c == ']');
                        c == ']' && depth == 0
                    })
                    .expect("an attribute ends");
            }
            (start, at + item_end(&code[at..]))
        })
        .collect()
}

fn without_tests(code: &str) -> String {
    let mut out = code.as_bytes().to_vec();
    for (start, end) in test_items(code) {
        blank(&mut out[start..end]);
    }
    String::from_utf8(out).expect("blanks are ASCII and whole items are blanked")
}

fn blank(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().filter(|byte| **byte != b'\n') {
        *byte = b' ';
    }
}

/// Returns the text with comments and strings blanked, and with comments alone blanked.
fn blanked(text: &str) -> (String, String) {
    let (mut code, mut uncommented) = (text.as_bytes().to_vec(), text.as_bytes().to_vec());
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let length = if rest.starts_with("//") {
            let length = rest.find('\n').unwrap_or(rest.len());
            blank(&mut uncommented[at..at + length]);
            blank(&mut code[at..at + length]);
            length
        } else if rest.starts_with("/*") {
            let length = rest.find("*/").map_or(rest.len(), |end| end + 2);
            blank(&mut uncommented[at..at + length]);
            blank(&mut code[at..at + length]);
            length
        } else if let Some(length) = string(rest) {
            blank(&mut code[at + 1..at + length - 1]);
            length
        } else {
            rest.chars().next().map_or(1, char::len_utf8)
        };
        at += length;
    }
    let whole = |bytes| String::from_utf8(bytes).expect("blanks are ASCII and whole characters are blanked");
    (whole(code), whole(uncommented))
}

/// Returns the length of the string or character that a text starts with.
fn string(text: &str) -> Option<usize> {
    if let Some(rest) = text.strip_prefix('r') {
        let hashes = rest.len() - rest.trim_start_matches('#').len();
        if rest[hashes..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let body = 1 + hashes + 1;
            return Some(text[body..].find(&close).map_or(text.len(), |end| body + end + close.len()));
        }
    }
    match text.as_bytes()[0] {
        b'"' => Some(1 + escaped(&text[1..], '"')),
        // A lifetime has no closing quote after its first character.
        b'\'' if text[1..].starts_with('\\') => Some(1 + escaped(&text[1..], '\'')),
        b'\'' => {
            let length = text[1..].chars().next()?.len_utf8();
            text[1 + length..].starts_with('\'').then_some(length + 2)
        }
        _ => None,
    }
}

/// Returns the length up to and with the closing quote that no backslash stands before.
fn escaped(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        if c == quote && !is_escaped {
            return at + 1;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    text.len()
}

#[test]
fn text_is_read_as_rust_reads_it() {
    let text = "use a::{b, c::{self, d as e}}; // use x\nlet s = \"std::fs \\\" y\"; let c = '\"'; fn f<'a>() { g::h() }\n\
                let r = br#\"tokio\"#;\n#[cfg(test)]\n#[allow(x)]\nmod t { use z; }\nsuper::k::l();";
    let file = File::new("src/c/m/n.rs".to_owned(), text.to_owned());
    let uncommented = &file.uncommented;
    assert!(uncommented.contains("std::fs") && !uncommented.contains("use x"), "{uncommented}");
    let named: Vec<String> =
        file.named().into_iter().map(|named| named.segments.join("::")).filter(|path| path.contains("::")).collect();
    assert_eq!(named, ["a::b", "a::c", "a::c::d", "g::h", "crate::m::k::l"]);
    assert_eq!(file.named().last().map(|named| named.line), Some(7));
    let imported: Vec<String> = file.named().into_iter().filter_map(|found| found.import).collect();
    assert_eq!(imported, ["b", "c", "e"]);
    assert_eq!(file.functions().iter().map(|f| (f.name.as_str(), f.lines)).collect::<Vec<_>>(), [("f", 1)]);
}

#[test]
fn items_are_read() {
    let text = "struct A;\n\n/// B.\n// Why.\n#[derive(\n    D,\n)]\npub(crate) struct B<T> {\n    /// C: c.\n    #[serde(with = \"a::b\")]\n    \
                pub c: Vec<(T, T)>,\n    d: D<\n        E,\n    >,\n}\n\nimpl<F: Fn(A) -> B> super::B<F>\nwhere\n    F: for<'a> G<'a>,\n{\n}\n\
                impl Clone for A {}\nimpl<'a> X<'a> for B {}\n";
    let file = File::new("src/c/m.rs".to_owned(), text.to_owned());
    let structs = file.structs();
    assert_eq!(structs.iter().map(|item| item.name.as_str()).collect::<Vec<_>>(), ["B"]);
    assert_eq!(structs[0].fields, ["c", "d"]);
    assert_eq!(file.above(structs[0].start).collect::<Vec<_>>(), [")]", "D,", "#[derive(", "// Why.", "/// B."]);
    assert_eq!(file.implemented(), BTreeSet::from(["B".to_owned()]));
    assert!(file.defines("A") && file.defines("B") && !file.defines("Clone"));
}
