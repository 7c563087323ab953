//! Filters and rows to test with, and the plainest possible evaluation of one on the other.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, NaiveTime};
use iceberg::spec::PrimitiveType;
use proptest::prelude::*;

/// The columns that generated filters test: name, field id, type.
pub const COLUMNS: &[(&str, i32, PrimitiveType)] = &[
    ("id", 1, PrimitiveType::Long),
    ("delay", 2, PrimitiveType::Int),
    ("flight_date", 3, PrimitiveType::Date),
    ("carrier", 4, PrimitiveType::String),
    ("fare", 5, PrimitiveType::Decimal { precision: 9, scale: 2 }),
    ("cancelled", 6, PrimitiveType::Boolean),
    ("speed", 7, PrimitiveType::Float),
    ("distance", 8, PrimitiveType::Double),
    ("at", 9, PrimitiveType::Time),
    ("local", 10, PrimitiveType::Timestamp),
    ("utc", 11, PrimitiveType::Timestamptz),
    ("local_ns", 12, PrimitiveType::TimestampNs),
    ("utc_ns", 13, PrimitiveType::TimestamptzNs),
    ("key", 14, PrimitiveType::Uuid),
    ("code", 15, PrimitiveType::Fixed(3)),
    ("raw", 16, PrimitiveType::Binary),
    ("plane.tail", 31, PrimitiveType::String),
    ("plane.engine.count", 33, PrimitiveType::Int),
];

/// A value of any column: whole numbers also for decimals, dates and times, in their unit.
#[derive(Debug, Clone, PartialEq)]
pub enum Val {
    Whole(i128),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    Bool(bool),
}

/// A row: the columns that are not null.
pub type Row = BTreeMap<&'static str, Val>;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Op {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

#[derive(Debug, Clone)]
pub enum Filter {
    Const(bool),
    And(Vec<Filter>),
    Or(Vec<Filter>),
    Not(Box<Filter>),
    Compare { column: usize, op: Op, value: Val, flipped: bool },
    In { column: usize, negated: bool, values: Vec<Val> },
    Between { column: usize, negated: bool, low: Val, high: Val },
    Null { column: usize, negated: bool },
    Like { column: usize, negated: bool, prefix: String },
}

fn order(a: &Val, b: &Val) -> Ordering {
    match (a, b) {
        (Val::Whole(a), Val::Whole(b)) => a.cmp(b),
        (Val::Float(a), Val::Float(b)) => match (a.is_nan(), b.is_nan()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => a.partial_cmp(b).unwrap(),
        },
        (Val::Text(a), Val::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Val::Bytes(a), Val::Bytes(b)) => a.cmp(b),
        (Val::Bool(a), Val::Bool(b)) => a.cmp(b),
        _ => panic!("{a:?} and {b:?} are of different types"),
    }
}

impl Filter {
    /// SQL's answer, by its definition: `None` is unknown, and NOT is evaluated, not pushed down.
    pub fn eval(&self, row: &Row) -> Option<bool> {
        let cell = |column: &usize| row.get(COLUMNS[*column].0);
        match self {
            Self::Const(value) => Some(*value),
            Self::And(operands) => fold(operands, row, false),
            Self::Or(operands) => fold(operands, row, true),
            Self::Not(inner) => inner.eval(row).map(|value| !value),
            Self::Compare { column, op, value, .. } => cell(column).map(|cell| {
                let order = order(cell, value);
                match op {
                    Op::Eq => order.is_eq(),
                    Op::Ne => order.is_ne(),
                    Op::Lt => order.is_lt(),
                    Op::Le => order.is_le(),
                    Op::Gt => order.is_gt(),
                    Op::Ge => order.is_ge(),
                }
            }),
            Self::In { column, negated, values } => {
                cell(column).map(|cell| values.iter().any(|value| order(cell, value).is_eq()) != *negated)
            }
            Self::Between { column, negated, low, high } => {
                cell(column).map(|cell| (order(cell, low).is_ge() && order(cell, high).is_le()) != *negated)
            }
            Self::Null { column, negated } => Some(cell(column).is_none() != *negated),
            Self::Like { column, negated, prefix } => cell(column).map(|cell| match cell {
                Val::Text(text) => text.starts_with(prefix.as_str()) != *negated,
                _ => panic!("LIKE on {cell:?}"),
            }),
        }
    }

