//! Texts that are kept in files: all that differ are shown at once, line by line.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use similar::TextDiff;
use testservers::repository;

/// Lines that are shown around a difference.
const CONTEXT: usize = 2;
/// Lines of differences that are shown of a file.
const SHOWN_MAX: usize = 60;

/// Compares texts with the files of a folder below `tests/fixtures`; with the variable `UPDATE` it writes them instead.
pub struct Kept {
    folder: PathBuf,
    complaints: String,
}

impl Kept {
    /// Begins with a folder.
    pub fn in_folder(folder: &str) -> Self {
        let folder = repository().join("tests/fixtures").join(folder);
        Self { folder, complaints: String::new() }
    }

    /// Compares a text with a file.
    pub fn compare(&mut self, file: &str, found: &str) {
        let path = self.folder.join(file);
        if std::env::var_os("UPDATE").is_some() {
            fs::create_dir_all(&self.folder).expect("a folder");
            fs::write(&path, found).expect("a file");
            return;
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        if kept != found {
            let differences =
                TextDiff::from_lines(kept.as_str(), found).unified_diff().context_radius(CONTEXT).to_string();
            let shown: Vec<&str> = differences.lines().take(SHOWN_MAX).collect();
            writeln!(self.complaints, "\n{}:\n{}", path.display(), shown.join("\n")).expect("text takes all");
        }
    }

    /// Fails if any text differed from its file.
    pub fn finish(self) {
        let advice = "Kept is `-`, found is `+`. If the new text is meant to be: UPDATE=1 cargo test --test it golden";
        assert!(self.complaints.is_empty(), "{}\n{advice}", self.complaints);
    }
}
