//! Literals: text to a value of the column's type, and the one spelling of each value.

use std::fmt::Write as _;

use chrono::{Datelike as _, NaiveDate};
use iceberg::spec::{PrimitiveLiteral, PrimitiveType};

const MICROS_PER_DAY: i64 = 86_400_000_000;
const NANOS_PER_DAY: i128 = 86_400_000_000_000;

/// How a literal is written, before it has a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `12`, `-0.5`, `1e3`
    Number,
    /// `'…'`
    Text,
    /// `true`, `false`
    Bool,
    /// `DATE '…'`
    Date,
    /// `TIME '…'`
    Time,
    /// `TIMESTAMP '…'`
    Timestamp,
    /// `X'…'`
    Bytes,
}

/// The type's name in the Iceberg spec, without spaces.
pub(super) fn type_name(kind: &PrimitiveType) -> String {
    match kind {
        PrimitiveType::Boolean => "boolean".to_owned(),
        PrimitiveType::Int => "int".to_owned(),
        PrimitiveType::Long => "long".to_owned(),
        PrimitiveType::Float => "float".to_owned(),
        PrimitiveType::Double => "double".to_owned(),
        PrimitiveType::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
        PrimitiveType::Date => "date".to_owned(),
        PrimitiveType::Time => "time".to_owned(),
        PrimitiveType::Timestamp => "timestamp".to_owned(),
        PrimitiveType::Timestamptz => "timestamptz".to_owned(),
        PrimitiveType::TimestampNs => "timestamp_ns".to_owned(),
        PrimitiveType::TimestamptzNs => "timestamptz_ns".to_owned(),
        PrimitiveType::String => "string".to_owned(),
        PrimitiveType::Uuid => "uuid".to_owned(),
        PrimitiveType::Fixed(length) => format!("fixed[{length}]"),
        PrimitiveType::Binary => "binary".to_owned(),
    }
}

/// The type of that name; `None` for any other text.
pub(super) fn type_from_name(name: &str) -> Option<PrimitiveType> {
    let plain = match name {
        "boolean" => PrimitiveType::Boolean,
        "int" => PrimitiveType::Int,
        "long" => PrimitiveType::Long,
        "float" => PrimitiveType::Float,
        "double" => PrimitiveType::Double,
        "date" => PrimitiveType::Date,
        "time" => PrimitiveType::Time,
        "timestamp" => PrimitiveType::Timestamp,
        "timestamptz" => PrimitiveType::Timestamptz,
        "timestamp_ns" => PrimitiveType::TimestampNs,
        "timestamptz_ns" => PrimitiveType::TimestamptzNs,
        "string" => PrimitiveType::String,
        "uuid" => PrimitiveType::Uuid,
        "binary" => PrimitiveType::Binary,
        _ => {
            if let Some(length) = name.strip_prefix("fixed[").and_then(|rest| rest.strip_suffix(']')) {
                return length.parse().ok().map(PrimitiveType::Fixed);
            }
            let (precision, scale) = name.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
            let (precision, scale) = (precision.parse().ok()?, scale.parse().ok()?);
            return (1..=38).contains(&precision).then_some(PrimitiveType::Decimal { precision, scale });
        }
    };
    Some(plain)
}

