//! What `probe` and `doctor` found, as text.

use super::page::Page;
use super::text::Text;
use super::{Advice, DoctorReport, GuaranteeReport, ProbeReport, Severity};
use crate::publish::trust::{Guarantee, Seen, Trust};

/// The word for what was seen.
fn seen(seen: Seen) -> &'static str {
    match seen {
        Seen::Holds => "holds",
        Seen::Broken => "DOES NOT HOLD",
        Seen::NotTested => "not tested",
    }
}

impl GuaranteeReport {
    fn write(&self, page: &mut Page) {
        let word = match (self.seen, self.needed) {
            // What nothing rests on does not shout.
            (Seen::Broken, false) => "does not hold",
            (other, _) => seen(other),
        };
        page.line(format!("  {word:13}  {}: {}", self.what, self.detail));
        if let Some(request) = &self.request {
            page.line(format!("                   {request}"));
        }
    }
}

impl Text for ProbeReport {
    fn text(&self) -> String {
        let mut page = Page::default();
        page.line(&self.catalog);
        page.line(format!("journal {}", self.journal));
        for needed in [true, false] {
            page.line(if needed { "what safety rests on:" } else { "good to know:" });
            for guarantee in self.guarantees.iter().filter(|guarantee| guarantee.needed == needed) {
                guarantee.write(&mut page);
            }
        }
        page.warnings(&self.warnings);
        match &self.trust {
            Trust::Safe => page.line("SAFE TO PUBLISH  everything that safety rests on was seen"),
            Trust::Refused { broken, unknown } => {
                let words = |all: &[Guarantee]| all.iter().map(|one| one.words()).collect::<Vec<_>>().join("; ");
                page.line("REFUSED  do not publish with this catalog and journal");
                if !broken.is_empty() {
                    page.line(format!("  does not hold: {}", words(broken)));
                }
                if !unknown.is_empty() {
                    page.line(format!("  was not seen: {}", words(unknown)));
                }
            }
        }
        page.finish()
    }
}

/// The word for how bad it is.
fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Risk => "RISK",
        Severity::Warning => "WARNING",
        Severity::Note => "note",
    }
}

impl Advice {
    fn write(&self, page: &mut Page) {
        let table = self.table.as_ref().map(|table| format!("{table}: ")).unwrap_or_default();
        page.line(format!("{:7}  {table}{}", severity(self.severity), self.what));
        page.line(format!("         {}", self.why));
        if let Some(remedy) = &self.remedy {
            page.line(format!("         remedy: {remedy}"));
        }
    }
}

impl Text for DoctorReport {
    fn text(&self) -> String {
        let mut page = Page::default();
        page.line(&self.catalog);
        page.line(format!("journal {}", self.journal));
        let tables: Vec<_> = self.tables.iter().map(ToString::to_string).collect();
        page.line(if tables.is_empty() {
            "no tables yet".to_owned()
        } else {
            format!("looked at {}", tables.join(", "))
        });
        for advice in &self.findings {
            advice.write(&mut page);
        }
        if self.findings.is_empty() {
            page.line("nothing risky was found");
        }
        page.finish()
    }
}
