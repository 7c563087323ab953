//! Locations that are compared, never used: whether a journal lies inside a table.

/// A location as it is compared: one scheme for S3's three, none for files, no slash at the end.
pub(super) fn normal(location: &str) -> String {
    let text = location.trim_end_matches('/');
    for scheme in ["s3a://", "s3n://"] {
        if let Some(rest) = text.strip_prefix(scheme) {
            return format!("s3://{rest}");
        }
    }
    match text.strip_prefix("file:") {
        Some(path) => format!("/{}", path.trim_start_matches('/')),
        None => text.to_owned(),
    }
}

/// Whether a journal's root is a table's location or below it, where engines delete what no snapshot names.
pub(super) fn is_inside(root: &str, location: &str) -> bool {
    normal(root).strip_prefix(&normal(location)).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inside_is_at_or_below_however_the_scheme_is_spelled() {
        for (root, location, expected) in [
            ("s3://b/t", "s3://b/t", true),
            ("s3a://b/t/journal/", "s3n://b/t/", true),
            ("file:///w/t/j", "/w/t", true),
            ("/w/t/j", "file:/w/t", true),
            ("s3://b/t2", "s3://b/t", false),
            ("s3://b", "s3://b/t", false),
            ("s3://c/t/j", "s3://b/t", false),
            ("gs://b/t/j", "s3://b/t", false),
        ] {
            assert_eq!(is_inside(root, location), expected, "{root} {location}");
        }
    }
}