/// Reads a literal for a column of type `kind`. The error says why it does not fit and what would.
pub(super) fn read(kind: &PrimitiveType, form: Form, text: &str) -> Result<PrimitiveLiteral, String> {
    let wanted = |what: &str| Err(format!("{what} was expected"));
    match kind {
        PrimitiveType::Boolean => match (form, text) {
            (Form::Bool, "true") => Ok(PrimitiveLiteral::Boolean(true)),
            (Form::Bool, "false") => Ok(PrimitiveLiteral::Boolean(false)),
            _ => wanted("true or false, without quotes,"),
        },
        PrimitiveType::Int => match form {
            Form::Number => read_whole(text, i32::MIN.into(), i32::MAX.into())
                .and_then(|v| i32::try_from(v).map_err(|e| e.to_string()))
                .map(PrimitiveLiteral::Int),
            _ => wanted("a whole number, without quotes,"),
        },
        PrimitiveType::Long => match form {
            Form::Number => read_whole(text, i64::MIN, i64::MAX).map(PrimitiveLiteral::Long),
            _ => wanted("a whole number, without quotes,"),
        },
        PrimitiveType::Float => match form {
            Form::Number => match text.parse::<f32>() {
                Ok(v) if v.is_finite() => Ok(PrimitiveLiteral::Float((v + 0.0).into())),
                Ok(_) => Err(format!("it is beyond the largest float, {:e}", f32::MAX)),
                Err(_) => wanted("a number"),
            },
            _ => wanted("a number, without quotes,"),
        },
        PrimitiveType::Double => match form {
            Form::Number => match text.parse::<f64>() {
                Ok(v) if v.is_finite() => Ok(PrimitiveLiteral::Double((v + 0.0).into())),
                Ok(_) => Err(format!("it is beyond the largest double, {:e}", f64::MAX)),
                Err(_) => wanted("a number"),
            },
            _ => wanted("a number, without quotes,"),
        },
        PrimitiveType::Decimal { precision, scale } => match form {
            Form::Number => read_decimal(text, *precision, *scale).map(PrimitiveLiteral::Int128),
            _ => wanted("a decimal number, without quotes,"),
        },
        PrimitiveType::Date => match form {
            Form::Text | Form::Date => read_date(text).map(PrimitiveLiteral::Int),
            _ => wanted("a date, DATE '2013-08-09',"),
        },
        PrimitiveType::Time => match form {
            Form::Text | Form::Time => read_clock(text, 6).and_then(whole_micros).map(PrimitiveLiteral::Long),
            _ => wanted("a time of day, TIME '17:05:00',"),
        },
        PrimitiveType::Timestamp | PrimitiveType::TimestampNs => match form {
            Form::Date => read_date(text).and_then(|_| read_timestamp(kind, text)).map(PrimitiveLiteral::Long),
            Form::Text | Form::Timestamp => read_timestamp(kind, text).map(PrimitiveLiteral::Long),
            _ => wanted("a timestamp without offset, TIMESTAMP '2013-08-09 17:05:00',"),
        },
        PrimitiveType::Timestamptz | PrimitiveType::TimestamptzNs => match form {
            Form::Text | Form::Timestamp => read_timestamp(kind, text).map(PrimitiveLiteral::Long),
            _ => wanted("a timestamp with offset, TIMESTAMP '2013-08-09 17:05:00Z',"),
        },
        PrimitiveType::String => match form {
            Form::Text => Ok(PrimitiveLiteral::String(text.to_owned())),
            _ => wanted("text in single quotes"),
        },
        PrimitiveType::Uuid => match form {
            Form::Text if text.len() == 36 => match uuid::Uuid::parse_str(text) {
                Ok(uuid) => Ok(PrimitiveLiteral::UInt128(uuid.as_u128())),
                Err(_) => wanted("a uuid, 'f79c3e09-677c-4bbd-a479-3f349cb785e7',"),
            },
            _ => wanted("a uuid, 'f79c3e09-677c-4bbd-a479-3f349cb785e7',"),
        },
        PrimitiveType::Fixed(length) => match form {
            Form::Bytes => {
                let bytes = read_hex(text)?;
                match u64::try_from(bytes.len()) {
                    Ok(found) if found == *length => Ok(PrimitiveLiteral::Binary(bytes)),
                    _ => Err(format!("it has {} bytes, the column {length}", bytes.len())),
                }
            }
            _ => wanted("bytes in hex, X'00ff',"),
        },
        PrimitiveType::Binary => match form {
            Form::Bytes => read_hex(text).map(PrimitiveLiteral::Binary),
            _ => wanted("bytes in hex, X'00ff',"),
        },
    }
}

