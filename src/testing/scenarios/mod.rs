//! Situations that must come out right, over every catalog.
//!
//! `main = N`, candidate `audit/p` with data head `S` and seal `K`; names and numbers as in the protocol's scenarios. Each
//! is played on a bed of its own with an empty table.

mod answers;
mod candidates;
mod conflicts;
mod history;
mod others;

pub use answers::*;
pub use candidates::*;
pub use conflicts::*;
pub use history::*;
pub use others::*;

use super::Bed;
pub use super::recovering::s29_recover_elsewhere;
use crate::coordinator::Coordinator;
use crate::ids::SnapshotId;
use crate::publish::PublishOutcome;
use crate::publish::outcome::Via;
use crate::publish::reconcile::Visibility;
use crate::report::PublishReport;

/// Calls a macro with the names of all scenarios that every catalog can play.
#[macro_export]
macro_rules! every_scenario {
    ($play:ident) => {
        $play! {
            published_directly,
            s01_reply_lost,
            s02_reply_lost_then_superseded,
            s03_own_success_replayed_as_conflict,
            s04_stalled_then_fenced,
            s04_stalled_then_lands,
            resent_identically,
            s05_history_gone,
            s06_rolled_back,
            s07_subject_moved,
            s08_writer_between_read_and_swap,
            s09_first_commit_of_a_table,
            s10_appends_elsewhere,
            s11_replaces_what_others_add_to,
            s12_a_removed_file_is_gone,
            s14_answers_that_say_nothing,
            s18_killed_at_each_step,
            s19_seal_stays_small,
            s20_the_partition_spec_evolved,
            s21_two_publishers,
            s22_late_job,
            s23_bypassed_sealed,
            s23_bypassed_unsealed,
            s24_two_seals,
            s25_stale_expire,
            retention_erased,
            s28_two_begins,
            s30_what_the_job_read,
            s29_recover_elsewhere,
            s32_request_for_an_older_seal,
            s33_one_ref_deleted,
            s33_fence_deleted,
            s34_bypassed_before_the_fence,
            s35_found_by_its_files,
            s36_base_expired,
            failed_check
        }
    };
}

/// Ids 1 to 3 on 8 August in main, and a coordinator.
async fn with_history(bed: &Bed) -> (Coordinator, SnapshotId) {
    let base = bed.engine().append("main", &[(8, 1, 10), (8, 2, 20), (8, 3, 30)]).await.expect("appended");
    (bed.coordinator("ann"), base)
}

fn published(report: &PublishReport) -> (Via, Visibility) {
    match &report.outcome {
        PublishOutcome::Published { via, visibility, .. } => (*via, *visibility),
        other => panic!("not published: {other:?}"),
    }
}
