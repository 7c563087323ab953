//! The filter as Iceberg's own predicate, for planning.

use iceberg::expr::{Predicate, Reference};
use iceberg::spec::{Datum, PrimitiveLiteral, PrimitiveType, Schema};

use super::error::ScopeError;
use super::node::{Check, Comparison, Node, Test, promote};

/// The predicate, by the names of `schema`. Where Iceberg's rules for NaN and `-0.0` let fewer rows through than
/// ours, it is widened.
pub(super) fn predicate(node: &Node, schema: &Schema) -> Result<Predicate, ScopeError> {
    match node {
        Node::True => Ok(Predicate::AlwaysTrue),
        Node::False => Ok(Predicate::AlwaysFalse),
        Node::And(operands) => balanced(each(operands, schema)?, Predicate::AlwaysTrue, Predicate::and),
        Node::Or(operands) => balanced(each(operands, schema)?, Predicate::AlwaysFalse, Predicate::or),
        Node::Test(test) => leaf(test, schema),
    }
}

fn each(operands: &[Node], schema: &Schema) -> Result<Vec<Predicate>, ScopeError> {
    operands.iter().map(|operand| predicate(operand, schema)).collect()
}

/// Iceberg joins in pairs and walks them recursively: a balanced tree keeps a long list from overflowing its stack.
fn balanced(
    mut level: Vec<Predicate>,
    empty: Predicate,
    join: fn(Predicate, Predicate) -> Predicate,
) -> Result<Predicate, ScopeError> {
    while level.len() > 1 {
        let mut next = Vec::with_capacity(level.len().div_ceil(2));
        let mut pairs = level.into_iter();
        while let Some(left) = pairs.next() {
            next.push(match pairs.next() {
                Some(right) => join(left, right),
                None => left,
            });
        }
        level = next;
    }
    Ok(level.pop().unwrap_or(empty))
}

fn leaf(test: &Test, schema: &Schema) -> Result<Predicate, ScopeError> {
    let Test { field_id, kind, check } = test;
    let name = schema.name_by_field_id(*field_id).ok_or(ScopeError::ColumnDropped { field_id: *field_id })?;
    let column = || Reference::new(name);
    // The schema may be newer than the scope, and a predicate has to be of the column's type now.
    let now = schema.field_by_id(*field_id).and_then(|field| field.field_type.as_primitive_type()).unwrap_or(kind);
    let literal = |value: &PrimitiveLiteral| datum(now, &promote(value, now).unwrap_or_else(|| value.clone()), name);
    let floating = matches!(kind, PrimitiveType::Float | PrimitiveType::Double);
    let or_nan = |p: Predicate| if floating { p.or(column().is_nan()) } else { p };
    let negative_zero = match kind {
        PrimitiveType::Float => Some(PrimitiveLiteral::Float((-0.0f32).into())),
        PrimitiveType::Double => Some(PrimitiveLiteral::Double((-0.0f64).into())),
        _ => None,
    };
    // OrderedFloat holds -0.0 equal to 0.0, so this finds both.
    let negative_zero = |value: &PrimitiveLiteral| negative_zero.as_ref().filter(|zero| *zero == value);
    let at_zero = |value: &PrimitiveLiteral, zero: &PrimitiveLiteral| {
        Ok(column().greater_than_or_equal_to(literal(zero)?).and(column().less_than_or_equal_to(literal(value)?)))
    };
    match check {
        Check::IsNull => Ok(column().is_null()),
        Check::NotNull => Ok(column().is_not_null()),
        Check::Compare(comparison, value) => match (comparison, negative_zero(value)) {
            (Comparison::Eq, Some(zero)) => at_zero(value, zero),
            (Comparison::Eq, None) => Ok(column().equal_to(literal(value)?)),
            (Comparison::NotEq, _) => Ok(or_nan(column().not_equal_to(literal(value)?))),
            (Comparison::Lt, _) => Ok(column().less_than(literal(value)?)),
            (Comparison::LtEq, _) => Ok(column().less_than_or_equal_to(literal(value)?)),
            (Comparison::Gt, _) => Ok(or_nan(column().greater_than(literal(value)?))),
            (Comparison::GtEq, zero) => Ok(or_nan(column().greater_than_or_equal_to(literal(zero.unwrap_or(value))?))),
        },
        Check::In(values) => {
            let data = values.iter().map(literal).collect::<Result<Vec<_>, _>>()?;
            let listed = column().is_in(data);
            match values.iter().find_map(|value| negative_zero(value).map(|zero| (value, zero))) {
                Some((value, zero)) => Ok(listed.or(at_zero(value, zero)?)),
                None => Ok(listed),
            }
        }
        Check::NotIn(values) => {
            let data = values.iter().map(literal).collect::<Result<Vec<_>, _>>()?;
            Ok(or_nan(column().is_not_in(data)))
        }
        Check::StartsWith(prefix) => Ok(column().starts_with(Datum::string(prefix))),
        Check::NotStartsWith(prefix) => Ok(column().not_starts_with(Datum::string(prefix))),
    }
}

/// A value of any type as Iceberg's datum, through its bytes: the crate offers no other way for some types.
/// Source: Iceberg spec, "Binary single-value serialization".
pub(super) fn datum(kind: &PrimitiveType, value: &PrimitiveLiteral, column: &str) -> Result<Datum, ScopeError> {
    let plan = |reason: String| ScopeError::Plan { column: column.to_owned(), reason };
    let bytes = match value {
        PrimitiveLiteral::Boolean(v) => vec![u8::from(*v)],
        PrimitiveLiteral::Int(v) => v.to_le_bytes().to_vec(),
        PrimitiveLiteral::Long(v) => v.to_le_bytes().to_vec(),
        PrimitiveLiteral::Float(v) => v.0.to_le_bytes().to_vec(),
        PrimitiveLiteral::Double(v) => v.0.to_le_bytes().to_vec(),
        PrimitiveLiteral::String(v) => v.as_bytes().to_vec(),
        PrimitiveLiteral::Binary(v) => v.clone(),
        PrimitiveLiteral::Int128(v) => v.to_be_bytes().to_vec(),
        PrimitiveLiteral::UInt128(v) => v.to_be_bytes().to_vec(),
        PrimitiveLiteral::AboveMax | PrimitiveLiteral::BelowMin => {
            return Err(plan("the literal is beyond the column's range".to_owned()));
        }
    };
    Datum::try_from_bytes(&bytes, kind.clone()).map_err(|e| plan(e.to_string()))
}
