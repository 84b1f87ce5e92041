//! How far the placements of a commit are: the words that statuses and comments share.

use std::collections::BTreeMap;

use super::style::state_text;
use decide::status::work::counted;
use model::progress::{Progress, ProgressState};

/// Returns the place of a state in a list that begins with what is wrong, and what somebody has to do.
pub fn urgency(state: &ProgressState) -> u8 {
    match state {
        ProgressState::Failed => 0,
        ProgressState::Error => 1,
        ProgressState::Rejected => 2,
        ProgressState::RolledBack { .. } => 3,
        ProgressState::WaitingForPerson => 4,
        ProgressState::Paused => 5,
        ProgressState::Waiting => 6,
        ProgressState::Moving => 7,
        ProgressState::Queued => 8,
        ProgressState::Done => 9,
        ProgressState::Skipped => 10,
        ProgressState::Superseded { .. } => 11,
    }
}

/// Returns what a placement does, as it is said of one and of several: `waits at canary`, `wait at canary`. Names of stages are
/// as their author wrote them: escape the words.
pub fn doing(progress: &Progress) -> [String; 2] {
    match &progress.state {
        ProgressState::WaitingForPerson => match progress.stages.iter().find(|stage| stage.gate.is_some()) {
            Some(stage) => waits(&format!("at {}", stage.name)),
            None if progress.deletions.is_some() => waits("for approval of deletions"),
            None => waits("for a person"),
        },
        // Counted together, whichever commits they name.
        ProgressState::Superseded { .. } => same("superseded"),
        ProgressState::RolledBack { .. } => same("rolled back"),
        state => same(&state_text(state)),
    }
}

fn same(words: &str) -> [String; 2] {
    [words.to_owned(), words.to_owned()]
}

fn waits(what: &str) -> [String; 2] {
    [format!("waits {what}"), format!("wait {what}")]
}

/// Counts placements by what they do, what is wrong first, and their clusters: `8 wait at staging, 4 done, 211/480 clusters`.
/// `noun` names what is counted. Escape the result.
pub fn totals<'a>(placements: impl IntoIterator<Item = &'a Progress>, noun: Option<&str>) -> String {
    let mut groups: BTreeMap<(u8, [String; 2]), usize> = BTreeMap::new();
    let mut done = 0;
    let mut total = 0;
    for progress in placements {
        *groups.entry((urgency(&progress.state), doing(progress))).or_default() += 1;
        // Its clusters are counted with the newer commit.
        if !matches!(progress.state, ProgressState::Superseded { .. }) {
            done += progress.done;
            total += progress.total;
        }
    }
    let mut noun = noun;
    let said = groups.into_iter().map(|((_, [one, many]), count)| {
        let count_text = noun.take().map_or_else(|| count.to_string(), |noun| counted(count, noun));
        format!("{count_text} {}", if count == 1 { one } else { many })
    });
    let clusters = (total > 0).then(|| format!("{done}/{total} clusters"));
    said.collect::<Vec<_>>().into_iter().chain(clusters).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comments::fixtures::{gate, halted, waiting};
    use model::id::CommitId;

    #[test]
    fn what_is_wrong_is_counted_first() {
        let with = |state: ProgressState| Progress { state, stages: vec![], ..waiting() };
        let done = with(ProgressState::Done);
        let superseded = with(ProgressState::Superseded { by: CommitId::new("def5678abc") });
        let deletions = Progress { deletions: Some(gate("deletion")), ..with(ProgressState::WaitingForPerson) };
        let rows = [
            (vec![], "", ""),
            (vec![waiting()], "1 waits at canary, 3/4 clusters", "1 placement waits at canary, 3/4 clusters"),
            (
                vec![done.clone(), waiting(), waiting(), halted(), superseded.clone()],
                "1 failed, 2 wait at canary, 1 done, 1 superseded, 11/16 clusters",
                "1 placement failed, 2 wait at canary, 1 done, 1 superseded, 11/16 clusters",
            ),
            (
                vec![deletions, done],
                "1 waits for approval of deletions, 1 done, 6/8 clusters",
                "1 placement waits for approval of deletions, 1 done, 6/8 clusters",
            ),
            (vec![superseded], "1 superseded", "1 placement superseded"),
        ];
        for (placements, short, long) in rows {
            assert_eq!(totals(&placements, None), short);
            assert_eq!(totals(&placements, Some("placement")), long);
        }
    }
}
