//! Random numbers from a seed: the same seed gives the same sequence.

use std::time::Duration;

/// A generator of pseudorandom numbers.
///
/// Source: SplitMix64, Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Starts with a seed; all seeds are equally good.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a uniformly distributed number.
    pub fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // The bias is below one in 10^15 for the small values of `end` in use.
        self.throw().checked_rem(end).unwrap_or(0)
    }

    /// Returns a number from `first` to `last`, both included.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below((last + 1).saturating_sub(first))
    }

    /// Tells whether an event with this probability in thousandths happens now. Never and always consume no number.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        per_mille > 0 && (per_mille >= 1000 || self.below(1000) < per_mille)
    }

    /// Returns a time between two, in whole milliseconds.
    pub fn time(&mut self, (shortest, longest): (Duration, Duration)) -> Duration {
        Duration::from_millis(self.between(millis(shortest), millis(longest)))
    }

    /// Returns one of several items; `None` if there is none.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let position = usize::try_from(self.below(of.len() as u64)).ok()?;
        of.get(position)
    }
}

/// Returns whole milliseconds; below the highest number, because a range to it has no length.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_throws_the_same() {
        let throws = |seed| (0..4).scan(Dice::new(seed), |dice, _| Some(dice.throw())).collect::<Vec<_>>();
        assert_eq!(throws(1), throws(1));
        assert_ne!(throws(1), throws(2));
        let mut dice = Dice::new(0);
        assert_eq!(dice.throw(), 0xE220_A839_7B1D_CDAF, "the reference's first number of seed 0");
        assert!((0..1000).all(|_| (3..=5).contains(&dice.between(3, 5))));
        assert!(!dice.chance(0) && dice.chance(1000));
        assert_eq!((dice.below(0), dice.pick::<u8>(&[])), (0, None));
    }
}
