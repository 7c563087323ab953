//! Publications by real processes of the real command, through a network that fails and under hands that kill, over real
//! catalogs; and a checker that knows nothing of calve.
//!
//! Each publication is a set of processes (`begin`, `stage`, `validate`, `publish`, or `run` with a job), reaches its
//! catalog through a [proxy](crate::proxy) of its own, and is followed by `recover` after each crash and by `reconcile`
//! until it is told what became of it. Several go on at once on each table, so that they stand in each other's way. What
//! goes wrong is drawn from a seed, publication by publication, and so can be had again: [`plan`].
//!
//! Each owns one key of its table, under which there are rows before it begins. So the table shows whatever a
//! publication may come to: its rows beside those, or in their place; or those alone. PyIceberg and DuckDB read that when
//! all publications of a table are over, in `scripts/chaos_outsider.py`, where PyIceberg also makes the tables, and
//! commits to them in between.
//!
//! | told | counts as |
//! |---|---|
//! | published, and a row of it, of what was there before, or of somebody else's is missing | lost |
//! | a row is there twice, or two attempts of one publication are visible | doubled |
//! | not published, and rows of it are in main or in a snapshot of main's history | a contradiction |
//! | published and rolled back, and nobody moved main back, or it was never there | lost |
//! | first one final thing, then another; or an exit code that its state does not have | a contradiction |
//!
//! | file | holds |
//! |---|---|
//! | `plan` | what is drawn from the seed |
//! | `process` | one process of the command, and its end |
//! | `play` | one publication from its first process to what is told of it |
//! | `tell` | what reports and exit codes say |
//! | `table` | the tables, and their check |
//! | `check` | rows as they have to be, and as they are |
//! | `outsider` | the Python processes |
//! | `run` | all of it at once |

mod check;
mod outsider;
pub mod plan;
mod play;
mod process;
mod run;
mod table;
mod tell;

pub use run::{Options, Report, Watch, run};