fn read_whole(text: &str, min: i64, max: i64) -> Result<i64, String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err("a whole number, digits only, was expected".to_owned());
    }
    match text.parse::<i64>() {
        Ok(v) if (min..=max).contains(&v) => Ok(v),
        _ => Err(format!("it is outside {min} to {max}")),
    }
}

fn read_decimal(text: &str, precision: u32, scale: u32) -> Result<i128, String> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !plain(whole) || !plain(fraction) {
        return Err("a decimal number without exponent was expected".to_owned());
    }
    let fraction = fraction.trim_end_matches('0');
    let scale = usize::try_from(scale).map_err(|e| e.to_string())?;
    if fraction.len() > scale {
        return Err(format!("the column holds {scale} digits after the point"));
    }
    let all = format!("{whole}{fraction:0<scale$}");
    let all = all.trim_start_matches('0');
    if u32::try_from(all.len()).map_or(true, |found| found > precision) {
        return Err(format!("the column holds {precision} digits, {scale} of them after the point"));
    }
    let value: i128 = if all.is_empty() { 0 } else { all.parse().map_err(|_| "it is too large".to_owned())? };
    Ok(if negative { -value } else { value })
}

fn read_date(text: &str) -> Result<i32, String> {
    let wrong = || "a date of the years 0001 to 9999, as 2013-08-09, was expected".to_owned();
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return Err(wrong()) };
    let year = fixed_digits(year, 4).ok_or_else(wrong)?;
    let month = fixed_digits(month, 2).ok_or_else(wrong)?;
    let day = fixed_digits(day, 2).ok_or_else(wrong)?;
    if year == 0 {
        return Err(wrong());
    }
    let year = i32::try_from(year).map_err(|_| wrong())?;
    let date = NaiveDate::from_ymd_opt(year, month, day).ok_or_else(|| "there is no such day".to_owned())?;
    Ok(date.to_epoch_days())
}

