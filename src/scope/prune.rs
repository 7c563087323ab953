//! Which files cannot hold a row of the scope: by partition tuple, by bounds, by counts.
//!
//! Every doubt answers "may". What is known of a column's values in a file is put as [`Rows`], and one function says
//! whether such rows can pass a test.
//!
//! | transform | what a partition value `v` says of the rows |
//! |---|---|
//! | identity | all equal `v` |
//! | bucket | a literal in another bucket is not among them |
//! | truncate | numbers lie in `v` to `v + width - 1`; text and bytes start with `v`, and are `v` if it is shorter than the width |
//! | year, month, day, hour | they lie within it; for `v` up to 0 within it or the one before, as old writers rounded toward 1970 |
//! | void, unknown | nothing |
//!
//! A null partition value says that the column is null in every row, and any other that it is in none.

use std::cmp::Ordering;

use chrono::{Datelike as _, NaiveDate};
use iceberg::spec::{
    DataContentType, DataFile, Literal, PartitionSpec, PrimitiveLiteral, PrimitiveType, Schema, Transform,
};
use iceberg::transform::create_transform_function;

use super::node::{Check, Comparison, Node, Test, compare, promote, promotes};
use super::predicate::datum;

/// What is known of a column's values in the rows of a file.
pub(super) struct Rows {
    pub(super) lower: Option<PrimitiveLiteral>,
    pub(super) upper: Option<PrimitiveLiteral>,
    /// Whether there may be NaN beside the values within the bounds.
    pub(super) nan: bool,
    /// Whether there may be nulls.
    pub(super) null: bool,
    /// Whether there may be anything else than nulls.
    pub(super) value: bool,
}

impl Rows {
    pub(super) fn null_only() -> Self {
        Self { lower: None, upper: None, nan: false, null: true, value: false }
    }

    fn between(lower: Option<PrimitiveLiteral>, upper: Option<PrimitiveLiteral>) -> Self {
        let nan = [&lower, &upper].into_iter().flatten().any(PrimitiveLiteral::is_nan);
        Self { lower, upper, nan, null: false, value: true }
    }

    pub(super) fn may(&self, check: &Check) -> bool {
        let lower = |ok: &dyn Fn(Ordering) -> bool, v: &PrimitiveLiteral| {
            self.lower.as_ref().is_none_or(|lower| ok(compare(lower, v)))
        };
        let upper = |ok: &dyn Fn(Ordering) -> bool, v: &PrimitiveLiteral| {
            self.nan || self.upper.as_ref().is_none_or(|upper| ok(compare(upper, v)))
        };
        let within = |v: &PrimitiveLiteral| {
            lower(&Ordering::is_le, v) && self.upper.as_ref().is_none_or(|upper| compare(upper, v).is_ge())
        };
        let always = |v: &PrimitiveLiteral| match (&self.lower, &self.upper) {
            (Some(low), Some(high)) => !self.nan && compare(low, v).is_eq() && compare(high, v).is_eq(),
            _ => false,
        };
        if *check == Check::IsNull {
            return self.null;
        }
        self.value
            && match check {
                Check::IsNull | Check::NotNull => true,
                Check::Compare(Comparison::Eq, v) => within(v),
                Check::Compare(Comparison::NotEq, v) => !always(v),
                Check::Compare(Comparison::Lt, v) => lower(&Ordering::is_lt, v),
                Check::Compare(Comparison::LtEq, v) => lower(&Ordering::is_le, v),
                Check::Compare(Comparison::Gt, v) => upper(&Ordering::is_gt, v),
                Check::Compare(Comparison::GtEq, v) => upper(&Ordering::is_ge, v),
                Check::In(values) => values.iter().any(within),
                Check::NotIn(values) => !values.iter().any(always),
                Check::StartsWith(prefix) => {
                    let prefix = prefix.as_str();
                    self.lower_text().is_none_or(|low| low <= prefix || low.starts_with(prefix))
                        && self.upper_text().is_none_or(|high| high >= prefix)
                }
                Check::NotStartsWith(prefix) => {
                    !(self.lower_text().is_some_and(|low| low.starts_with(prefix.as_str()))
                        && self.upper_text().is_some_and(|high| high.starts_with(prefix.as_str())))
                }
            }
    }

