//! What a catalog and a journal's store were seen to do, and whether that is enough to publish with them.
//!
//! The protocol stands on a few guarantees that every catalog claims and not every one keeps. Nothing is believed that
//! was not seen: a guarantee that could not be tested counts as much as one that was broken. Source: `protocol.md`,
//! "Trust".

use serde::Serialize;

/// One thing that a catalog or a journal's store is tried for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guarantee {
    /// A commit that expects a ref at another snapshot than it is at is refused, and changes nothing.
    FalseExpectation,
    /// A commit that expects a ref to be absent is refused where a branch or tag has the name.
    NullMeansAbsent,
    /// Moving main, leaving a tag, and turning a branch into a tag is one commit; sent again, it is refused.
    RefsInOneCommit,
    /// A commit that expects another table uuid, schema or partition spec is refused.
    TableAssertions,
    /// One false expectation, or one impossible update, among several undoes the commit whole.
    AllOrNothing,
    /// Of several commits from the same state at once, one is applied.
    OneWinner,
    /// Snapshot summaries come back as they were sent.
    SummaryKept,
    /// A table is loaded with every snapshot it has, those that no ref reaches too.
    AllSnapshots,
    /// The retention of refs, main's too, comes back as it was set, and stays.
    RetentionKept,
    /// Of several writers to one free name in the journal's store, one wins, and its record stays.
    PutIfAbsent,
    /// A ref that was removed is gone, and its name free.
    RemovedRef,
    /// A commit that is sent twice under one idempotency key is answered as the first time.
    IdempotencyKey,
    /// Commits to several tables are applied all or none.
    Transactions,
    /// The catalog lists its endpoints, the commit among them.
    Endpoints,
}

impl Guarantee {
    /// All of them, in the order in which they are tried and shown.
    pub const ALL: [Guarantee; 14] = [
        Self::FalseExpectation,
        Self::NullMeansAbsent,
        Self::RefsInOneCommit,
        Self::TableAssertions,
        Self::AllOrNothing,
        Self::OneWinner,
        Self::SummaryKept,
        Self::AllSnapshots,
        Self::RetentionKept,
        Self::PutIfAbsent,
        Self::RemovedRef,
        Self::IdempotencyKey,
        Self::Transactions,
        Self::Endpoints,
    ];

    /// Does the safety of a publication rest on it? The others are good to know.
    pub fn is_needed(self) -> bool {
        match self {
            Self::FalseExpectation
            | Self::NullMeansAbsent
            | Self::RefsInOneCommit
            | Self::TableAssertions
            | Self::AllOrNothing
            | Self::OneWinner
            | Self::SummaryKept
            | Self::AllSnapshots
            | Self::RetentionKept
            | Self::PutIfAbsent => true,
            Self::RemovedRef | Self::IdempotencyKey | Self::Transactions | Self::Endpoints => false,
        }
    }

    /// What it says, as a line for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::FalseExpectation => "a false expected snapshot is refused",
            Self::NullMeansAbsent => "null means absent, for branches and tags",
            Self::RefsInOneCommit => "publish and fence exclude each other: main, tags, branch to tag in one commit",
            Self::TableAssertions => "uuid, schema and spec assertions are checked",
            Self::AllOrNothing => "several updates are applied all or none",
            Self::OneWinner => "one of several commits at once wins",
            Self::SummaryKept => "summary properties are kept",
            Self::AllSnapshots => "every snapshot is returned",
            Self::RetentionKept => "retention of main and other refs is kept",
            Self::PutIfAbsent => "the journal's put-if-absent has one winner",
            Self::RemovedRef => "a removed ref is gone",
            Self::IdempotencyKey => "an idempotency key is recognised",
            Self::Transactions => "several tables change all or none",
            Self::Endpoints => "endpoints are listed",
        }
    }
}

/// What was seen of a guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    /// It was kept.
    Holds,
    /// It was broken.
    Broken,
    /// It could not be tried, or the answer was not clear.
    NotTested,
}

