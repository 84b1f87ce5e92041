//! Exit codes: the meaning of the program's exit for scripts.

use std::process::ExitCode;

use decide::status::rollout::{RolloutState, StateKind};

/// How a command ended. The numbers are a contract with scripts: they may be added to, never changed.
///
/// Source: `sysexits.h` for 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// 0: the command succeeded; the fleet is in its desired state.
    Done = 0,
    /// 1: the command worked, and found differences, errors in the input, or a fleet outside its desired state.
    NotAsWished = 1,
    /// 2: the command itself failed: a folder, revision, server or store could not be read.
    Error = 2,
    /// 3: nothing more happens until a person approves or resumes.
    WaitingForPerson = 3,
    /// 64: wrong usage of the command line.
    Usage = 64,
}

impl Exit {
    /// Returns the number.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns what one command over several things ends with: a failure to look beats a bad finding, a bad finding beats
    /// a wait, a wait beats success.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if self.weight() >= other.weight() { self } else { other }
    }

    fn weight(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::WaitingForPerson => 1,
            Self::NotAsWished => 2,
            Self::Error => 3,
            Self::Usage => 4,
        }
    }
}

impl From<&RolloutState> for Exit {
    fn from(state: &RolloutState) -> Self {
        state.kind().into()
    }
}

impl From<StateKind> for Exit {
    fn from(kind: StateKind) -> Self {
        match kind {
            StateKind::AtTarget => Self::Done,
            StateKind::WaitingForPerson => Self::WaitingForPerson,
            StateKind::WaitingForTime | StateKind::Progressing | StateKind::Failed | StateKind::Unreachable => {
                Self::NotAsWished
            }
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use decide::status::rollout::{Failure, PersonWait};

    #[test]
    fn the_numbers_are_the_contract() {
        let codes = [Exit::Done, Exit::NotAsWished, Exit::Error, Exit::WaitingForPerson, Exit::Usage].map(Exit::code);
        assert_eq!(codes, [0, 1, 2, 3, 64]);
    }

    #[test]
    fn how_run_once_ends() {
        let rows = [
            (RolloutState::AllAtTarget, 0),
            (RolloutState::WaitingForPerson(PersonWait::NoRun), 3),
            (RolloutState::WaitingForTime(None), 1),
            (RolloutState::Progressing, 1),
            (RolloutState::Failed(Failure::Unfulfilled), 1),
            (RolloutState::Unreachable("east".into()), 1),
        ];
        for (converged, code) in rows {
            assert_eq!(Exit::from(&converged).code(), code, "{converged:?}");
        }
    }

    #[test]
    fn the_worst_finding_wins() {
        let rows = [
            (Exit::Done, Exit::WaitingForPerson, Exit::WaitingForPerson),
            (Exit::WaitingForPerson, Exit::NotAsWished, Exit::NotAsWished),
            (Exit::NotAsWished, Exit::Error, Exit::Error),
            (Exit::Error, Exit::Usage, Exit::Usage),
            (Exit::Done, Exit::Done, Exit::Done),
        ];
        for (a, b, expected) in rows {
            assert_eq!(a.and(b), expected, "{a:?} and {b:?}");
            assert_eq!(b.and(a), expected, "{b:?} and {a:?}");
        }
    }
}
