//! Fits a text of blocks into a limit by dropping whole blocks, so that no markup stays open.

/// The priority of a block; the first is dropped first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Priority {
    /// The predicted duration.
    Timeline,
    /// Effects of overrides on some clusters.
    Override,
    /// The diff of one object.
    Diff,
    /// Names of clusters, and notes.
    Clusters,
    /// The stages.
    Stages,
    /// Text that must stay: headline, errors, deletions.
    Must,
}

/// A block of a text: whole paragraphs.
#[derive(Clone, Debug)]
pub(super) struct Block {
    worth: Priority,
    text: String,
    short: String,
}

impl Block {
    /// Creates a block that must stay.
    pub(super) fn must(text: impl Into<String>) -> Self {
        Self { worth: Priority::Must, text: text.into(), short: String::new() }
    }

    /// Creates a block with a shorter replacement.
    pub(super) fn of(worth: Priority, text: impl Into<String>, short: impl Into<String>) -> Self {
        Self { worth, text: text.into(), short: short.into() }
    }
}

/// Joins the blocks in at most `limit` characters. Blocks of low priority are replaced by their short forms, the largest of a
/// priority first. If the required blocks alone are too long, the end is truncated and replaced by `cut`.
pub(super) fn fit(mut blocks: Vec<Block>, limit: usize, cut: &str) -> String {
    let mut total: usize = blocks.iter().map(|block| length(&block.text)).sum();
    let mut order: Vec<(Priority, usize, usize)> =
        // The larger a block, the smaller its key, so that the largest of a priority comes first.
        blocks.iter().enumerate().map(|(at, block)| (block.worth, usize::MAX - length(&block.text), at)).collect();
    order.sort_unstable();
    for (_, _, at) in order.into_iter().filter(|(worth, _, _)| *worth != Priority::Must) {
        if total <= limit {
            break;
        }
        let block = &mut blocks[at];
        let long = length(&block.text);
        let short = length(&block.short);
        // A short form that is not shorter would save nothing.
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
    // If not even `cut` fits, it is left out.
    if length(cut) <= limit { text + cut } else { text }
}

/// Returns the characters of a text, as hosts count them.
fn length(text: &str) -> usize {
    text.chars().count()
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
