//! Draws mutants by lot and writes all of them into one copy of the tree, each behind a switch, so that one build tries them all:
//! `tests/mutants.sh`.
//!
//! `mutants TREE LIST COUNT LOT` reads what `cargo mutants --list --json` names, changes the files below `TREE` and prints a line for each
//! mutant: its number, where it is, the function and the change.

#![allow(unreachable_pub, reason = "nothing is outside of a program")]

mod draw;
mod switch;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{env, fs};

use anyhow::{Context as _, Result};

use draw::Listed;
use switch::{Places, switched};

/// Where the switch is: every crate that decides names this one.
const SWITCH_FILE: &str = "src/model/lib.rs";
const SWITCH: &str = r#"
/// Tells whether this mutant is the one that is tried.
pub fn mutant(number: usize) -> bool {
    static TRIED: std::sync::OnceLock<Option<usize>> = std::sync::OnceLock::new();
    *TRIED.get_or_init(|| std::env::var("GITFLEET_MUTANT").ok()?.parse().ok()) == Some(number)
}
"#;

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [tree, list, count, lot] = arguments.as_slice() else { anyhow::bail!("usage: mutants TREE LIST COUNT LOT") };
    let (tree, count, lot) = (Path::new(tree), count.parse::<usize>()?, lot.parse()?);
    let text = fs::read_to_string(list).with_context(|| format!("reading the list {list}"))?;
    let all = draw::candidates(serde_json::from_str(&text).with_context(|| format!("reading the list {list}"))?);
    let in_all = all.len();
    let mut files: BTreeMap<String, (String, Places)> = BTreeMap::new();
    let (mut drawn, mut skipped): (Vec<Listed>, Vec<Listed>) = (Vec::new(), Vec::new());
    for mutant in draw::by_lot(all, lot) {
        if drawn.len() == count {
            break;
        }
        if !files.contains_key(&mutant.file) {
            let text =
                fs::read_to_string(tree.join(&mutant.file)).with_context(|| format!("reading {}", mutant.file))?;
            let places = Places::of(&text).with_context(|| format!("parsing {}", mutant.file))?;
            files.insert(mutant.file.clone(), (text, places));
        }
        let is_switchable = files[&mutant.file].1.find(&mutant).is_some_and(|place| place.is_switchable);
        if is_switchable { &mut drawn } else { &mut skipped }.push(mutant);
    }
    let changed: BTreeSet<&str> = drawn.iter().map(|mutant| mutant.file.as_str()).collect();
    for file in changed {
        let (text, places) = &files[file];
        let of_file = drawn.iter().enumerate().filter(|(_, mutant)| mutant.file == file);
        let switch = if file.starts_with("src/model/") { "crate::mutant" } else { "::model::mutant" };
        let text = switched(text, places, switch, of_file.map(|(index, mutant)| (index + 1, mutant)));
        fs::write(tree.join(file), text).with_context(|| format!("writing {file}"))?;
    }
    let model = tree.join(SWITCH_FILE);
    let text = fs::read_to_string(&model).with_context(|| format!("reading {SWITCH_FILE}"))?;
    fs::write(&model, text + SWITCH).with_context(|| format!("writing {SWITCH_FILE}"))?;
    for (index, mutant) in drawn.iter().enumerate() {
        println!("{}\t{}", index + 1, mutant.shown());
    }
    for mutant in &skipped {
        eprintln!("cannot be switched, another was drawn: {}", mutant.shown().replace('\t', " "));
    }
    eprintln!("{} of {in_all} mutants are drawn by lot {lot}", drawn.len());
    Ok(())
}
