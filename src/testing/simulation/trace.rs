//! What happened, line by line.

use std::fmt;

/// How long a line is shown, in characters.
const WIDTH: usize = 200;

/// The lines of one simulation.
#[derive(Debug, Clone, Default)]
pub struct Trace(Vec<Line>);

#[derive(Debug, Clone)]
struct Line {
    who: String,
    what: String,
    plain: bool,
}

impl Trace {
    /// Something that matters to who wants to understand a violation.
    pub(super) fn add(&mut self, who: impl Into<String>, what: impl Into<String>) {
        let what: String = what.into();
        // Long messages repeat themselves.
        let what = match what.char_indices().nth(WIDTH) {
            Some((end, _)) => format!("{}…", what.get(..end).unwrap_or_default()),
            None => what,
        };
        self.0.push(Line { who: who.into(), what, plain: false });
    }

    /// A call that went as calls should.
    pub(super) fn plain(&mut self, who: impl Into<String>, what: impl Into<String>) {
        self.0.push(Line { who: who.into(), what: what.into(), plain: true });
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every line, to compare two runs by.
    pub fn whole(&self) -> String {
        self.0.iter().enumerate().map(|(number, line)| line.text(number)).collect()
    }
}

impl Line {
    fn text(&self, number: usize) -> String {
        format!("{number:5}  {:<12} {}\n", self.who, self.what)
    }
}

/// The lines that matter, one each, numbered as in the whole.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, line) in self.0.iter().enumerate().filter(|(_, line)| !line.plain) {
            f.write_str(&line.text(number))?;
        }
        Ok(())
    }
}
