//! The command line as types.

use std::ffi::OsString;
use std::path::PathBuf;

use chrono::Duration;
use clap::{ArgAction, Args, Parser, Subcommand};
use clap_complete::Shell;
use uuid::Uuid;

use crate::ids::{PublicationId, TableName};
use crate::journal::record::Source;

/// Lets a validated change of an Iceberg table become visible with one conditional commit, and finds out from the
/// table itself what happened when the answer to that commit is lost.
#[derive(Debug, Parser)]
#[command(name = "calve", version, max_term_width = 110, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "Examples:\n  calve demo\n  calve --warehouse ./lake status\n  calve --catalog prod status\n\n\
Exit codes: 0 done, 1 calve failed, 2 wrong use, 10 evidence failed or missing, 11 or 12 conflict, 13 rejected,\n\
14 not published and nothing is wrong, 20 unresolved (may be visible: run `calve reconcile`), 21 a person must look.")]
pub struct CommandLine {
    /// Options of every verb.
    #[command(flatten)]
    pub global: Global,
    /// The verb.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every verb.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// The folder of the warehouse: an embedded catalog with its tables and journal
    #[arg(long, global = true, value_name = "DIR", env = "CALVE_WAREHOUSE", hide_env_values = true)]
    pub warehouse: Option<PathBuf>,
    /// The catalog over REST, as calve.toml, ~/.pyiceberg.yaml or the environment configure it [default: the default
    /// or only one]
    #[arg(long, global = true, value_name = "NAME", env = "CALVE_CATALOG", hide_env_values = true)]
    pub catalog: Option<String>,
    /// Where the journal is, e.g. s3://ops/calve [default: DIR/journal of a warehouse, else the user's state folder]
    #[arg(long, global = true, value_name = "URI|PATH", env = "CALVE_JOURNAL", hide_env_values = true)]
    pub journal: Option<PathBuf>,
    /// Who owns what is begun, instead of user@host
    #[arg(long, global = true, value_name = "NAME", env = "CALVE_OWNER", hide_env_values = true)]
    pub owner: Option<String>,
    /// How much memory checks may take, e.g. 512MB or 2GiB [default: 1GiB]
    #[arg(long, global = true, value_name = "SIZE", value_parser = super::values::size)]
    pub memory: Option<u64>,
    /// Print one JSON object on a line instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Say more on standard error; -vv and -vvv say more still
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// No progress, and no word on standard error but errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
}

/// A verb.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The whole story on real data, in seconds: a bad change, a good one, a lost answer, a conflict
    #[command(after_help = "Examples:\n  calve demo\n  calve demo --dir ./demo")]
    Demo(Demo),
    /// Make a table with the columns of a Parquet, CSV or Arrow file; its rows are not read in
    #[command(
        after_help = "Examples:\n  calve create shop.orders --like orders.parquet --partition-by 'day(ordered_at)'\n  \
                            calve create shop.items --like items.csv --format-version 3 \
                            --property write.parquet.compression-codec=zstd"
    )]
    Create(Create),
    /// Write or check a contract: what a change must pass before it may be published
    #[command(subcommand)]
    Contract(Contract),
    /// Open a publication: a branch audit/ID at main, and the rows it may change
    #[command(after_help = "Examples:\n  calve begin shop.orders first\n  \
                            calve begin shop.orders late-09 --scope \"ordered_at >= '2013-08-09' AND ordered_at < '2013-08-10'\"\n  \
                            calve begin shop.orders eu-07 --scope \"region = 'eu'\" --source ledger=4711 --code \"$(git rev-parse HEAD)\"")]
    Begin(Begin),
    /// Write files to the publication's branch; readers of main see nothing of it
    #[command(after_help = "Examples:\n  calve stage shop.orders first orders.parquet --append\n  \
                            calve stage shop.orders late-09 day-09.csv --replace")]
    Stage(Stage),
    /// Open a publication, run a job that writes to its branch, check the result and publish it: one line for a scheduler
    #[command(after_help = RUN_HELP)]
    Run(Run),
    /// Run the contract's checks over the branch, and seal what passed
    #[command(
        after_help = "Examples:\n  calve validate shop.orders first\n  calve validate shop.orders first --dry-run"
    )]
    Validate(Validate),
    /// Make the sealed change visible with one conditional commit
    #[command(after_help = "Example:\n  calve publish shop.orders first\n\n\
                            When the answer is lost, the table is read to find out. Run it again at any time: \
                            a change becomes visible at most once.")]
    Publish(Publish),
    /// What happened to a publication, or to all of a table, with the proof
    #[command(after_help = "Examples:\n  calve reconcile shop.orders first\n  calve reconcile shop.orders\n  \
                      calve reconcile shop.orders first --deep --depth 1000")]
    Reconcile(Reconcile),
    /// After crashes: look at what killed processes left, record what became of it, and say what waits for whom
    #[command(after_help = RECOVER_HELP)]
    Recover(Recover),
    /// Close a publication for good: it never becomes visible afterwards
    #[command(after_help = "Example:\n  calve abandon shop.orders late-09 --reason 'the supplier took the file back'")]
    Abandon(Abandon),
    /// Where everything stands: tables, their publications, and what may be done next
    #[command(
        after_help = "Examples:\n  calve status\n  calve status shop.orders\n  calve status shop.orders first --json"
    )]
    Status(Status),
    /// What was published to a table, newest first, with its evidence
    #[command(after_help = "Example:\n  calve log shop.orders")]
    Log(Log),
    /// Nine questions about a publication, answered for the person who has to decide
    #[command(after_help = "Example:\n  calve review shop.orders first")]
    Review(Review),
    /// Try what this catalog and journal guarantee, with real commits on scratch tables, and say whether that is enough
    #[command(
        after_help = "Examples:\n  calve probe --namespace scratch\n  calve --catalog prod probe --namespace scratch --json\n\n\
                            Exit code 0: safe to publish. 13: not. The scratch tables are dropped at the end."
    )]
    Probe(Probe),
    /// What is risky in the settings of tables, of this catalog and of the journal, and what to do about it
    #[command(after_help = "Examples:\n  calve doctor\n  calve doctor shop.orders --older-than 2d --json\n\n\
                            Nothing is changed. Exit code 0 whatever is found; the findings are in the JSON.")]
    Doctor(Doctor),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  calve completion bash > ~/.local/share/bash-completion/completions/calve")]
    Completion(Completion),
}

