//! Where something is mounted on the host.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// The places in which something is mounted.
#[derive(Debug, Default)]
pub(super) struct Mounts(BTreeSet<PathBuf>);

impl Mounts {
    /// Those that this process sees. None where /proc does not say.
    pub fn read() -> Mounts {
        std::fs::read("/proc/self/mountinfo").map(|text| Mounts::parse(&text)).unwrap_or_default()
    }

    /// proc_pid_mountinfo(5): the fifth word of a line, in which blanks, tabs, newlines and backslashes are octal.
    fn parse(text: &[u8]) -> Mounts {
        let places = text.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
        Mounts(places.map(|place| PathBuf::from(OsString::from_vec(unescaped(place)))).collect())
    }

    /// Is there one below this folder?
    pub fn below(&self, folder: &Path) -> bool {
        self.0.range(folder.to_path_buf()..).take_while(|place| place.starts_with(folder)).any(|place| place != folder)
    }
}

fn unescaped(mut place: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some((first, rest)) = place.split_first() {
        let digits = rest.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => (out.push(byte), place = &rest[3..]).0,
            None => (out.push(*first), place = rest).0,
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_below_is_known() {
        let mounts = Mounts::parse(
            b"22 1 254:1 / / rw - ext4 /dev/root rw\n30 22 0:5 / /var/lib/with\\040blank rw,relatime shared:1 - tmpfs none rw\n31 22 0:6 / /etc/hosts rw - ext4 x rw\nnonsense\n",
        );
        for (folder, below) in [
            ("/var", true),
            ("/var/lib", true),
            ("/var/lib/with blank", false),
            ("/var/lib/with", false),
            ("/va", false),
            ("/etc", true),
            ("/usr", false),
        ] {
            assert_eq!(mounts.below(Path::new(folder)), below, "{folder}");
        }
        assert_eq!(unescaped(br"a\134b\1"), br"a\b\1");
    }
}
