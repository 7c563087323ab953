//! Exact decimal numbers, for totals and tolerances.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use arrow_buffer::i256;

/// Why text is not a decimal number, or a result is too large for one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecimalError {
    /// The text is not a number.
    #[error("{0:?} is not a decimal number such as 12.50")]
    Malformed(String),
    /// More than about 76 digits would be needed.
    #[error("the number needs more than 76 digits")]
    TooLarge,
}

/// An exact decimal number of up to about 76 digits: `unscaled / 10^scale`, with no trailing zero after the point, so
/// equal numbers are equal values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decimal {
    unscaled: i256,
    scale: u32,
}

const TEN: i256 = i256::from_i128(10);
const MAX_SCALE: u32 = 76;

impl Decimal {
    /// Nought.
    pub const ZERO: Decimal = Decimal { unscaled: i256::ZERO, scale: 0 };

    /// `unscaled / 10^scale`. A negative scale multiplies. Fails where the number has too many digits.
    pub fn new(unscaled: i256, scale: i64) -> Result<Self, DecimalError> {
        let mut unscaled = unscaled;
        let mut scale = scale;
        if unscaled == i256::ZERO {
            return Ok(Self::ZERO);
        }
        while scale > 0 && unscaled.checked_rem(TEN) == Some(i256::ZERO) {
            unscaled = unscaled.checked_div(TEN).ok_or(DecimalError::TooLarge)?;
            scale -= 1;
        }
        while scale < 0 {
            unscaled = unscaled.checked_mul(TEN).ok_or(DecimalError::TooLarge)?;
            scale += 1;
        }
        let scale = u32::try_from(scale).map_err(|_| DecimalError::TooLarge)?;
        if scale > MAX_SCALE {
            return Err(DecimalError::TooLarge);
        }
        Ok(Self { unscaled, scale })
    }

    /// A whole number.
    pub fn from_i128(number: i128) -> Self {
        Self { unscaled: i256::from_i128(number), scale: 0 }
    }

    /// Is it below nought?
    pub fn is_negative(&self) -> bool {
        self.unscaled.is_negative()
    }

    /// The distance from nought.
    pub fn abs(&self) -> Result<Self, DecimalError> {
        let unscaled = self.unscaled.checked_abs().ok_or(DecimalError::TooLarge)?;
        Ok(Self { unscaled, scale: self.scale })
    }

    /// The sum.
    pub fn plus(&self, other: &Self) -> Result<Self, DecimalError> {
        let (left, right, scale) = self.aligned(other)?;
        Self::new(left.checked_add(right).ok_or(DecimalError::TooLarge)?, i64::from(scale))
    }

    /// The difference.
    pub fn minus(&self, other: &Self) -> Result<Self, DecimalError> {
        let (left, right, scale) = self.aligned(other)?;
        Self::new(left.checked_sub(right).ok_or(DecimalError::TooLarge)?, i64::from(scale))
    }

    /// The product.
    pub fn times(&self, other: &Self) -> Result<Self, DecimalError> {
        let unscaled = self.unscaled.checked_mul(other.unscaled).ok_or(DecimalError::TooLarge)?;
        Self::new(unscaled, i64::from(self.scale) + i64::from(other.scale))
    }

    /// Which is larger. Fails where the two are too far apart in digits to be brought to one scale.
    pub fn compare(&self, other: &Self) -> Result<Ordering, DecimalError> {
        let (left, right, _) = self.aligned(other)?;
        Ok(left.cmp(&right))
    }

    fn aligned(&self, other: &Self) -> Result<(i256, i256, u32), DecimalError> {
        let scale = self.scale.max(other.scale);
        let raise = |number: &Self| {
            let factor = TEN.checked_pow(scale - number.scale).ok_or(DecimalError::TooLarge)?;
            number.unscaled.checked_mul(factor).ok_or(DecimalError::TooLarge)
        };
        Ok((raise(self)?, raise(other)?, scale))
    }
}

impl FromStr for Decimal {
    type Err = DecimalError;

    /// Reads an optional sign, digits with an optional point, and an optional power of ten.
    fn from_str(given: &str) -> Result<Self, DecimalError> {
        let malformed = || DecimalError::Malformed(given.to_owned());
        let (number, power) = match given.split_once(['e', 'E']) {
            Some((number, power)) => (number, power.parse::<i32>().map_err(|_| malformed())?),
            None => (given, 0),
        };
        let (negative, digits) = match number.strip_prefix(['-', '+']) {
            Some(rest) => (number.starts_with('-'), rest),
            None => (false, number),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all: String = [whole, fraction].concat();
        if whole.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(malformed());
        }
        if digits.contains('.') && fraction.is_empty() {
            return Err(malformed());
        }
        let trimmed = all.trim_start_matches('0');
        let unscaled = match trimmed {
            "" => i256::ZERO,
            digits if digits.len() > 76 => return Err(DecimalError::TooLarge),
            digits => i256::from_string(digits).ok_or(DecimalError::TooLarge)?,
        };
        let unscaled = if negative { unscaled.checked_neg().ok_or(DecimalError::TooLarge)? } else { unscaled };
        let fraction = i64::try_from(fraction.len()).map_err(|_| DecimalError::TooLarge)?;
        Self::new(unscaled, fraction - i64::from(power))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.unscaled.to_string();
        let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
        let scale = self.scale as usize;
        if scale == 0 {
            return write!(f, "{sign}{digits}");
        }
        let padded = format!("{digits:0>width$}", width = scale + 1);
        let (whole, fraction) = padded.split_at(padded.len() - scale);
        write!(f, "{sign}{whole}.{fraction}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        text.parse().unwrap()
    }

    #[test]
    fn text_round_trips_in_its_shortest_form() {
        for (given, shown) in [
            ("0", "0"),
            ("-0.00", "0"),
            ("1.50", "1.5"),
            ("-0.05", "-0.05"),
            ("+7", "7"),
            ("1e3", "1000"),
            ("12.5e-1", "1.25"),
            ("100", "100"),
            ("00012", "12"),
        ] {
            assert_eq!(decimal(given).to_string(), shown, "{given}");
            assert_eq!(decimal(shown), decimal(given));
        }
        for bad in ["", ".5", "5.", "1_000", "x", "1e", "--1", "nan", "inf", "1.2.3", "1e99999999999"] {
            assert!(bad.parse::<Decimal>().is_err(), "{bad}");
        }
        assert_eq!("9".repeat(77).parse::<Decimal>(), Err(DecimalError::TooLarge));
        assert_eq!("1e-77".parse::<Decimal>(), Err(DecimalError::TooLarge));
        assert_eq!("1e2000000000".parse::<Decimal>(), Err(DecimalError::TooLarge));
    }

    #[test]
    fn arithmetic_is_exact() {
        assert_eq!(decimal("0.1").plus(&decimal("0.2")).unwrap(), decimal("0.3"));
        assert_eq!(decimal("1").minus(&decimal("0.999")).unwrap(), decimal("0.001"));
        assert_eq!(decimal("0.05").times(&decimal("-20")).unwrap(), decimal("-1"));
        assert_eq!(decimal("-3.5").abs().unwrap(), decimal("3.5"));
        assert_eq!(decimal("0.30").compare(&decimal("0.3")).unwrap(), Ordering::Equal);
        assert_eq!(decimal("-1").compare(&decimal("0.5")).unwrap(), Ordering::Less);
        let large = decimal(&"9".repeat(76));
        assert_eq!(large.times(&large), Err(DecimalError::TooLarge));
    }
}
