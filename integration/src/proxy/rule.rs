//! Which requests a fault is for.

use std::str::FromStr;

use super::fault::Fault;
use crate::{HarnessError, Result};

/// A rule that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the rule {rule:?} cannot be read: {reason}")]
pub struct RuleError {
    /// The rule as given.
    pub rule: String,
    /// What is wrong, and what may stand there.
    pub reason: String,
}

/// Which of the requests that fit a rule get its fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Each.
    Always,
    /// Only the n-th, counted from 1 since the rule was made known.
    Nth(u64),
    /// The n-th and all that follow.
    From(u64),
    /// So many of a million, chosen by the seed, the rule's number and the request's number among those that fit.
    Chance(u32),
}

/// What requests it is for, and what happens to them.
///
/// As text: `METHOD PATH [#N | #N+ | P%] [has=TEXT]… [header=NAME:TEXT]… FAULT`, e.g. `POST */tables/* #1 drop-after`.
/// `METHOD` may be `*` or several with commas. In `PATH`, `*` stands for any characters, slashes too; the query is not
/// looked at. `has=` looks for a text in the request's body, in its first 16 MiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    methods: Vec<String>,
    path: String,
    has: Vec<String>,
    headers: Vec<(String, String)>,
    /// Which of those that fit.
    pub when: When,
    /// What happens to them.
    pub fault: Fault,
}

impl Rule {
    /// A rule for a method (`*` for any) and a path with `*` for any characters, which passes everything.
    pub fn on(method: &str, path: &str) -> Self {
        let methods = method.split(',').map(str::to_ascii_uppercase).collect();
        Self { methods, path: path.to_owned(), has: vec![], headers: vec![], when: When::Always, fault: Fault::Pass }
    }

    /// A rule for commits to one table: `POST …/tables/…`.
    pub fn commits() -> Self {
        Self::on("POST", "*/tables/*")
    }

    /// Only requests with this text in their body.
    #[must_use]
    pub fn containing(mut self, text: &str) -> Self {
        self.has.push(text.to_owned());
        self
    }

    /// Only requests with a header of this name that holds this text.
    #[must_use]
    pub fn header(mut self, name: &str, text: &str) -> Self {
        self.headers.push((name.to_owned(), text.to_owned()));
        self
    }

    /// Only these of them.
    #[must_use]
    pub fn when(mut self, when: When) -> Self {
        self.when = when;
        self
    }

    /// Only the first of them.
    #[must_use]
    pub fn once(self) -> Self {
        self.when(When::Nth(1))
    }

    /// What happens to them.
    #[must_use]
    pub fn then(mut self, fault: Fault) -> Self {
        self.fault = fault;
        self
    }

    /// Rules as text, one a line; empty lines and lines that begin with `//` are passed over.
    pub fn parse_all(text: &str) -> Result<Vec<Self>> {
        let lines = text.lines().map(str::trim).enumerate();
        let meant = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with("//"));
        let read = |(at, line): (usize, &str)| {
            line.parse().map_err(|error: RuleError| HarnessError(format!("line {}: {error}", at + 1)))
        };
        meant.map(read).collect()
    }

    /// Whether it is for a request. `header` gives a header's values.
    pub(super) fn fits(&self, method: &str, path: &str, header: impl Fn(&str, &str) -> bool, body: &[u8]) -> bool {
        self.methods.iter().any(|wanted| wanted == "*" || wanted.eq_ignore_ascii_case(method))
            && glob(self.path.as_bytes(), path.as_bytes())
            && self.headers.iter().all(|(name, text)| header(name, text))
            && self.has.iter().all(|text| holds(body, text.as_bytes()))
    }

    /// Whether the n-th request that fits gets the fault.
    pub(super) fn fires(&self, seed: u64, rule: u64, nth: u64) -> bool {
        match self.when {
            When::Always => true,
            When::Nth(wanted) => nth == wanted,
            When::From(first) => nth >= first,
            When::Chance(millionths) => chance(seed, rule, nth) < millionths,
        }
    }
}

/// A number below a million that depends on nothing but the arguments.
pub(super) fn chance(seed: u64, rule: u64, nth: u64) -> u32 {
    let mut outer = fastrand::Rng::with_seed(seed);
    let mut inner = fastrand::Rng::with_seed(outer.u64(..) ^ rule.rotate_left(32) ^ nth);
    inner.u32(..1_000_000)
}