    /// The filter as a person would write it, with every group in parentheses.
    pub fn sql(&self) -> String {
        let name = |column: &usize| COLUMNS[*column].0;
        let literal = |column: &usize, value: &Val| literal(&COLUMNS[*column].2, value);
        let not = |negated: &bool| if *negated { "NOT " } else { "" };
        match self {
            Self::Const(value) => value.to_string(),
            Self::And(operands) => group(operands, " AND "),
            Self::Or(operands) => group(operands, " OR "),
            Self::Not(inner) => format!("NOT ({})", inner.sql()),
            Self::Compare { column, op, value, flipped } => {
                let op = match (op, flipped) {
                    (Op::Eq, _) => "=",
                    (Op::Ne, _) => "<>",
                    (Op::Lt, false) | (Op::Gt, true) => "<",
                    (Op::Le, false) | (Op::Ge, true) => "<=",
                    (Op::Gt, false) | (Op::Lt, true) => ">",
                    (Op::Ge, false) | (Op::Le, true) => ">=",
                };
                let (name, value) = (name(column), literal(column, value));
                if *flipped { format!("{value} {op} {name}") } else { format!("{name} {op} {value}") }
            }
            Self::In { column, negated, values } => {
                let values: Vec<_> = values.iter().map(|value| literal(column, value)).collect();
                format!("{} {}IN ({})", name(column), not(negated), values.join(", "))
            }
            Self::Between { column, negated, low, high } => {
                let (low, high) = (literal(column, low), literal(column, high));
                format!("{} {}BETWEEN {low} AND {high}", name(column), not(negated))
            }
            Self::Null { column, negated } => format!("{} IS {}NULL", name(column), not(negated)),
            Self::Like { column, negated, prefix } => format!("{} {}LIKE '{prefix}%'", name(column), not(negated)),
        }
    }

    /// The same filter by the laws of logic: operands moved and regrouped, De Morgan's laws, double negation.
    pub fn rewritten(&self, seed: u64) -> Self {
        let mut state = seed;
        self.rewrite(&mut state)
    }

    fn rewrite(&self, state: &mut u64) -> Self {
        let choice = next(state) % 3;
        match self {
            Self::And(operands) | Self::Or(operands) => {
                let conjunction = matches!(self, Self::And(_));
                let mut operands: Vec<Self> = operands.iter().map(|operand| operand.rewrite(state)).collect();
                for i in (1..operands.len()).rev() {
                    operands.swap(i, next(state) as usize % (i + 1));
                }
                if let Some(first) = operands.first().cloned() {
                    operands.push(first);
                }
                if choice == 0 && operands.len() > 2 {
                    let rest = operands.split_off(1);
                    operands.push(if conjunction { Self::And(rest) } else { Self::Or(rest) });
                }
                if choice == 1 {
                    let denied = operands.into_iter().map(|operand| Self::Not(Box::new(operand))).collect();
                    return Self::Not(Box::new(if conjunction { Self::Or(denied) } else { Self::And(denied) }));
                }
                if conjunction { Self::And(operands) } else { Self::Or(operands) }
            }
            Self::Not(inner) => Self::Not(Box::new(inner.rewrite(state))),
            leaf if choice == 0 => Self::Not(Box::new(leaf.denied())),
            leaf if choice == 1 => Self::Not(Box::new(Self::Not(Box::new(leaf.turned())))),
            leaf => leaf.turned(),
        }
    }

    fn turned(&self) -> Self {
        match self.clone() {
            Self::Compare { column, op, value, flipped } => Self::Compare { column, op, value, flipped: !flipped },
            Self::In { column, negated, mut values } => {
                values.reverse();
                values.extend(values.clone());
                Self::In { column, negated, values }
            }
            Self::Between { column, negated: false, low, high } => Self::And(vec![
                Self::Compare { column, op: Op::Le, value: high, flipped: false },
                Self::Compare { column, op: Op::Le, value: low, flipped: true }.turned_op(),
            ]),
            other => other,
        }
    }

    /// `low <= column`, from a comparison that was built the wrong way round.
    fn turned_op(self) -> Self {
        match self {
            Self::Compare { column, value, flipped, .. } => Self::Compare { column, op: Op::Ge, value, flipped },
            other => other,
        }
    }