    fn lower_text(&self) -> Option<&str> {
        self.lower.as_ref().and_then(text)
    }

    fn upper_text(&self) -> Option<&str> {
        self.upper.as_ref().and_then(text)
    }
}

fn text(value: &PrimitiveLiteral) -> Option<&str> {
    match value {
        PrimitiveLiteral::String(text) => Some(text),
        _ => None,
    }
}

/// See [`Scope::may_match`](super::Scope::may_match).
pub(super) fn may_match(node: &Node, file: &DataFile, spec: &PartitionSpec, schema: &Schema) -> bool {
    match node {
        Node::True => true,
        Node::False => false,
        Node::And(operands) => operands.iter().all(|operand| may_match(operand, file, spec, schema)),
        Node::Or(operands) => operands.iter().any(|operand| may_match(operand, file, spec, schema)),
        // A column that the schema lost cannot be reasoned about: its id may mean nothing to the file.
        Node::Test(test) if schema.field_by_id(test.field_id).is_none() => true,
        Node::Test(test) => partition_may(test, file, spec) && bounds_may(test, file),
    }
}

/// See [`Scope::must_match`](super::Scope::must_match).
pub(super) fn must_match(node: &Node, file: &DataFile, spec: &PartitionSpec, schema: &Schema) -> bool {
    match node {
        Node::True => true,
        Node::False => false,
        Node::And(operands) => operands.iter().all(|operand| must_match(operand, file, spec, schema)),
        Node::Or(operands) => operands.iter().any(|operand| must_match(operand, file, spec, schema)),
        Node::Test(test) => {
            let may = |check: Check| may_match(&Node::Test(Test { check, ..test.clone() }), file, spec, schema);
            // Where the column is null, a test of its value and the opposite of it are both unknown.
            let null = !matches!(test.check, Check::IsNull | Check::NotNull) && may(Check::IsNull);
            !null && !may(test.check.opposite())
        }
    }
}

fn bounds_may(test: &Test, file: &DataFile) -> bool {
    let id = test.field_id;
    let described = match file.content_type() {
        DataContentType::Data => true,
        // Other columns in an equality delete file are the deleted row's as its writer knew it: nothing binds them.
        DataContentType::EqualityDeletes => file.equality_ids().is_some_and(|ids| ids.contains(&id)),
        DataContentType::PositionDeletes => false,
    };
    if !described {
        return true;
    }
    let bound = |datum: Option<&iceberg::spec::Datum>| {
        let datum = datum?;
        // Writers disagree on the order of uuids (signed halves or unsigned bytes), so their bounds say nothing.
        let usable = promotes(datum.data_type(), &test.kind) && test.kind != PrimitiveType::Uuid && !datum.is_nan();
        if usable { promote(datum.literal(), &test.kind) } else { None }
    };
    let (lower, upper) = (file.lower_bounds().get(&id), file.upper_bounds().get(&id));
    // NaN in one bound: written by a writer that ordered NaN among the numbers, so the other is no better.
    let reliable = ![lower, upper].into_iter().flatten().any(iceberg::spec::Datum::is_nan);
    let nulls = file.null_value_counts().get(&id).copied();
    let floating = matches!(test.kind, PrimitiveType::Float | PrimitiveType::Double);
    let rows = Rows {
        lower: if reliable { bound(lower) } else { None },
        upper: if reliable { bound(upper) } else { None },
        nan: floating && file.nan_value_counts().get(&id) != Some(&0),
        null: nulls != Some(0),
        // Not the value count, which some writers keep without nulls: outside of lists the two are equal.
        value: nulls != Some(file.record_count()),
    };
    rows.may(&test.check)
}

