//! The bound filter as a person would write it, for messages: names in place of ids.

use iceberg::spec::{PrimitiveLiteral, PrimitiveType, Schema};

use super::canonical;
use super::literal::render;
use super::node::{Check, Node, Test};

/// The text of a tree; `None` where a column is not in the schema.
pub(super) fn shown(node: &Node, schema: &Schema) -> Option<String> {
    let joined = |operands: &[Node], word: &str| -> Option<String> {
        let parts: Option<Vec<String>> = operands
            .iter()
            .map(|operand| match operand {
                Node::And(_) | Node::Or(_) => shown(operand, schema).map(|text| format!("({text})")),
                Node::True | Node::False | Node::Test(_) => shown(operand, schema),
            })
            .collect();
        Some(parts?.join(word))
    };
    match node {
        Node::True | Node::False => Some(canonical::render(node)),
        Node::And(operands) => joined(operands, " AND "),
        Node::Or(operands) => joined(operands, " OR "),
        Node::Test(test) => shown_test(test, schema),
    }
}

fn shown_test(test: &Test, schema: &Schema) -> Option<String> {
    let column = column(schema.name_by_field_id(test.field_id)?);
    let list = |values: &[PrimitiveLiteral]| {
        values.iter().map(|literal| value(&test.kind, literal)).collect::<Vec<_>>().join(", ")
    };
    let prefix = |prefix: &str| format!("'{}%'", prefix.replace('\'', "''"));
    Some(match &test.check {
        Check::IsNull => format!("{column} IS NULL"),
        Check::NotNull => format!("{column} IS NOT NULL"),
        Check::Compare(comparison, literal) => {
            format!("{column} {} {}", canonical::word(*comparison), value(&test.kind, literal))
        }
        Check::In(values) => format!("{column} IN ({})", list(values)),
        Check::NotIn(values) => format!("{column} NOT IN ({})", list(values)),
        Check::StartsWith(text) => format!("{column} LIKE {}", prefix(text)),
        Check::NotStartsWith(text) => format!("{column} NOT LIKE {}", prefix(text)),
    })
}

fn column(name: &str) -> String {
    let plain = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if name.split('.').all(plain) { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

fn value(kind: &PrimitiveType, literal: &PrimitiveLiteral) -> String {
    let text = match literal {
        PrimitiveLiteral::String(text) => return format!("'{}'", text.replace('\'', "''")),
        literal => render(kind, literal),
    };
    match kind {
        PrimitiveType::Boolean
        | PrimitiveType::Int
        | PrimitiveType::Long
        | PrimitiveType::Float
        | PrimitiveType::Double
        | PrimitiveType::Decimal { .. } => text,
        PrimitiveType::Fixed(_) | PrimitiveType::Binary => format!("X'{}'", text.trim_start_matches("0x")),
        _ => format!("'{text}'"),
    }
}
