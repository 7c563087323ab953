//! What goes wrong with a publication, drawn from the seed and the publication's number.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;

use crate::proxy::Rule;

/// Which process is killed, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kill {
    /// The first process of this verb.
    pub verb: &'static str,
    /// When.
    pub moment: Moment,
}

/// When a process is killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moment {
    /// At a step around a commit, e.g. `publish:intended`.
    At(String),
    /// So long after its start, if it has not ended by then.
    After(Duration),
}

/// What runs beside the first `publish`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// The same once more.
    Publish,
    /// `abandon`.
    Abandon,
    /// `reconcile`.
    Reconcile,
}

/// When somebody else commits to main.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Before the first `publish`.
    Before,
    /// While the request of the first `publish` is on its way.
    Meanwhile,
}

/// What somebody else does to main.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Other {
    /// Appends a row.
    Append,
    /// Moves it so many snapshots back.
    Rollback(u64),
    /// Moves it to the branch of this publication.
    Bypass,
}

/// All that is drawn for one publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Its number, from 0.
    pub number: u64,
    /// How many rows it adds.
    pub rows: u64,
    /// Do they take the place of those that are there?
    pub replace: bool,
    /// By `run` with a job, instead of verb by verb.
    pub by_run: bool,
    /// What happens to requests, as rules of the proxy.
    pub weather: Vec<String>,
    /// What happens to the first request that would publish it.
    pub at_publish: Option<&'static str>,
    /// Which processes are killed.
    pub kills: Vec<Kill>,
    /// What runs beside the first `publish`.
    pub beside: Option<Beside>,
    /// Somebody else's commit.
    pub other: Option<(When, Other)>,
    /// It is abandoned as soon as it is not told that it is published.
    pub gives_up: bool,
    /// After a conflict it is begun anew; else that is its end.
    pub anew: bool,
    /// Held requests go on between its processes; else when everything is told.
    pub early: bool,
    /// Chances of what is decided on the way.
    pub seed: u64,
}

/// What a fault of a commit may be, with how often each is drawn.
const FAULTS: [(u32, &str); 17] = [
    (6, "drop-before"),
    (8, "drop-after"),
    (3, "replay"),
    (2, "replay first"),
    (5, "hold"),
    (3, "delay 80ms"),
    (2, "delay-answer 120ms"),
    (3, "answer-after 503 html"),
    (2, "answer-after 502 html"),
    (2, "answer-after 500"),
    (2, "answer-after 504 empty"),
    (1, "answer-after 409"),
    (1, "answer-after 200 json"),
    (2, "answer 503 html"),
    (1, "answer 429"),
    (3, "cut"),
    (1, "redirect-after 307"),
];

/// What a fault of a reading may be.
const READING: [(u32, &str); 4] = [(3, "drop-after"), (2, "answer 503 empty"), (1, "cut"), (1, "delay 50ms")];

const STEPS: [&str; 4] = ["intended", "answered", "recorded", "decided"];

/// The verbs of a publication, and what their commits are called.
const VERBS: [(&str, &str); 4] = [("begin", "begin"), ("stage", "stage"), ("validate", "seal"), ("publish", "publish")];