fn partition_may(test: &Test, file: &DataFile, spec: &PartitionSpec) -> bool {
    let tuple = file.partition().fields();
    if tuple.len() != spec.fields().len() {
        return true;
    }
    spec.fields().iter().zip(tuple).filter(|(field, _)| field.source_id == test.field_id).all(|(field, value)| {
        let value = match value {
            Some(Literal::Primitive(value)) => Some(value),
            Some(Literal::Struct(_) | Literal::List(_) | Literal::Map(_)) => return true,
            None => None,
        };
        match (field.transform, value) {
            (Transform::Void | Transform::Unknown, _) => true,
            // Not of the spec; metadata may hold it, and nothing divides by it.
            (Transform::Bucket(size) | Transform::Truncate(size), _) if i32::try_from(size).map_or(true, |n| n < 1) => {
                true
            }
            (_, None) => Rows::null_only().may(&test.check),
            (Transform::Identity, Some(value)) => match promote(value, &test.kind) {
                Some(value) => Rows::between(Some(value.clone()), Some(value)).may(&test.check),
                None => true,
            },
            (Transform::Bucket(_), Some(value)) => bucket_may(test, field.transform, value),
            (Transform::Truncate(width), Some(value)) => truncate_may(test, width, value),
            (Transform::Year | Transform::Month | Transform::Day | Transform::Hour, Some(value)) => {
                period_may(test, field.transform, value)
            }
        }
    })
}

fn bucket_may(test: &Test, transform: Transform, value: &PrimitiveLiteral) -> bool {
    let same = |literal: &PrimitiveLiteral| bucket_of(test, transform, literal).is_none_or(|bucket| bucket == *value);
    match &test.check {
        Check::IsNull => false,
        Check::Compare(Comparison::Eq, literal) => same(literal),
        Check::In(literals) => literals.iter().any(same),
        Check::NotNull | Check::Compare(..) | Check::NotIn(_) | Check::StartsWith(_) | Check::NotStartsWith(_) => true,
    }
}

/// The bucket of a literal; `None` where it is not sure.
pub(super) fn bucket_of(test: &Test, transform: Transform, literal: &PrimitiveLiteral) -> Option<PrimitiveLiteral> {
    // The bucket of a nanosecond timestamp is that of its microsecond, and implementations round it differently.
    if matches!(test.kind, PrimitiveType::TimestampNs | PrimitiveType::TimestamptzNs) {
        return None;
    }
    let datum = datum(&test.kind, literal, "").ok()?;
    let bucket = create_transform_function(&transform).and_then(|function| function.transform_literal(&datum));
    Some(bucket.ok()??.literal().clone())
}

fn truncate_may(test: &Test, width: u32, value: &PrimitiveLiteral) -> bool {
    let Some(value) = promote(value, &test.kind) else { return true };
    let length = usize::try_from(width).unwrap_or(usize::MAX);
    let last = i64::from(width).saturating_sub(1);
    let rows = match &value {
        // Past the type's end there are no rows, so saturating loses none.
        PrimitiveLiteral::Int(v) => {
            let upper = i32::try_from(i64::from(*v).saturating_add(last)).unwrap_or(i32::MAX);
            Rows::between(Some(value.clone()), Some(PrimitiveLiteral::Int(upper)))
        }
        PrimitiveLiteral::Long(v) => {
            let upper = v.saturating_add(last);
            Rows::between(Some(value.clone()), Some(PrimitiveLiteral::Long(upper)))
        }
        PrimitiveLiteral::Int128(v) => {
            let upper = v.saturating_add(i128::from(last));
            Rows::between(Some(value.clone()), Some(PrimitiveLiteral::Int128(upper)))
        }
        PrimitiveLiteral::String(v) if v.chars().count() < length => {
            Rows::between(Some(value.clone()), Some(value.clone()))
        }
        PrimitiveLiteral::Binary(v) if v.len() < length => Rows::between(Some(value.clone()), Some(value.clone())),
        PrimitiveLiteral::String(v) => {
            return prefix_may(&test.check, &value, |other| match other {
                PrimitiveLiteral::String(other) => other.starts_with(v.as_str()),
                _ => true,
            });
        }
        PrimitiveLiteral::Binary(v) => {
            return prefix_may(&test.check, &value, |other| match other {
                PrimitiveLiteral::Binary(other) => other.starts_with(v.as_slice()),
                _ => true,
            });
        }
        _ => return true,
    };
    rows.may(&test.check)
}

