//! One process of the command: its end, or its killing.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::Command;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::plan::Moment;
use crate::command::command_in;
use crate::{HarnessError, Result};

/// After that, a process hangs.
const LIMIT: Duration = Duration::from_secs(180);

/// How a process ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// Its exit code; `None` where it was killed.
    pub code: Option<i32>,
    /// Its standard output, up to its end.
    pub out: String,
    /// Its standard error, up to its end.
    pub err: String,
    /// How long it took.
    pub took: Duration,
    /// It was killed because it did not end.
    pub hung: bool,
    /// What its children may still write to its output.
    pub rest: Option<Rest>,
}

impl Ended {
    /// The report on its standard output.
    pub(super) fn report(&self) -> serde_json::Value {
        self.out.lines().next_back().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default()
    }
}

/// The outputs of a process that was killed, while its children still have them.
#[derive(Debug)]
pub(super) struct Rest {
    readers: [JoinHandle<()>; 2],
    texts: [Text; 2],
    known: [usize; 2],
}

impl Rest {
    /// What was written after the process had ended, when the last of its children has.
    pub(super) async fn read(self) -> Result<String> {
        for reader in self.readers {
            tokio::time::timeout(LIMIT, reader)
                .await
                .map_err(|_| HarnessError("a child of a killed process does not end".to_owned()))?
                .map_err(|error| HarnessError(error.to_string()))?;
        }
        let new = |(text, known): (&Text, usize)| text.read().get(known..).unwrap_or_default().to_owned();
        Ok(self.texts.iter().zip(self.known).map(new).collect())
    }
}

#[derive(Debug, Clone, Default)]
struct Text(Arc<Mutex<String>>);

impl Text {
    fn read(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn push(&self, text: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
    }
}

/// Runs `calve ARGS --json` in a folder, to its end or to that moment.
pub(super) async fn calve(folder: &Path, args: &[&str], kill: Option<&Moment>) -> Result<Ended> {
    let mut command = Command::from(command_in(folder)?);
    command.arg("--json").args(args).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut sign = None;
    if let Some(Moment::At(step)) = kill {
        // Without anyone to tell it to go on: it is killed there.
        command.env("CALVE_TEST_PAUSE_AT", step).stdin(Stdio::piped());
        sign = Some(format!("paused at {step}\n"));
    }
    let failed = |error: std::io::Error| HarnessError::io(format!("calve {}", args.join(" ")), &error);
    let started = Instant::now();
    let mut child = command.spawn().map_err(failed)?;
    let texts = [Text::default(), Text::default()];
    let (there, paused) = oneshot::channel();
    let [out, err] = &texts;
    let readers = [
        tokio::spawn(follow(child.stdout.take(), out.clone(), None)),
        tokio::spawn(follow(child.stderr.take(), err.clone(), sign.map(|sign| (sign, there)))),
    ];
    let patience = match kill {
        Some(Moment::After(time)) => *time,
        _ => LIMIT,
    };
    let ended: Option<ExitStatus> = tokio::select! {
        status = child.wait() => Some(status.map_err(failed)?),
        Ok(()) = paused => None,
        () = tokio::time::sleep(patience) => None,
    };
    let hung = ended.is_none() && started.elapsed() >= LIMIT;
    let code = match ended {
        Some(status) => status.code(),
        None => {
            child.start_kill().map_err(failed)?;
            // It may have ended by itself in the meantime.
            child.wait().await.map_err(failed)?.code()
        }
    };
    let took = started.elapsed();
    let mut rest = Rest { readers, texts, known: [0, 0] };
    if code.is_some() {
        for reader in &mut rest.readers {
            tokio::time::timeout(LIMIT, reader)
                .await
                .map_err(|_| HarnessError(format!("calve {}: its output does not end", args.join(" "))))?
                .map_err(|error| HarnessError(error.to_string()))?;
        }
    }
    let [out, err] = [0, 1].map(|at| rest.texts.get(at).map(Text::read).unwrap_or_default());
    rest.known = [out.len(), err.len()];
    Ok(Ended { code, out, err, took, hung, rest: code.is_none().then_some(rest) })
}

/// Reads an output to its end, and tells when a line has come.
async fn follow(output: Option<impl AsyncRead + Unpin>, text: Text, mut sign: Option<(String, oneshot::Sender<()>)>) {
    let Some(output) = output else { return };
    let mut output = BufReader::new(output);
    let mut bytes = Vec::new();
    while sign.is_some() {
        bytes.clear();
        // An output that cannot be read any more is at its end.
        if !matches!(output.read_until(b'\n', &mut bytes).await, Ok(read) if read > 0) {
            return;
        }
        let line = String::from_utf8_lossy(&bytes);
        text.push(&line);
        if let Some((_, there)) = sign.take_if(|(wanted, _)| *wanted == *line) {
            // Nobody waits for it where the process has been killed already.
            there.send(()).ok();
        }
    }
    let mut chunk = [0; 4096];
    while let Ok(read @ 1..) = output.read(&mut chunk).await {
        text.push(&String::from_utf8_lossy(chunk.get(..read).unwrap_or_default()));
    }
}
