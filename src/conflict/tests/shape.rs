//! Rule K6: what a candidate can follow, and what it cannot.

use std::sync::Arc;

use iceberg::spec::{Literal, NestedField, NestedFieldRef, PrimitiveType, Schema, SchemaRef, Transform, Type};

use super::kit::*;
use crate::conflict::Verdict;
use crate::identity::Change;
use crate::ids::TableUuid;

fn day() -> Place {
    (0, vec![Some(Literal::int(9))])
}

fn asked(candidate: Change) -> Asked {
    Asked::new("day = '1970-01-10'", &[spec(0, &[("day", Transform::Identity)])], candidate, change(&[], &[]))
}

fn append() -> Change {
    change(&[data("c", &day(), 5)], &[])
}

/// The table's schema with one column changed, dropped or added.
fn with(edit: impl Fn(&NestedFieldRef) -> Option<NestedFieldRef>, added: Option<NestedField>) -> SchemaRef {
    let fields = schema().as_struct().fields().iter().filter_map(edit).collect::<Vec<_>>();
    let added = added.map(Arc::new);
    Arc::new(Schema::builder().with_schema_id(2).with_fields(fields.into_iter().chain(added)).build().unwrap())
}

fn named(name: &'static str, edit: impl Fn(&NestedField) -> Option<NestedField>) -> SchemaRef {
    with(|field| if field.name == name { edit(field).map(Arc::new) } else { Some(field.clone()) }, None)
}

fn under(schema: SchemaRef, candidate: Change) -> (String, Vec<String>) {
    let mut asked = asked(candidate);
    asked.after.schema = schema;
    let again = match asked.verdict() {
        Verdict::Reattach { again } => again,
        Verdict::Rebuild { .. } => Vec::new(),
    };
    (asked.rules(), again)
}

#[test]
fn columns_that_readers_find_by_id_do_no_harm() {
    let extra = || NestedField::optional(20, "extra", Type::Primitive(PrimitiveType::Long));
    assert_eq!(
        under(with(|f| Some(f.clone()), Some(extra())), append()),
        ("-".into(), vec!["the column extra was added".into()])
    );
    let dropped = named("amount", |_| None);
    assert_eq!(under(dropped, append()), ("-".into(), vec!["the column amount was dropped".into()]));
    let renamed = named("name", |field| Some(NestedField { name: "title".to_owned(), ..field.clone() }));
    assert_eq!(under(renamed, append()), ("-".into(), vec!["the column name is called title".into()]));
    let wider = named("amount", |field| {
        let kind = Type::Primitive(PrimitiveType::Decimal { precision: 12, scale: 2 });
        Some(NestedField { field_type: Box::new(kind), ..field.clone() })
    });
    assert_eq!(under(wider, append()).0, "-");
}

#[test]
fn columns_that_it_needs_are_reasons() {
    // The scope's own column.
    assert_eq!(under(named("day", |_| None), append()).0, "K6");
    // One that its deletes compare.
    assert_eq!(under(named("key", |_| None), change(&[equality("d", &day())], &[])).0, "K6");
    let other = named("name", |field| {
        Some(NestedField { field_type: Box::new(Type::Primitive(PrimitiveType::Binary)), ..field.clone() })
    });
    assert_eq!(under(other, append()).0, "K6");
    let required = NestedField::required(20, "extra", Type::Primitive(PrimitiveType::Long));
    assert_eq!(under(with(|f| Some(f.clone()), Some(required)), append()).0, "K6");
    // Its files may hold nulls where none are allowed now.
    let strict = || named("key", |field| Some(NestedField { required: true, ..field.clone() }));
    assert_eq!(under(strict(), append()).0, "K6");
    let counted = bounded("c", &day(), 2, iceberg::spec::Datum::long(1), iceberg::spec::Datum::long(2));
    assert_eq!(under(strict(), change(&[counted], &[])).0, "-");
}

#[test]
fn formats_and_specs() {
    let upgraded = |candidate, to| {
        let mut asked = asked(candidate);
        asked.after.format_version = Some(to);
        asked.rules()
    };
    assert_eq!(upgraded(append(), 3), "-");
    assert_eq!(upgraded(append(), 1), "K6");
    assert_eq!(upgraded(change(&[positions("d", &day(), Some("f"))], &[]), 3), "K6");
    assert_eq!(upgraded(change(&[vector("d", &day(), "f")], &[]), 3), "-");

    let mut asked = asked(append());
    asked.after.default_spec_id = Some(1);
    assert_eq!(asked.verdict(), Verdict::Reattach { again: vec!["the partition spec is 1, and was 0".to_owned()] });
    asked.specs.clear();
    assert_eq!(asked.rules(), "K6");
}

#[test]
fn another_table_is_another_table() {
    let mut asked = asked(append());
    asked.after.uuid = TableUuid(uuid::Uuid::from_u128(2));
    assert_eq!(asked.rules(), "K6");
}
