//! Reads what the rules are about.

use chrono::Duration;

use super::facts::{JournalKind, OpenPublication, Surroundings, TableFacts};
use super::rules;
use crate::catalog::metadata;
use crate::coordinator::{Coordinator, Error};
use crate::ids::{Owner, PublicationId, TableName};
use crate::journal::LogKey;
use crate::journal::lease::LeaseState;
use crate::publish::State;
use crate::publish::state::is_settled;
use crate::report::{Advice, DoctorReport, PublicationStatus, Severity};

/// What `doctor` is asked for.
#[derive(Debug, Clone)]
pub struct DoctorRequest {
    /// The table; all where none is named.
    pub table: Option<TableName>,
    /// Who can see the journal.
    pub journal: JournalKind,
    /// From which age an open publication counts as forgotten.
    pub older_than: Duration,
}

impl Default for DoctorRequest {
    fn default() -> Self {
        Self { table: None, journal: JournalKind::default(), older_than: rules::WINDOW }
    }
}

impl Coordinator {
    /// What is risky, the worst first. A table that cannot be read among all is a finding.
    ///
    /// # Errors
    /// The catalog cannot be read, or the table named is unknown.
    pub async fn doctor(&self, request: &DoctorRequest) -> Result<DoctorReport, Error> {
        let surroundings = Surroundings {
            journal: request.journal,
            journal_root: self.journal.root(),
            now: self.clock.now(),
            older_than: request.older_than,
        };
        let mut findings = rules::of_surroundings(&surroundings);
        let tables = match &request.table {
            Some(table) => vec![table.clone()],
            None => self.catalog.tables().await?,
        };
        for table in &tables {
            match self.table_facts(table).await {
                Ok(facts) => findings.extend(rules::of_table(&surroundings, &facts)),
                Err(error) if request.table.is_some() => return Err(error),
                Err(error) => findings.push(Advice {
                    severity: Severity::Risk,
                    rule: "unreadable",
                    table: Some(table.clone()),
                    what: error.to_string(),
                    why: "what cannot be read cannot be checked, nor published to".to_owned(),
                    remedy: None,
                }),
            }
        }
        // Stable: findings of one severity stay together by table.
        findings.sort_by_key(|advice| advice.severity);
        Ok(DoctorReport { catalog: self.catalog.describe(), journal: self.journal.root(), tables, findings })
    }

    async fn table_facts(&self, name: &TableName) -> Result<TableFacts, Error> {
        let table = self.catalog.load(name).await?;
        let observed = table.observe();
        let rendered = metadata::render(&table.metadata)?;
        // What the journal cannot tell hides nothing of what the table does.
        let (open, leases_left, unreadable) = match self.publications(name, &table).await {
            Ok((open, leases)) => (open, leases, None),
            Err(error) => (Vec::new(), Vec::new(), Some(error.to_string())),
        };
        Ok(TableFacts {
            table: name.clone(),
            location: table.metadata.location().to_owned(),
            properties: table.metadata.properties().clone().into_iter().collect(),
            metadata_bytes: u64::try_from(rendered.len()).unwrap_or(u64::MAX),
            metadata_log: table.metadata.metadata_log().len(),
            last_updated_ms: table.metadata.last_updated_ms(),
            observed,
            open,
            leases_left,
            unreadable,
        })
    }

    async fn publications(
        &self,
        name: &TableName,
        table: &crate::catalog::LoadedTable,
    ) -> Result<(Vec<OpenPublication>, Vec<(PublicationId, Owner)>), Error> {
        let status = self.table_status(name).await?;
        let open = status.publications.iter().filter_map(as_open).collect();
        let mut left = Vec::new();
        for id in self.publications_of(table).await? {
            let key = LogKey {
                catalog: self.catalog.identity().clone(),
                table: crate::ids::TableUuid(table.metadata.uuid()),
                publication: id.clone(),
            };
            let lease = LeaseState::of(&self.journal.read(&key).await?).lease;
            left.extend(lease.filter(|lease| !lease.may_be_live(self.clock.now())).map(|lease| (id, lease.owner)));
        }
        Ok((open, left))
    }
}

/// A publication that still holds its branch.
fn as_open(publication: &PublicationStatus) -> Option<OpenPublication> {
    let state = &publication.finding.state;
    let sealed = match state {
        State::Sealed { .. } | State::Moved { .. } => true,
        State::Open { .. } | State::SubjectMoved { .. } | State::Foreign { .. } => false,
        state if is_settled(state) => return None,
        // Those are for `reconcile` and a person, and `status` shows them.
        _ => return None,
    };
    Some(OpenPublication {
        id: publication.finding.publication.clone(),
        owner: publication.owner.clone(),
        begun: publication.begun,
        sealed,
    })
}
