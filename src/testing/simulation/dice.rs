//! Choices that follow from a seed.

use crate::clock::mix;

/// A stream of choices. Two of one seed are equal.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    /// `stream` tells several streams of one seed apart.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(mix(seed ^ mix(stream)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `end`; 0 where `end` is.
    pub fn below(&mut self, end: usize) -> usize {
        let wide = u128::from(self.next()) * (end as u128);
        usize::try_from(wide >> 64).unwrap_or(0)
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    /// One of several; `None` of none.
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        let index = self.below(of.len());
        of.get(index).cloned()
    }

    /// An index, by weights; `None` where all are 0.
    pub fn weighted(&mut self, weights: &[usize]) -> Option<usize> {
        let mut left = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if left < *weight {
                return Some(index);
            }
            left -= weight;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_follow_from_seed_and_stream() {
        let rolls = |seed, stream| {
            let mut dice = Dice::new(seed, stream);
            (0..50).map(|_| dice.below(1_000)).collect::<Vec<_>>()
        };
        assert_eq!(rolls(1, 1), rolls(1, 1));
        assert_ne!(rolls(1, 1), rolls(2, 1));
        assert_ne!(rolls(1, 1), rolls(1, 2));
    }

    #[test]
    fn every_weight_above_zero_is_chosen_and_no_other() {
        let mut dice = Dice::new(1, 0);
        let chosen: std::collections::BTreeSet<_> = (0..200).map(|_| dice.weighted(&[1, 0, 3])).collect();
        assert_eq!(chosen, [Some(0), Some(2)].into());
        assert_eq!(dice.weighted(&[0, 0]), None);
        assert_eq!(dice.pick::<u8>(&[]), None);
    }
}
