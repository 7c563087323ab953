//! Exact sums.
//!
//! Whole numbers and decimals are summed in 128 bits with overflow noticed. Floating-point numbers are summed exactly,
//! in any order, and rounded once at the end to the nearest double: two readings of the same rows give the same total,
//! however the files were interleaved. Text, as CSV files have it, is summed as the decimal numbers it spells.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::i256;
use arrow_schema::DataType;

use crate::contract::Decimal;

/// A sum so far, by the type of what is summed.
#[derive(Debug, Clone)]
pub(crate) enum Sum {
    Whole(i128),
    Decimal {
        unscaled: i128,
        scale: i8,
    },
    Float(Box<FloatSum>),
    Text(Decimal),
    /// It cannot be computed, and why.
    Failed(String),
}

impl Sum {
    /// The sum of no value of this type. Text counts only where `text` says that it may.
    pub fn new(data_type: &DataType, text: bool) -> Self {
        match data_type {
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Sum::Whole(0),
            DataType::Decimal128(_, scale) => Sum::Decimal { unscaled: 0, scale: *scale },
            DataType::Float32 | DataType::Float64 => Sum::Float(Box::default()),
            DataType::Utf8 if text => Sum::Text(Decimal::ZERO),
            other => Sum::Failed(format!("values of type {other} have no sum")),
        }
    }

    /// Adds the values that are not null.
    pub fn add(&mut self, column: &ArrayRef) {
        if let Err(reason) = self.try_add(column) {
            *self = Sum::Failed(reason);
        }
    }

    fn try_add(&mut self, column: &ArrayRef) -> Result<(), String> {
        let mismatch = || format!("values of type {} came among others", column.data_type());
        match self {
            Sum::Failed(_) => {}
            Sum::Whole(sum) => {
                // A batch of 64-bit numbers cannot overflow 128 bits; the total of all batches is checked.
                let batch = match column.data_type() {
                    DataType::Int8 => whole::<Int8Type>(column),
                    DataType::Int16 => whole::<Int16Type>(column),
                    DataType::Int32 => whole::<Int32Type>(column),
                    DataType::Int64 => whole::<Int64Type>(column),
                    _ => return Err(mismatch()),
                };
                *sum = sum.checked_add(batch).ok_or_else(overflow)?;
            }
            Sum::Decimal { unscaled, scale } => match column.data_type() {
                DataType::Decimal128(_, other) if other == scale => {
                    for value in column.as_primitive::<Decimal128Type>().iter().flatten() {
                        *unscaled = unscaled.checked_add(value).ok_or_else(overflow)?;
                    }
                }
                _ => return Err(mismatch()),
            },
            Sum::Float(sum) => match column.data_type() {
                DataType::Float32 => {
                    column.as_primitive::<Float32Type>().iter().flatten().for_each(|value| sum.add(f64::from(value)));
                }
                DataType::Float64 => column.as_primitive::<Float64Type>().iter().flatten().for_each(|v| sum.add(v)),
                _ => return Err(mismatch()),
            },
            Sum::Text(sum) => {
                let values = column.as_string_opt::<i32>().ok_or_else(mismatch)?;
                for value in values.iter().flatten() {
                    let number: Decimal = value.trim().parse().map_err(|_| format!("{value:?} is not a number"))?;
                    *sum = sum.plus(&number).map_err(|error| error.to_string())?;
                }
            }
        }
        Ok(())
    }

    /// Takes another sum of the same column over.
    pub fn merge(&mut self, other: Self) {
        let merged = match (&mut *self, other) {
            (Sum::Failed(_), _) => Ok(()),
            (_, Sum::Failed(reason)) => Err(reason),
            (Sum::Whole(sum), Sum::Whole(more)) => sum.checked_add(more).map(|all| *sum = all).ok_or_else(overflow),
            (Sum::Decimal { unscaled, scale }, Sum::Decimal { unscaled: more, scale: other }) if *scale == other => {
                unscaled.checked_add(more).map(|all| *unscaled = all).ok_or_else(overflow)
            }
            (Sum::Float(sum), Sum::Float(more)) => {
                sum.merge(*more);
                Ok(())
            }
            (Sum::Text(sum), Sum::Text(more)) => {
                sum.plus(&more).map(|all| *sum = all).map_err(|error| error.to_string())
            }
            _ => Err("the files have the column in different types".to_owned()),
        };
        if let Err(reason) = merged {
            *self = Sum::Failed(reason);
        }
    }

