//! Text to a tree of tests, each with its place in the text.
//!
//! The tokens are `sqlparser`'s; the grammar above them is our own. It is a tenth of SQL's, an error has to name the
//! place, and a chain of a thousand `OR` has to be one list: as a tree of pairs it would be as deep as it is long, and
//! dropping it would overflow the stack.

use sqlparser::dialect::GenericDialect;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use super::error::{Place, ScopeError};
use super::literal::Form;
use super::node::Comparison;

/// The longest text that is read, in bytes.
pub(super) const MAX_BYTES: usize = 1 << 20;
/// How deep parentheses may nest.
pub(super) const MAX_DEPTH: usize = 100;
/// How many tests and literals there may be, all together.
pub(super) const MAX_PARTS: usize = 10_000;

const ALLOWED: &str = "a scope is made of comparisons of a column with a literal (= != < <= > >=, IN, BETWEEN, IS NULL, \
     LIKE 'prefix%'), AND, OR, NOT, parentheses, true and false";
const LITERALS: &str = "a literal was expected: a number, 'text', true, false, DATE '2013-08-09', TIME '17:05:00', \
     TIMESTAMP '2013-08-09 17:05:00' or X'00ff'";

/// A filter as written.
#[derive(Debug)]
pub(super) enum Syntax {
    Const(bool),
    And(Vec<Syntax>),
    Or(Vec<Syntax>),
    Not(Box<Syntax>),
    Test(Name, Question),
}

/// A column's name as written, dots included.
#[derive(Debug, Clone)]
pub(super) struct Name {
    pub text: String,
    pub place: Place,
}

/// What is asked of the column.
#[derive(Debug)]
pub(super) enum Question {
    Compare(Comparison, RawLiteral),
    List { negated: bool, values: Vec<RawLiteral> },
    Between { negated: bool, low: RawLiteral, high: RawLiteral },
    Null { negated: bool },
    Prefix { negated: bool, prefix: String, pattern: RawLiteral },
}

/// A literal as written.
#[derive(Debug, Clone)]
pub(super) struct RawLiteral {
    pub form: Form,
    pub text: String,
    pub place: Place,
}

impl RawLiteral {
    /// The literal as a person would write it, for messages; long text is cut.
    pub fn shown(&self) -> String {
        let text: String = self.text.chars().take(60).collect();
        let text = if text.len() < self.text.len() { format!("{text}…") } else { text };
        match self.form {
            Form::Number | Form::Bool => text,
            Form::Text => format!("'{text}'"),
            Form::Date => format!("DATE '{text}'"),
            Form::Time => format!("TIME '{text}'"),
            Form::Timestamp => format!("TIMESTAMP '{text}'"),
            Form::Bytes => format!("X'{text}'"),
        }
    }
}

/// Reads the text of a scope.
pub(super) fn parse(text: &str) -> Result<Syntax, ScopeError> {
    if text.len() > MAX_BYTES {
        return Err(ScopeError::TooLarge { what: "bytes of text", limit: MAX_BYTES });
    }
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location().map_err(|e| ScopeError::Syntax {
        place: Place { line: e.location.line, column: e.location.column },
        found: "a piece of text that is not SQL".to_owned(),
        reason: e.message,
    })?;
    let tokens = tokens.into_iter().filter(|t| !matches!(t.token, Token::Whitespace(_) | Token::EOF)).collect();
    let mut parser = Parser { tokens, at: 0, parts: 0, depth: 0 };
    let syntax = parser.any()?;
    match parser.peek() {
        None => Ok(syntax),
        Some(Token::Minus) => Err(parser.wrong("there is no arithmetic in a scope; a date is written '2013-08-09'")),
        Some(_) => Err(parser.wrong("AND, OR or the end was expected")),
    }
}

enum Operand {
    Column(Name),
    Literal(RawLiteral),
}

