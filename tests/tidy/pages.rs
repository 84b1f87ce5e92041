//! Pages for people: every link leads somewhere, and the table of contents of the site has every page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::none;
use super::text::root;

/// The table of contents of the site.
const CONTENTS: &str = "docs/SUMMARY.md";
/// Where the part about design notes begins, which is made from their files.
const DESIGN: &str = "- [Design notes]()\n";
/// Pages outside `docs` with links to check.
const OTHERS: [&str; 6] = [
    "README.md",
    "examples-repo/README.md",
    "examples-repo/teams/README.md",
    "tests/testservers/fleet/README.md",
    "tests/testservers/apiserver/README.md",
    ".github/pull_request_template.md",
];

/// What is read of a page.
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn read(text: &str) -> Self {
        let mut page = Self { links: Vec::new(), anchors: BTreeSet::new() };
        let (mut heading, mut counts) = (None::<String>, BTreeMap::<String, usize>::new());
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.to_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::Text(text) | Event::Code(text) => heading.iter_mut().for_each(|title| title.push_str(&text)),
                Event::End(TagEnd::Heading(_)) => {
                    let anchor = anchor(&heading.take().unwrap_or_default());
                    let before = counts.entry(anchor.clone()).or_default();
                    page.anchors.insert(if *before == 0 { anchor } else { format!("{anchor}-{before}") });
                    *before += 1;
                }
                _ => {}
            }
        }
        page
    }
}

/// Returns what a git host makes of a heading.
fn anchor(title: &str) -> String {
    let kept = title.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns a path without `.` and `..`, below the repository.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// Returns the pages below `docs`, in order of their paths.
fn documentation() -> Vec<String> {
    let mut pages = Vec::new();
    for folder in ["docs", "docs/design", "docs/reference"] {
        let names = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.to_string_lossy().into_owned());
        let is_page = |name: &String| Path::new(name).extension().is_some_and(|extension| extension == "md");
        pages.extend(names.filter(is_page).map(|name| format!("{folder}/{name}")));
    }
    pages.sort();
    pages
}

#[test]
fn every_link_leads_somewhere() {
    let paths = documentation().into_iter().chain(OTHERS.map(str::to_owned));
    let pages: BTreeMap<String, Page> = paths
        .map(|path| {
            let text = fs::read_to_string(root().join(&path)).unwrap();
            (path, Page::read(&text))
        })
        .collect();
    let mut complaints = Vec::new();
    for (path, page) in &pages {
        for link in page.links.iter().filter(|link| !link.is_empty() && !link.contains("://")) {
            let (file, anchor) = link.split_once('#').map_or((link.as_str(), None), |(file, at)| (file, Some(at)));
            let folder = Path::new(path).parent().unwrap();
            let target = if file.is_empty() { PathBuf::from(path) } else { plain(&folder.join(file)) };
            let name = target.to_string_lossy().into_owned();
            if !root().join(&target).exists() {
                complaints.push(format!("{path}: {link}: there is no {name}"));
            } else if let (Some(anchor), Some(page)) = (anchor, pages.get(&name))
                && !page.anchors.contains(anchor)
            {
                complaints.push(format!("{path}: {link}: {name} has no heading of that name"));
            }
        }
    }
    none(&complaints, "Correct the links.");
}

#[test]
fn the_table_of_contents_has_every_page() {
    let path = root().join(CONTENTS);
    let mut text = fs::read_to_string(&path).unwrap();
    let pages = documentation();
    let design = pages.iter().filter_map(|page| Some((page, page.strip_prefix("docs/design/")?)));
    let design = design.map(|(page, name)| {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let title = text.lines().next().unwrap_or_default().trim_start_matches("# ");
        format!("    - [{}](design/{name})\n", title.replace(['[', ']'], ""))
    });
    let design = format!("{DESIGN}{}", design.collect::<String>());
    let (head, _) = text.split_once(DESIGN).unwrap_or_else(|| panic!("{CONTENTS} has no line {DESIGN:?}"));
    let fresh = format!("{head}{design}");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &fresh).unwrap();
        text.clone_from(&fresh);
    }
    assert!(text == fresh, "{CONTENTS} is stale: run `UPDATE=1 cargo test --test tidy` and commit it");
    let listed: BTreeSet<String> = Page::read(&text).links.into_iter().map(|link| format!("docs/{link}")).collect();
    let missing = pages.into_iter().filter(|page| page != CONTENTS && !listed.contains(page));
    none(&missing.collect::<Vec<_>>(), &format!("Add these pages to {CONTENTS}."));
}

#[test]
fn anchors_are_those_of_git_hosts() {
    for (title, expected) in [
        ("What `check` prints", "what-check-prints"),
        ("Backups, and a lost store", "backups-and-a-lost-store"),
        ("1. Start", "1-start"),
    ] {
        assert_eq!(Page::read(&format!("## {title}\n")).anchors, BTreeSet::from([expected.to_owned()]));
    }
    let twice = Page::read("# A\n# A\n[b](c.md#d)\n```\n[no](link)\n```\n");
    assert_eq!(twice.anchors, BTreeSet::from(["a".to_owned(), "a-1".to_owned()]));
    assert_eq!(twice.links, ["c.md#d"]);
}
