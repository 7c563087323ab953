//! Stands in front of a REST catalog and makes faults happen.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use integration::proxy::{Client, Options, Proxy, Rule, Seen, Upstream};
use integration::{HarnessError, Result};

/// Stands in front of a REST catalog and makes faults happen.
///
/// Give clients the printed address in place of the catalog's. Without rules everything is passed.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct ProxyArgs {
    /// The catalog, e.g. http://127.0.0.1:8181. Only http
    #[arg(long, value_name = "URI")]
    upstream: Upstream,
    /// Where to listen; loopback only. Port 0 is any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// What happens to which requests; may be given several times, and the first rule that fires decides
    #[arg(long = "rule", value_name = "RULE")]
    rules: Vec<Rule>,
    /// A file of rules, one a line; lines that begin with // are comments
    #[arg(long = "rules", value_name = "FILE")]
    file: Option<PathBuf>,
    /// What chances (P%) are decided by; picked and printed if not given
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Pass the catalog's own URI in its configuration as it is, even though clients then go past the proxy
    #[arg(long)]
    leave_config: bool,
    /// Print each request as JSON
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
A rule: METHOD PATH [#N | #N+ | P%] [has=TEXT]… [header=NAME:TEXT]… FAULT
  METHOD   GET, POST, …, several with commas, or *
  PATH     without the query; * stands for any characters
  #N       only the n-th that fits; #N+ from the n-th on; P% by chance, decided by the seed
  has=     a text in the body, e.g. has=published/ or has=\"set-snapshot-ref\"
  FAULT    pass | drop-before | drop-after | delay 2s | delay-answer 500ms | replay [first|second]
           answer STATUS [BODY] | answer-after STATUS [BODY] | redirect STATUS [TO] | redirect-after STATUS [TO]
           cut [chunked] | hold [open|answer]
           BODY is html, json, empty, error or a text in quotes; retry-after=5 may stand before it

  --rule 'POST */tables/* #1 drop-after'             the first commit is applied, and nobody learns of it
  --rule 'POST */tables/* has=published/ hold'       publications stall; then:
      curl -X POST ADDRESS/__proxy/release           releases the oldest, and prints the catalog's status
  --rule 'POST */tables/* 10% answer-after 503'      one commit in ten

While it runs, under ADDRESS/__proxy/: GET requests, GET held, POST release[?request=N], POST rules, DELETE rules.
Not supported: https upstreams, HTTP/2, upgrades, trailers.";

/// Runs until it is interrupted. An error is about the arguments, or about listening.
pub fn run(args: ProxyArgs) -> Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().map_err(|error| HarnessError::io("starting threads", &error))?;
    runtime.block_on(serve(args)).map(|()| ExitCode::SUCCESS)
}

async fn serve(args: ProxyArgs) -> Result<()> {
    let ProxyArgs { upstream, listen, mut rules, file, seed, leave_config, json } = args;
    if let Some(path) = file {
        let text = std::fs::read_to_string(&path).map_err(|error| HarnessError::io(path.display(), &error))?;
        rules.extend(Rule::parse_all(&text).map_err(|error| HarnessError(format!("{}: {error}", path.display())))?);
    }
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let shown = upstream.to_string();
    let options = Options {
        listen,
        seed,
        rewrite_config: !leave_config,
        listener: Some(Box::new(move |seen| println!("{}", if json { as_json(seen) } else { line(seen) }))),
    };
    let proxy = Proxy::start_with(upstream, options).await?;
    let number = rules.len();
    for rule in rules {
        proxy.rule(rule);
    }
    eprintln!("listening on {}, in front of {shown}; rules {number}, seed {seed}; ends with Ctrl-C", proxy.uri());
    tokio::signal::ctrl_c().await.map_err(|error| HarnessError::io("waiting for Ctrl-C", &error))?;
    let (seen, held, unused) = (proxy.seen(), proxy.held(), proxy.unused());
    let faults = seen.iter().filter(|seen| seen.rule.is_some()).count();
    eprintln!("requests {}, with a fault {faults}, held and never forwarded {}, seed {seed}", seen.len(), held.len());
    for rule in unused {
        eprintln!("rule {rule} never fired");
    }
    Ok(())
}

fn as_json(seen: &Seen) -> String {
    serde_json::to_string(seen).unwrap_or_else(|error| error.to_string())
}

/// A request on one line.
fn line(seen: &Seen) -> String {
    let Seen { number, method, path, fault, upstream, client, notes, rule } = seen;
    let statuses: Vec<_> = upstream.iter().map(ToString::to_string).collect();
    let upstream = if statuses.is_empty() { "not answered".to_owned() } else { statuses.join(", ") };
    let client = match client {
        Client::Waiting => "nothing".to_owned(),
        Client::Status(status) => status.to_string(),
        Client::Half(status) => format!("half of {status}"),
        Client::Closed => "closed".to_owned(),
    };
    let rule = rule.map_or(String::new(), |rule| format!(" (rule {rule})"));
    let notes: String = notes.iter().map(|note| format!("; {note}")).collect();
    format!("{number:4} {method} {path}  {fault}{rule}  catalog: {upstream}, client: {client}{notes}")
}