/// Whether `pattern`, in which `*` stands for any characters, describes all of `text`.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where the last star was, and up to where it has swallowed.
    let mut star: Option<(usize, usize)> = None;
    while let Some(byte) = text.get(t) {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(wanted) if wanted == byte => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, swallowed)) => {
                    star = Some((at, swallowed + 1));
                    p = at + 1;
                    t = swallowed + 1;
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|byte| *byte == b'*')
}

/// Whether `text` stands anywhere in `body`.
pub(super) fn holds(body: &[u8], text: &[u8]) -> bool {
    text.is_empty() || body.windows(text.len()).any(|window| window == text)
}

/// Words at blanks; what is in double quotes belongs to one word. `\"` and `\\` inside of quotes stand for themselves.
fn words(text: &str) -> std::result::Result<Vec<String>, String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' if quoted => match chars.next() {
                Some(next @ ('"' | '\\')) => word.get_or_insert_default().push(next),
                Some(next) => word.get_or_insert_default().extend(['\\', next]),
                None => break,
            },
            c if c.is_whitespace() && !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    if quoted {
        return Err("a quote is not closed".to_owned());
    }
    words.extend(word);
    Ok(words)
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> std::result::Result<Self, RuleError> {
        parse(text).map_err(|reason| RuleError { rule: text.to_owned(), reason })
    }
}

fn parse(text: &str) -> std::result::Result<Rule, String> {
    let words = words(text)?;
    let [method, path, rest @ ..] = words.as_slice() else {
        return Err("it begins with a method and a path, e.g. POST */tables/* #1 drop-after".to_owned());
    };
    if !method.split(',').all(|one| one == "*" || (!one.is_empty() && one.bytes().all(|b| b.is_ascii_alphabetic()))) {
        return Err(format!("{method:?} is no method: GET, POST, …, several with commas, or *"));
    }
    if !path.starts_with(['/', '*']) {
        return Err(format!("the path {path:?} begins with neither / nor *"));
    }
    let mut rule = Rule::on(method, path);
    let mut rest = rest;
    while let [word, after @ ..] = rest {
        if let Some(number) = word.strip_prefix('#') {
            let (number, open) = number.strip_suffix('+').map_or((number, false), |number| (number, true));
            let nth = number.parse().ok().filter(|nth| *nth > 0);
            let nth = nth.ok_or_else(|| format!("{word:?} is no number of a request: #1, #2, …, or #2+"))?;
            set_when(&mut rule, if open { When::From(nth) } else { When::Nth(nth) })?;
        } else if let Some(percent) = word.strip_suffix('%') {
            let percent = percent.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
            let percent = percent.ok_or_else(|| format!("{word:?} is no percentage from 0% to 100%"))?;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1,000,000 by the filter")]
            set_when(&mut rule, When::Chance((percent * 10_000.0).round() as u32))?;
        } else if let Some(text) = word.strip_prefix("has=") {
            rule = rule.containing(text);
        } else if let Some(header) = word.strip_prefix("header=") {
            let (name, text) = header.split_once(':').ok_or_else(|| format!("{word:?} is not header=NAME:TEXT"))?;
            rule = rule.header(name, text);
        } else {
            break;
        }
        rest = after;
    }
    Ok(rule.then(Fault::parse(rest)?))
}

