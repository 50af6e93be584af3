//! Names of interface groups, as iproute2 has them: /etc/iproute2/group and what the distribution gives.

use std::path::Path;

/// Where names of groups are looked for; the first that has one wins.
const FILES: [&str; 2] = ["/etc/iproute2/group", "/usr/share/iproute2/group"];
/// Longest file that is read, bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Exchanges the names of groups in `group:NAME` and `group=NAME`, and in expressions (`udp and iifgroup NAME`), for numbers. What has no number
/// stays, and is refused by whoever gets it.
pub fn numbered(words: &[String]) -> Vec<String> {
    let exchange = |word: &String| {
        let (prefix, name) =
            ["group:", "group=", "interface=group:"].into_iter().find_map(|prefix| word.strip_prefix(prefix).map(|name| (prefix, name)))?;
        // Behind the last dot of `group:NAME.FIGURE` stands what is read of it.
        let (name, figure) = name.split_once('.').map_or((name, String::new()), |(name, figure)| (name, format!(".{figure}")));
        (name.parse::<u32>().is_err()).then(|| number(name).map(|number| format!("{prefix}{number}{figure}"))).flatten()
    };
    words.iter().map(|word| exchange(word).unwrap_or_else(|| in_expression(word))).collect()
}

/// Compiles an expression in which groups may have their names.
///
/// # Errors
/// As [`weft_host::expression::compile`].
pub fn compile(expression: &str, link: &str) -> Result<weft_node::Compiled, String> {
    weft_host::expression::compile(&in_expression(expression), link)
}

/// The same in an expression of filter or classify: what stands behind `group`, `iifgroup` and `oifgroup`.
pub fn in_expression(text: &str) -> String {
    in_words(text, number)
}

fn in_words(text: &str, number: impl Fn(&str) -> Option<u32>) -> String {
    let mut found = String::with_capacity(text.len());
    let mut before = "";
    for piece in text.split_inclusive(|c: char| c.is_whitespace() || "()=".contains(c)) {
        let word = piece.trim_end_matches(|c: char| c.is_whitespace() || "()=".contains(c));
        let names_group = ["group", "iifgroup", "oifgroup"].contains(&before) && word.parse::<u32>().is_err();
        match number(word).filter(|_| names_group) {
            Some(number) => found.push_str(&format!("{number}{}", &piece[word.len()..])),
            None => found.push_str(piece),
        }
        if !word.is_empty() {
            before = word;
        }
    }
    found
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
        let get = ["get", "group:default.rx_bytes", "filter.expression=udp and oifgroup default"].map(str::to_owned);
        assert_eq!(numbered(&get), ["get", "group:0.rx_bytes", "filter.expression=udp and oifgroup 0"]);
        let seven = |name: &str| (name == "wifi").then_some(7);
        assert_eq!(in_words("not (iifgroup wifi) and port 5 or group 3", seven), "not (iifgroup 7) and port 5 or group 3");
        assert_eq!(in_words("host wifi or group lte", seven), "host wifi or group lte", "what is no group's name stays");
    }
}