/// `demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// Where to make the demo's warehouse; absent or empty [default: a new folder for temporary files]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// `create`.
#[derive(Debug, Args)]
pub struct Create {
    /// The table, e.g. shop.orders
    pub table: TableName,
    /// The file whose columns the table gets
    #[arg(long, value_name = "FILE")]
    pub like: PathBuf,
    /// Partition fields, e.g. 'day(ordered_at)' or 'bucket(16, id), region'
    #[arg(long, value_name = "EXPR")]
    pub partition_by: Option<String>,
    /// Version of the Iceberg table format
    #[arg(long, value_name = "1|2|3", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=3))]
    pub format_version: u8,
    /// A table property; may be given several times
    #[arg(long = "property", value_name = "KEY=VALUE", value_parser = super::values::property)]
    pub properties: Vec<(String, String)>,
}

/// `contract`.
#[derive(Debug, Subcommand)]
pub enum Contract {
    /// Write a first contract for a table, into contracts/ of the working directory
    #[command(after_help = "Example:\n  calve contract init shop.orders --key order_id")]
    Init(ContractInit),
    /// Read a table's contract and say what it checks
    #[command(after_help = "Examples:\n  calve contract check shop.orders\n  \
                            calve contract check shop.orders --contract other.toml")]
    Check(ContractCheck),
}

/// `contract init`.
#[derive(Debug, Args)]
pub struct ContractInit {
    /// The table
    pub table: TableName,
    /// Columns that together identify a row
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    pub key: Vec<String>,
    /// Replace the file if there is one
    #[arg(long)]
    pub force: bool,
}

/// `contract check`.
#[derive(Debug, Args)]
pub struct ContractCheck {
    /// The table
    pub table: TableName,
    /// Where its contract is.
    #[command(flatten)]
    pub contract: ContractFile,
}

