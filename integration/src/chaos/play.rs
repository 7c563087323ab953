//! One publication, from its first process to what is told of it.

use std::path::PathBuf;
use std::time::Instant;

use fastrand::Rng;

use super::outsider::Outsider;
use super::plan::{Beside, Kill, Moment, Other, Plan, When, publishing};
use super::process::{self, Ended, Rest};
use super::table::Table;
use super::tell::{Told, misfit};
use crate::lake::calve_toml;
use crate::process::tail;
use crate::proxy::{Options, Proxy, Rule, UpstreamError};
use crate::services::shared_seaweedfs;
use crate::services::supervised::write_private;
use crate::{HarnessError, Result, command};

/// How often a step is tried while things go wrong, and then again in calm weather.
const TRIES: u32 = 4;
/// After so many questions nothing goes wrong any more, after so many nothing is held any more, after so many it is
/// abandoned, and after so many it stays unresolved.
const TURNS: [u32; 4] = [3, 6, 8, 16];
/// How often a publication is begun anew after a conflict.
const ATTEMPTS: u32 = 3;

/// What all publications share.
#[derive(Debug)]
pub(super) struct Ground {
    /// Where each has a folder.
    pub work: PathBuf,
    /// The contract.
    pub contract: PathBuf,
    /// Whoever else commits to main.
    pub other: Outsider,
}

/// What became of a publication, as its processes told it.
#[derive(Debug)]
pub(super) struct Played {
    pub plan: Plan,
    /// Final words, with the generation that they are of.
    pub told: Vec<(String, Told)>,
    /// Rows of others under the number `-1 - number`, and whether their commit was applied.
    pub others: Vec<bool>,
    /// What is wrong whatever the table shows.
    pub problems: Vec<String>,
    /// All of it, for people.
    pub log: String,
    pub counts: Counts,
}

impl Played {
    fn new(plan: Plan) -> Self {
        let log = format!("{plan}\n");
        let counts = Counts::default();
        Self { plan, told: Vec::new(), others: Vec::new(), problems: Vec::new(), log, counts }
    }

    /// A publication that could not be played to its end.
    pub(super) fn failed(plan: Plan, error: &HarnessError) -> Self {
        Self { problems: vec![format!("it could not be played to its end: {error}")], ..Self::new(plan) }
    }
}

/// Of how much a report is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub processes: u64,
    pub killed: u64,
    pub faults: u64,
    pub conflicts: u64,
}

struct Player<'a> {
    ground: &'a Ground,
    table: &'a Table,
    proxy: Proxy,
    folder: PathBuf,
    contract: String,
    rng: Rng,
    kills: Vec<Kill>,
    started: Instant,
    /// Requests that are in the log already.
    logged: usize,
    /// Outputs that children of killed processes may still write to.
    rests: Vec<Rest>,
    conflict: bool,
    staged: bool,
    played: Played,
}

/// Plays a publication. An error is one of the harness; what calve does wrong is a problem of what was played.
pub(super) async fn play(plan: Plan, table: &Table, ground: &Ground) -> Result<Played> {
    let mut player = Player::new(plan, table, ground).await?;
    player.play().await?;
    player.over().await
}

impl<'a> Player<'a> {
    async fn new(plan: Plan, table: &'a Table, ground: &'a Ground) -> Result<Self> {
        let upstream = table.properties.get("uri").unwrap_or_default();
        let upstream = upstream.parse().map_err(|error: UpstreamError| HarnessError(error.to_string()))?;
        let proxy = Proxy::start_with(upstream, Options { seed: plan.seed, ..Options::default() }).await?;
        let folder = ground.work.join(format!("p{}", plan.number));
        std::fs::create_dir(&folder).map_err(|error| HarnessError::io(folder.display(), &error))?;
        let mut reached = table.properties.clone();
        reached.set("uri", proxy.uri());
        let journal = shared_seaweedfs()?.journal_root();
        write_private(&folder.join("calve.toml"), &calve_toml(&journal, &[("chaos", reached)]))?;
        let played = Played::new(plan);
        let player = Self {
            ground,
            table,
            proxy,
            folder,
            contract: ground.contract.display().to_string(),
            rng: Rng::with_seed(played.plan.seed),
            kills: played.plan.kills.clone(),
            started: Instant::now(),
            logged: 0,
            rests: Vec::new(),
            conflict: false,
            staged: false,
            played,
        };
        player.weather(true)?;
        Ok(player)
    }

