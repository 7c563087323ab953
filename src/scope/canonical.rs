//! The canonical form: written from a bound tree, and read back strictly. The grammar is in the module's docs.

use iceberg::spec::{PrimitiveLiteral, PrimitiveType};

use super::error::ScopeError;
use super::literal::{read_canonical, render as render_value, type_from_name, type_name};
use super::node::{Check, Comparison, Node, Test};

/// Deeper than any text that the parser of scopes accepts becomes.
const MAX_DEPTH: usize = 250;
/// Longer than any text that the parser of scopes accepts becomes: escapes and types make it grow.
const MAX_BYTES: usize = 16 << 20;

/// How a comparison is written.
pub(super) fn word(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Eq => "=",
        Comparison::NotEq => "!=",
        Comparison::Lt => "<",
        Comparison::LtEq => "<=",
        Comparison::Gt => ">",
        Comparison::GtEq => ">=",
    }
}

/// The text of a tree.
pub(super) fn render(node: &Node) -> String {
    let mut out = String::new();
    write(node, &mut out);
    out
}

fn write(node: &Node, out: &mut String) {
    let join = |name: &str, operands: &[Node], out: &mut String| {
        out.push('(');
        out.push_str(name);
        for operand in operands {
            out.push(' ');
            write(operand, out);
        }
        out.push(')');
    };
    match node {
        Node::True => out.push_str("true"),
        Node::False => out.push_str("false"),
        Node::And(operands) => join("and", operands, out),
        Node::Or(operands) => join("or", operands, out),
        Node::Test(test) => write_test(test, out),
    }
}

fn write_test(test: &Test, out: &mut String) {
    let text = |prefix: &String| vec![render_value(&test.kind, &PrimitiveLiteral::String(prefix.clone()))];
    let all = |values: &[PrimitiveLiteral]| values.iter().map(|value| render_value(&test.kind, value)).collect();
    let (name, values): (&str, Vec<String>) = match &test.check {
        Check::IsNull => ("is-null", Vec::new()),
        Check::NotNull => ("not-null", Vec::new()),
        Check::Compare(comparison, value) => (word(*comparison), vec![render_value(&test.kind, value)]),
        Check::In(values) => ("in", all(values)),
        Check::NotIn(values) => ("not-in", all(values)),
        Check::StartsWith(prefix) => ("starts-with", text(prefix)),
        Check::NotStartsWith(prefix) => ("not-starts-with", text(prefix)),
    };
    out.push_str(&format!("({name} #{}:{}", test.field_id, type_name(&test.kind)));
    for value in values {
        out.push(' ');
        out.push_str(&value);
    }
    out.push(')');
}

