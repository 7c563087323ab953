//! What a person, or a test in another language, tells a running proxy: `/__proxy/…` on the port it listens on.
//!
//! | request | does |
//! |---|---|
//! | `GET /__proxy/requests` | the record, as JSON |
//! | `GET /__proxy/held` | the numbers of the requests that are held |
//! | `POST /__proxy/release` | releases the oldest of them, or `?request=N`; answers with the catalog's status to it |
//! | `POST /__proxy/rules` | adds the rules in the body, one a line |
//! | `DELETE /__proxy/rules` | forgets all rules |

use serde_json::json;

use super::fault::Answer;
use super::rule::Rule;
use super::state::State;

/// What the paths begin with.
pub(super) const PREFIX: &str = "/__proxy/";

pub(super) async fn answer(state: &State, method: &str, target: &str, body: &[u8]) -> Answer {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    match (method, path) {
        ("GET", "requests") => match serde_json::to_string(&state.seen()) {
            Ok(text) => Answer::json(200, text),
            Err(error) => Answer::error(500, "Proxy", &error.to_string()),
        },
        ("GET", "held") => Answer::json(200, json!({ "held": state.held() }).to_string()),
        ("POST", "release") => {
            let number = match query.strip_prefix("request=").map(str::parse) {
                Some(Ok(number)) => Some(number),
                None if query.is_empty() => None,
                _ => return Answer::error(400, "Proxy", "release takes ?request=NUMBER or nothing"),
            };
            let Some((number, cell)) = state.take_held(number) else {
                return Answer::error(404, "Proxy", "no such request is held");
            };
            match cell.release().await {
                Ok(status) => Answer::json(200, json!({ "request": number, "upstream": status }).to_string()),
                Err(reason) => Answer::json(200, json!({ "request": number, "failed": reason }).to_string()),
            }
        }
        ("POST", "rules") => match Rule::parse_all(&String::from_utf8_lossy(body)) {
            Ok(rules) => {
                let numbers: Vec<_> = rules.into_iter().map(|rule| state.add(rule, None)).collect();
                Answer::json(200, json!({ "rules": numbers }).to_string())
            }
            Err(error) => Answer::error(400, "Proxy", &error.to_string()),
        },
        ("DELETE", "rules") => {
            state.clear_rules();
            Answer::json(200, "{}")
        }
        _ => {
            let there = "GET requests, GET held, POST release, POST rules, DELETE rules";
            Answer::error(404, "Proxy", &format!("under {PREFIX} there are {there}"))
        }
    }
}
