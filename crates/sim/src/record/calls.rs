//! The first difference of two logs of calls (`weft sim --calls`): what programs asked, where the record has only one number for what they were
//! answered without the world.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

/// Longest line that is compared.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Hexadecimal digits from which on a number is an address, which is the host's.
const ADDRESS_DIGITS: usize = 6;

/// A line that differs: the program's name and both lines; none: there is nothing more.
pub(super) struct Found {
    pub program: String,
    pub first: Option<String>,
    pub second: Option<String>,
}

fn log(folder: &Path, program: &str) -> PathBuf {
    folder.join("programs").join(program).join("calls")
}

/// Do both folders have a log of a program's calls?
pub(super) fn are_there(first: &Path, second: &Path, programs: &[String]) -> bool {
    programs.iter().any(|program| [first, second].into_iter().all(|folder| log(folder, program).exists()))
}

/// The earliest line in which the logs of both folders differ; None: they do not, or are not there.
pub(super) fn first_difference(first: &Path, second: &Path, programs: &[String]) -> Option<Found> {
    let differing = programs.iter().filter_map(|program| {
        let (one, other) = (File::open(log(first, program)).ok()?, File::open(log(second, program)).ok()?);
        let (mut one, mut other) = (BufReader::new(one), BufReader::new(other));
        loop {
            let (a, b) = (line(&mut one), line(&mut other));
            if a.is_none() && b.is_none() {
                return None;
            }
            if a.as_deref().map(without_addresses) != b.as_deref().map(without_addresses) {
                return Some(Found { program: program.clone(), first: a, second: b });
            }
        }
    });
    differing.min_by(|a, b| time(a).partial_cmp(&time(b)).unwrap_or(Ordering::Equal))
}

/// When it was: the earlier of the two.
fn time(found: &Found) -> f64 {
    let of = |line: &Option<String>| line.as_deref().and_then(|line| line.split(' ').next()?.parse::<f64>().ok()).unwrap_or(f64::INFINITY);
    of(&found.first).min(of(&found.second))
}

fn line(file: &mut BufReader<File>) -> Option<String> {
    let mut bytes = Vec::new();
    let read = std::io::Read::take(file, LINE_BYTES_MAX).read_until(b'\n', &mut bytes).ok()?;
    (read > 0).then(|| String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

/// A line with … for each address.
fn without_addresses(line: &str) -> String {
    let mut parts = line.split("0x");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_hexdigit).count();
        out.push_str("0x");
        if digits >= ADDRESS_DIGITS {
            out.push('…');
        } else {
            out.push_str(part.get(..digits).unwrap_or_default());
        }
        out.push_str(part.get(digits..).unwrap_or_default());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_the_hosts_and_other_numbers_are_not() {
        assert_eq!(without_addresses("mmap(0x7f12ab34, 4096) = 0x7f12ab34cd"), "mmap(0x…, 4096) = 0x…");
        assert_eq!(without_addresses("ioctl(1, 0x5401)"), "ioctl(1, 0x5401)");
    }
}
