//! Volume: how many rows the scope has, and how many it had.

use super::{Finding, plural};
use crate::contract::{Decimal, DecimalError, VolumeCheck};
use crate::evidence::check::Outcome;

/// The check's conclusion over the rows in scope in the head and in the base.
///
/// A ratio to a base that has no row in scope means nothing and is not applied: the summary says so.
pub(crate) fn conclude(check: &VolumeCheck, head: u64, base: u64) -> Finding {
    let examined = head.saturating_add(base);
    let rows = |count: u64| Decimal::from_i128(i128::from(count));
    let mut faults = Vec::new();
    if let Some(min) = check.min_rows.filter(|min| head < *min) {
        faults.push(format!("fewer than min-rows = {min}"));
    }
    if let Some(max) = check.max_rows.filter(|max| head > *max) {
        faults.push(format!("more than max-rows = {max}"));
    }
    let ratios = || -> Result<Vec<String>, DecimalError> {
        let mut faults = Vec::new();
        if let Some(min) = &check.min_ratio
            && rows(head).compare(&min.times(&rows(base))?)?.is_lt()
        {
            faults.push(format!("fewer than min-ratio = {min} of the base's"));
        }
        if let Some(max) = &check.max_ratio
            && rows(head).compare(&max.times(&rows(base))?)?.is_gt()
        {
            faults.push(format!("more than max-ratio = {max} of the base's"));
        }
        Ok(faults)
    };
    let counted = format!("{} in scope, {base} in the base", plural(head, "row"));
    let has_ratio = check.min_ratio.is_some() || check.max_ratio.is_some();
    if has_ratio && base > 0 {
        match ratios() {
            Ok(more) => faults.extend(more),
            Err(error) => return Finding::error(format!("{counted}: the ratio cannot be computed: {error}")),
        }
    }
    match (faults.is_empty(), has_ratio && base == 0) {
        (true, false) => Finding::new(Outcome::Pass, examined, counted),
        (true, true) => Finding::new(Outcome::Pass, examined, format!("{counted}: no ratio was compared")),
        (false, _) => Finding::new(Outcome::Fail, examined, format!("{counted}: {}", faults.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_at_their_edge() {
        let check = |min_rows, max_rows, min_ratio: Option<&str>, max_ratio: Option<&str>| VolumeCheck {
            min_rows,
            max_rows,
            min_ratio: min_ratio.map(|ratio| ratio.parse().unwrap()),
            max_ratio: max_ratio.map(|ratio| ratio.parse().unwrap()),
        };
        use Outcome::{Fail, Pass};
        for (check, head, base, outcome) in [
            (check(Some(3), Some(5), None, None), 3, 0, Pass),
            (check(Some(3), Some(5), None, None), 5, 0, Pass),
            (check(Some(3), Some(5), None, None), 2, 0, Fail),
            (check(Some(3), Some(5), None, None), 6, 0, Fail),
            (check(None, None, Some("0.9"), Some("1.1")), 90, 100, Pass),
            (check(None, None, Some("0.9"), Some("1.1")), 110, 100, Pass),
            (check(None, None, Some("0.9"), Some("1.1")), 89, 100, Fail),
            (check(None, None, Some("0.9"), Some("1.1")), 111, 100, Fail),
            (check(None, None, Some("0.9"), Some("1.1")), 7, 0, Pass),
            (check(Some(8), None, Some("0.9"), None), 7, 0, Fail),
        ] {
            let finding = conclude(&check, head, base);
            assert_eq!(finding.outcome, outcome, "{head} {base} {}", finding.summary);
            assert_eq!(finding.examined, head + base);
        }
    }
}