    fn weather(&self, publishing_too: bool) -> Result<()> {
        self.proxy.clear_rules();
        if let Some(fault) = self.played.plan.at_publish.filter(|_| publishing_too) {
            let Rule { fault, .. } = format!("* * {fault}")
                .parse()
                .map_err(|error: crate::proxy::RuleError| HarnessError(error.to_string()))?;
            self.proxy.next(publishing(), fault);
        }
        for rule in &self.played.plan.weather {
            self.proxy.script(rule)?;
        }
        Ok(())
    }

    async fn play(&mut self) -> Result<()> {
        if self.played.plan.by_run {
            let id = format!("p{}", self.played.plan.number);
            return self.by_run(&id).await;
        }
        for attempt in 1..=ATTEMPTS {
            let id = match attempt {
                1 => format!("p{}", self.played.plan.number),
                _ => format!("p{}-{attempt}", self.played.plan.number),
            };
            (self.conflict, self.staged) = (false, false);
            let told = self.attempt(&id).await?;
            self.note(&format!("{id} is told as {told}"));
            if told != Told::Closed || !self.conflict || !self.played.plan.anew {
                break;
            }
        }
        Ok(())
    }

    async fn attempt(&mut self, id: &str) -> Result<Told> {
        let scope = self.scope();
        if !self.done("begin", id, &["--scope", &scope]).await? {
            return self.settle(id, Told::Nothing).await;
        }
        let file = self.write(id, id)?;
        let mode = if self.played.plan.replace { "--replace" } else { "--append" };
        self.staged = self.done("stage", id, &[&file, mode]).await?;
        let contract = self.contract.clone();
        if !self.staged || !self.done("validate", id, &["--contract", &contract]).await? {
            return self.settle(id, Told::Nothing).await;
        }
        if matches!(self.played.plan.other, Some((When::Before, _))) {
            self.other(id).await;
        }
        match self.first_publish(id).await? {
            told if told.is_final() => Ok(told),
            told => self.settle(id, told).await,
        }
    }

    fn scope(&self) -> String {
        format!("number = {}", self.played.plan.number)
    }

    /// Writes the rows of a publication under this name, and returns the file's.
    fn write(&self, name: &str, publication: &str) -> Result<String> {
        let number = self.played.plan.number;
        let mut text = "number,publication,row\n".to_owned();
        for row in 1..=self.played.plan.rows {
            text.push_str(&format!("{number},{publication},{row}\n"));
        }
        let file = format!("{name}.csv");
        let path = self.folder.join(&file);
        std::fs::write(&path, text).map_err(|error| HarnessError::io(path.display(), &error))?;
        Ok(file)
    }

    /// Runs a verb until it ends well. Not: it will not.
    async fn done(&mut self, verb: &'static str, id: &str, more: &[&str]) -> Result<bool> {
        for turn in 0..2 * TRIES {
            if turn == TRIES {
                self.calm();
            }
            let ended = self.line(verb, id, more).await?;
            match ended.code {
                Some(0) => return Ok(true),
                Some(2) => {
                    self.problem(format!("{verb} ends with 2, and nothing is wrong with its line"));
                    return Ok(false);
                }
                Some(11 | 12 | 21) => return Ok(false),
                // But for a lease that somebody else holds for a while: `recover`, or a process that was killed just now.
                Some(13) if !ended.out.contains("wait until") => return Ok(false),
                _ => {}
            }
        }
        Ok(false)
    }

