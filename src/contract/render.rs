//! The first contract of a table, and where contracts are looked for.

use std::fmt::Write as _;

use iceberg::spec::{Schema, Type};

use super::{ColumnType, Contract, VERSION};
use crate::ids::TableName;

/// Where a table's contract is looked for, below a folder: `contracts/<namespace>.<table>.toml`.
pub fn contract_file_name(table: &TableName) -> String {
    format!("contracts/{table}.toml")
}

impl Contract {
    /// The text of a first contract: the columns as they are, the key if one is given, and the scope.
    ///
    /// The caller has made sure that the key's columns exist.
    pub fn first_for(schema: &Schema, key: &[String]) -> String {
        let mut text = format!(
            "# What a change of this table must pass before it may be published.\n\
             version = {VERSION}\n\
             # A candidate that fails is kept open for repair, or \"quarantine\": closed for good.\n\
             on-failure = \"keep\"\n\
             # When main has moved: \"stop\", or \"reattach\" where that is safe.\n\
             on-conflict = \"stop\"\n\n\
             # \"exact\": these columns and no others. \"compatible\": at least these.\n\
             [[check]]\nname = \"columns\"\nkind = \"schema\"\nmode = \"compatible\"\ncolumns = [\n"
        );
        for field in schema.as_struct().fields() {
            let name = quoted(&field.name);
            let column_type = quoted(&ColumnType::of(&field.field_type).to_string());
            // Writing to a string does not fail.
            let _ = writeln!(text, "  {{ name = {name}, type = {column_type}, required = {} }},", field.required);
        }
        text.push_str("]\n\n");
        if key.is_empty() {
            text.push_str(
                "# Columns that identify a row: never null, and no two rows alike. within = \"scope\" or \"table\".\n\
                 # [[check]]\n# name = \"key\"\n# kind = \"keys\"\n# columns = [\"id\"]\n# within = \"scope\"\n\n",
            );
        } else {
            let columns: Vec<_> = key.iter().map(|column| quoted(column)).collect();
            let _ = write!(
                text,
                "# Never null, and no two rows alike. within = \"table\": all rows; \"scope\" reads \
                 less, and is enough\n# where two rows of one key always lie in one scope.\n[[check]]\nname = \"key\"\nkind = \"keys\"\ncolumns = [{}]\nwithin = \"table\"\n\n",
                columns.join(", ")
            );
        }
        text.push_str(
            "# Every row added or removed is inside the scope; rows outside it are unchanged.\n\
             [[check]]\nname = \"scope\"\nkind = \"scope\"\n\n\
             # How many rows the scope may have; the ratios are against the rows it had before.\n\
             # [[check]]\n# name = \"volume\"\n# kind = \"volume\"\n# min-rows = 1\n# min-ratio = 0.9\n# max-ratio = 1.1\n\n\
             # Totals over the rows in scope, against literal numbers or files (Parquet or CSV, beside this file).\n\
             # [source.ledger]\n# uri = \"ledger/*.csv\"\n#\n\
             # [[check]]\n# name = \"totals\"\n# kind = \"totals\"\n# measures = [\n\
             #   { measure = \"count(*)\", source = \"ledger\" },\n\
             #   { measure = \"sum(amount)\", source = \"ledger\", abs = 0.01 },\n# ]\n",
        );
        text
    }
}

impl ColumnType {
    /// The type of a column as a contract says it.
    pub fn of(field_type: &Type) -> Self {
        match field_type {
            Type::Primitive(primitive) => ColumnType::Primitive(primitive.clone()),
            Type::Struct(_) => ColumnType::Struct,
            Type::List(_) => ColumnType::List,
            Type::Map(_) => ColumnType::Map,
        }
    }
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            control if control.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", control as u32);
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