/// Which contract to use.
#[derive(Debug, Args)]
pub struct ContractFile {
    /// The contract [default: contracts/TABLE.toml here, in the warehouse, or beside calve.toml]
    #[arg(long = "contract", value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// `begin`.
#[derive(Debug, Args)]
pub struct Begin {
    /// The table
    pub table: TableName,
    /// A name for this change, new in this table
    pub id: PublicationId,
    /// The rows that it may change, e.g. "day = '2013-08-09'" [default: the whole table]
    #[arg(long, value_name = "EXPR")]
    pub scope: Option<String>,
    /// The rows of this table that the job reads; `scope`: those of the scope [default: the scope for what `stage` wrote, all
    /// rows for what an engine wrote]
    #[arg(long, value_name = "EXPR|scope")]
    pub reads: Option<String>,
    /// A source that the job reads, at the version it reads; may be given several times
    #[arg(long = "source", value_name = "NAME=REVISION", value_parser = super::values::source)]
    pub sources: Vec<Source>,
    /// The revision of the job's code
    #[arg(long, value_name = "REVISION")]
    pub code: Option<String>,
    /// For how long nobody else may work on it, e.g. 90m, 24h, 7d
    #[arg(long, value_name = "TIME", value_parser = super::values::duration)]
    pub lease: Option<Duration>,
}

/// `run`.
#[derive(Debug, Args)]
pub struct Run {
    /// The table
    pub table: TableName,
    /// A name for this change; the same name whenever the same line is run again
    pub id: PublicationId,
    /// The rows that it may change, e.g. "day = '2013-08-09'"; `true`: the whole table
    #[arg(long, value_name = "EXPR", required = true)]
    pub scope: Option<String>,
    /// The rows of this table that the job reads; `scope`: those of the scope [default: the scope for what `stage` wrote, all
    /// rows for what an engine wrote]
    #[arg(long, value_name = "EXPR")]
    pub reads: Option<String>,
    /// A source that the job reads, at the version it reads; may be given several times
    #[arg(long = "source", value_name = "NAME=REVISION", value_parser = super::values::source)]
    pub sources: Vec<Source>,
    /// The revision of the job's code
    #[arg(long, value_name = "REVISION")]
    pub code: Option<String>,
    /// Where its contract is.
    #[command(flatten)]
    pub contract: ContractFile,
    /// For how long nobody else may work on it unless renewed, which is done while the job runs [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = super::values::duration)]
    pub lease: Option<Duration>,
    /// The job, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

const RUN_HELP: &str = "\
Examples:
  calve run shop.orders late-09 --scope \"ordered_at >= '2013-08-09'\" -- python repair.py
  calve run shop.orders eu-07 --scope \"region = 'eu'\" --code \"$(git rev-parse HEAD)\" -- spark-submit repair.py
  calve run shop.orders new --scope true -- sh -c 'calve stage $CALVE_TABLE $CALVE_PUBLICATION new.parquet --append'

The job finds in its environment: CALVE_TABLE, CALVE_PUBLICATION, CALVE_BRANCH (where it has to write),
CALVE_CATALOG_NAME, CALVE_CATALOG_URI, CALVE_WAREHOUSE, CALVE_OWNER, and CALVE_LEASE, under which its own calve
commands work. Nothing secret is added to it. With --json, what the job prints goes to standard error.

Run the same line again after any end: what is published is not run again, what is sealed is published without the
job, and what an earlier attempt left half done is closed for good and begun anew as ID~2, ID~3, …

Exit codes for schedulers:
  0            published, now or before: done
  1            the job or calve failed: the same line again
  10           a check failed: a person, or better data
  11, 12       main moved meanwhile: the same line again runs the job on main as it is now
  2, 13        wrong use, or not allowed: a person. 13 also where another run of ID is at work: later again
  20           unresolved, nothing was deleted: the same line again finds out, and never runs the job twice for it
  21           a person has to look
  130, 137, 143 stopped or killed: the same line again";

/// `stage`.
#[derive(Debug, Args)]
pub struct Stage {
    /// The table
    pub table: TableName,
    /// The publication
    #[arg(value_parser = PublicationId::parse_any)]
    pub id: PublicationId,
    /// Parquet, CSV or Arrow files
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Append or replace.
    #[command(flatten)]
    pub mode: Mode,
}

/// What becomes of the rows that are there.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Mode {
    /// Add the rows of the files
    #[arg(long)]
    pub append: bool,
    /// Replace all rows in scope by the rows of the files
    #[arg(long)]
    pub replace: bool,
}

/// `validate`.
#[derive(Debug, Args)]
pub struct Validate {
    /// The table
    pub table: TableName,
    /// The publication
    #[arg(value_parser = PublicationId::parse_any)]
    pub id: PublicationId,
    /// Where its contract is.
    #[command(flatten)]
    pub contract: ContractFile,
    /// Only print what the checks find; seal nothing, close nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// `publish`.
#[derive(Debug, Args)]
pub struct Publish {
    /// The table
    pub table: TableName,
    /// The publication
    #[arg(value_parser = PublicationId::parse_any)]
    pub id: PublicationId,
    /// Where its contract is.
    #[command(flatten)]
    pub contract: ContractFile,
}

/// `reconcile`.
#[derive(Debug, Args)]
pub struct Reconcile {
    /// The table
    pub table: TableName,
    /// The publication [default: all of the table; then the exit code is 21 or 20 where any has it, else 0]
    #[arg(value_parser = PublicationId::parse_any)]
    pub id: Option<PublicationId>,
    /// Read older metadata of the table too, whatever the current one shows and however large it is
    ///
    /// Without it that is done only where nothing else can tell: the branch was used up or is gone, and neither receipt nor
    /// fence is left.
    #[arg(long)]
    pub deep: bool,
    /// How many older metadata files may be read; 0 for none
    #[arg(long, value_name = "FILES", default_value_t = crate::coordinator::DEFAULT_FILES)]
    pub depth: usize,
}

/// `recover`.
#[derive(Debug, Args)]
pub struct Recover {
    /// The table [default: every table that the journal knows of this catalog]
    pub table: Option<TableName>,
    /// Close the candidates for good that are open, not sealed, and that nobody is at work on
    #[arg(long)]
    pub fence: bool,
    /// Take over the lease of this holder, as `status` shows it, because its machine is gone
    #[arg(long, value_name = "HOLDER")]
    pub takeover: Option<Uuid>,
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
}

const RECOVER_HELP: &str = "\
Examples:
  calve recover --dry-run
  calve recover shop.orders
  calve recover shop.orders --fence
  calve recover shop.orders --takeover 2f1c9a58-7a0e-4d52-9a35-0b6c1d2e3f40

Only publications of this journal are looked at, and none under a live lease: whoever holds it may be at work. Nothing is
published and nothing is deleted.

Exit codes: 0 all is settled, open or waiting, 1 a log or table could not be read (the others were looked at),
20 unresolved (may be visible), 21 a person must look.";

/// `abandon`.
#[derive(Debug, Args)]
pub struct Abandon {
    /// The table
    pub table: TableName,
    /// The publication
    #[arg(value_parser = PublicationId::parse_any)]
    pub id: PublicationId,
    /// Why, for those who ask later
    #[arg(long, value_name = "TEXT", value_parser = super::values::text)]
    pub reason: String,
}

/// `status`.
#[derive(Debug, Args)]
pub struct Status {
    /// The table [default: all]
    pub table: Option<TableName>,
    /// The publication [default: all of the table]
    #[arg(value_parser = PublicationId::parse_any)]
    pub id: Option<PublicationId>,
}

/// `log`.
#[derive(Debug, Args)]
pub struct Log {
    /// The table
    pub table: TableName,
}

/// `review`.
#[derive(Debug, Args)]
pub struct Review {
    /// The table
    pub table: TableName,
    /// The publication
    #[arg(value_parser = PublicationId::parse_any)]
    pub id: PublicationId,
    /// Where its contract is.
    #[command(flatten)]
    pub contract: ContractFile,
}

/// `probe`.
#[derive(Debug, Args)]
pub struct Probe {
    /// Where the scratch tables are made; no table that is there is touched
    #[arg(long, value_name = "NS")]
    pub namespace: String,
}

/// `doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// The table [default: all]
    pub table: Option<TableName>,
    /// From which age an open publication counts as forgotten, e.g. 2d [default: 7d]
    #[arg(long, value_name = "TIME", value_parser = super::values::duration)]
    pub older_than: Option<Duration>,
}

/// `completion`.
#[derive(Debug, Args)]
pub struct Completion {
    /// The shell
    pub shell: Shell,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn global_options_may_stand_anywhere() {
        for line in [["calve", "--json", "status", "a.b"], ["calve", "status", "a.b", "--json"]] {
            assert!(CommandLine::try_parse_from(line).unwrap().global.json);
        }
    }

    #[test]
    fn stage_wants_exactly_one_mode() {
        let line = |modes: &[&str]| {
            let words = ["calve", "stage", "a.b", "id", "f.csv"].iter().chain(modes);
            CommandLine::try_parse_from(words).is_ok()
        };
        assert!(line(&["--append"]) && line(&["--replace"]));
        assert!(!line(&[]) && !line(&["--append", "--replace"]));
    }

    #[test]
    fn only_begin_refuses_a_generation() {
        assert!(CommandLine::try_parse_from(["calve", "status", "a.b", "x~2"]).is_ok());
        assert!(CommandLine::try_parse_from(["calve", "begin", "a.b", "x~2"]).is_err());
    }
}
