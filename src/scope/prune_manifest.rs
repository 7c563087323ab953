//! Which manifests cannot list a file with a row of the scope: by the summaries of their partition fields.
//!
//! Coarser than [`prune`](super::prune) on every file that the manifest lists, never sharper. Source: Iceberg spec,
//! "Manifest Lists", `field_summary`.

use iceberg::spec::{
    Datum, FieldSummary, Literal, PartitionField, PartitionSpec, PrimitiveLiteral, PrimitiveType, Schema, Struct,
    Transform, Type,
};

use super::node::{Check, Comparison, Node, Test, compare, promote};
use super::prune::{Rows, bucket_of, period_check};

/// See [`Scope::may_match_manifest`](super::Scope::may_match_manifest).
pub(super) fn may_match(node: &Node, summaries: &[FieldSummary], spec: &PartitionSpec, schema: &Schema) -> bool {
    let each = |operand: &Node| may_match(operand, summaries, spec, schema);
    match node {
        Node::True => true,
        Node::False => false,
        Node::And(operands) => operands.iter().all(each),
        Node::Or(operands) => operands.iter().any(each),
        Node::Test(_) if summaries.len() != spec.fields().len() => true,
        Node::Test(test) if schema.field_by_id(test.field_id).is_none() => true,
        Node::Test(test) => spec
            .fields()
            .iter()
            .zip(summaries)
            .filter(|(field, _)| field.source_id == test.field_id)
            .all(|(field, summary)| field_may(test, field, summary, schema)),
    }
}

fn field_may(test: &Test, field: &PartitionField, summary: &FieldSummary, schema: &Schema) -> bool {
    let nulls = || summary.contains_null && Rows::null_only().may(&test.check);
    let Some(range) = Range::of(field, summary, schema) else { return true };
    match field.transform {
        Transform::Void | Transform::Unknown => true,
        Transform::Identity => {
            let to = |bound: &Option<PrimitiveLiteral>| bound.as_ref().and_then(|bound| promote(bound, &test.kind));
            let floating = matches!(test.kind, PrimitiveType::Float | PrimitiveType::Double);
            let nan = floating && summary.contains_nan != Some(false);
            let rows = Rows { lower: to(&range.lower), upper: to(&range.upper), nan, null: false, value: true };
            nulls() || rows.may(&test.check)
        }
        Transform::Bucket(_) => {
            let same = |literal: &PrimitiveLiteral| {
                bucket_of(test, field.transform, literal).is_none_or(|bucket| range.holds(&bucket))
            };
            match &test.check {
                Check::IsNull => nulls(),
                Check::Compare(Comparison::Eq, literal) => same(literal),
                Check::In(literals) => literals.iter().any(same),
                Check::NotNull
                | Check::Compare(..)
                | Check::NotIn(_)
                | Check::StartsWith(_)
                | Check::NotStartsWith(_) => true,
            }
        }
        // The upper end of what is truncated is not known from the bound alone.
        Transform::Truncate(_) => {
            let lower = range.lower.and_then(|bound| promote(&bound, &test.kind));
            nulls() || Rows { lower, upper: None, nan: false, null: false, value: true }.may(&test.check)
        }
        Transform::Year | Transform::Month | Transform::Day | Transform::Hour => {
            let whole = |bound: Option<PrimitiveLiteral>| match bound {
                Some(PrimitiveLiteral::Int(value)) => Some(i64::from(value)),
                _ => None,
            };
            // As for single files: old writers rounded toward 1970.
            let first = whole(range.lower).map(|value| if value <= 0 { value.saturating_sub(1) } else { value });
            let last = whole(range.upper).map(PrimitiveLiteral::Long);
            let rows =
                Rows { lower: first.map(PrimitiveLiteral::Long), upper: last, nan: false, null: false, value: true };
            match &test.check {
                Check::IsNull => nulls(),
                _ => period_check(test, field.transform).is_none_or(|check| rows.may(&check)),
            }
        }
    }
}

/// See [`Scope::may_hold_partition`](super::Scope::may_hold_partition).
pub(super) fn may_hold(partition: &Struct, summaries: &[FieldSummary], spec: &PartitionSpec, schema: &Schema) -> bool {
    let values = partition.fields();
    if summaries.len() != spec.fields().len() || values.len() != summaries.len() {
        return true;
    }
    spec.fields().iter().zip(summaries).zip(values).all(|((field, summary), value)| match value {
        None => summary.contains_null,
        Some(Literal::Primitive(value)) if value.is_nan() => summary.contains_nan != Some(false),
        Some(Literal::Primitive(value)) => {
            Range::of(field, summary, schema).is_none_or(|range| match promote(value, &range.kind) {
                Some(value) => range.holds(&value),
                None => true,
            })
        }
        Some(Literal::Struct(_) | Literal::List(_) | Literal::Map(_)) => true,
    })
}

/// The values of a partition field in a manifest, nulls and NaN aside.
struct Range {
    kind: PrimitiveType,
    lower: Option<PrimitiveLiteral>,
    upper: Option<PrimitiveLiteral>,
}

impl Range {
    /// `None` where the summary cannot be read: then anything may be in the manifest.
    fn of(field: &PartitionField, summary: &FieldSummary, schema: &Schema) -> Option<Self> {
        let source = schema.field_by_id(field.source_id)?;
        let Type::Primitive(kind) = field.transform.result_type(&source.field_type).ok()? else { return None };
        let bound = |bytes: Option<&[u8]>| match bytes {
            None => Some(None),
            Some(bytes) => {
                let datum = Datum::try_from_bytes(bytes, kind.clone()).ok()?;
                Some(Some(datum.literal().clone()).filter(|value| !value.is_nan()))
            }
        };
        let lower = bound(summary.lower_bound.as_deref().map(Vec::as_slice))?;
        let upper = bound(summary.upper_bound.as_deref().map(Vec::as_slice))?;
        Some(Self { kind, lower, upper })
    }

    fn holds(&self, value: &PrimitiveLiteral) -> bool {
        self.lower.as_ref().is_none_or(|lower| compare(lower, value).is_le())
            && self.upper.as_ref().is_none_or(|upper| compare(upper, value).is_ge())
    }
}