    fn denied(&self) -> Self {
        match self.clone() {
            Self::Const(value) => Self::Const(!value),
            Self::Compare { column, op, value, flipped } => {
                let op = match op {
                    Op::Eq => Op::Ne,
                    Op::Ne => Op::Eq,
                    Op::Lt => Op::Ge,
                    Op::Le => Op::Gt,
                    Op::Gt => Op::Le,
                    Op::Ge => Op::Lt,
                };
                Self::Compare { column, op, value, flipped }
            }
            Self::In { column, negated, values } => Self::In { column, negated: !negated, values },
            Self::Between { column, negated, low, high } => Self::Between { column, negated: !negated, low, high },
            Self::Null { column, negated } => Self::Null { column, negated: !negated },
            Self::Like { column, negated, prefix } => Self::Like { column, negated: !negated, prefix },
            other => Self::Not(Box::new(other)),
        }
    }
}

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn fold(operands: &[Filter], row: &Row, decisive: bool) -> Option<bool> {
    let answers: Vec<_> = operands.iter().map(|operand| operand.eval(row)).collect();
    if answers.contains(&Some(decisive)) {
        return Some(decisive);
    }
    if answers.contains(&None) { None } else { Some(!decisive) }
}

fn group(operands: &[Filter], joint: &str) -> String {
    let operands: Vec<_> = operands.iter().map(|operand| format!("({})", operand.sql())).collect();
    operands.join(joint)
}

fn literal(kind: &PrimitiveType, value: &Val) -> String {
    match (kind, value) {
        (PrimitiveType::Decimal { .. }, Val::Whole(v)) => {
            format!("{}{}.{:02}", if *v < 0 { "-" } else { "" }, v.abs() / 100, v.abs() % 100)
        }
        (PrimitiveType::Date, Val::Whole(v)) => format!("'{}'", NaiveDate::from_epoch_days(*v as i32).unwrap()),
        (PrimitiveType::Time, Val::Whole(v)) => {
            let (seconds, micros) = ((*v / 1_000_000) as u32, (*v % 1_000_000) as u32);
            format!("TIME '{}'", NaiveTime::from_num_seconds_from_midnight_opt(seconds, micros * 1000).unwrap())
        }
        (PrimitiveType::Timestamp, Val::Whole(v)) => {
            format!("'{}'", DateTime::from_timestamp_micros(*v as i64).unwrap().naive_utc())
        }
        (PrimitiveType::Timestamptz, Val::Whole(v)) => {
            format!("TIMESTAMP '{}Z'", DateTime::from_timestamp_micros(*v as i64).unwrap().naive_utc())
        }
        (PrimitiveType::TimestampNs, Val::Whole(v)) => {
            format!("'{}'", DateTime::from_timestamp_nanos(*v as i64).naive_utc())
        }
        (PrimitiveType::TimestamptzNs, Val::Whole(v)) => {
            format!("'{}+00:00'", DateTime::from_timestamp_nanos(*v as i64).naive_utc())
        }
        (PrimitiveType::Uuid, Val::Whole(v)) => format!("'{}'", uuid::Uuid::from_u128(*v as u128)),
        (_, Val::Whole(v)) => v.to_string(),
        (_, Val::Float(v)) => format!("{v:?}"),
        (_, Val::Text(v)) => format!("'{}'", v.replace('\'', "''")),
        (_, Val::Bytes(v)) => format!("X'{}'", v.iter().map(|byte| format!("{byte:02X}")).collect::<String>()),
        (_, Val::Bool(v)) => v.to_string(),
    }
}

/// Days around the epoch and around months' and years' ends, where transforms round.
const DAYS: &[i128] = &[-800, -366, -365, -32, -31, -1, 0, 1, 30, 31, 58, 59, 364, 365, 15_926];

