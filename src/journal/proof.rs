//! Whether a journal's store keeps the one promise that a journal stands on: of many writers to one free name, exactly
//! one is told that it won, and its bytes stay. Source: `protocol.md`, "Journal".

/// Writers that race for one name, besides one that comes late.
pub const RACERS: u32 = 8;

/// What was seen when several writers put different bytes under one free name at the same time, and one more afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct PutIfAbsent {
    /// How many wrote, the late one included.
    pub writers: u32,
    /// How many were told that the name is theirs.
    pub winners: u32,
    /// Whether the bytes that are there now are those of the one winner.
    pub kept: bool,
}

impl PutIfAbsent {
    /// Whether the store may hold a journal.
    pub fn holds(&self) -> bool {
        self.winners == 1 && self.kept
    }

    /// What is concluded from who won, of the writers 0, 1, …, the last of which came late, and whose bytes are there.
    pub(super) fn of(won: &[bool], there: Option<usize>) -> Self {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let told = count(won.iter().filter(|won| **won).count());
        // A store that repeats a request by itself calls a writer's own success another's: then its bytes are there. Those of
        // the late one cannot be, unless it was let overwrite.
        let untold = told == 0 && there.is_some_and(|writer| writer.saturating_add(1) < won.len());
        let winners = if untold { 1 } else { told };
        let kept = winners == 1 && (untold || there.and_then(|writer| won.get(writer)) == Some(&true));
        Self { writers: count(won.len()), winners, kept }
    }

    /// What writer number so and so puts.
    pub(super) fn bytes(id: uuid::Uuid, writer: usize) -> Vec<u8> {
        format!("{id} {writer}: calve tries whether one of several writers wins; this may be deleted\n").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_winner_whose_bytes_stay_will_do() {
        let of = |won: &[bool], there| PutIfAbsent::of(won, there).holds();
        assert!(of(&[false, true, false], Some(1)));
        assert!(!of(&[false, true, false], Some(0)));
        assert!(!of(&[false, true, false], None));
        assert!(!of(&[true, true, false], Some(1)));
        assert!(!of(&[false, false], None));
        // Whoever is there of those who raced has won, though nobody was told; the late one has overwritten.
        assert!(of(&[false, false, false], Some(1)));
        assert!(!of(&[false, false, false], Some(2)));
    }
}