    async fn first_publish(&mut self, id: &str) -> Result<Told> {
        let (table, contract) = (self.table.name.clone(), self.contract.clone());
        let publish = ["publish", &table, id, "--contract", &contract];
        if matches!(self.played.plan.other, Some((When::Meanwhile, _))) {
            return self.publish_meanwhile(&publish, id).await;
        }
        let Some(beside) = self.played.plan.beside.take() else {
            return self.line("publish", id, &["--contract", &contract]).await.map(|ended| Told::of("publish", &ended));
        };
        let abandon = ["abandon", &table, id, "--reason", "chaos"];
        let reconcile = ["reconcile", &table, id];
        let second: &[&str] = match beside {
            Beside::Publish => &publish,
            Beside::Abandon => &abandon,
            Beside::Reconcile => &reconcile,
        };
        let kill = self.take_kill("publish");
        let folder = self.folder.clone();
        let (one, two) =
            tokio::join!(process::calve(&folder, &publish, kill.as_ref()), process::calve(&folder, second, None));
        let one = self.ended(&publish, one?, id).await?;
        let two = self.ended(second, two?, id).await?;
        let told = [("publish", one), (second.first().copied().unwrap_or_default(), two)];
        let told = told.map(|(verb, ended)| Told::of(verb, &ended));
        Ok(told.into_iter().find(Told::is_final).unwrap_or(Told::Nothing))
    }

    /// Publishes, while somebody else commits when the request is on its way.
    async fn publish_meanwhile(&mut self, publish: &[&str], id: &str) -> Result<Told> {
        let held = self.proxy.hold_open(publishing());
        let folder = self.folder.clone();
        let running = process::calve(&folder, publish, None);
        tokio::pin!(running);
        let ended = tokio::select! {
            ended = &mut running => ended?,
            () = held.arrived() => {
                self.other(id).await;
                let late = held.release().await;
                self.note(&format!("the request that was held meanwhile: {late:?}"));
                running.await?
            }
        };
        self.weather(false)?;
        let ended = self.ended(publish, ended, id).await?;
        Ok(Told::of("publish", &ended))
    }

    /// Somebody else's commit to main; the first time only.
    async fn other(&mut self, id: &str) {
        let Some((_, other)) = self.played.plan.other.take() else { return };
        let (catalog, table) = (&self.table.properties, &self.table.name);
        let applied = match other {
            Other::Append => {
                let number = i64::try_from(self.played.plan.number).map_or(i64::MIN, |number| -1 - number);
                let applied = self.ground.other.append(catalog, table, number).await;
                self.played.others.push(matches!(applied, Ok(true)));
                applied
            }
            Other::Rollback(steps) => {
                // Before it is tried: whatever it comes to, rows may be gone.
                self.table.rolls_back();
                self.ground.other.rollback(catalog, table, steps).await
            }
            Other::Bypass => self.ground.other.bypass(catalog, table, &format!("audit/{id}")).await,
        };
        self.note(&format!("somebody else commits to main: {other:?}, applied: {applied:?}"));
    }

