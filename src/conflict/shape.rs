//! Rule K6: the table is another, or has another format, schema or partition spec than the candidate was made for.
//!
//! Readers find columns by id and files by their own spec, so most changes leave a candidate's files as good as they were;
//! the checks are run again under the new shape. What its files, deletes or scope cannot follow is a reason to rebuild.

use std::collections::BTreeSet;

use iceberg::spec::{DataContentType, DataFileFormat, NestedFieldRef, PrimitiveType, Schema, SchemaRef, Type};

use super::classify::Facts;
use super::verdict::{Collision, Rule, What};
use crate::ids::TableUuid;

/// The shape of a table at one moment.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Which table.
    pub uuid: TableUuid,
    /// 1, 2 or 3; `None` where nothing recorded it.
    pub format_version: Option<u8>,
    /// The current schema.
    pub schema: SchemaRef,
    /// The default partition spec; `None` where nothing recorded it.
    pub default_spec_id: Option<i32>,
}

/// What the candidate cannot follow, and what it can, to be checked again.
pub(super) fn moved(facts: &Facts<'_>) -> (Vec<Collision>, Vec<String>) {
    let (before, after) = (facts.before, facts.after);
    let (mut wrong, mut again) = (Vec::new(), Vec::new());
    if before.uuid != after.uuid {
        wrong.push((None, format!("the table is {}, and was {}", after.uuid, before.uuid)));
    }
    if let Some(reason) = &facts.concern.unbound {
        wrong.push((None, reason.clone()));
    }
    match (before.format_version, after.format_version) {
        (Some(was), Some(is)) if is < was => {
            wrong.push((None, format!("the format version is {is}, and was {was}")));
        }
        (Some(was), Some(is)) if is > was => again.push(format!("the format version is {is}, and was {was}")),
        _ => {}
    }
    for entry in &facts.candidate.added {
        let path = entry.file.file_path();
        let positions = entry.file.content_type() == DataContentType::PositionDeletes;
        if positions && after.format_version == Some(3) && entry.file.file_format() != DataFileFormat::Puffin {
            let reason = "it holds position deletes, which format version 3 takes only as deletion vectors";
            wrong.push((Some(path), reason.to_owned()));
        }
        if !facts.concern.specs.contains_key(&entry.spec_id) {
            wrong.push((Some(path), format!("the table has lost its partition spec {}", entry.spec_id)));
        }
        for id in entry.file.equality_ids().into_iter().flatten() {
            if after.schema.field_by_id(id).is_none() {
                wrong.push((
                    Some(path),
                    format!("it deletes by column {}, which was dropped", name(&before.schema, id)),
                ));
            }
        }
    }
    if let (Some(was), Some(is)) = (before.default_spec_id, after.default_spec_id)
        && was != is
    {
        again.push(format!("the partition spec is {is}, and was {was}"));
    }
    columns(facts, &mut wrong, &mut again);
    let told = |(file, detail): (Option<&str>, String)| Collision {
        rule: Rule::K6,
        what: What::Shape,
        file: file.map(str::to_owned),
        partition: None,
        sequence_number: None,
        possible: false,
        detail: Some(detail),
        snapshot: None,
        by: None,
    };
    (wrong.into_iter().map(told).collect(), again)
}

fn columns<'a>(facts: &Facts<'a>, wrong: &mut Vec<(Option<&'a str>, String)>, again: &mut Vec<String>) {
    let (before, after) = (&facts.before.schema, &facts.after.schema);
    let (was, is) = (fields(before), fields(after));
    let files = || facts.candidate.added.iter().filter(|entry| entry.is_data());
    for (id, field) in &is {
        let column = name(after, *id);
        match was.iter().find(|(old, _)| old == id).map(|(_, field)| field) {
            None => {
                again.push(format!("the column {column} was added"));
                if field.required && field.initial_default.is_none() && files().next().is_some() {
                    wrong.push((
                        None,
                        format!("the column {column} is new and required: the candidate has no values of it"),
                    ));
                }
            }
            Some(old) => {
                if old.field_type != field.field_type && !nested(&field.field_type) {
                    let (from, to) = (&old.field_type, &field.field_type);
                    match widens(from, to) {
                        true => again.push(format!("the column {column} is {to}, and was {from}")),
                        false => wrong.push((None, format!("the column {column} is {to}, and was {from}"))),
                    }
                }
                if field.required && !old.required {
                    again.push(format!("the column {column} is required now"));
                    let nulls = files().find(|entry| entry.file.null_value_counts().get(id) != Some(&0));
                    if let Some(entry) = nulls {
                        let reason = format!("the column {column} is required now, and it may hold nulls");
                        wrong.push((Some(entry.file.file_path()), reason));
                    }
                }
                if old.name != field.name {
                    again.push(format!("the column {} is called {}", old.name, field.name));
                }
            }
        }
    }
    let now: BTreeSet<i32> = is.iter().map(|(id, _)| *id).collect();
    let dropped = was.iter().filter(|(id, _)| !now.contains(id));
    again.extend(dropped.map(|(id, _)| format!("the column {} was dropped", name(before, *id))));
}

fn nested(kind: &Type) -> bool {
    match kind {
        Type::Primitive(_) => false,
        Type::Struct(_) | Type::List(_) | Type::Map(_) => true,
    }
}

/// Every field of a schema with its id, nested ones too.
fn fields(schema: &Schema) -> Vec<(i32, NestedFieldRef)> {
    fn walk(kind: &Type, all: &mut Vec<(i32, NestedFieldRef)>) {
        let inner: Vec<&NestedFieldRef> = match kind {
            Type::Primitive(_) => return,
            Type::Struct(of) => of.fields().iter().collect(),
            Type::List(of) => vec![&of.element_field],
            Type::Map(of) => vec![&of.key_field, &of.value_field],
        };
        for field in inner {
            all.push((field.id, field.clone()));
            walk(&field.field_type, all);
        }
    }
    let mut all = Vec::new();
    for field in schema.as_struct().fields() {
        all.push((field.id, field.clone()));
        walk(&field.field_type, &mut all);
    }
    all
}

/// May files that were written with the one type be read as the other? Source: Iceberg spec, "Schema Evolution".
fn widens(from: &Type, to: &Type) -> bool {
    match (from, to) {
        (Type::Primitive(from), Type::Primitive(to)) => match (from, to) {
            (PrimitiveType::Int, PrimitiveType::Long) | (PrimitiveType::Float, PrimitiveType::Double) => true,
            (PrimitiveType::Decimal { precision: was, scale: before }, PrimitiveType::Decimal { precision, scale }) => {
                before == scale && was <= precision
            }
            _ => from == to,
        },
        _ => from == to,
    }
}

fn name(schema: &Schema, id: i32) -> String {
    schema.name_by_field_id(id).map_or_else(|| format!("with the id {id}"), str::to_owned)
}