/// Whether rows that all start with `value` may pass; `extends` says whether a literal starts with it.
fn prefix_may(check: &Check, value: &PrimitiveLiteral, extends: impl Fn(&PrimitiveLiteral) -> bool) -> bool {
    match check {
        Check::IsNull => false,
        Check::NotNull | Check::Compare(Comparison::NotEq, _) | Check::NotIn(_) => true,
        Check::Compare(Comparison::Eq, v) => extends(v),
        Check::In(values) => values.iter().any(extends),
        Check::Compare(Comparison::Lt, v) => compare(value, v).is_lt(),
        Check::Compare(Comparison::LtEq, v) => compare(value, v).is_le(),
        Check::Compare(Comparison::Gt | Comparison::GtEq, v) => compare(value, v).is_ge() || extends(v),
        Check::StartsWith(prefix) => match text(value) {
            Some(value) => value.starts_with(prefix.as_str()) || prefix.starts_with(value),
            None => true,
        },
        Check::NotStartsWith(prefix) => text(value).is_none_or(|value| !value.starts_with(prefix.as_str())),
    }
}

fn period_may(test: &Test, transform: Transform, value: &PrimitiveLiteral) -> bool {
    let PrimitiveLiteral::Int(value) = value else { return true };
    let last = i64::from(*value);
    let first = if last <= 0 { last.saturating_sub(1) } else { last };
    let rows = Rows::between(Some(PrimitiveLiteral::Long(first)), Some(PrimitiveLiteral::Long(last)));
    test.check != Check::IsNull && period_check(test, transform).is_none_or(|check| rows.may(&check))
}

/// The check of a date or timestamp carried over to the number of the period: the transforms keep the order, and
/// `ts < midnight` is asked as `ts <= midnight - 1`, so that it does not reach into the day that starts there. `None`
/// where the period says nothing.
pub(super) fn period_check(test: &Test, transform: Transform) -> Option<Check> {
    let of = |v: &PrimitiveLiteral, step: i64| period(&test.kind, transform, v, step).map(PrimitiveLiteral::Long);
    match &test.check {
        Check::Compare(comparison, v) => {
            let (comparison, step) = match comparison {
                Comparison::Eq => (Comparison::Eq, 0),
                Comparison::NotEq => return None,
                Comparison::Lt => (Comparison::LtEq, -1),
                Comparison::LtEq => (Comparison::LtEq, 0),
                Comparison::Gt => (Comparison::GtEq, 1),
                Comparison::GtEq => (Comparison::GtEq, 0),
            };
            of(v, step).map(|period| Check::Compare(comparison, period))
        }
        Check::In(values) => values.iter().map(|v| of(v, 0)).collect::<Option<Vec<_>>>().map(Check::In),
        Check::IsNull | Check::NotNull | Check::NotIn(_) | Check::StartsWith(_) | Check::NotStartsWith(_) => None,
    }
}

/// The year, month, day or hour since 1970-01-01T00 of a value moved by `step` of its type's units.
fn period(kind: &PrimitiveType, transform: Transform, value: &PrimitiveLiteral, step: i64) -> Option<i64> {
    let (value, hour) = match (value, kind) {
        (PrimitiveLiteral::Int(days), PrimitiveType::Date) => (i64::from(*days), None),
        (PrimitiveLiteral::Long(v), PrimitiveType::Timestamp | PrimitiveType::Timestamptz) => (*v, Some(3_600_000_000)),
        (PrimitiveLiteral::Long(v), PrimitiveType::TimestampNs | PrimitiveType::TimestamptzNs) => {
            (*v, Some(3_600_000_000_000))
        }
        _ => return None,
    };
    let value = value.checked_add(step)?;
    let days = match hour {
        None => value,
        Some(hour) => value.div_euclid(hour).div_euclid(24),
    };
    let date = || NaiveDate::from_epoch_days(i32::try_from(days).ok()?);
    match transform {
        Transform::Hour => hour.map(|hour| value.div_euclid(hour)),
        Transform::Day => Some(days),
        Transform::Month => {
            let date = date()?;
            i64::from(date.year()).checked_sub(1970)?.checked_mul(12)?.checked_add(i64::from(date.month0()))
        }
        Transform::Year => i64::from(date()?.year()).checked_sub(1970),
        Transform::Identity | Transform::Bucket(_) | Transform::Truncate(_) | Transform::Void | Transform::Unknown => {
            None
        }
    }
}
