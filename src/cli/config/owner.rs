//! Who works: `user@host`, as far as the system says.

/// `user@host`, as far as the system says.
pub(super) fn user_at_host() -> String {
    let variable = |name: &str| std::env::var(name).ok();
    let user = ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(|name| named(variable(name)));
    let host = named(variable("HOSTNAME"))
        .or_else(|| named(std::fs::read_to_string("/proc/sys/kernel/hostname").ok()))
        .or_else(|| named(std::fs::read_to_string("/etc/hostname").ok()))
        .or_else(|| named(variable("COMPUTERNAME")));
    let user = user.or_else(user_number).unwrap_or_else(|| "someone".to_owned());
    format!("{user}@{}", host.unwrap_or_else(|| "localhost".to_owned()))
}

/// The text if it is usable as a name.
fn named(text: Option<String>) -> Option<String> {
    let text = text?.trim().to_owned();
    (!text.is_empty() && !text.chars().any(char::is_control)).then_some(text)
}

/// Schedulers often start jobs without a user's name; the number tells two users apart all the same.
fn user_number() -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").ok().map(|process| format!("uid-{}", process.uid()))
}
