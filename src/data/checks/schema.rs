//! The schema: what columns the table has. Decided from metadata; what is examined are columns, not rows.

use std::collections::BTreeSet;

use iceberg::spec::{PrimitiveType, Schema};

use super::{EXAMPLES, Finding, plural};
use crate::contract::{ColumnRule, ColumnType, SchemaCheck, SchemaMode};
use crate::evidence::check::Outcome;

/// The check's conclusion over the table's current schema.
pub(crate) fn conclude(check: &SchemaCheck, schema: &Schema) -> Finding {
    let mut faults: Vec<String> =
        check.columns.iter().flat_map(|column| faults_of(column, check.mode, schema)).collect();
    if check.mode == SchemaMode::Exact {
        let stated: BTreeSet<_> = check.columns.iter().map(|column| column.name.as_str()).collect();
        for field in schema.as_struct().fields() {
            if !stated.contains(field.name.as_str()) {
                faults.push(format!("column {} is not in the contract", field.name));
            }
        }
    }
    let examined = check.columns.len() as u64;
    let columns = plural(examined, "column");
    match faults.first() {
        None => Finding::new(Outcome::Pass, examined, format!("{columns} as stated")),
        Some(first) => {
            let more = faults.len() - 1;
            let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
            let summary = format!("the table's schema is not as stated: {first}{more}");
            faults.truncate(4 * EXAMPLES);
            Finding::new(Outcome::Fail, examined, summary).with_details(faults)
        }
    }
}

fn faults_of(column: &ColumnRule, mode: SchemaMode, schema: &Schema) -> Vec<String> {
    let name = &column.name;
    let Some(field) = schema.field_by_name(name) else {
        return vec![format!("column {name} is missing")];
    };
    let mut faults = Vec::new();
    let found = ColumnType::of(&field.field_type);
    if let Some(stated) = &column.column_type {
        let good = found == *stated || mode == SchemaMode::Compatible && promoted(stated, &found);
        if !good {
            faults.push(format!("column {name} is {found}, stated {stated}"));
        }
    }
    let words = |required: bool| if required { "required" } else { "optional" };
    // A required column is fine where an optional one is stated, unless the schema has to be exact.
    let stricter = mode == SchemaMode::Compatible && field.required;
    if let Some(required) = column.required.filter(|required| *required != field.required && !stricter) {
        faults.push(format!("column {name} is {}, stated {}", words(field.required), words(required)));
    }
    faults
}

/// Is the type one that Iceberg promotes the stated one to? Iceberg spec, "Schema Evolution".
fn promoted(stated: &ColumnType, found: &ColumnType) -> bool {
    use PrimitiveType::{Decimal, Double, Float, Int, Long};
    let (ColumnType::Primitive(stated), ColumnType::Primitive(found)) = (stated, found) else { return false };
    match (stated, found) {
        (Int, Long) | (Float, Double) => true,
        (Decimal { precision, scale }, Decimal { precision: wider, scale: same }) => {
            wider >= precision && same == scale
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use iceberg::spec::{NestedField, Type};

    use super::*;
    use crate::contract::{CheckKind, Contract};

    fn run(mode: &str, columns: &str) -> Finding {
        let field = |id, name, required, primitive| {
            std::sync::Arc::new(NestedField::new(id, name, Type::Primitive(primitive), required))
        };
        let schema = Schema::builder()
            .with_fields([
                field(1, "id", true, PrimitiveType::Long),
                field(2, "x", false, PrimitiveType::Decimal { precision: 12, scale: 2 }),
            ])
            .build()
            .unwrap();
        let text = format!(
            "version = 1\n[[check]]\nname = \"c\"\nkind = \"schema\"\nmode = \"{mode}\"\ncolumns = [{columns}]\n"
        );
        let contract = Contract::parse(&text, "c").unwrap();
        let CheckKind::Schema(check) = &contract.checks[0].kind else { panic!() };
        conclude(check, &schema)
    }

    #[test]
    fn exact_and_compatible() {
        use Outcome::{Fail, Pass};
        let both = r#"{ name = "id", type = "long", required = true }, { name = "x", type = "decimal(12, 2)" }"#;
        for (mode, columns, outcome, words) in [
            ("exact", both, Pass, "2 columns"),
            ("compatible", both, Pass, "2 columns"),
            ("exact", r#"{ name = "id" }"#, Fail, "column x is not in the contract"),
            ("compatible", r#"{ name = "id" }"#, Pass, "1 column"),
            ("compatible", r#"{ name = "y" }"#, Fail, "column y is missing"),
            ("compatible", r#"{ name = "id", type = "int" }"#, Pass, ""),
            ("compatible", r#"{ name = "id", type = "string" }"#, Fail, "column id is long, stated string"),
            ("compatible", r#"{ name = "x", type = "decimal(9, 2)" }"#, Pass, ""),
            ("compatible", r#"{ name = "x", type = "decimal(14, 2)" }"#, Fail, "decimal(12, 2)"),
            ("compatible", r#"{ name = "x", type = "decimal(12, 3)" }"#, Fail, "decimal(12, 2)"),
            ("compatible", r#"{ name = "x", required = true }"#, Fail, "is optional, stated required"),
            ("compatible", r#"{ name = "id", required = false }"#, Pass, ""),
            ("exact", r#"{ name = "id", required = false }, { name = "x" }"#, Fail, "is required, stated optional"),
            ("exact", r#"{ name = "id", type = "int" }, { name = "x" }"#, Fail, "column id is long"),
        ] {
            let finding = run(mode, columns);
            assert_eq!(finding.outcome, outcome, "{mode} {columns}: {}", finding.summary);
            assert!(finding.summary.contains(words), "{}", finding.summary);
        }
    }
}
