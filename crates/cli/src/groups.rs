//! Names of interface groups, as iproute2 has them: /etc/iproute2/group and what the distribution gives.

use std::path::Path;

/// Where names of groups are looked for; the first that has one wins.
const FILES: [&str; 2] = ["/etc/iproute2/group", "/usr/share/iproute2/group"];
/// Longest file that is read, bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Exchanges the names of groups in `group:NAME` and `group=NAME` for numbers. What has no number stays, and is refused by whoever gets it.
pub fn numbered(words: &[String]) -> Vec<String> {
    let exchange = |word: &String| {
        let (prefix, name) =
            ["group:", "group=", "interface=group:"].into_iter().find_map(|prefix| word.strip_prefix(prefix).map(|name| (prefix, name)))?;
        (name.parse::<u32>().is_err()).then(|| number(name).map(|number| format!("{prefix}{number}"))).flatten()
    };
    words.iter().map(|word| exchange(word).unwrap_or_else(|| word.clone())).collect()
}

fn number(name: &str) -> Option<u32> {
    let read = |path: &&str| {
        let small = std::fs::metadata(path).is_ok_and(|found| found.len() <= FILE_BYTES_MAX);
        small.then(|| std::fs::read_to_string(Path::new(path)).ok()).flatten()
    };
    let texts: Vec<String> = FILES.iter().filter_map(read).collect();
    let found = texts.iter().find_map(|text| in_text(text, name));
    found.or_else(|| (name == "default").then_some(0))
}

/// "NUMBER NAME", remarks behind #.
fn in_text(text: &str, wanted: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let (number, name) = (words.next()?, words.next()?);
        let parsed = number.strip_prefix("0x").map_or_else(|| number.parse().ok(), |hex| u32::from_str_radix(hex, 16).ok());
        parsed.filter(|_| name == wanted)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_iproute2_writes_them() {
        let text = "# device group names\n0\tdefault\n 7 wifi # radio\n0x10 lte\nnonsense\n";
        assert_eq!((in_text(text, "wifi"), in_text(text, "lte"), in_text(text, "radio")), (Some(7), Some(16), None));
        let words = ["set", "group:default", "group=default", "mtu=1400", "group:5"].map(str::to_owned);
        assert_eq!(numbered(&words), ["set", "group:0", "group=0", "mtu=1400", "group:5"]);
    }
}
