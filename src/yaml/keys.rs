//! Keys that are truth values to kubectl's reader: `n`, `on`, `yes` and their like, unquoted.

/// Keys of one document that are remembered: a person corrects a few, and the rest follows.
const KEYS_MAX: usize = 100;

/// Bytes of one step of a path that are remembered: a path is for people, and a key may be as long as a file.
const STEP_BYTES_MAX: usize = 100;

/// A key that is written as a word and read as `true` or `false`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TruthKey {
    /// The keys and positions that lead to the mapping with the key.
    pub path: Vec<String>,
    /// The key as it is written.
    pub written: String,
    /// What it is read as.
    pub read: bool,
    /// One-based line.
    pub line: u32,
}

/// The keys of a document, gathered while their paths become known from the inside out.
#[derive(Debug, Default)]
pub(super) struct TruthKeys {
    found: Vec<TruthKey>,
}

impl TruthKeys {
    /// Returns where the next one will stand.
    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// Remembers a key.
    pub(super) fn add(&mut self, written: &str, read: bool, line: u32) {
        if self.found.len() < KEYS_MAX {
            self.found.push(TruthKey { path: Vec::new(), written: written.to_owned(), read, line });
        }
    }

    /// Says which step leads to everything that was found since there were `from` of them.
    pub(super) fn lead(&mut self, from: usize, step: impl FnOnce() -> String) {
        if from == self.found.len() {
            return;
        }
        let mut step = step();
        let end = (0..=STEP_BYTES_MAX).rev().find(|&at| step.is_char_boundary(at)).unwrap_or(0);
        step.truncate(end);
        for key in &mut self.found[from..] {
            key.path.push(step.clone());
        }
    }

    /// Returns all of the document, with whole paths.
    pub(super) fn take(&mut self) -> Vec<TruthKey> {
        let mut found = std::mem::take(&mut self.found);
        for key in &mut found {
            key.path.reverse();
        }
        found
    }
}
