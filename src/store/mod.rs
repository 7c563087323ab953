//! Object stores: where a location lies, how it is reached with Iceberg's storage properties, and what its errors mean.
//!
//! Table files and journals use the same stores under the same property names, so both ask here. S3 and what speaks its
//! protocol is tested, Google Cloud Storage on an emulator; Azure Data Lake Storage is built from the same parts, and **not
//! tested**.
//! Nothing that is shown, an error least of all, holds a secret: what a store answers may repeat the request.

mod client;
mod error;
mod location;
mod operator;
#[cfg(test)]
pub(crate) mod testkit;

pub use error::{Failure, FailureKind, Redactor};
pub use location::{Location, LocationError, Service, scheme_of};
pub use operator::{Bucket, Retries, connect, connect_s3_with};
