//! Tables of which phase may follow which, each way with its reason.

/// What may follow what, and when: any of these phases, then that one.
pub type Transitions<P> = &'static [(&'static [P], P, &'static str)];

/// Tells whether a phase may follow another.
pub fn may_follow<P: PartialEq + Copy>(table: Transitions<P>, from: P, to: P) -> bool {
    table.iter().any(|(before, after, _)| before.contains(&from) && *after == to)
}