    async fn by_run(&mut self, id: &str) -> Result<()> {
        let template = self.write("template", "@")?;
        let calve = command::binary()?;
        let mode = if self.played.plan.replace { "--replace" } else { "--append" };
        let job = format!(
            "sed \"s/@/$CALVE_PUBLICATION/\" {template} >\"$CALVE_PUBLICATION.csv\" && \
             exec '{}' stage \"$CALVE_TABLE\" \"$CALVE_PUBLICATION\" \"$CALVE_PUBLICATION.csv\" {mode}",
            calve.display()
        );
        let (scope, contract) = (self.scope(), self.contract.clone());
        if matches!(self.played.plan.other, Some((When::Before, _))) {
            self.other(id).await;
        }
        let mut conflicts = 0;
        for turn in 0..3 * TRIES {
            if turn == TRIES {
                self.calm();
            }
            let line = ["--contract", &contract, "--scope", &scope, "--", "sh", "-c", &job];
            let ended = self.line("run", id, &line).await?;
            match ended.code {
                Some(0) => return Ok(()),
                Some(11 | 12) if self.played.plan.anew && conflicts < ATTEMPTS => {
                    conflicts += 1;
                    self.played.counts.conflicts += 1;
                }
                Some(2) => {
                    self.problem("run ends with 2, and nothing is wrong with its line".to_owned());
                    break;
                }
                Some(10 | 11 | 12 | 21) => break,
                _ if self.played.plan.gives_up => break,
                _ => {}
            }
        }
        let told = self.settle(id, Told::Nothing).await?;
        self.note(&format!("{id} is told as {told}"));
        Ok(())
    }

    /// Asks until the last word is told, and does what it takes. `told` is what is known already.
    async fn settle(&mut self, id: &str, mut told: Told) -> Result<Told> {
        let [calm, released, abandoned, all] = TURNS;
        for turn in 0..all {
            if turn >= calm {
                self.calm();
            }
            if turn >= released {
                self.release_all().await;
            }
            if turn > 0 || told == Told::Nothing {
                told = Told::of("reconcile", &self.line("reconcile", id, &[]).await?);
            }
            let gives_up = self.played.plan.gives_up || turn >= abandoned;
            let contract = self.contract.clone();
            let (verb, after) = match &told {
                Told::Published | Told::Closed | Told::Unknown => return Ok(told),
                Told::Escalated(_) if turn >= calm => return Ok(told),
                Told::Escalated(_) | Told::Nothing => continue,
                Told::Sealed if !gives_up => ("publish", self.line("publish", id, &["--contract", &contract]).await?),
                Told::Open if self.staged && !gives_up => {
                    ("validate", self.line("validate", id, &["--contract", &contract]).await?)
                }
                Told::Moved => {
                    self.conflict = true;
                    self.played.counts.conflicts += 1;
                    ("abandon", self.abandon(id).await?)
                }
                Told::Sealed | Told::Open | Told::Gone => ("abandon", self.abandon(id).await?),
            };
            // Told by that verb already: no question is needed.
            let after = Told::of(verb, &after);
            if after.is_final() {
                return Ok(after);
            }
        }
        Ok(told)
    }

    async fn abandon(&mut self, id: &str) -> Result<Ended> {
        self.line("abandon", id, &["--reason", "chaos"]).await
    }

    /// Nothing goes wrong from now on, but for what is held.
    fn calm(&mut self) {
        self.proxy.clear_rules();
        self.kills.clear();
    }

    fn take_kill(&mut self, verb: &str) -> Option<Moment> {
        let at = self.kills.iter().position(|kill| kill.verb == verb)?;
        Some(self.kills.remove(at).moment)
    }

    /// Runs a line on the publication, with what follows from its end.
    async fn line(&mut self, verb: &'static str, id: &str, more: &[&str]) -> Result<Ended> {
        if self.played.plan.early && self.rng.bool() {
            self.release().await;
        }
        let table = self.table.name.clone();
        let line = [&[verb, &table, id], more].concat();
        let kill = self.take_kill(verb);
        let ended = process::calve(&self.folder, &line, kill.as_ref()).await?;
        self.ended(&line, ended, id).await
    }

    async fn ended(&mut self, line: &[&str], ended: Ended, id: &str) -> Result<Ended> {
        let ended = self.noted(line, ended, id);
        if ended.code.is_none() && self.rng.u32(..100) < 80 {
            let table = self.table.name.clone();
            // Whatever is open then, and nobody is at work on, is closed for good, whosever it is.
            let recover: &[&str] =
                if self.rng.u32(..100) < 4 { &["recover", &table, "--fence"] } else { &["recover", &table] };
            let recovered = process::calve(&self.folder, recover, None).await?;
            self.noted(recover, recovered, id);
        }
        Ok(ended)
    }

