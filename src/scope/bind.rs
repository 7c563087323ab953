//! Names to field ids, literals to the column's type, `NOT` pushed down to the tests.

use iceberg::spec::{NestedFieldRef, PrimitiveType, Schema, StructType, Type};

use super::error::ScopeError;
use super::literal::{self, type_name};
use super::node::{Check, Comparison, Node, Test};
use super::syntax::{Name, Question, RawLiteral, Syntax};

/// How many columns an error lists.
const LISTED: usize = 20;

/// Binds the tree; `negated` where an odd number of `NOT` stands above.
pub(super) fn bind(syntax: Syntax, schema: &Schema, negated: bool) -> Result<Node, ScopeError> {
    match syntax {
        Syntax::Const(value) => Ok(if value != negated { Node::True } else { Node::False }),
        Syntax::Not(inner) => bind(*inner, schema, !negated),
        Syntax::And(operands) => {
            let operands = bind_each(operands, schema, negated)?;
            Ok(if negated { Node::or(operands) } else { Node::and(operands) })
        }
        Syntax::Or(operands) => {
            let operands = bind_each(operands, schema, negated)?;
            Ok(if negated { Node::and(operands) } else { Node::or(operands) })
        }
        Syntax::Test(name, question) => bind_test(&name, question, schema, negated),
    }
}

fn bind_each(operands: Vec<Syntax>, schema: &Schema, negated: bool) -> Result<Vec<Node>, ScopeError> {
    operands.into_iter().map(|operand| bind(operand, schema, negated)).collect()
}

fn bind_test(name: &Name, question: Question, schema: &Schema, outer: bool) -> Result<Node, ScopeError> {
    let (field_id, kind) = resolve(name, schema)?;
    let read = |raw: &RawLiteral| {
        literal::read(&kind, raw.form, &raw.text).map_err(|reason| ScopeError::Literal {
            column: name.text.clone(),
            kind: type_name(&kind),
            literal: raw.shown(),
            place: raw.place,
            reason,
        })
    };
    let leaf = |check| Node::Test(Test { field_id, kind: kind.clone(), check });
    let compare = |comparison: Comparison, raw: &RawLiteral| {
        let comparison = if outer { comparison.inverted() } else { comparison };
        read(raw).map(|value| leaf(Check::Compare(comparison, value)))
    };
    match question {
        Question::Compare(comparison, raw) => compare(comparison, &raw),
        Question::List { negated, values } => {
            let values = values.iter().map(read).collect::<Result<_, _>>()?;
            Ok(Node::list(field_id, kind.clone(), values, negated != outer))
        }
        Question::Between { negated, low, high } => {
            let outside = negated != outer;
            // `compare` turns the bounds over for an outer NOT; NOT BETWEEN's own sign is applied here.
            let (low_test, high_test) = match negated {
                false => (compare(Comparison::GtEq, &low)?, compare(Comparison::LtEq, &high)?),
                true => (compare(Comparison::Lt, &low)?, compare(Comparison::Gt, &high)?),
            };
            Ok(if outside { Node::or(vec![low_test, high_test]) } else { Node::and(vec![low_test, high_test]) })
        }
        Question::Null { negated } => Ok(leaf(if negated != outer { Check::NotNull } else { Check::IsNull })),
        Question::Prefix { negated, prefix, pattern } => {
            if kind != PrimitiveType::String {
                return Err(ScopeError::Literal {
                    column: name.text.clone(),
                    kind: type_name(&kind),
                    literal: pattern.shown(),
                    place: pattern.place,
                    reason: "LIKE takes a column of type string".to_owned(),
                });
            }
            Ok(leaf(if negated != outer { Check::NotStartsWith(prefix) } else { Check::StartsWith(prefix) }))
        }
    }
}

fn resolve(name: &Name, schema: &Schema) -> Result<(i32, PrimitiveType), ScopeError> {
    let refuse = |reason: String| ScopeError::Column { name: name.text.clone(), place: name.place, reason };
    let Some(field) = schema.field_by_name(&name.text) else {
        let columns = columns(schema);
        if let Some(other) = columns.iter().find(|column| column.to_lowercase() == name.text.to_lowercase()) {
            return Err(refuse(format!("is no column; names are case-sensitive, did you mean {}?", quoted(other))));
        }
        return Err(refuse(format!("is no column; the columns are {}", nearest(&name.text, columns))));
    };
    if path(schema, field.id).is_none() {
        return Err(refuse("stands inside a list or map, which has no single value in a row".to_owned()));
    }
    match field.field_type.as_ref() {
        Type::Primitive(kind) => Ok((field.id, kind.clone())),
        Type::Struct(_) => Err(refuse(format!("is a struct; test one of its fields, as {}.field", name.text))),
        Type::List(_) | Type::Map(_) => Err(refuse("is a list or map, which cannot be tested".to_owned())),
    }
}

/// The fields from the top of the schema down to the one with that id, through structs only.
pub(super) fn path(schema: &Schema, field_id: i32) -> Option<Vec<NestedFieldRef>> {
    fn search(fields: &StructType, field_id: i32, path: &mut Vec<NestedFieldRef>) -> bool {
        for field in fields.fields() {
            path.push(field.clone());
            if field.id == field_id {
                return true;
            }
            if let Type::Struct(inner) = field.field_type.as_ref()
                && search(inner, field_id, path)
            {
                return true;
            }
            path.pop();
        }
        false
    }
    let mut found = Vec::new();
    search(schema.as_struct(), field_id, &mut found).then_some(found)
}

/// The names that a scope may use, in the schema's order.
fn columns(schema: &Schema) -> Vec<String> {
    fn collect(fields: &StructType, prefix: &str, names: &mut Vec<String>) {
        for field in fields.fields() {
            let name = format!("{prefix}{}", field.name);
            match field.field_type.as_ref() {
                Type::Primitive(_) => names.push(name),
                Type::Struct(inner) => collect(inner, &format!("{name}."), names),
                Type::List(_) | Type::Map(_) => {}
            }
        }
    }
    let mut names = Vec::new();
    collect(schema.as_struct(), "", &mut names);
    names
}

/// A name as it has to be written in a scope.
fn quoted(name: &str) -> String {
    let plain = |part: &str| {
        part.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    if name.split('.').all(plain) { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

fn nearest(wanted: &str, mut columns: Vec<String>) -> String {
    let total = columns.len();
    columns.sort_by_key(|column| distance(wanted, column));
    columns.truncate(LISTED);
    let more = total.saturating_sub(columns.len());
    let names = columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(", ");
    if more == 0 { names } else { format!("{names} and {more} more") }
}

/// How many characters have to be inserted, removed or exchanged; of long names, the first 64 characters count.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().chars().take(64).collect();
    let b: Vec<char> = b.to_lowercase().chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i.saturating_add(1);
        let mut next = vec![left];
        for (y, above) in b.iter().zip(row.iter().skip(1)) {
            let exchanged = diagonal.saturating_add(usize::from(x != y));
            left = exchanged.min(left.saturating_add(1)).min(above.saturating_add(1));
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}
