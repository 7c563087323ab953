//! `create`: a table from a file's schema, for trying things out.

use std::collections::BTreeMap;
use std::path::PathBuf;

use iceberg::spec::{FormatVersion, Transform};

use super::{Coordinator, Error};
use crate::data::create::{infer_schema, parse_partition_by, table_creation};
use crate::ids::TableName;
use crate::report::{Column, CreateReport};

/// What `create` is asked for.
#[derive(Debug, Clone)]
pub struct CreateRequest {
    /// The table.
    pub table: TableName,
    /// A Parquet or CSV file with its columns.
    pub like: PathBuf,
    /// Partition fields, e.g. `day(ordered_at), region`.
    pub partition_by: Option<String>,
    /// 1, 2 or 3.
    pub format_version: u8,
    /// Table properties.
    pub properties: BTreeMap<String, String>,
}

impl Coordinator {
    /// Makes an empty table.
    ///
    /// # Errors
    /// Exit 2: the file or the partition expression is wrong. 13: the table exists.
    pub async fn create(&self, request: &CreateRequest) -> Result<CreateReport, Error> {
        let schema = infer_schema(&request.like)?;
        let spec = parse_partition_by(request.partition_by.as_deref().unwrap_or(""), &schema)?;
        let version = match request.format_version {
            1 => FormatVersion::V1,
            2 => FormatVersion::V2,
            3 => FormatVersion::V3,
            other => return Err(Error::Usage(format!("format version {other}: there are 1, 2 and 3"))),
        };
        let properties = request.properties.clone();
        let creation = table_creation(request.table.name(), schema, spec, version, properties);
        let table = self.catalog.create(&request.table, creation).await?;
        let metadata = &table.metadata;
        let schema = metadata.current_schema();
        let columns = schema.as_struct().fields().iter().map(|field| Column {
            id: field.id,
            name: field.name.clone(),
            r#type: field.field_type.to_string(),
            required: field.required,
        });
        let partition = metadata.default_partition_spec().fields().iter().map(|field| {
            let source = schema.name_by_field_id(field.source_id).unwrap_or("?");
            match field.transform {
                Transform::Identity => source.to_owned(),
                transform => format!("{transform}({source})"),
            }
        });
        Ok(CreateReport {
            table: request.table.clone(),
            location: metadata.location().to_owned(),
            format_version: metadata.format_version() as u8,
            columns: columns.collect(),
            partition: partition.collect(),
        })
    }
}
