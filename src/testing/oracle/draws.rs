//! Choices, drawn from a tape of numbers.

/// Draws choices from a tape; at its end every choice is the first, so that shorter tapes make simpler cases.
#[derive(Debug)]
pub(super) struct Draws<'a> {
    tape: &'a [u32],
    at: usize,
}

impl<'a> Draws<'a> {
    pub(super) fn new(tape: &'a [u32]) -> Self {
        Self { tape, at: 0 }
    }

    /// A number below `limit`, which is at least 1.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        let drawn = self.tape.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        usize::try_from(drawn).expect("32 bits") % limit
    }

    /// True once in `of` times; false at the end of the tape.
    pub(super) fn once_in(&mut self, of: usize) -> bool {
        self.below(of) == of - 1
    }

    pub(super) fn pick<'b, T>(&mut self, from: &'b [T]) -> &'b T {
        &from[self.below(from.len())]
    }

    /// Some of these, each with even chance.
    pub(super) fn some<T: Clone>(&mut self, from: &[T]) -> Vec<T> {
        from.iter().filter(|_| self.once_in(2)).cloned().collect()
    }
}

/// The tape of a seed and a number: the same ever after. Source: SplitMix64 (Steele, Lea, Flood, 2014).
pub fn tape(seed: u64, number: u64) -> Vec<u32> {
    let mut state = seed ^ number.wrapping_mul(0xd134_2543_de82_ef95);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    (0..600).map(|_| u32::try_from(next() >> 32).expect("32 bits")).collect()
}