/// A value of a column, from few, so that rows and literals meet.
pub fn value(kind: &PrimitiveType) -> BoxedStrategy<Val> {
    let moment = |day: i128| {
        let within = prop::sample::select(vec![0, 1, day / 24 - 1, day / 24, day / 2, day - 1]);
        (prop::sample::select(DAYS.to_vec()), within).prop_map(move |(days, within)| Val::Whole(days * day + within))
    };
    match kind {
        PrimitiveType::Int | PrimitiveType::Long => (-4i128..5).prop_map(Val::Whole).boxed(),
        PrimitiveType::Decimal { .. } => (-250i128..250).prop_map(|v| Val::Whole(v / 50 * 50)).boxed(),
        PrimitiveType::Date => prop::sample::select(DAYS.to_vec()).prop_map(Val::Whole).boxed(),
        PrimitiveType::Time => {
            prop::sample::select(vec![0, 1, 3_599_999_999, 3_600_000_000, 86_399_999_999]).prop_map(Val::Whole).boxed()
        }
        PrimitiveType::Timestamp | PrimitiveType::Timestamptz => moment(86_400_000_000).boxed(),
        PrimitiveType::TimestampNs | PrimitiveType::TimestamptzNs => moment(86_400_000_000_000).boxed(),
        // The sign of the 128-bit number stands for its top bit, which orders uuids.
        PrimitiveType::Uuid => prop::sample::select(vec![0, 1, 1 << 64, i128::MAX]).prop_map(Val::Whole).boxed(),
        PrimitiveType::Float | PrimitiveType::Double => {
            prop::sample::select(vec![-1.5, -0.0, 0.0, 0.5, 1.0, 2.0]).prop_map(Val::Float).boxed()
        }
        PrimitiveType::String => "[ab'é]{0,4}".prop_map(Val::Text).boxed(),
        PrimitiveType::Fixed(_) => prop::collection::vec(bytes(), 3).prop_map(Val::Bytes).boxed(),
        PrimitiveType::Binary => prop::collection::vec(bytes(), 0..4).prop_map(Val::Bytes).boxed(),
        PrimitiveType::Boolean => any::<bool>().prop_map(Val::Bool).boxed(),
    }
}

fn bytes() -> impl Strategy<Value = u8> {
    prop::sample::select(vec![0u8, 1, 255])
}

fn leaf_of(column: usize) -> BoxedStrategy<Filter> {
    let kind = &COLUMNS[column].2;
    let one = || value(kind);
    let op = prop::sample::select(vec![Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge]);
    let compare =
        (op, one(), any::<bool>()).prop_map(move |(op, value, flipped)| Filter::Compare { column, op, value, flipped });
    let list = (any::<bool>(), prop::collection::vec(one(), 1..12)).prop_map(move |(negated, values)| Filter::In {
        column,
        negated,
        values,
    });
    let between = (any::<bool>(), one(), one()).prop_map(move |(negated, low, high)| Filter::Between {
        column,
        negated,
        low,
        high,
    });
    let null = any::<bool>().prop_map(move |negated| Filter::Null { column, negated });
    match kind {
        PrimitiveType::String => {
            let like = (any::<bool>(), "[abé]{1,4}").prop_map(move |(negated, prefix)| Filter::Like {
                column,
                negated,
                prefix,
            });
            prop_oneof![4 => compare, 2 => list, 1 => between, 1 => null, 3 => like].boxed()
        }
        _ => prop_oneof![4 => compare, 2 => list, 1 => between, 1 => null].boxed(),
    }
}

/// A filter over a few of the columns.
pub fn filter() -> BoxedStrategy<Filter> {
    let constant = any::<bool>().prop_map(Filter::Const);
    let leaf = prop_oneof![1 => constant, 30 => (0..COLUMNS.len()).prop_flat_map(leaf_of)];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Filter::And),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Filter::Or),
            inner.prop_map(|inner| Filter::Not(Box::new(inner))),
        ]
    })
    .boxed()
}

/// A filter over one column.
pub fn filter_of(column: usize) -> BoxedStrategy<Filter> {
    leaf_of(column)
        .prop_recursive(2, 6, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 2..3).prop_map(Filter::And),
                prop::collection::vec(inner.clone(), 2..3).prop_map(Filter::Or),
                inner.prop_map(|inner| Filter::Not(Box::new(inner))),
            ]
        })
        .boxed()
}

/// A cell of a row: a value, null, or for floats NaN of either sign.
pub fn cell(kind: &PrimitiveType) -> BoxedStrategy<Option<Val>> {
    let some = value(kind).prop_map(Some);
    match kind {
        PrimitiveType::Float | PrimitiveType::Double => {
            let nan = prop::sample::select(vec![f64::NAN, -f64::NAN]).prop_map(|v| Some(Val::Float(v)));
            prop_oneof![4 => some, 1 => nan, 1 => Just(None)].boxed()
        }
        _ => prop_oneof![5 => some, 1 => Just(None)].boxed(),
    }
}

/// A row with every column, the required one never null.
pub fn row() -> BoxedStrategy<Row> {
    let cells: Vec<_> = COLUMNS
        .iter()
        .map(|(name, id, kind)| {
            let cell = if *id == 1 { value(kind).prop_map(Some).boxed() } else { cell(kind) };
            cell.prop_map(move |cell| cell.map(|cell| (*name, cell)))
        })
        .collect();
    cells.prop_map(|cells| cells.into_iter().flatten().collect()).boxed()
}