fn fixed_digits(text: &str, width: usize) -> Option<u32> {
    (text.len() == width && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

/// `HH:MM`, `HH:MM:SS` or `HH:MM:SS.f`, as nanoseconds of the day.
fn read_clock(text: &str, digits: usize) -> Result<i64, String> {
    let wrong = || "a time of day, as 17:05:00.25, was expected".to_owned();
    let (clock, fraction) = text.split_once('.').map_or((text, None), |(clock, fraction)| (clock, Some(fraction)));
    let parts: Vec<&str> = clock.split(':').collect();
    let (hour, minute, second) = match (parts.as_slice(), fraction) {
        ([hour, minute], None) => (*hour, *minute, "00"),
        ([hour, minute, second], _) => (*hour, *minute, *second),
        _ => return Err(wrong()),
    };
    let hour = fixed_digits(hour, 2).filter(|h| *h < 24).ok_or_else(wrong)?;
    let minute = fixed_digits(minute, 2).filter(|m| *m < 60).ok_or_else(wrong)?;
    let second = fixed_digits(second, 2).filter(|s| *s < 60).ok_or_else(wrong)?;
    let nanos: i64 = match fraction {
        None => 0,
        Some(fraction) if fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) => return Err(wrong()),
        Some(fraction) => {
            let fraction = fraction.trim_end_matches('0');
            if fraction.len() > digits {
                return Err(format!("the column holds {digits} digits after the seconds"));
            }
            format!("{fraction:0<9}").parse().map_err(|_| wrong())?
        }
    };
    let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    Ok(seconds * 1_000_000_000 + nanos)
}

fn whole_micros(nanos: i64) -> Result<i64, String> {
    if nanos % 1000 == 0 { Ok(nanos / 1000) } else { Err("the column holds 6 digits after the seconds".to_owned()) }
}

fn zoned(kind: &PrimitiveType) -> bool {
    matches!(kind, PrimitiveType::Timestamptz | PrimitiveType::TimestamptzNs)
}

fn in_nanos(kind: &PrimitiveType) -> bool {
    matches!(kind, PrimitiveType::TimestampNs | PrimitiveType::TimestamptzNs)
}

fn read_timestamp(kind: &PrimitiveType, text: &str) -> Result<i64, String> {
    let (date, rest) = match text.split_once(['T', ' ']) {
        Some((date, rest)) => (date, Some(rest)),
        None => (text, None),
    };
    let days = read_date(date).map_err(|why| {
        if why.starts_with("there is") { why } else { "a timestamp, as 2013-08-09 17:05:00, was expected".to_owned() }
    })?;
    let (clock, offset) = match rest {
        None => (None, None),
        Some(rest) => match rest.find(['Z', '+', '-']) {
            None => (Some(rest), None),
            Some(at) => {
                let (clock, offset) = rest.split_at_checked(at).unwrap_or((rest, ""));
                (Some(clock.trim_end()), Some(offset))
            }
        },
    };
    let offset_minutes = match (zoned(kind), offset) {
        (false, None) => 0,
        (false, Some(_)) => return Err("the column has no time zone: write the timestamp without an offset".to_owned()),
        (true, None) => {
            return Err("the column has a time zone: end the timestamp with Z or an offset, +02:00".to_owned());
        }
        (true, Some(offset)) => read_offset(offset)?,
    };
    let digits = if in_nanos(kind) { 9 } else { 6 };
    let clock = clock.map_or(Ok(0), |clock| read_clock(clock, digits))?;
    let nanos = i128::from(days) * NANOS_PER_DAY + i128::from(clock) - i128::from(offset_minutes) * 60_000_000_000;
    let value = if in_nanos(kind) { nanos } else { nanos / 1000 };
    i64::try_from(value).map_err(|_| "nanosecond timestamps reach from 1677-09-21 to 2262-04-11".to_owned())
}

/// `Z`, `+02:00`, `+0200` or `+02`, as minutes east of UTC.
fn read_offset(text: &str) -> Result<i64, String> {
    if text == "Z" {
        return Ok(0);
    }
    let wrong = || "an offset, as Z or +02:00, was expected".to_owned();
    let (sign, rest) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(rest), _) => (1, rest),
        (_, Some(rest)) => (-1, rest),
        _ => return Err(wrong()),
    };
    let (hours, minutes) = match rest.split_once(':') {
        Some(parts) => parts,
        None if rest.len() == 2 => (rest, "00"),
        None => rest.split_at_checked(2).ok_or_else(wrong)?,
    };
    let hours = fixed_digits(hours, 2).filter(|h| *h <= 18).ok_or_else(wrong)?;
    let minutes = fixed_digits(minutes, 2).filter(|m| *m < 60).ok_or_else(wrong)?;
    Ok(sign * (i64::from(hours) * 60 + i64::from(minutes)))
}

fn read_hex(text: &str) -> Result<Vec<u8>, String> {
    let wrong = || "an even number of hex digits was expected".to_owned();
    if !text.len().is_multiple_of(2) || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    text.as_bytes()
        .chunks(2)
        .map(|pair| {
            let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
            u8::from_str_radix(pair, 16).map_err(|_| wrong())
        })
        .collect()
}