/// Reads a canonical form. Only what [`render`] writes is accepted, to the byte.
pub(super) fn parse(text: &str) -> Result<Node, ScopeError> {
    if text.len() > MAX_BYTES {
        return Err(ScopeError::TooLarge { what: "bytes of canonical text", limit: MAX_BYTES });
    }
    let mut reader = Reader { text, at: 0 };
    let node = reader.node(0)?;
    if reader.at != text.len() {
        return Err(reader.wrong("the end was expected"));
    }
    let again = render(&node);
    if again != text {
        let at = again.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
        return Err(ScopeError::Canonical { at, reason: "this is not the canonical spelling or order".to_owned() });
    }
    Ok(node)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn wrong(&self, reason: impl Into<String>) -> ScopeError {
        ScopeError::Canonical { at: self.at, reason: reason.into() }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn take(&mut self, piece: &str) -> bool {
        let found = self.rest().starts_with(piece);
        if found {
            self.at = self.at.saturating_add(piece.len());
        }
        found
    }

    fn need(&mut self, piece: &str) -> Result<(), ScopeError> {
        if self.take(piece) { Ok(()) } else { Err(self.wrong(format!("{piece:?} was expected"))) }
    }

    /// The text up to the first character for which `end` holds, which has to exist.
    fn until(&mut self, end: impl Fn(char) -> bool) -> Result<&'a str, ScopeError> {
        let rest = self.rest();
        let length = rest.find(end).ok_or_else(|| self.wrong("the text ends too early"))?;
        self.at = self.at.saturating_add(length);
        Ok(rest.get(..length).unwrap_or(""))
    }

    fn node(&mut self, depth: usize) -> Result<Node, ScopeError> {
        if depth > MAX_DEPTH {
            return Err(ScopeError::TooLarge { what: "levels of parentheses", limit: MAX_DEPTH });
        }
        if depth == 0 && self.take("true") {
            return Ok(Node::True);
        }
        if depth == 0 && self.take("false") {
            return Ok(Node::False);
        }
        self.need("(")?;
        let name = self.until(|c| c == ' ' || c == ')')?;
        let deeper = depth.saturating_add(1);
        match name {
            "and" => self.operands(deeper).map(Node::and),
            "or" => self.operands(deeper).map(Node::or),
            _ => self.test(name),
        }
    }

    fn operands(&mut self, depth: usize) -> Result<Vec<Node>, ScopeError> {
        let mut operands = Vec::new();
        while self.take(" ") {
            operands.push(self.node(depth)?);
        }
        self.need(")")?;
        if operands.len() < 2 {
            return Err(self.wrong("at least two operands were expected"));
        }
        Ok(operands)
    }

    fn test(&mut self, name: &str) -> Result<Node, ScopeError> {
        self.need(" #")?;
        let id = self.until(|c| c == ':')?;
        let field_id: i32 = id.parse().map_err(|_| self.wrong("a field id was expected"))?;
        self.need(":")?;
        let start = self.at;
        let mut kind_name = self.until(|c| c == ' ' || c == ')' || c == '(')?;
        if self.take("(") {
            self.until(|c| c == ')')?;
            self.need(")")?;
            kind_name = self.text.get(start..self.at).unwrap_or("");
        }
        let kind = type_from_name(kind_name).ok_or_else(|| self.wrong(format!("{kind_name:?} is no type")))?;
        let mut values = Vec::new();
        while self.take(" ") {
            values.push(self.value(&kind)?);
        }
        self.need(")")?;
        self.build(name, field_id, kind, values)
    }

    fn build(
        &self,
        name: &str,
        field_id: i32,
        kind: PrimitiveType,
        mut values: Vec<PrimitiveLiteral>,
    ) -> Result<Node, ScopeError> {
        let comparison = match name {
            "=" => Some(Comparison::Eq),
            "!=" => Some(Comparison::NotEq),
            "<" => Some(Comparison::Lt),
            "<=" => Some(Comparison::LtEq),
            ">" => Some(Comparison::Gt),
            ">=" => Some(Comparison::GtEq),
            _ => None,
        };
        let count = values.len();
        let check = match (name, comparison, count, values.pop()) {
            ("is-null", _, 0, None) => Check::IsNull,
            ("not-null", _, 0, None) => Check::NotNull,
            (_, Some(comparison), 1, Some(value)) => Check::Compare(comparison, value),
            ("starts-with", _, 1, Some(PrimitiveLiteral::String(prefix))) => Check::StartsWith(prefix),
            ("not-starts-with", _, 1, Some(PrimitiveLiteral::String(prefix))) => Check::NotStartsWith(prefix),
            ("in" | "not-in", _, 2.., Some(last)) => {
                values.push(last);
                return Ok(Node::list(field_id, kind, values, name == "not-in"));
            }
            _ => return Err(self.wrong(format!("{name:?} with {count} values is no test"))),
        };
        Ok(Node::Test(Test { field_id, kind, check }))
    }

    fn value(&mut self, kind: &PrimitiveType) -> Result<PrimitiveLiteral, ScopeError> {
        if *kind == PrimitiveType::String {
            return self.string().map(PrimitiveLiteral::String);
        }
        let text = self.until(|c| c == ' ' || c == ')')?;
        read_canonical(kind, text).map_err(|reason| self.wrong(reason))
    }

    fn string(&mut self) -> Result<String, ScopeError> {
        self.need("\"")?;
        let mut out = String::new();
        loop {
            out.push_str(self.until(|c| c == '"' || c == '\\')?);
            if self.take("\"") {
                return Ok(out);
            }
            if self.take("\\\"") {
                out.push('"');
            } else if self.take("\\\\") {
                out.push('\\');
            } else {
                self.need("\\u{")?;
                let hex = self.until(|c| c == '}')?;
                let c = u32::from_str_radix(hex, 16).ok().and_then(char::from_u32);
                out.push(c.ok_or_else(|| self.wrong("a character's number in hex was expected"))?);
                self.need("}")?;
            }
        }
    }
}
