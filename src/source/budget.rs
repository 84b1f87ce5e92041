//! The size limits of commits and pull requests, so that memory is bounded whatever people push.
//!
//! A process has three trees at once: that of the accepted commit, that of a new one, and that of a pull request. Files that
//! did not change are shared between them.

use std::sync::Arc;

use model::manifest::InputError;
use model::yaml::{Cost, Meter, TEXT_COST_MAX};

/// Objects of one commit, and of one file: documents, elements of lists, and documents with errors.
pub const OBJECTS_MAX: usize = 50_000;

/// The limits of several files together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// YAML values and bytes of memory, after aliases are expanded.
    pub cost: Cost,
    /// Objects.
    pub objects: usize,
    /// The owner, as text for users.
    owner: &'static str,
}

/// The limits of all files of a commit.
pub const COMMIT: Budget = Budget { cost: TEXT_COST_MAX, objects: OBJECTS_MAX, owner: "a commit" };

/// The limits of files that a pull request adds to those of the accepted commit.
pub const PULL: Budget = Budget {
    cost: Cost { nodes: COMMIT.cost.nodes / 2, bytes: COMMIT.cost.bytes / 2 },
    objects: COMMIT.objects / 2,
    owner: "what a pull request adds or changes",
};

/// The weight of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// YAML values and bytes of memory.
    pub cost: Cost,
    /// Objects.
    pub objects: usize,
}

impl Budget {
    /// Creates the meter for reading the files.
    pub const fn meter(&self) -> Meter<'static> {
        Meter::new(self.cost)
    }

    /// Returns the error for the first file at which the budget is exceeded; `files` are sorted by path.
    pub fn refusal(&self, files: impl IntoIterator<Item = (Arc<str>, Weight)>) -> Option<InputError> {
        let mut sum = Weight::default();
        for (path, weight) in files {
            sum = Weight { cost: sum.cost.and(weight.cost), objects: sum.objects.saturating_add(weight.objects) };
            let counts = [
                (sum.cost.nodes, self.cost.nodes, "YAML values after aliases"),
                (sum.cost.bytes, self.cost.bytes, "bytes of memory for its YAML values"),
                (sum.objects, self.objects, "objects"),
            ];
            if let Some((held, max, of_what)) = counts.into_iter().find(|(held, max, _)| held > max) {
                return Some(self.complaint(&path, &format!("{} {of_what}", grouped(held)), max));
            }
        }
        None
    }

    /// Describes that a file exceeds the budget.
    pub fn complaint(&self, path: &str, holds: &str, max: usize) -> InputError {
        InputError {
            path: path.to_owned(),
            line: 0,
            object: None,
            field: None,
            message: format!("with this file there are {holds}; the limit for {} is {}", self.owner, grouped(max)),
            hint: Some("take large files out, narrow `source.path`, or add folders to .gitfleetignore".to_owned()),
        }
    }
}

/// Writes a number with commas, as text for users who compare two of them.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    type Row = (Vec<(Arc<str>, Weight)>, &'static str);

    #[test]
    fn d05_a_commit_is_refused_with_the_number_and_the_file() {
        let file =
            |path: &str, nodes, objects| (Arc::from(path), Weight { cost: Cost { nodes, bytes: nodes * 64 }, objects });
        let half = COMMIT.cost.nodes / 2;
        let rows: [Row; 4] = [
            (vec![file("a", half, 1), file("b", half, 1)], ""),
            (
                vec![file("a", half, 1), file("b", half, 1), file("c", 1, 1), file("d", 1, 1)],
                "c: with this file there are 2,000,001 YAML values after aliases; the limit for a commit is 2,000,000",
            ),
            (vec![file("a", 0, OBJECTS_MAX), file("b", 0, 1)], "b: with this file there are 50,001 objects"),
            (
                vec![(Arc::from("a"), Weight { cost: Cost { nodes: 1, bytes: usize::MAX }, objects: 1 })],
                "bytes of memory for its YAML values; the limit for a commit is 201,326,592",
            ),
        ];
        for (files, expected) in rows {
            let refusal = COMMIT.refusal(files).map(|error| error.to_string()).unwrap_or_default();
            assert!(refusal.contains(expected) && refusal.is_empty() == expected.is_empty(), "{refusal}");
        }
    }
}