/// The one spelling of a value, which [`read_canonical`] reads back.
pub(super) fn render(kind: &PrimitiveType, value: &PrimitiveLiteral) -> String {
    match value {
        PrimitiveLiteral::Boolean(v) => v.to_string(),
        PrimitiveLiteral::Int(v) if *kind == PrimitiveType::Date => render_date(i64::from(*v)),
        PrimitiveLiteral::Int(v) => v.to_string(),
        PrimitiveLiteral::Long(v) => match kind {
            PrimitiveType::Time => render_clock(*v, 6),
            PrimitiveType::Timestamp | PrimitiveType::Timestamptz => {
                render_timestamp(kind, v.div_euclid(MICROS_PER_DAY), v.rem_euclid(MICROS_PER_DAY), 6)
            }
            PrimitiveType::TimestampNs | PrimitiveType::TimestamptzNs => {
                let day = MICROS_PER_DAY * 1000;
                render_timestamp(kind, v.div_euclid(day), v.rem_euclid(day), 9)
            }
            _ => v.to_string(),
        },
        // Adding zero turns -0.0 into 0.0, which is equal to it and must not be spelled apart.
        PrimitiveLiteral::Float(v) => format!("{:e}", v.0 + 0.0),
        PrimitiveLiteral::Double(v) => format!("{:e}", v.0 + 0.0),
        PrimitiveLiteral::String(v) => render_text(v),
        PrimitiveLiteral::Binary(v) => v.iter().fold("0x".to_owned(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        }),
        PrimitiveLiteral::Int128(v) => match kind {
            PrimitiveType::Decimal { scale, .. } => render_decimal(*v, *scale),
            _ => v.to_string(),
        },
        PrimitiveLiteral::UInt128(v) => uuid::Uuid::from_u128(*v).to_string(),
        // Results of Iceberg's own conversions, which never enter a scope.
        PrimitiveLiteral::AboveMax => "above-max".to_owned(),
        PrimitiveLiteral::BelowMin => "below-min".to_owned(),
    }
}

fn render_date(days: i64) -> String {
    match i32::try_from(days).ok().and_then(NaiveDate::from_epoch_days) {
        Some(date) => format!("{:04}-{:02}-{:02}", date.year(), date.month(), date.day()),
        None => days.to_string(),
    }
}

fn render_clock(units: i64, digits: usize) -> String {
    let per_second = if digits == 9 { 1_000_000_000 } else { 1_000_000 };
    let (seconds, fraction) = (units.div_euclid(per_second), units.rem_euclid(per_second));
    format!("{:02}:{:02}:{:02}.{fraction:0digits$}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn render_timestamp(kind: &PrimitiveType, days: i64, units: i64, digits: usize) -> String {
    let zone = if zoned(kind) { "Z" } else { "" };
    format!("{}T{}{zone}", render_date(days), render_clock(units, digits))
}

fn render_decimal(value: i128, scale: u32) -> String {
    let scale = usize::try_from(scale).unwrap_or(0);
    let sign = if value < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale.saturating_add(1));
    match digits.split_at_checked(digits.len().saturating_sub(scale)) {
        Some((whole, fraction)) if !fraction.is_empty() => format!("{sign}{whole}.{fraction}"),
        _ => format!("{sign}{digits}"),
    }
}

fn render_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len().saturating_add(2));
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Reads a value as [`render`] wrote it, text excepted; lenient where a comparison with `render` would show it.
pub(super) fn read_canonical(kind: &PrimitiveType, text: &str) -> Result<PrimitiveLiteral, String> {
    let form = match kind {
        PrimitiveType::Boolean => Form::Bool,
        PrimitiveType::Int | PrimitiveType::Long | PrimitiveType::Float | PrimitiveType::Double => Form::Number,
        PrimitiveType::Decimal { .. } => Form::Number,
        PrimitiveType::Date | PrimitiveType::Time => Form::Text,
        PrimitiveType::Timestamp | PrimitiveType::Timestamptz => Form::Text,
        PrimitiveType::TimestampNs | PrimitiveType::TimestamptzNs => Form::Text,
        PrimitiveType::String | PrimitiveType::Uuid => Form::Text,
        PrimitiveType::Fixed(_) | PrimitiveType::Binary => {
            let hex = text.strip_prefix("0x").ok_or_else(|| "0x was expected".to_owned())?;
            return read(kind, Form::Bytes, hex);
        }
    };
    read(kind, form, text)
}
