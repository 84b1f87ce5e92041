//! Keys that are truth values to kubectl's reader: `n`, `on`, `yes` and their like, unquoted.

/// Keys of one document that are reported.
const KEYS_MAX: usize = 100;

/// Bytes of one path step that are kept: a key may be as long as a file.
const STEP_BYTES_MAX: usize = 100;

/// A key that is written as a word and read as `true` or `false`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TruthKey {
    /// The keys and positions that lead to the mapping with the key.
    pub path: Vec<String>,
    /// The key as it is written.
    pub written: String,
    /// Its value as kubectl reads it.
    pub read: bool,
    /// One-based line.
    pub line: u32,
}

/// The keys inside a value with an anchor, and the number of known path steps of the first of them when it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inside {
    first: usize,
    last: usize,
    depth: usize,
}

/// The keys of a document, collected while their paths become known from the inside out.
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

    /// Returns those that stand inside a value that was just read, `from` the first of them on, for its copies.
    pub(super) fn inside(&self, from: usize) -> Inside {
        let depth = self.found.get(from).map_or(0, |key| key.path.len());
        Inside { first: from, last: self.found.len(), depth }
    }

    /// Remembers what stands inside a copy of a value: a key is evaluated where it is used.
    pub(super) fn copy(&mut self, inside: Inside) {
        // Since the value was read, every step that leads to it was added to all of its keys alike.
        let added = self.found.get(inside.first).map_or(0, |key| key.path.len() - inside.depth);
        for index in inside.first..inside.last.min(self.found.len()) {
            if self.found.len() >= KEYS_MAX {
                return;
            }
            let mut key = self.found[index].clone();
            key.path.truncate(key.path.len() - added);
            self.found.push(key);
        }
    }

    /// Says that everything that was found since there were `from` of them belongs to the mapping around it, as a merge has it;
    /// `in_list` where it was read as elements of a list.
    pub(super) fn merge(&mut self, from: usize, in_list: bool) {
        if in_list {
            for key in &mut self.found[from..] {
                key.path.pop();
            }
        }
    }

    /// Says which step leads to everything that was found since there were `from` of them.
    pub(super) fn lead(&mut self, from: usize, step: impl FnOnce() -> String) {
        // Nearly always: only a key that is remembered has the step written out.
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