struct Parser {
    tokens: Vec<TokenWithSpan>,
    at: usize,
    parts: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|t| &t.token)
    }

    fn second(&self) -> Option<&Token> {
        self.tokens.get(self.at.saturating_add(1)).map(|t| &t.token)
    }

    fn advance(&mut self) {
        self.at = self.at.saturating_add(1);
    }

    fn place(&self) -> Place {
        match (self.tokens.get(self.at), self.tokens.last()) {
            (Some(token), _) => Place { line: token.span.start.line, column: token.span.start.column },
            (None, Some(last)) => Place { line: last.span.end.line, column: last.span.end.column },
            (None, None) => Place { line: 1, column: 1 },
        }
    }

    fn wrong(&self, reason: impl Into<String>) -> ScopeError {
        let found = match self.peek() {
            None => "the end of the text".to_owned(),
            Some(token) => {
                let shown: String = token.to_string().chars().take(60).collect();
                format!("`{shown}`")
            }
        };
        ScopeError::Syntax { place: self.place(), found, reason: reason.into() }
    }

    fn count(&mut self) -> Result<(), ScopeError> {
        self.parts = self.parts.saturating_add(1);
        match self.parts > MAX_PARTS {
            true => Err(ScopeError::TooLarge { what: "tests and literals", limit: MAX_PARTS }),
            false => Ok(()),
        }
    }

    fn is_word(token: Option<&Token>, word: &str) -> bool {
        matches!(token, Some(Token::Word(w)) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = Self::is_word(self.peek(), word);
        if found {
            self.advance();
        }
        found
    }

    fn take(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        if found {
            self.advance();
        }
        found
    }

    /// Alternatives: the weakest operator.
    fn any(&mut self) -> Result<Syntax, ScopeError> {
        let first = self.all()?;
        if !Self::is_word(self.peek(), "or") {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.take_word("or") {
            operands.push(self.all()?);
        }
        Ok(Syntax::Or(operands))
    }

    fn all(&mut self) -> Result<Syntax, ScopeError> {
        let first = self.one()?;
        if !Self::is_word(self.peek(), "and") {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.take_word("and") {
            operands.push(self.one()?);
        }
        Ok(Syntax::And(operands))
    }

    /// Any number of `NOT`, then a group or a test. Counted, not recursed into: pairs cancel in three-valued logic.
    fn one(&mut self) -> Result<Syntax, ScopeError> {
        let mut negated = false;
        while self.take_word("not") {
            negated = !negated;
        }
        let inner = if self.take(&Token::LParen) { self.group()? } else { self.test()? };
        Ok(if negated { Syntax::Not(Box::new(inner)) } else { inner })
    }

    fn group(&mut self) -> Result<Syntax, ScopeError> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > MAX_DEPTH {
            return Err(ScopeError::TooLarge { what: "levels of parentheses", limit: MAX_DEPTH });
        }
        let inner = self.any()?;
        if !self.take(&Token::RParen) {
            return Err(self.wrong("AND, OR or the closing parenthesis was expected"));
        }
        self.depth = self.depth.saturating_sub(1);
        Ok(inner)
    }

    fn test(&mut self) -> Result<Syntax, ScopeError> {
        self.count()?;
        let left_at = self.at;
        let left = self.operand()?;
        if let Some(comparison) = self.comparison() {
            let right_at = self.at;
            let right = self.operand()?;
            return match (left, right) {
                (Operand::Column(name), Operand::Literal(literal)) => {
                    Ok(Syntax::Test(name, Question::Compare(comparison, literal)))
                }
                (Operand::Literal(literal), Operand::Column(name)) => {
                    Ok(Syntax::Test(name, Question::Compare(comparison.flipped(), literal)))
                }
                (Operand::Column(_), Operand::Column(_)) => {
                    self.at = right_at;
                    Err(self.wrong("a column is compared with a column; the other side has to be a literal"))
                }
                (Operand::Literal(_), Operand::Literal(_)) => {
                    self.at = left_at;
                    Err(self.wrong("a literal is compared with a literal; one side has to be a column"))
                }
            };
        }
        let name = match left {
            Operand::Column(name) => name,
            Operand::Literal(RawLiteral { form: Form::Bool, text, .. }) => return Ok(Syntax::Const(text == "true")),
            Operand::Literal(_) => return Err(self.wrong(format!("a comparison was expected; {ALLOWED}"))),
        };
        self.question(&name.text).map(|question| Syntax::Test(name, question))
    }

    fn comparison(&mut self) -> Option<Comparison> {
        let comparison = match self.peek()? {
            Token::Eq | Token::DoubleEq => Comparison::Eq,
            Token::Neq => Comparison::NotEq,
            Token::Lt => Comparison::Lt,
            Token::LtEq => Comparison::LtEq,
            Token::Gt => Comparison::Gt,
            Token::GtEq => Comparison::GtEq,
            _ => return None,
        };
        self.advance();
        Some(comparison)
    }

    fn question(&mut self, column: &str) -> Result<Question, ScopeError> {
        if self.take_word("is") {
            let negated = self.take_word("not");
            return match self.take_word("null") {
                true => Ok(Question::Null { negated }),
                false => Err(self.wrong("NULL was expected; write a truth value as = true or = false")),
            };
        }
        let negated = self.take_word("not");
        if self.take_word("in") {
            return self.list(negated);
        }
        if self.take_word("between") {
            let low = self.literal()?;
            if !self.take_word("and") {
                return Err(self.wrong("AND and the upper bound of BETWEEN were expected"));
            }
            let high = self.literal()?;
            return Ok(Question::Between { negated, low, high });
        }
        if self.take_word("like") {
            return self.prefix(negated);
        }
        let reason = match self.peek() {
            None => {
                format!("a comparison of {column} was expected; a column of truth values is written {column} = true")
            }
            Some(Token::LParen) => format!("functions are not allowed; {ALLOWED}"),
            Some(_) => format!("a comparison of {column} was expected; {ALLOWED}"),
        };
        Err(self.wrong(reason))
    }

    fn list(&mut self, negated: bool) -> Result<Question, ScopeError> {
        if !self.take(&Token::LParen) {
            return Err(self.wrong("a list of literals in parentheses was expected"));
        }
        let mut values = vec![self.literal()?];
        while self.take(&Token::Comma) {
            values.push(self.literal()?);
        }
        match self.take(&Token::RParen) {
            true => Ok(Question::List { negated, values }),
            false => Err(self.wrong("a comma or the end of the list was expected")),
        }
    }

    fn prefix(&mut self, negated: bool) -> Result<Question, ScopeError> {
        let at = self.at;
        let pattern = self.literal()?;
        let refuse = |this: &mut Self, reason: &str| {
            this.at = at;
            Err(this.wrong(reason))
        };
        if pattern.form != Form::Text {
            return refuse(self, "LIKE takes text in single quotes that ends with %");
        }
        let Some(prefix) = pattern.text.strip_suffix('%') else {
            return refuse(self, "LIKE takes a prefix, 'abc%'; without a wildcard write =");
        };
        if prefix.is_empty() {
            return refuse(self, "'%' matches every text; write IS NOT NULL");
        }
        if prefix.contains(['%', '_', '\\']) {
            return refuse(
                self,
                "LIKE takes a prefix and one % at its end; % _ \\ before it mean different things to \
                 different engines and are not allowed; use >= and <",
            );
        }
        if Self::is_word(self.peek(), "escape") {
            return Err(self.wrong("ESCAPE is not allowed; LIKE takes a prefix and one % at its end"));
        }
        let prefix = prefix.to_owned();
        Ok(Question::Prefix { negated, prefix, pattern })
    }

    fn literal(&mut self) -> Result<RawLiteral, ScopeError> {
        let at = self.at;
        match self.operand()? {
            Operand::Literal(literal) => Ok(literal),
            Operand::Column(_) => {
                self.at = at;
                Err(self.wrong(LITERALS))
            }
        }
    }

    fn operand(&mut self) -> Result<Operand, ScopeError> {
        let place = self.place();
        let literal = |form, text: &str| RawLiteral { form, text: text.to_owned(), place };
        let parsed = match (self.peek(), self.second()) {
            (Some(Token::Number(text, false)), _) => (literal(Form::Number, text), 1),
            (Some(Token::Minus), Some(Token::Number(text, false))) => (literal(Form::Number, &format!("-{text}")), 2),
            (Some(Token::Plus), Some(Token::Number(text, false))) => (literal(Form::Number, text), 2),
            (Some(Token::SingleQuotedString(text)), _) => (literal(Form::Text, text), 1),
            (Some(Token::HexStringLiteral(text)), _) => (literal(Form::Bytes, text), 1),
            (Some(Token::Word(word)), next) if word.quote_style.is_none() => {
                match (word.value.to_ascii_lowercase().as_str(), next) {
                    ("true", _) => (literal(Form::Bool, "true"), 1),
                    ("false", _) => (literal(Form::Bool, "false"), 1),
                    ("date", Some(Token::SingleQuotedString(text))) => (literal(Form::Date, text), 2),
                    ("time", Some(Token::SingleQuotedString(text))) => (literal(Form::Time, text), 2),
                    ("timestamp", Some(Token::SingleQuotedString(text))) => (literal(Form::Timestamp, text), 2),
                    ("null", _) => return Err(self.wrong("nothing equals NULL; write IS NULL or IS NOT NULL")),
                    ("and" | "or" | "not" | "in" | "is" | "like" | "between", _) => {
                        return Err(self.wrong(format!(
                            "a column or a literal was expected (a column of that name is written in double quotes); \
                             {ALLOWED}"
                        )));
                    }
                    _ => return self.name().map(Operand::Column),
                }
            }
            (Some(Token::Word(_)), _) => return self.name().map(Operand::Column),
            (Some(Token::LParen), _) => return Err(self.wrong(format!("parentheses enclose whole tests; {ALLOWED}"))),
            _ => return Err(self.wrong(format!("a column or a literal was expected; {ALLOWED}"))),
        };
        self.count()?;
        self.at = self.at.saturating_add(parsed.1);
        Ok(Operand::Literal(parsed.0))
    }

    fn name(&mut self) -> Result<Name, ScopeError> {
        let place = self.place();
        let mut text = String::new();
        loop {
            match self.peek() {
                Some(Token::Word(word)) => text.push_str(&word.value),
                _ => return Err(self.wrong("the name of a struct's field was expected after the dot")),
            }
            self.advance();
            if !self.take(&Token::Period) {
                return Ok(Name { text, place });
            }
            text.push('.');
        }
    }
}
