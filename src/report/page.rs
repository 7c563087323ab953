//! Lines of text: numbers and times as people read them, commands as a shell takes them.

use chrono::{DateTime, Utc};

use crate::ids::SnapshotId;

/// Text that grows by lines. What it is given may come from a table or a job, so control characters do not pass.
#[derive(Debug, Default)]
pub(super) struct Page(String);

impl Page {
    /// One line, or several where the text itself has several.
    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        for line in text.as_ref().lines() {
            self.0.push_str(clean(line).trim_end());
            self.0.push('\n');
        }
    }

    /// Lines moved to the right by two spaces.
    pub(super) fn items<T: AsRef<str>>(&mut self, items: impl IntoIterator<Item = T>) {
        for item in items {
            for line in item.as_ref().lines() {
                self.line(format!("  {line}"));
            }
        }
    }

    /// Things worth knowing, each marked as such.
    pub(super) fn warnings(&mut self, warnings: &[String]) {
        for warning in warnings {
            self.line(format!("note: {warning}"));
        }
    }

    /// What may be done next; nothing if there is nothing.
    pub(super) fn next<T: AsRef<str>>(&mut self, commands: impl IntoIterator<Item = T>) {
        for (index, command) in commands.into_iter().enumerate() {
            let mark = if index == 0 { "next:" } else { "     " };
            self.line(format!("{mark} {}", command.as_ref()));
        }
    }

    /// Columns padded to the widest cell of each, two spaces apart.
    pub(super) fn table(&mut self, rows: &[Vec<String>]) {
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let cells = |column: usize| rows.iter().filter_map(move |row| row.get(column));
        let width = |column| cells(column).map(|cell| cell.chars().count()).max().unwrap_or(0);
        let widths: Vec<_> = (0..columns).map(width).collect();
        for row in rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            self.line(format!("  {}", cells.collect::<Vec<_>>().join("  ")));
        }
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

/// The text with control characters made visible, so that no name or reason can steer a terminal.
pub fn clean(text: &str) -> String {
    let visible = |c: char| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(visible).collect()
}

/// `7735` as `7,735`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun, e.g. `1 file`, `7,735 rows`.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Bytes in the unit that leaves few digits.
pub(super) fn bytes(number: u64) -> String {
    for (unit, size) in [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if number >= size {
            // One digit after the point, without floating point.
            let tenths = (u128::from(number) * 10) / u128::from(size);
            return format!("{}.{} {unit}", tenths / 10, tenths % 10);
        }
    }
    format!("{number} B")
}

/// An instant to the second.
pub(super) fn instant(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A snapshot id in full, for copying; `no snapshot` where there is none.
pub(super) fn snapshot(id: Option<SnapshotId>) -> String {
    id.map_or_else(|| "no snapshot".to_owned(), |id| id.to_string())
}

/// The start of a snapshot id, for lines that are read and not copied.
pub fn short(id: SnapshotId) -> String {
    let digits = id.to_string();
    format!("{}…", digits.chars().take(4).collect::<String>())
}

/// An argument as a shell takes it.
pub fn shell(argument: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "._-+:@=~/,%".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let counts = [0, 12, 999, 1_000, 7_735, 1_234_567].map(count);
        assert_eq!(counts, ["0", "12", "999", "1,000", "7,735", "1,234,567"]);
        assert_eq!(counted(1, "row"), "1 row");
        assert_eq!(counted(2_000, "row"), "2,000 rows");
        assert_eq!([0, 1023, 1536, u64::MAX].map(bytes), ["0 B", "1023 B", "1.5 KiB", "17179869183.9 GiB"]);
    }

    #[test]
    fn nothing_steers_the_terminal() {
        let mut page = Page::default();
        page.line("a\u{1b}[2Jb\rc\nd");
        assert_eq!(page.finish(), "a\u{fffd}[2Jb\u{fffd}c\nd\n");
    }

    #[test]
    fn shell_arguments() {
        assert_eq!(shell("demo.flights"), "demo.flights");
        assert_eq!(shell("it's here"), "'it'\\''s here'");
        assert_eq!(shell(""), "''");
    }
}
