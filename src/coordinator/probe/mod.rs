//! `probe`: tries what a catalog and a journal's store guarantee, with real commits on tables made for it.
//!
//! Each guarantee is tried by commits in the shapes of the protocol, and what is concluded comes from the table as it is
//! read afterwards, not from the reply alone. The tables are dropped at the end; only those that this run has made, and
//! only while they are still the same. Source: `protocol.md`, "Trust".

mod cases;
mod scratch;
#[cfg(test)]
mod tests;

use scratch::Scratch;

use super::{Coordinator, Error};
use crate::catalog::Catalog;
use crate::ids::{IdError, TableName};
use crate::publish::trust::{Guarantee, judge};
use crate::report::{GuaranteeReport, ProbeReport};

impl Coordinator {
    /// Tries everything in a namespace, which is made where it is missing.
    ///
    /// # Errors
    /// Exit 2: the namespace is malformed. 13: no table may be made there. 1: the catalog cannot be reached.
    pub async fn probe(&self, namespace: &str) -> Result<ProbeReport, Error> {
        let levels: Vec<String> = namespace.split('.').map(str::to_owned).collect();
        // Any name of a table will do: it is the levels that may be malformed.
        let named = TableName::new(levels.clone(), "calve_probe".to_owned());
        named.map_err(|error| IdError { what: "namespace", given: namespace.to_owned(), ..error })?;
        let mut made = Vec::new();
        let found = self.try_all(&levels, &mut made).await;
        let mut warnings = Vec::new();
        for (table, uuid) in made {
            if let Err(error) = self.catalog.drop_scratch(&table, uuid).await {
                warnings.push(format!("the scratch table {table} is left behind, drop it yourself: {error}"));
            }
        }
        let guarantees = match found {
            Ok(guarantees) => guarantees,
            Err(error) => {
                for warning in warnings {
                    tracing::warn!("{warning}");
                }
                return Err(error);
            }
        };
        let seen: Vec<_> = guarantees.iter().map(|found| (found.guarantee, found.seen)).collect();
        Ok(ProbeReport {
            catalog: self.catalog.describe(),
            journal: self.journal.root(),
            namespace: namespace.to_owned(),
            trust: judge(&seen),
            guarantees,
            warnings,
        })
    }

    async fn try_all(
        &self,
        namespace: &[String],
        made: &mut Vec<(TableName, crate::ids::TableUuid)>,
    ) -> Result<Vec<GuaranteeReport>, Error> {
        let mut tables = Vec::new();
        // The second one is for what concerns several tables at once.
        for _ in 0..2 {
            let name = format!("calve_probe_{}", self.clock.fresh_uuid().simple());
            let table = TableName::new(namespace.to_vec(), name)?;
            let loaded = self.catalog.create(&table, scratch::creation(&table)?).await?;
            made.push((table.clone(), loaded.observe().uuid));
            tables.push(Scratch { catalog: self.catalog.as_ref(), clock: self.clock.as_ref(), table });
        }
        let [first, second] = tables.as_slice() else {
            return Err(Error::Failed("the scratch tables are missing".to_owned()));
        };
        let mut found = Vec::new();
        for guarantee in Guarantee::ALL {
            let tried = match guarantee {
                Guarantee::FalseExpectation => first.false_expectation().await?,
                Guarantee::NullMeansAbsent => first.null_means_absent().await?,
                Guarantee::RefsInOneCommit => first.refs_in_one_commit().await?,
                Guarantee::TableAssertions => first.table_assertions().await?,
                Guarantee::AllOrNothing => first.all_or_nothing().await?,
                Guarantee::OneWinner => first.one_winner().await?,
                Guarantee::SummaryKept => first.summary_kept().await?,
                Guarantee::AllSnapshots => first.all_snapshots().await?,
                Guarantee::RetentionKept => first.retention_kept().await?,
                Guarantee::PutIfAbsent => self.put_if_absent().await?,
                Guarantee::RemovedRef => first.removed_ref().await?,
                Guarantee::IdempotencyKey => first.idempotency_key().await?,
                Guarantee::Transactions => first.transactions(second).await?,
                Guarantee::Endpoints => cases::endpoints(&self.catalog.capabilities()),
            };
            found.push(GuaranteeReport {
                guarantee,
                what: guarantee.words(),
                needed: guarantee.is_needed(),
                seen: tried.seen,
                detail: tried.detail,
                request: tried.request,
            });
        }
        Ok(found)
    }
}
