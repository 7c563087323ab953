//! The states that two coordinators, a bad network and other writers can bring one candidate to, breadth first: every one
//! within a configuration's bounds, or the first so many (`--limit`), as its line says.
//!
//! ```console
//! $ cargo run --release -p integration -- model            # all of it
//! $ cargo run --release -p integration -- model --list     # configurations and mutants
//! $ cargo run --release -p integration -- model --mutant publish-without-tombstone   # one bug, with the way to it
//! ```
//!
//! **What is real**: the decisions and the commits. `reconcile`, the gate `decide`, `landed`, `fence_form`, `workable`,
//! `beginnable`, `only_begins`, `files_may_tell`, `shows`, every commit with its requirements and updates, the fold of the
//! journal over real records, outcomes and exit codes. [`Rules`] is the list of them.
//!
//! **What stands in**: the catalog is [`apply`], which checks a commit's requirements against what decisions see of a table
//! and makes its updates; the shell is the order of steps in `coordinator/effect.rs` (read, decide, record the intent, send
//! once, record the reply, read, decide, note), each a step of its own, so that anything can happen between any two. Data
//! is a bit a file: digests are of those bits, checks pass wherever there are rows.
//!
//! **What can happen** between any two steps: a process is killed, before its request leaves or while it is on its way; a request never
//! leaves, is late by any time (or for ever: that is a lost one), is applied twice, or is applied while the sender hears
//! nothing, a 409, or no table; it is refused with 409 or 403 for no reason; the journal is lost with the processes that use it, its
//! statements too or not. Others commit to main, roll it back to any snapshot of its history, set it to the audit head or
//! to the data below, put the candidate's files into main without its snapshot, expire what was unprotected when they
//! planned it, delete one of our refs, make the missing branch again from main, append to the branch and erase its
//! retention, change schema or spec, rename the table, drop it and create it anew, put it back to how it was.
//!
//! **What is held**: [`INVARIANTS`], in every step or every state.
//!
//! | | held where | against |
//! |---|---|---|
//! | I1 | a PUBLISH is applied | the evidence, computed again from the table that it is applied to |
//! | I3 | a PUBLISH is applied | that none was before |
//! | I4 | a PUBLISH is applied | that no `abandon` has returned closed |
//! | I5 | someone is told "published" | that it was visible |
//! | I6 | someone is told | "never": that calve did not and does not publish it; "not visible": the very reading it was told from |
//! | I7 | a PUBLISH is applied | that the main it replaces is an ancestor of the seal |
//! | I9 | every table | that receipt and closed tag are not both there |
//! | I10 | every table with every log | the verdict without the journal while the receipt stands, and without the last reply; and that "never sent" is not said while a request is on its way |
//! | I11 | any commit of calve's is applied | unrelated refs, and main's retention |
//! | I12 | every table | manifest lists, and the trees of seals |
//! | L1 | every table with every log | `publish`, then `abandon`, undisturbed: they end published or closed, or with a person told to look where others have acted or a journal was lost |
//!
//! The honest exceptions are named in `checks.rs`, beside the checks that they narrow. I2 and I8 concern clean-up and
//! rebase. Not modelled: leases (so more can happen here than there), `run`'s RESTART and other candidates of the same name, idempotency
//! keys, a table that cannot be read for a while, two of our refs deleted, more than one candidate.
//!
//! **Counts** of the whole command, a release build on two cores in under two minutes. Where a configuration ends at its limit,
//! what is left out takes more steps than anything that was seen.
//!
//! | configuration | states | steps | tables | logs |
//! |---|---|---|---|---|
//! | `network` | first 1,500,001 | 2,494,112 | 6 | 33,123 |
//! | `main` | first 1,500,001 | 2,721,432 | 91 | 6,302 |
//! | `refs` | first 1,500,002 | 2,929,771 | 251 | 7,782 |
//! | `others` | first 1,500,001 | 2,584,788 | 301 | 30,699 |
//! | `lost-journal` | first 1,500,004 | 3,075,748 | 20 | 18,377 |
//! | `lost-statements` | first 1,500,001 | 3,605,971 | 20 | 56,626 |
//! | `two-journals` | all 402,949 | 841,719 | 119 | 2,696 |
//! | `life` | first 1,500,002 | 2,761,130 | 253 | 67,091 |
//! | `first` | first 1,500,001 | 2,656,291 | 631 | 108,760 |
//! | `seals` | first 1,500,006 | 2,410,958 | 1,558 | 150,381 |
//! | `version-1` | first 1,500,003 | 2,547,658 | 675 | 107,189 |
//!
//! `states=15402971 invariants=11 violations=0 mutants=21/21`
//!
//! **Mutants**: [`mutants`] puts something wrong in the place of one rule; each has to be caught by the invariant that the
//! rule guards, and the real rules by none in the same configuration.

mod build;
mod checks;
mod config;
mod log;
mod mind;
mod mutants;
mod names;
mod rules;
mod search;
mod table;
#[cfg(test)]
mod tests;
mod told;
mod trace;
mod world;

pub use checks::{INVARIANTS, Invariant};
pub use config::{CONFIGS, Config};
pub use mutants::{Mutant, mutants};
pub use rules::Rules;
pub use search::{Explored, Found, explore};
pub use table::{NotApplied, apply};
