//! A text in pieces, and which of them go where it is too long. A piece goes whole, so nothing stays open.

/// What a piece is worth; the first goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Priority {
    /// How long it may take.
    Timeline,
    /// What overrides make of it for some clusters.
    Override,
    /// How one object differs.
    Diff,
    /// Names of clusters, and notes.
    Clusters,
    /// The stages.
    Stages,
    /// What must be read: headline, errors, deletions.
    Must,
}

/// A piece of a text: whole paragraphs.
#[derive(Clone, Debug)]
pub(super) struct Block {
    worth: Priority,
    text: String,
    short: String,
}

impl Block {
    /// A piece that has to be there.
    pub fn must(text: impl Into<String>) -> Self {
        Self { worth: Priority::Must, text: text.into(), short: String::new() }
    }

    /// A piece that may be replaced by a shorter one.
    pub fn of(worth: Priority, text: impl Into<String>, short: impl Into<String>) -> Self {
        Self { worth, text: text.into(), short: short.into() }
    }
}

/// Puts the pieces together in at most `limit` characters. Pieces of little worth are replaced by their short forms, the largest
/// of a kind first. Where all that must be there is too long, its end is left out and `cut` stands there.
pub(super) fn fit(mut blocks: Vec<Block>, limit: usize, cut: &str) -> String {
    let length = |text: &str| text.chars().count();
    let mut total: usize = blocks.iter().map(|block| length(&block.text)).sum();
    let mut order: Vec<(Priority, usize, usize)> =
        // The larger a piece, the smaller its key, so that the largest of a kind comes first.
        blocks.iter().enumerate().map(|(at, block)| (block.worth, usize::MAX - length(&block.text), at)).collect();
    order.sort_unstable();
    for (_, _, at) in order.into_iter().filter(|(worth, _, _)| *worth != Priority::Must) {
        if total <= limit {
            break;
        }
        let block = &mut blocks[at];
        let (long, short) = (length(&block.text), length(&block.short));
        // A short form that is not shorter would make no room.
        if short < long {
            total -= long - short;
            block.text = std::mem::take(&mut block.short);
        }
    }
    if total <= limit {
        return blocks.into_iter().map(|block| block.text).collect();
    }
    let mut text = String::new();
    let mut room = limit.saturating_sub(length(cut));
    for block in blocks {
        let Some(left) = room.checked_sub(length(&block.text)) else { break };
        room = left;
        text.push_str(&block.text);
    }
    // Below a length at which even this cannot be said, nothing is.
    if length(cut) <= limit { text + cut } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_goes_first_and_the_largest_of_it() {
        let blocks = || {
            vec![
                Block::must("HEAD "),
                Block::of(Priority::Timeline, "timeline ", "t "),
                Block::of(Priority::Diff, "small ", "s "),
                Block::of(Priority::Diff, "largest ", "l "),
                Block::must("TAIL "),
            ]
        };
        let rows = [
            (100, "HEAD timeline small largest TAIL "),
            (32, "HEAD t small largest TAIL "),
            (25, "HEAD t small l TAIL "),
            (16, "HEAD t s l TAIL "),
            (15, "HEAD t s l CUT"),
            (9, "HEAD CUT"),
            (3, "CUT"),
            (2, ""),
        ];
        for (limit, wanted) in rows {
            let text = fit(blocks(), limit, "CUT");
            assert_eq!(text, wanted, "{limit}");
            assert!(text.chars().count() <= limit);
        }
    }
}