    /// The total, or why there is none.
    pub fn total(&self) -> Result<Decimal, String> {
        match self {
            Sum::Whole(sum) => Ok(Decimal::from_i128(*sum)),
            Sum::Decimal { unscaled, scale } => {
                Decimal::new(i256::from_i128(*unscaled), i64::from(*scale)).map_err(|error| error.to_string())
            }
            Sum::Float(sum) => sum.total(),
            Sum::Text(sum) => Ok(*sum),
            Sum::Failed(reason) => Err(reason.clone()),
        }
    }
}

fn whole<T: ArrowPrimitiveType>(column: &ArrayRef) -> i128
where
    i128: From<T::Native>,
{
    let column = column.as_primitive::<T>();
    match column.null_count() {
        0 => column.values().iter().map(|value| i128::from(*value)).sum(),
        _ => column.iter().flatten().map(i128::from).sum(),
    }
}

fn overflow() -> String {
    "the sum needs more than 38 digits".to_owned()
}

/// Digits of 32 bits that hold every double exactly: 2^-1074 to 2^1024, and room for 2^64 of them.
const LIMBS: usize = 70;
/// Additions after which carries are moved on: each adds less than 2^32 to a limb of 63 bits.
const CARRY_AFTER: u32 = 1 << 30;

/// The exact sum of doubles: a number of 32-bit digits, the first of which counts 2^-1074.
#[derive(Debug, Clone)]
pub(crate) struct FloatSum {
    limbs: [i64; LIMBS],
    added: u32,
    not_numbers: u64,
}

impl Default for FloatSum {
    fn default() -> Self {
        Self { limbs: [0; LIMBS], added: 0, not_numbers: 0 }
    }
}

impl FloatSum {
    #[inline]
    pub fn add(&mut self, value: f64) {
        if !value.is_finite() {
            self.not_numbers += 1;
            return;
        }
        let bits = value.to_bits();
        let exponent = (bits >> 52) & 0x7ff;
        let fraction = bits & ((1 << 52) - 1);
        let mantissa = if exponent == 0 { fraction } else { fraction | 1 << 52 };
        let shift = exponent.max(1) - 1;
        let digits = u128::from(mantissa) << (shift % 32);
        let sign = if value.is_sign_negative() { -1 } else { 1 };
        let first = (shift / 32) as usize;
        let parts = [digits as u32, (digits >> 32) as u32, (digits >> 64) as u32];
        for (limb, part) in self.limbs.iter_mut().skip(first).zip(parts) {
            *limb += sign * i64::from(part);
        }
        self.added += 1;
        if self.added >= CARRY_AFTER {
            self.carry();
        }
    }

    /// Brings all limbs but the last into 0..2^32.
    fn carry(&mut self) {
        let mut carry = 0i64;
        if let Some((last, rest)) = self.limbs.split_last_mut() {
            for limb in rest {
                let value = *limb + carry;
                *limb = value & 0xffff_ffff;
                carry = value >> 32;
            }
            *last = last.wrapping_add(carry);
        }
        self.added = 1;
    }

    fn merge(&mut self, mut other: Self) {
        self.carry();
        other.carry();
        for (limb, more) in self.limbs.iter_mut().zip(other.limbs) {
            *limb = limb.wrapping_add(more);
        }
        self.carry();
        self.not_numbers += other.not_numbers;
    }

    fn total(&self) -> Result<Decimal, String> {
        if self.not_numbers > 0 {
            return Err(format!(
                "the sum is not a number: {} NaN or infinite",
                super::plural(self.not_numbers, "value is")
            ));
        }
        let total = self.rounded();
        let too_large = |_| format!("the sum {total:e} has too many digits to be compared");
        if total.is_finite() { total.to_string().parse().map_err(too_large) } else { Err(overflow()) }
    }

    /// The nearest double.
    fn rounded(&self) -> f64 {
        let mut sum = self.clone();
        sum.carry();
        let negative = sum.limbs.last().is_some_and(|limb| *limb < 0);
        if negative {
            sum.limbs.iter_mut().for_each(|limb| *limb = limb.wrapping_neg());
            sum.carry();
        }
        let Some(highest) = sum.limbs.iter().rposition(|limb| *limb != 0) else { return 0.0 };
        // The top 96 to 128 bits hold every bit that rounding looks at; of the rest it only matters whether any is set.
        let mut top = 0u128;
        for limb in sum.limbs.iter().take(highest + 1).rev().take(4) {
            top = top << 32 | (*limb as u128 & 0xffff_ffff);
        }
        let below = highest.saturating_sub(3);
        if sum.limbs.iter().take(below).any(|limb| *limb != 0) {
            top |= 1;
        }
        let power = i32::try_from(32 * below).unwrap_or(i32::MAX) - 1074;
        let half = power / 2;
        let magnitude = (top as f64) * power_of_two(half) * power_of_two(power - half);
        if negative { -magnitude } else { magnitude }
    }
}