/// Whether publications may be entrusted to a catalog and a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
#[must_use]
pub enum Trust {
    /// All that safety rests on was seen.
    Safe,
    /// It was not.
    Refused {
        /// What was broken, in the order of [`Guarantee::ALL`].
        broken: Vec<Guarantee>,
        /// What was not tried, or without a clear answer, in the same order.
        unknown: Vec<Guarantee>,
    },
}

/// Judges what was seen. A guarantee that is not among it counts as not tested; one that is there twice as what is worse.
pub fn judge(seen: &[(Guarantee, Seen)]) -> Trust {
    let (mut broken, mut unknown) = (Vec::new(), Vec::new());
    for guarantee in Guarantee::ALL.into_iter().filter(|guarantee| guarantee.is_needed()) {
        let of = || seen.iter().filter(|(other, _)| *other == guarantee).map(|(_, seen)| *seen);
        if of().any(|seen| seen == Seen::Broken) {
            broken.push(guarantee);
        } else if of().any(|seen| seen == Seen::NotTested) || of().next().is_none() {
            unknown.push(guarantee);
        }
    }
    if broken.is_empty() && unknown.is_empty() { Trust::Safe } else { Trust::Refused { broken, unknown } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_hold() -> Vec<(Guarantee, Seen)> {
        Guarantee::ALL.map(|guarantee| (guarantee, Seen::Holds)).into()
    }

    #[test]
    fn each_guarantee_once() {
        let set: std::collections::BTreeSet<_> = Guarantee::ALL.into_iter().collect();
        assert_eq!(set.len(), Guarantee::ALL.len());
    }

    /// Every guarantee in every state, while all others hold.
    #[test]
    fn truth_table() {
        use Guarantee::{
            AllOrNothing, AllSnapshots, Endpoints, FalseExpectation, IdempotencyKey, NullMeansAbsent, OneWinner,
            PutIfAbsent, RefsInOneCommit, RemovedRef, RetentionKept, SummaryKept, TableAssertions, Transactions,
        };
        assert_eq!(judge(&all_hold()), Trust::Safe);
        let needed = [
            FalseExpectation,
            NullMeansAbsent,
            RefsInOneCommit,
            TableAssertions,
            AllOrNothing,
            OneWinner,
            SummaryKept,
            AllSnapshots,
            RetentionKept,
            PutIfAbsent,
        ];
        let informative = [RemovedRef, IdempotencyKey, Transactions, Endpoints];
        assert_eq!(needed.len() + informative.len(), Guarantee::ALL.len());
        let with = |guarantee: Guarantee, seen: Option<Seen>| {
            let mut all = all_hold();
            all.retain(|(other, _)| *other != guarantee);
            all.extend(seen.map(|seen| (guarantee, seen)));
            judge(&all)
        };
        for guarantee in needed {
            let refused = |broken, unknown| Trust::Refused { broken, unknown };
            assert_eq!(with(guarantee, Some(Seen::Broken)), refused(vec![guarantee], vec![]), "{guarantee:?}");
            assert_eq!(with(guarantee, Some(Seen::NotTested)), refused(vec![], vec![guarantee]), "{guarantee:?}");
            assert_eq!(with(guarantee, None), refused(vec![], vec![guarantee]), "{guarantee:?}");
        }
        for guarantee in informative {
            for seen in [Some(Seen::Broken), Some(Seen::NotTested), None] {
                assert_eq!(with(guarantee, seen), Trust::Safe, "{guarantee:?}");
            }
        }
    }

    #[test]
    fn the_worst_that_was_seen_counts() {
        let mut all = all_hold();
        all.push((Guarantee::OneWinner, Seen::Broken));
        all.push((Guarantee::AllSnapshots, Seen::NotTested));
        let expected = Trust::Refused { broken: vec![Guarantee::OneWinner], unknown: vec![Guarantee::AllSnapshots] };
        assert_eq!(judge(&all), expected);
        let nothing = judge(&[]);
        assert!(matches!(nothing, Trust::Refused { broken, unknown } if broken.is_empty() && unknown.len() == 10));
    }
}
