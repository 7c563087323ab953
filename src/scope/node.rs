//! The bound filter: a tree without `NOT`, flattened, deduplicated and sorted as it is built.

use std::cmp::Ordering;

use iceberg::spec::{PrimitiveLiteral, PrimitiveType};

use super::canonical;

/// A bound filter. `True` and `False` never stand inside `And` or `Or`; those hold at least two operands, none of
/// their own kind, sorted by their canonical text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    True,
    False,
    And(Vec<Node>),
    Or(Vec<Node>),
    Test(Test),
}

/// A test of one column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Test {
    pub field_id: i32,
    pub kind: PrimitiveType,
    pub check: Check,
}

/// What is asked of the column. Literals are of its type; lists are sorted, differ, and hold at least two.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Check {
    IsNull,
    NotNull,
    Compare(Comparison, PrimitiveLiteral),
    In(Vec<PrimitiveLiteral>),
    NotIn(Vec<PrimitiveLiteral>),
    StartsWith(String),
    NotStartsWith(String),
}

impl Check {
    /// The check that holds where this one does not, nulls aside.
    pub fn opposite(&self) -> Self {
        match self {
            Self::IsNull => Self::NotNull,
            Self::NotNull => Self::IsNull,
            Self::Compare(comparison, value) => Self::Compare(comparison.inverted(), value.clone()),
            Self::In(values) => Self::NotIn(values.clone()),
            Self::NotIn(values) => Self::In(values.clone()),
            Self::StartsWith(prefix) => Self::NotStartsWith(prefix.clone()),
            Self::NotStartsWith(prefix) => Self::StartsWith(prefix.clone()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
}

impl Comparison {
    /// The comparison that holds where this one does not.
    pub fn inverted(self) -> Self {
        match self {
            Self::Eq => Self::NotEq,
            Self::NotEq => Self::Eq,
            Self::Lt => Self::GtEq,
            Self::LtEq => Self::Gt,
            Self::Gt => Self::LtEq,
            Self::GtEq => Self::Lt,
        }
    }

    /// The comparison with its sides exchanged.
    pub fn flipped(self) -> Self {
        match self {
            Self::Eq | Self::NotEq => self,
            Self::Lt => Self::Gt,
            Self::LtEq => Self::GtEq,
            Self::Gt => Self::Lt,
            Self::GtEq => Self::LtEq,
        }
    }
}

impl Node {
    pub fn and(operands: Vec<Node>) -> Self {
        let mut flat = Vec::with_capacity(operands.len());
        for operand in operands {
            match operand {
                Self::True => {}
                Self::False => return Self::False,
                Self::And(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        Self::settle(flat, Self::True, Self::And)
    }

    pub fn or(operands: Vec<Node>) -> Self {
        let mut flat = Vec::with_capacity(operands.len());
        for operand in operands {
            match operand {
                Self::False => {}
                Self::True => return Self::True,
                Self::Or(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        Self::settle(flat, Self::False, Self::Or)
    }

    fn settle(operands: Vec<Node>, empty: Node, join: fn(Vec<Node>) -> Node) -> Self {
        let mut keyed: Vec<(String, Node)> =
            operands.into_iter().map(|operand| (canonical::render(&operand), operand)).collect();
        keyed.sort_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
        keyed.dedup_by(|a, b| a.0 == b.0);
        let mut operands: Vec<Node> = keyed.into_iter().map(|(_, operand)| operand).collect();
        match operands.len() {
            0 => empty,
            1 => operands.pop().unwrap_or(empty),
            _ => join(operands),
        }
    }

    /// `column IN (values)`, or `NOT IN`; `values` in any order. An empty list is no test of SQL's and holds nowhere.
    pub fn list(field_id: i32, kind: PrimitiveType, mut values: Vec<PrimitiveLiteral>, negated: bool) -> Self {
        values.sort_by(compare);
        values.dedup_by(|a, b| compare(a, b).is_eq());
        let check = match (values.len(), negated) {
            (0, false) => return Self::False,
            (0, true) => return Self::True,
            (1, _) => match values.pop() {
                Some(value) if negated => Check::Compare(Comparison::NotEq, value),
                Some(value) => Check::Compare(Comparison::Eq, value),
                None => return Self::False,
            },
            (_, false) => Check::In(values),
            (_, true) => Check::NotIn(values),
        };
        Self::Test(Test { field_id, kind, check })
    }

    /// Calls `visit` on every test.
    pub fn for_each_test<'a>(&'a self, visit: &mut impl FnMut(&'a Test)) {
        match self {
            Self::True | Self::False => {}
            Self::And(operands) | Self::Or(operands) => {
                for operand in operands {
                    operand.for_each_test(visit);
                }
            }
            Self::Test(test) => visit(test),
        }
    }
}

/// The order of two values of one type: numbers by value with `-0.0` equal to `0.0` and NaN last, strings and bytes
/// by their bytes, uuids as unsigned 128-bit numbers.
pub(super) fn compare(a: &PrimitiveLiteral, b: &PrimitiveLiteral) -> Ordering {
    a.partial_cmp(b).unwrap_or(Ordering::Equal)
}

/// The value as one of type `kind`, where the type it has is `kind` or one that Iceberg lets evolve to it; `None`
/// otherwise. Source: Iceberg spec, "Schema Evolution". A decimal's scale never changes.
pub(super) fn promote(value: &PrimitiveLiteral, kind: &PrimitiveType) -> Option<PrimitiveLiteral> {
    match (value, kind) {
        (PrimitiveLiteral::Int(v), PrimitiveType::Long) => Some(PrimitiveLiteral::Long(i64::from(*v))),
        (PrimitiveLiteral::Float(v), PrimitiveType::Double) => Some(PrimitiveLiteral::Double(f64::from(v.0).into())),
        _ => kind.compatible(value).then(|| value.clone()),
    }
}

/// Whether a column of type `from` may have become one of type `to` without its values changing.
pub(super) fn promotes(from: &PrimitiveType, to: &PrimitiveType) -> bool {
    match (from, to) {
        (PrimitiveType::Int, PrimitiveType::Long) | (PrimitiveType::Float, PrimitiveType::Double) => true,
        (PrimitiveType::Decimal { precision: p, scale: s }, PrimitiveType::Decimal { precision, scale }) => {
            s == scale && p <= precision
        }
        _ => from == to,
    }
}
