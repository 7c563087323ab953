//! A partition as people write it: `day=2013-08-09`.

use chrono::NaiveDate;
use iceberg::spec::{Literal, PartitionSpec, PrimitiveLiteral, PrimitiveType, Schema, Struct, Transform, Type};

use super::literal::render;

/// A partition's values under the names of its spec's fields: `day=2013-08-09, store=null`. Empty for an unpartitioned
/// table. For messages.
pub fn partition_text(spec: &PartitionSpec, schema: &Schema, partition: &Struct) -> String {
    let fields = spec.fields().iter().zip(partition.fields()).filter(|(field, _)| field.transform != Transform::Void);
    let text = fields.map(|(field, value)| {
        let source = schema.field_by_id(field.source_id).map(|source| source.field_type.as_ref());
        format!("{}={}", field.name, value_text(field.transform, source, value.as_ref()))
    });
    text.collect::<Vec<_>>().join(", ")
}

fn value_text(transform: Transform, source: Option<&Type>, value: Option<&Literal>) -> String {
    let value = match value {
        None => return "null".to_owned(),
        Some(Literal::Primitive(value)) => value,
        Some(Literal::Struct(_) | Literal::List(_) | Literal::Map(_)) => return "?".to_owned(),
    };
    let plain = || match source.and_then(|source| transform.result_type(source).ok()) {
        Some(Type::Primitive(kind)) => text(&kind, value),
        _ => text(&PrimitiveType::Long, value),
    };
    let PrimitiveLiteral::Int(number) = value else { return plain() };
    let number = *number;
    let date = |days: i32| NaiveDate::from_epoch_days(days).map(|date| date.to_string());
    let period = match transform {
        Transform::Year => number.checked_add(1970).map(|year| year.to_string()),
        Transform::Month => number
            .div_euclid(12)
            .checked_add(1970)
            .map(|year| format!("{year}-{:02}", number.rem_euclid(12).saturating_add(1))),
        Transform::Day => date(number),
        Transform::Hour => date(number.div_euclid(24)).map(|date| format!("{date}-{:02}", number.rem_euclid(24))),
        Transform::Identity | Transform::Bucket(_) | Transform::Truncate(_) | Transform::Void | Transform::Unknown => {
            None
        }
    };
    period.unwrap_or_else(plain)
}

fn text(kind: &PrimitiveType, value: &PrimitiveLiteral) -> String {
    match value {
        PrimitiveLiteral::String(text) => text.clone(),
        value => render(kind, value),
    }
}
