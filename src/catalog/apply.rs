//! What a catalog's server does with one commit: check every requirement, apply every update, or nothing.
//!
//! The embedded catalog is its own server, and the fake stands in for one; both decide here. Source: Iceberg REST
//! specification, `updateTable`.

use std::collections::HashMap;

use iceberg::spec::{FormatVersion, Operation, Snapshot, Summary, TableMetadata, TableMetadataBuilder};
use iceberg::{TableCreation, TableRequirement, TableUpdate};

use super::{CatalogError, Commit};
use crate::clock::Clock;
use crate::ids::{TableName, TableUuid};
use crate::observed::set_time;

/// A server's refusal: an HTTP status and its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub status: u16,
    pub message: String,
}

/// Checks every requirement against the table; the first that does not hold is named.
pub(crate) fn check(commit: &Commit, metadata: &TableMetadata) -> Result<(), Refusal> {
    for requirement in &commit.requirements {
        requirement.check(Some(metadata)).map_err(|error| Refusal {
            status: 409,
            message: format!(
                "{} does not hold for table {}: {}",
                describe(requirement),
                commit.table,
                found(requirement, metadata).unwrap_or_else(|| error.message().to_owned())
            ),
        })?;
    }
    Ok(())
}

fn describe(requirement: &TableRequirement) -> String {
    match requirement {
        TableRequirement::NotExist => "the requirement that the table does not exist".to_owned(),
        TableRequirement::UuidMatch { uuid } => format!("the requirement table uuid = {uuid}"),
        TableRequirement::RefSnapshotIdMatch { r#ref, snapshot_id: Some(id) } => {
            format!("the requirement ref {} = {id}", r#ref)
        }
        TableRequirement::RefSnapshotIdMatch { r#ref, snapshot_id: None } => {
            format!("the requirement ref {} absent", r#ref)
        }
        TableRequirement::LastAssignedFieldIdMatch { last_assigned_field_id: id } => {
            format!("the requirement last assigned field id = {id}")
        }
        TableRequirement::CurrentSchemaIdMatch { current_schema_id: id } => {
            format!("the requirement current schema id = {id}")
        }
        TableRequirement::LastAssignedPartitionIdMatch { last_assigned_partition_id: id } => {
            format!("the requirement last assigned partition id = {id}")
        }
        TableRequirement::DefaultSpecIdMatch { default_spec_id: id } => {
            format!("the requirement default spec id = {id}")
        }
        TableRequirement::DefaultSortOrderIdMatch { default_sort_order_id: id } => {
            format!("the requirement default sort order id = {id}")
        }
    }
}

fn found(requirement: &TableRequirement, metadata: &TableMetadata) -> Option<String> {
    match requirement {
        TableRequirement::UuidMatch { .. } => Some(format!("it is {}", metadata.uuid())),
        TableRequirement::RefSnapshotIdMatch { r#ref, .. } => Some(match metadata.snapshot_for_ref(r#ref) {
            Some(snapshot) => format!("it is at snapshot {}", snapshot.snapshot_id()),
            None => "there is no such ref".to_owned(),
        }),
        TableRequirement::CurrentSchemaIdMatch { .. } => Some(format!("it is {}", metadata.current_schema_id())),
        TableRequirement::DefaultSpecIdMatch { .. } => Some(format!("it is {}", metadata.default_partition_spec_id())),
        TableRequirement::NotExist
        | TableRequirement::LastAssignedFieldIdMatch { .. }
        | TableRequirement::LastAssignedPartitionIdMatch { .. }
        | TableRequirement::DefaultSortOrderIdMatch { .. } => None,
    }
}

/// The table after every update, or why one of them is not valid. `location` is the present metadata file, for the
/// metadata log.
pub(crate) fn apply(
    commit: &Commit,
    metadata: &TableMetadata,
    location: &str,
    clock: &dyn Clock,
) -> Result<TableMetadata, Refusal> {
    let invalid = |reason: String| Refusal { status: 400, message: format!("table {}: {reason}", commit.table) };
    let failed = |error: iceberg::Error| invalid(error.to_string());
    ordered_sequence_numbers(commit, metadata).map_err(invalid)?;
    let mut builder = metadata.clone().into_builder(Some(location.to_owned()));
    if !commit.updates.iter().any(|update| matches!(update, TableUpdate::AddSnapshot { .. })) {
        // Never before the last change: a log that runs backwards is refused by every reader.
        let last_logged = metadata.history().last().map_or(0, |entry| entry.timestamp_ms());
        let now = clock.now().timestamp_millis().max(metadata.last_updated_ms()).max(last_logged);
        builder = set_time(builder, metadata, now).map_err(failed)?;
    }
    for update in &commit.updates {
        builder = update.clone().apply(builder).map_err(failed)?;
    }
    builder.build().map(|built| built.metadata).map_err(failed)
}

/// The crate lets a snapshot without parent carry any sequence number, and then sets the table's back to it.
fn ordered_sequence_numbers(commit: &Commit, metadata: &TableMetadata) -> Result<(), String> {
    let mut last = metadata.last_sequence_number();
    let mut numbered = metadata.format_version() != FormatVersion::V1;
    for update in &commit.updates {
        match update {
            TableUpdate::UpgradeFormatVersion { format_version } if *format_version != FormatVersion::V1 => {
                numbered = true;
            }
            TableUpdate::AddSnapshot { snapshot } if numbered => {
                let (id, number) = (snapshot.snapshot_id(), snapshot.sequence_number());
                if number <= last {
                    return Err(format!(
                        "snapshot {id} has sequence number {number}, but the table has given {last} already; \
                         build the snapshot again"
                    ));
                }
                last = number;
            }
            _ => {}
        }
    }
    Ok(())
}

/// The metadata of a new table, its uuid and time from the clock.
pub(crate) fn create(
    table: &TableName,
    creation: TableCreation,
    clock: &dyn Clock,
) -> Result<TableMetadata, CatalogError> {
    let failed = |error: iceberg::Error| CatalogError::Invalid(format!("table {table} cannot be made: {error}"));
    let builder = TableMetadataBuilder::from_table_creation(creation).map_err(failed)?;
    let built = builder.assign_uuid(clock.fresh_uuid()).build().map_err(failed)?.metadata;
    // The builder has stamped the machine's time; a table's first snapshot may not be older than its table.
    let mut json = serde_json::to_value(&built).map_err(|e| CatalogError::Invalid(e.to_string()))?;
    if let Some(fields) = json.as_object_mut() {
        let _previous = fields.insert("last-updated-ms".to_owned(), clock.now().timestamp_millis().into());
    }
    super::metadata::parse_value(json, &format!("of the new table {table}"))
}

/// Refuses where another table stands under the name: only what a probe has made may it drop.
pub(crate) fn is_still(metadata: &TableMetadata, table: &TableName, uuid: TableUuid) -> Result<(), CatalogError> {
    if metadata.uuid() == uuid.0 {
        return Ok(());
    }
    let found = metadata.uuid();
    Err(CatalogError::Invalid(format!(
        "table {table} is not the one that was made: its uuid is {found}, not {uuid}; it stays"
    )))
}

/// A snapshot that fits the table as loaded, and whose manifest list is a name only: for scratch tables, of which nobody
/// reads a row.
pub(crate) fn bare_snapshot(
    metadata: &TableMetadata,
    id: i64,
    parent: Option<i64>,
    now_ms: i64,
    summary: HashMap<String, String>,
) -> Snapshot {
    let number = match metadata.format_version() {
        FormatVersion::V1 => 0,
        FormatVersion::V2 | FormatVersion::V3 => metadata.last_sequence_number().saturating_add(1),
    };
    let builder = Snapshot::builder()
        .with_snapshot_id(id)
        .with_parent_snapshot_id(parent)
        .with_sequence_number(number)
        .with_timestamp_ms(now_ms)
        .with_manifest_list(format!("{}/metadata/snap-{id}.avro", metadata.location()))
        .with_summary(Summary { operation: Operation::Append, additional_properties: summary })
        .with_schema_id(metadata.current_schema_id());
    match metadata.format_version() {
        FormatVersion::V1 | FormatVersion::V2 => builder.build(),
        FormatVersion::V3 => builder.with_row_range(metadata.next_row_id(), 0).build(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::conformance::{require, set, small_table};
    use crate::clock::ManualClock;
    use crate::ids::SnapshotId;
    use crate::observed::RefKind;

    const TAG: RefKind = RefKind::KEPT_TAG;

    fn commit(requirements: Vec<TableRequirement>, updates: Vec<TableUpdate>, clock: &dyn Clock) -> Commit {
        Commit { table: "n.t".parse().unwrap(), requirements, updates, key: clock.fresh_key() }
    }

    fn table(version: FormatVersion, clock: &dyn Clock) -> TableMetadata {
        let name: TableName = "n.t".parse().unwrap();
        let mut creation = small_table(&name, version);
        creation.location = Some("memory:///n/t".to_owned());
        let made = create(&name, creation, clock).unwrap();
        add(&made, 1, None, clock).unwrap()
    }

    fn add(
        metadata: &TableMetadata,
        id: i64,
        parent: Option<i64>,
        clock: &dyn Clock,
    ) -> Result<TableMetadata, Refusal> {
        let snapshot = bare_snapshot(metadata, id, parent, clock.now().timestamp_millis(), HashMap::new());
        let main = RefKind::Branch { min_snapshots_to_keep: None, max_snapshot_age_ms: None, max_ref_age_ms: None };
        let updates = vec![TableUpdate::AddSnapshot { snapshot }, set("main", SnapshotId(id), &main)];
        apply(&commit(vec![], updates, clock), metadata, "old", clock)
    }

    #[test]
    fn times_come_from_the_clock_and_never_run_backwards() {
        for version in [FormatVersion::V1, FormatVersion::V2, FormatVersion::V3] {
            let clock = ManualClock::starting_now(1);
            let metadata = table(version, &clock);
            assert_eq!(metadata.last_updated_ms(), clock.now().timestamp_millis());
            // An hour later by this clock, whatever the machine's says; then by one that is a day behind.
            clock.advance_ms(3_600_000);
            let tag = |name| commit(vec![], vec![set(name, SnapshotId(1), &TAG)], &clock);
            let later = apply(&tag("a"), &metadata, "old", &clock).unwrap();
            assert_eq!(later.last_updated_ms(), clock.now().timestamp_millis());
            assert_eq!(later.history(), metadata.history());
            clock.advance_ms(-86_400_000);
            let behind = apply(&tag("b"), &later, "old", &clock).unwrap();
            assert_eq!(behind.last_updated_ms(), later.last_updated_ms());
            assert_eq!(behind.last_sequence_number(), metadata.last_sequence_number());
            assert_eq!(behind.next_row_id(), metadata.next_row_id());
            assert_eq!(behind.snapshots().count(), 1);
        }
    }

    #[test]
    fn a_snapshot_without_parent_does_not_set_sequence_numbers_back() {
        let clock = ManualClock::starting_now(1);
        let first = table(FormatVersion::V2, &clock);
        let second = add(&first, 2, Some(1), &clock).unwrap();
        let stale = bare_snapshot(&first, 3, None, clock.now().timestamp_millis(), HashMap::new());
        let updates = vec![TableUpdate::AddSnapshot { snapshot: stale }, set("t", SnapshotId(3), &TAG)];
        let refusal = apply(&commit(vec![], updates, &clock), &second, "old", &clock).unwrap_err();
        assert_eq!(refusal.status, 400);
        assert!(refusal.message.contains("sequence number 2"), "{}", refusal.message);
    }

    #[test]
    fn a_refusal_names_the_requirement_and_what_was_found() {
        let clock = ManualClock::starting_now(1);
        let metadata = table(FormatVersion::V2, &clock);
        let uuid = clock.fresh_uuid();
        for (requirement, words) in [
            (require("main", Some(SnapshotId(9))), ["ref main = 9", "at snapshot 1"]),
            (require("main", None), ["ref main absent", "at snapshot 1"]),
            (require("audit/x", Some(SnapshotId(1))), ["ref audit/x = 1", "no such ref"]),
            (TableRequirement::CurrentSchemaIdMatch { current_schema_id: 4 }, ["current schema id = 4", "it is 0"]),
            (TableRequirement::DefaultSpecIdMatch { default_spec_id: 4 }, ["default spec id = 4", "it is 0"]),
            (TableRequirement::UuidMatch { uuid }, ["table uuid", &metadata.uuid().to_string()]),
            (TableRequirement::NotExist, ["does not exist", "n.t"]),
        ] {
            let refusal = check(&commit(vec![requirement], vec![], &clock), &metadata).unwrap_err();
            assert_eq!(refusal.status, 409);
            for word in words {
                assert!(refusal.message.contains(word), "{word}: {}", refusal.message);
            }
        }
    }
}
