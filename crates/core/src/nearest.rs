//! What a mistyped name was perhaps meant to be.

/// "did you mean 'delay'? " when one of the names, separated by ", ", is spelled nearly so, the first of those that are equally near; otherwise nothing.
pub fn hint(wrong: &str, known: &str) -> String {
    // One slip in three letters.
    let slips_max = wrong.chars().count() / 3;
    // Both are bounded, as names of blocks are; a text that is none is not compared.
    if wrong.len() > 64 {
        return String::new();
    }
    let near =
        known.split(", ").map(|name| (slips(wrong, name), name)).filter(|(slips, _)| *slips <= slips_max).min_by_key(|(slips, _)| *slips);
    near.map_or_else(String::new, |(_, name)| format!("did you mean '{name}'? "))
}

/// How many letters must be changed, added, left out or swapped with the next one (Damerau-Levenshtein, optimal string alignment).
fn slips(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_finger_are_understood_and_other_words_are_not() {
        let known = "delay, drop, duplicate, loss, tcp";
        for (wrong, meant) in [("dealy", "delay"), ("los", "loss"), ("duplciate", "duplicate"), ("tpc", "tcp"), ("drops", "drop")] {
            assert_eq!(hint(wrong, known), format!("did you mean '{meant}'? "), "{wrong}");
        }
        assert_eq!(hint("los", "loss, lose"), "did you mean 'loss'? ");
        for wrong in ["congestion", "", "x", "tc", "lossy-delay", &"l".repeat(1000)] {
            assert_eq!(hint(wrong, known), "", "{wrong}");
        }
        assert_eq!((slips("ca", "abc"), slips("", "abc"), slips("abc", "")), (3, 3, 3));
    }
}
