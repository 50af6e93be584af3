//! Which objects an operation is about: a name, a pattern, or an interface group. Expanded once, before anything is prepared.

use serde::{Deserialize, Serialize};

/// Names a set of objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selector {
    /// Exactly this one. Naming something that does not exist is an error.
    Name(String),
    /// All whose name matches: `*` any run of characters, `?` any one.
    Pattern(String),
    /// All interfaces of a group (by number or name).
    Group(String),
}

impl Selector {
    /// Reads `group:NAME`, a pattern (has `*` or `?`), or a name.
    pub fn parse(text: &str) -> Selector {
        match text.strip_prefix("group:") {
            Some(group) => Selector::Group(group.to_owned()),
            None if text.contains(['*', '?']) => Selector::Pattern(text.to_owned()),
            None => Selector::Name(text.to_owned()),
        }
    }

    /// Does an object with this name and group belong?
    pub fn matches(&self, name: &str, group: Option<&str>) -> bool {
        match self {
            Selector::Name(exact) => exact == name,
            Selector::Pattern(pattern) => glob(pattern.as_bytes(), name.as_bytes()),
            Selector::Group(wanted) => group == Some(wanted.as_str()),
        }
    }
}

impl std::fmt::Display for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Selector::Name(text) | Selector::Pattern(text) => f.write_str(text),
            Selector::Group(group) => write!(f, "group:{group}"),
        }
    }
}

/// Linear-time matching of `*` and `?`: on a mismatch, the last `*` takes one more byte.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((star_p, star_n)) => {
                    p = star_p + 1;
                    n = star_n + 1;
                    star = Some((star_p, n));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_match_names_patterns_and_groups() {
        for (text, name, expected) in [
            ("tcp", "tcp", true),
            ("tcp", "tcp2", false),
            ("tcp*", "tcp2", true),
            ("*4", "ip4", true),
            ("*4", "ip46", false),
            ("i?4", "ip4", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("*", "", true),
        ] {
            assert_eq!(Selector::parse(text).matches(name, None), expected, "{text} {name}");
        }
        assert!(Selector::parse("group:wifi").matches("wlan0", Some("wifi")));
        assert!(!Selector::parse("group:wifi").matches("wlan0", None));
    }
}
