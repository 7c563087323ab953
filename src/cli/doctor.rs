//! `calve doctor`.

use super::Context;
use super::args::Doctor;
use super::config::{JournalPlace, Missing, Place};
use super::exit::Outcome;
use crate::coordinator::{DoctorRequest, JournalKind};

/// Says what is risky.
pub(super) async fn run(context: &Context, args: Doctor) -> Outcome {
    let settings = context.settings()?;
    let place = settings.place()?;
    let journal = match (settings.journal(&place)?, &place) {
        (JournalPlace::State(_), Place::Rest(_)) => JournalKind::OfThisUser,
        (JournalPlace::Named(_) | JournalPlace::Store { .. }, _)
        | (JournalPlace::Warehouse(_), _)
        | (JournalPlace::State(_), Place::Embedded(_)) => JournalKind::Configured,
    };
    let coordinator = settings.coordinator(Missing::Refuse).await?;
    let mut request = DoctorRequest { table: args.table, journal, ..DoctorRequest::default() };
    if let Some(age) = args.older_than {
        request.older_than = age;
    }
    context.print(&coordinator.doctor(&request).await?)
}