fn set_when(rule: &mut Rule, when: When) -> std::result::Result<(), String> {
    if rule.when != When::Always {
        return Err("it says twice which of the requests it is for".to_owned());
    }
    rule.when = when;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::fault::{Answer, HoldWhat, Moment, Which};
    use super::*;

    fn fault(text: &str) -> Fault {
        text.parse::<Rule>().unwrap().fault
    }

    #[test]
    fn rules_are_read() {
        let rule: Rule = "post */tables/* #1 drop-after".parse().unwrap();
        assert_eq!(rule, Rule::commits().once().then(Fault::DropAfter));
        let rule: Rule = r#"GET,HEAD /v1/* 12.5% has="a \"b\"" has=c header=X-Kind:d hold open"#.parse().unwrap();
        let same = Rule::on("GET,HEAD", "/v1/*").when(When::Chance(125_000)).containing("a \"b\"").containing("c");
        assert_eq!(rule, same.header("X-Kind", "d").then(Fault::Hold(HoldWhat::Open)));
        assert_eq!("* * #3+ pass".parse::<Rule>().unwrap().when, When::From(3));
        for (text, wanted) in [
            ("* * pass", Fault::Pass),
            ("* * drop-before", Fault::DropBefore),
            ("* * delay 2s", Fault::Delay(Duration::from_secs(2))),
            ("* * delay-answer 500ms", Fault::DelayAnswer(Duration::from_millis(500))),
            ("* * replay", Fault::Replay(Which::Second)),
            ("* * replay first", Fault::Replay(Which::First)),
            ("* * cut", Fault::Cut { chunked: false }),
            ("* * cut chunked", Fault::Cut { chunked: true }),
            ("* * hold", Fault::Hold(HoldWhat::Request)),
            ("* * hold answer", Fault::Hold(HoldWhat::Answer)),
            ("* * redirect 307", Fault::Redirect { moment: Moment::Before, status: 307, to: None }),
            (
                "* * redirect-after 302 http://x/",
                Fault::Redirect { moment: Moment::After, status: 302, to: Some("http://x/".to_owned()) },
            ),
            ("* * answer 200 html", Fault::Answer { moment: Moment::Before, answer: Answer::html(200) }),
            ("* * answer-after 200 json", Fault::Answer { moment: Moment::After, answer: Answer::others_json(200) }),
            ("* * answer-after 502 empty", Fault::Answer { moment: Moment::After, answer: Answer::empty(502) }),
            ("* * answer 409 \"{}\"", Fault::Answer { moment: Moment::Before, answer: Answer::json(409, "{}") }),
        ] {
            assert_eq!(fault(text), wanted, "{text}");
        }
        let Fault::Answer { answer, .. } = fault("* * answer 503 retry-after=5 \"not now\"") else { panic!() };
        assert_eq!((answer.retry_after, answer.body.as_str()), (Some(5), "not now"));
        let Fault::Answer { answer, .. } = fault("* * answer-after 503") else { panic!() };
        assert!(answer.body.contains("\"code\":503"), "{}", answer.body);
    }

    #[test]
    fn what_cannot_be_read_says_what_may_stand_there() {
        for (text, wanted) in [
            ("", "method and a path"),
            ("POST", "method and a path"),
            ("P0ST * pass", "is no method"),
            ("POST tables pass", "begins with neither"),
            ("POST *", "drop-after"),
            ("POST * drop", "drop-after"),
            ("POST * #0 pass", "#1"),
            ("POST * #x pass", "#1"),
            ("POST * 101% pass", "0% to 100%"),
            ("POST * NaN% pass", "0% to 100%"),
            ("POST * #1 5% pass", "twice"),
            ("POST * header=x pass", "NAME:TEXT"),
            ("POST * has=\"x pass", "not closed"),
            ("POST * delay 2", "500ms"),
            ("POST * delay 99999999999s", "500ms"),
            ("POST * answer", "status"),
            ("POST * answer 99", "200 to 599"),
            ("POST * answer 503 not now", "quotes"),
            ("POST * answer 503 retry-after=x", "seconds"),
            ("POST * redirect 304", "307"),
            ("POST * pass now", "is no fault"),
        ] {
            let error = text.parse::<Rule>().unwrap_err().to_string();
            assert!(error.contains(wanted) && error.contains(text.trim_end_matches("\"x pass")), "{text}: {error}");
        }
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, text, wanted) in [
            ("*", "", true),
            ("*/tables/*", "/v1/lake/namespaces/a/tables/t", true),
            ("*/tables/*", "/v1/lake/namespaces/a/tables", false),
            ("/v1/config", "/v1/config", true),
            ("/v1/config", "/v1/configs", false),
            ("*/tables/t", "/tables/t/tables/t", true),
            ("*a*b", "aXbYb", true),
            ("*a*b", "aXbYc", false),
            ("", "x", false),
        ] {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), wanted, "{pattern} {text}");
        }
    }

    #[test]
    fn a_seed_decides_the_same_every_time() {
        let rule = Rule::on("*", "*").when(When::Chance(300_000));
        let decisions = |seed, number| (1..=1000).map(|nth| rule.fires(seed, number, nth)).collect::<Vec<_>>();
        assert_eq!(decisions(7, 1), decisions(7, 1));
        assert_ne!(decisions(7, 1), decisions(8, 1));
        assert_ne!(decisions(7, 1), decisions(7, 2), "two rules do not fire together");
        let fired = decisions(7, 1).into_iter().filter(|fired| *fired).count();
        assert!((250..350).contains(&fired), "{fired}");
        let (never, always) = (When::Chance(0), When::Chance(1_000_000));
        assert!(
            (1..100)
                .all(|nth| !rule.clone().when(never).fires(1, 1, nth) && rule.clone().when(always).fires(1, 1, nth))
        );
        // A decision that was printed once stays true in every later version.
        assert_eq!([1, 2, 3].map(|nth| chance(42, 1, nth)), PINNED);
    }

    const PINNED: [u32; 3] = [52_667, 376_352, 366_301];
}