fn power_of_two(power: i32) -> f64 {
    f64::powi(2.0, power)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Decimal128Array, Float64Array, Int64Array, StringArray};
    use proptest::prelude::*;

    use super::*;

    fn rounded(values: &[f64]) -> f64 {
        let mut sum = FloatSum::default();
        values.iter().for_each(|value| sum.add(*value));
        sum.rounded()
    }

    #[test]
    fn doubles_are_summed_exactly() {
        assert_eq!(rounded(&[1e100, 1.0, -1e100]), 1.0);
        assert_eq!(rounded(&[0.1; 10]), 1.0);
        assert_eq!(rounded(&[]), 0.0);
        assert_eq!(rounded(&[f64::MIN_POSITIVE, -f64::MIN_POSITIVE]), 0.0);
        assert_eq!(rounded(&[5e-324, 5e-324]), 1e-323);
        assert_eq!(rounded(&[f64::MAX, f64::MAX, -f64::MAX]), f64::MAX);
        assert_eq!(rounded(&[-1.5, -2.25]), -3.75);
        // Half way between two doubles, and a hair above it.
        let half = 2f64.powi(53);
        assert_eq!(rounded(&[half, 1.0]), half);
        assert_eq!(rounded(&[half, 1.0, 1e-300]), half + 2.0);
    }

    proptest! {
        #[test]
        fn order_and_grouping_do_not_matter(mut values in proptest::collection::vec(-1e18f64..1e18, 0..50), at in 0usize..50) {
            let forward = rounded(&values);
            let (mut one, mut two) = (FloatSum::default(), FloatSum::default());
            let (left, right) = values.split_at(at.min(values.len()));
            left.iter().for_each(|value| one.add(*value));
            right.iter().for_each(|value| two.add(*value));
            two.merge(one);
            prop_assert_eq!(two.rounded(), forward);
            values.reverse();
            prop_assert_eq!(rounded(&values), forward);
        }

        #[test]
        fn whole_doubles_sum_like_whole_numbers(values in proptest::collection::vec(-(1i64 << 40)..(1i64 << 40), 0..50)) {
            let doubles: Vec<f64> = values.iter().map(|value| *value as f64).collect();
            prop_assert_eq!(rounded(&doubles), values.iter().sum::<i64>() as f64);
        }
    }

    fn total(column: ArrayRef, text: bool) -> Result<String, String> {
        let mut sum = Sum::new(column.data_type(), text);
        sum.add(&column);
        sum.total().map(|total| total.to_string())
    }

    #[test]
    fn every_type_has_its_exact_sum() {
        assert_eq!(
            total(Arc::new(Int64Array::from(vec![Some(i64::MAX), None, Some(i64::MAX)])), false).unwrap(),
            (i128::from(i64::MAX) * 2).to_string()
        );
        let decimals = Decimal128Array::from(vec![1050, -25]).with_precision_and_scale(9, 2).unwrap();
        assert_eq!(total(Arc::new(decimals), false).unwrap(), "10.25");
        assert_eq!(total(Arc::new(Float64Array::from(vec![0.5, 0.25])), false).unwrap(), "0.75");
        assert_eq!(total(Arc::new(StringArray::from(vec!["0.1", " 0.2"])), true).unwrap(), "0.3");
        assert!(total(Arc::new(StringArray::from(vec!["1"])), false).unwrap_err().contains("no sum"));
        assert!(total(Arc::new(StringArray::from(vec!["x"])), true).unwrap_err().contains("not a number"));
        assert!(total(Arc::new(Float64Array::from(vec![f64::NAN])), false).unwrap_err().contains("NaN"));
        let large = Decimal128Array::from(vec![i128::MAX, 1]).with_precision_and_scale(38, 0).unwrap();
        assert!(total(Arc::new(large), false).unwrap_err().contains("38 digits"));
    }
}
