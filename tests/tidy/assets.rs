//! The files that the live page loads: the vendored one is what its note says, and all are small.

use std::fs;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use super::text::root;

/// Where they are.
const FOLDER: &str = "src/views/page/assets";
/// Bytes that all scripts of a page take, compressed.
const SCRIPT_BYTES_MAX: usize = 15 * 1024;
/// Bytes of the style sheet, compressed.
const STYLE_BYTES_MAX: usize = 10 * 1024;

fn read(name: &str) -> Vec<u8> {
    fs::read(root().join(FOLDER).join(name)).unwrap()
}

fn compressed(name: &str) -> usize {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&read(name)).unwrap();
    encoder.finish().unwrap().len()
}

/// Returns what stands between backticks after a label of the note.
fn noted(note: &str, label: &str) -> String {
    note.split_once(&format!("- {label}: `")).and_then(|(_, rest)| rest.split_once('`')).unwrap().0.to_owned()
}

#[test]
fn the_vendored_script_is_the_one_its_note_describes() {
    let note = String::from_utf8(read("morph.md")).unwrap();
    let found = format!("{:x}", Sha256::digest(read("morph.js")));
    assert_eq!(found, noted(&note, "sha256"), "write version and hash of the new file into {FOLDER}/morph.md");
    assert!(note.contains("Permission to use, copy, modify"), "the licence stands beside the file");
}

#[test]
fn pages_load_little() {
    let scripts = compressed("page.js") + compressed("morph.js");
    assert!(scripts <= SCRIPT_BYTES_MAX, "the scripts take {scripts} bytes, the limit is {SCRIPT_BYTES_MAX}");
    let style = compressed("page.css");
    assert!(style <= STYLE_BYTES_MAX, "the style sheet takes {style} bytes, the limit is {STYLE_BYTES_MAX}");
}

/// Everything comes from the daemon, and the policy of its answers forbids what runs text as code.
#[test]
fn pages_load_nothing_from_elsewhere() {
    for (name, parts) in [
        ("page.css", &["http://", "https://", "url(", "@import"][..]),
        ("page.js", &["http://", "https://", "eval(", "innerHTML"]),
        ("morph.js", &["https://", "eval(", "new Function", "fetch("]),
    ] {
        let text = String::from_utf8(read(name)).unwrap();
        let found: Vec<&&str> = parts.iter().filter(|part| text.contains(**part)).collect();
        assert!(found.is_empty(), "{name} contains {found:?}");
    }
}