    /// Writes a process into the log, and what it tells into the record.
    fn noted(&mut self, line: &[&str], mut ended: Ended, id: &str) -> Ended {
        self.played.counts.processes += 1;
        let verb = line.first().copied().unwrap_or_default();
        let code = ended.code.map_or("killed".to_owned(), |code| code.to_string());
        self.note(&format!("calve {} -> {code} ({} ms)", line.join(" "), ended.took.as_millis()));
        for (name, text) in [("out", &ended.out), ("err", &ended.err)] {
            if !text.trim().is_empty() {
                self.note(&format!("  {name}: {}", tail(text.trim(), 12)));
            }
        }
        self.note_requests();
        if ended.hung {
            self.problem(format!("calve {verb} did not end"));
        } else if ended.code.is_none() {
            self.played.counts.killed += 1;
        }
        if ended.err.contains("panicked") || ended.code == Some(101) {
            self.problem(format!("calve {verb} panicked"));
        }
        if verb == "reconcile"
            && let Some(misfit) = misfit(&ended)
        {
            self.problem(misfit);
        }
        let report = ended.report();
        if verb == "recover" {
            if ended.code == Some(2) {
                self.problem("recover ends with 2, and nothing is wrong with its line".to_owned());
            }
            let items = report.get("publications").and_then(serde_json::Value::as_array);
            for finding in items.into_iter().flatten().filter_map(|item| item.get("finding")) {
                let id = finding.get("publication").and_then(serde_json::Value::as_str).unwrap_or_default();
                self.told(id, Told::of_finding(finding));
            }
        }
        let of = report.get("publication").or_else(|| report.pointer("/finding/publication"));
        self.told(of.and_then(serde_json::Value::as_str).unwrap_or(id), Told::of(verb, &ended));
        self.rests.extend(ended.rest.take());
        ended
    }

    fn told(&mut self, id: &str, told: Told) {
        if told.is_final() {
            self.played.told.push((id.to_owned(), told));
        }
    }

    fn problem(&mut self, text: String) {
        self.note(&format!("PROBLEM: {text}"));
        self.played.problems.push(text);
    }

    fn note(&mut self, text: &str) {
        let at = self.started.elapsed().as_millis();
        self.played.log.push_str(&format!("[{at:>6} ms] {text}\n"));
    }

    fn note_requests(&mut self) {
        let seen = self.proxy.seen();
        for seen in seen.iter().skip(self.logged) {
            let said = &seen.path;
            let notes = if seen.notes.is_empty() { String::new() } else { format!(" ({})", seen.notes.join("; ")) };
            let line = format!(
                "  #{} {} {said}: {}, upstream {:?}, client {:?}{notes}",
                seen.number, seen.method, seen.fault, seen.upstream, seen.client
            );
            self.note(&line);
        }
        self.logged = seen.len();
    }

    async fn release(&mut self) {
        if let Some(late) = self.proxy.release_oldest().await {
            self.note(&format!("a held request goes on: {late:?}"));
        }
    }

    async fn release_all(&mut self) {
        while !self.proxy.held().is_empty() {
            self.release().await;
        }
    }

    /// Lets everything that is still on its way come to its end.
    async fn over(mut self) -> Result<Played> {
        self.release_all().await;
        for rest in std::mem::take(&mut self.rests) {
            let said = rest.read().await?;
            if !said.trim().is_empty() {
                self.note(&format!("afterwards, children of a killed process: {}", tail(said.trim(), 12)));
            }
        }
        self.release_all().await;
        self.note_requests();
        self.played.counts.faults =
            self.proxy.seen().iter().filter(|seen| seen.rule.is_some()).count().try_into().unwrap_or(u64::MAX);
        Ok(self.played)
    }
}