impl Plan {
    /// What is drawn for a publication.
    pub fn draw(seed: u64, number: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut rng = Rng::with_seed(rng.u64(..) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let by_run = chance(&mut rng, 20);
        let weather = weather(&mut rng);
        let when = match rng.u32(..100) {
            0..4 => Some(When::Before),
            4..8 if !by_run => Some(When::Meanwhile),
            _ => None,
        };
        let other = match rng.u32(..10) {
            0..5 => Other::Append,
            5..8 => Other::Rollback(rng.u64(1..=4)),
            _ if by_run => Other::Append,
            _ => Other::Bypass,
        };
        let at_publish = (when != Some(When::Meanwhile) && chance(&mut rng, 45)).then(|| pick(&mut rng, &FAULTS));
        let beside = match rng.u32(..100) {
            0..5 => Some(Beside::Publish),
            5..9 => Some(Beside::Abandon),
            9..12 => Some(Beside::Reconcile),
            _ => None,
        };
        let mut kills = Vec::new();
        for percent in [35, 15] {
            if chance(&mut rng, percent) {
                kills.push(kill(&mut rng, by_run));
            }
        }
        Self {
            number,
            rows: rng.u64(1..=4),
            replace: rng.bool(),
            by_run,
            weather,
            at_publish,
            kills,
            beside: beside.filter(|_| !by_run),
            other: when.map(|when| (when, other)),
            gives_up: chance(&mut rng, 12),
            anew: chance(&mut rng, 80),
            early: rng.bool(),
            seed: rng.u64(..),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            number,
            rows,
            replace,
            by_run,
            weather,
            at_publish,
            kills,
            beside,
            other,
            gives_up,
            anew,
            early,
            ..
        } = self;
        let how = if *replace { "in place of what is there" } else { "beside what is there" };
        let by = if *by_run { "by `run`" } else { "verb by verb" };
        write!(f, "publication {number}: {rows} rows {how}, {by}; weather {weather:?}")?;
        write!(f, "; the request that publishes: {}", at_publish.unwrap_or("pass"))?;
        for Kill { verb, moment } in kills {
            match moment {
                Moment::At(step) => write!(f, "; kills {verb} at {step}")?,
                Moment::After(time) => write!(f, "; kills {verb} after {} ms", time.as_millis())?,
            }
        }
        if let Some(beside) = beside {
            write!(f, "; beside publish: {beside:?}")?;
        }
        if let Some((when, other)) = other {
            write!(f, "; somebody else's commit: {other:?} {when:?}")?;
        }
        write!(f, "; gives up: {gives_up}; anew after a conflict: {anew}; held requests go on early: {early}")
    }
}

fn chance(rng: &mut Rng, percent: u32) -> bool {
    rng.u32(..100) < percent
}

fn pick(rng: &mut Rng, from: &[(u32, &'static str)]) -> &'static str {
    let all: u32 = from.iter().map(|(weight, _)| *weight).sum();
    let mut at = rng.u32(..all);
    for (weight, fault) in from {
        match at.checked_sub(*weight) {
            Some(rest) => at = rest,
            None => return fault,
        }
    }
    "pass"
}

fn weather(rng: &mut Rng) -> Vec<String> {
    let (commits, readings): (&[u32], u32) = match rng.u32(..100) {
        0..45 => (&[], 0),
        45..85 => (&[9, 9], 0),
        _ => (&[15, 15, 15], 4),
    };
    let mut rules: Vec<_> =
        commits.iter().map(|percent| format!("POST */tables/* {percent}% {}", pick(rng, &FAULTS))).collect();
    if readings > 0 {
        rules.push(format!("GET */tables/* {readings}% {}", pick(rng, &READING)));
    }
    rules
}

fn kill(rng: &mut Rng, by_run: bool) -> Kill {
    // Publishing is what it is about.
    let (verb, commit) = match rng.usize(..6) {
        at @ 0..4 => VERBS.get(at).copied().unwrap_or(("publish", "publish")),
        4 => ("abandon", "fence"),
        _ => ("publish", "publish"),
    };
    let moment = match chance(rng, 70) {
        true => Moment::At(format!("{commit}:{}", STEPS.get(rng.usize(..STEPS.len())).unwrap_or(&"answered"))),
        false => {
            // Early more often than late: how long a process takes depends on the machine.
            let longest = 4 << rng.u32(..if by_run { 8 } else { 7 });
            Moment::After(Duration::from_millis(rng.u64(1..=longest)))
        }
    };
    Kill { verb: if by_run && verb != "abandon" { "run" } else { verb }, moment }
}

/// The requests that publish something, and those that settle it.
pub(super) fn publishing() -> Rule {
    Rule::commits().containing("\"ref-name\":\"published/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_every_time() {
        let drawn = |seed| (0..200).map(|number| Plan::draw(seed, number)).collect::<Vec<_>>();
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }

    #[test]
    fn everything_is_drawn_and_can_be_read_by_the_proxy() {
        let plans: Vec<_> = (0..2_000).map(|number| Plan::draw(1, number)).collect();
        for rule in plans.iter().flat_map(|plan| &plan.weather) {
            let _rule: Rule = rule.parse().unwrap();
        }
        for (_, fault) in FAULTS {
            let _rule: Rule = format!("POST */tables/* {fault}").parse().unwrap();
            assert!(plans.iter().any(|plan| plan.at_publish == Some(fault)), "{fault}");
        }
        let drawn = |what: fn(&Plan) -> bool| plans.iter().filter(|plan| what(plan)).count();
        for (what, count) in [
            ("run", drawn(|plan| plan.by_run)),
            ("two kills", drawn(|plan| plan.kills.len() == 2)),
            ("a kill at a time", drawn(|plan| plan.kills.iter().any(|kill| matches!(kill.moment, Moment::After(_))))),
            ("two publish", drawn(|plan| plan.beside == Some(Beside::Publish))),
            ("abandon beside", drawn(|plan| plan.beside == Some(Beside::Abandon))),
            ("another's commit before", drawn(|plan| matches!(plan.other, Some((When::Before, _))))),
            ("another's commit meanwhile", drawn(|plan| matches!(plan.other, Some((When::Meanwhile, _))))),
            ("a rollback", drawn(|plan| matches!(plan.other, Some((_, Other::Rollback(_)))))),
            ("a bypass", drawn(|plan| matches!(plan.other, Some((_, Other::Bypass))))),
            ("nothing at all", drawn(|plan| plan.weather.is_empty() && plan.kills.is_empty())),
        ] {
            assert!((20..1_500).contains(&count), "{what}: {count}");
        }
        for (verb, commit) in VERBS {
            for step in STEPS {
                let moment = Moment::At(format!("{commit}:{step}"));
                assert!(plans.iter().flat_map(|plan| &plan.kills).any(|kill| kill.moment == moment), "{verb} {step}");
            }
        }
    }
}
