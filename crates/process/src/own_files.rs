//! Files of a process below /proc that programs write, and that are nobody else's affair: they show what was written (fs/proc/base.c).

use weft_intercept::sys::Errno;

/// OOM_SCORE_ADJ_MAX; the least is its negative.
const ADJUSTMENT_MAX: i32 = 1000;
/// OOM_DISABLE, of the older form; and OOM_ADJUST_MAX.
const OLD_LEAST: i32 = -17;
const OLD_MOST: i32 = 15;
/// PROC_NUMBUF, less its end.
const NUMBER_BYTES_MAX: usize = 12;
/// MMF_DUMP_FILTER_MASK.
const DUMP_FILTER: u32 = 0x1ff;
/// What init_task has: 50 µs.
const SLACK: u64 = 50_000;
/// INVALID_UID: nobody has logged in.
const NOBODY: u32 = u32::MAX;

/// Such a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OwnFile {
    OomScoreAdj,
    OomAdj,
    CoredumpFilter,
    TimerslackNs,
    Loginuid,
}

impl OwnFile {
    /// By its name below /proc/PID.
    pub fn named(name: &str) -> Option<OwnFile> {
        Some(match name {
            "oom_score_adj" => OwnFile::OomScoreAdj,
            "oom_adj" => OwnFile::OomAdj,
            "coredump_filter" => OwnFile::CoredumpFilter,
            "timerslack_ns" => OwnFile::TimerslackNs,
            "loginuid" => OwnFile::Loginuid,
            _ => return None,
        })
    }
}

/// What they say; a child has its parent's.
#[derive(Clone, Debug)]
pub(super) struct OwnFiles {
    adjustment: i32,
    /// What somebody with CAP_SYS_RESOURCE has set last: without it no process may have less.
    least_adjustment: i32,
    dumped: u32,
    slack_ns: u64,
    login: u32,
}

impl Default for OwnFiles {
    fn default() -> OwnFiles {
        OwnFiles { adjustment: 0, least_adjustment: 0, dumped: 0x33, slack_ns: SLACK, login: NOBODY }
    }
}

/// What a process that writes may.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rights {
    /// CAP_SYS_RESOURCE.
    pub resources: bool,
    /// CAP_AUDIT_CONTROL.
    pub audit: bool,
}

impl OwnFiles {
    /// The text of a file.
    pub fn text(&self, file: OwnFile) -> String {
        match file {
            OwnFile::OomScoreAdj => format!("{}\n", self.adjustment),
            OwnFile::OomAdj if self.adjustment == ADJUSTMENT_MAX => format!("{OLD_MOST}\n"),
            OwnFile::OomAdj => format!("{}\n", (self.adjustment * -OLD_LEAST / ADJUSTMENT_MAX).min(OLD_MOST)),
            OwnFile::CoredumpFilter => format!("{:08x}\n", self.dumped),
            OwnFile::TimerslackNs => format!("{}\n", self.slack_ns),
            OwnFile::Loginuid => self.login.to_string(),
        }
    }

    /// write(2): how many bytes of the text were taken.
    ///
    /// # Errors
    /// EINVAL for what is no number, or none of those that may be; ERANGE for what is beyond what they are kept in; EACCES (EPERM for loginuid) for what this process may not.
    pub fn write(&mut self, file: OwnFile, text: &[u8], position: usize, rights: Rights) -> Result<usize, Errno> {
        let invalid = Errno(libc::EINVAL);
        match file {
            OwnFile::OomScoreAdj | OwnFile::OomAdj => {
                // "memset(buffer, 0, sizeof(buffer)); if (count > sizeof(buffer) - 1) count = sizeof(buffer) - 1;", and strstrip.
                let taken = text.get(..NUMBER_BYTES_MAX).unwrap_or(text);
                let end = taken.iter().position(|byte| *byte == 0).unwrap_or(taken.len());
                let value: i32 = number(taken[..end].trim_ascii(), true, true)?;
                if file == OwnFile::OomScoreAdj {
                    self.adjust(value, self.least_adjustment, rights)?;
                } else if !(OLD_LEAST..=OLD_MOST).contains(&value) {
                    return Err(invalid);
                } else {
                    let value = if value == OLD_MOST { ADJUSTMENT_MAX } else { value * ADJUSTMENT_MAX / -OLD_LEAST };
                    self.adjust(value, self.adjustment, rights)?;
                }
                Ok(taken.len())
            }
            OwnFile::CoredumpFilter => {
                self.dumped = number::<u32>(line(text), true, false)? & DUMP_FILTER;
                Ok(text.len())
            }
            OwnFile::TimerslackNs => {
                let value: u64 = number(line(text), false, false)?;
                self.slack_ns = if value == 0 { SLACK } else { value };
                Ok(text.len())
            }
            OwnFile::Loginuid => {
                if position != 0 {
                    return Err(invalid);
                }
                let value: u32 = number(line(text), false, false)?;
                // audit_set_loginuid_perm: "if we are unset, we don't need privs".
                if self.login != NOBODY && !rights.audit {
                    return Err(Errno(libc::EPERM));
                }
                self.login = value;
                Ok(text.len())
            }
        }
    }

    /// __set_oom_adj.
    fn adjust(&mut self, value: i32, least: i32, rights: Rights) -> Result<(), Errno> {
        if !(-ADJUSTMENT_MAX..=ADJUSTMENT_MAX).contains(&value) {
            return Err(Errno(libc::EINVAL));
        }
        if value < least && !rights.resources {
            return Err(Errno(libc::EACCES));
        }
        self.adjustment = value;
        if rights.resources {
            self.least_adjustment = value;
        }
        Ok(())
    }
}

/// kstrto*_from_user take one end of line.
fn line(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"\n").unwrap_or(text)
}

/// kstrtoint and its kind; `any_base`: 0x and 0 begin hexadecimal and octal numbers. Unsigned numbers have no minus, not even before 0.
fn number<T: TryFrom<i128>>(text: &[u8], any_base: bool, signed: bool) -> Result<T, Errno> {
    let invalid = Errno(libc::EINVAL);
    let text = std::str::from_utf8(text).map_err(|_| invalid)?;
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) if signed => (true, rest),
        _ => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (base, digits) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(rest) if any_base => (16, rest),
        _ if any_base && digits.len() > 1 && digits.starts_with('0') => (8, digits),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(base)) {
        return Err(invalid);
    }
    let range = Errno(libc::ERANGE);
    let value = i128::from_str_radix(digits, base).map_err(|_| range)?;
    T::try_from(if negative { -value } else { value }).map_err(|_| range)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Rights = Rights { resources: false, audit: false };
    const ALL: Rights = Rights { resources: true, audit: true };

    #[test]
    fn less_than_was_set_with_the_right_needs_the_right() {
        let mut files = OwnFiles::default();
        let mut write = |text: &str, rights| files.write(OwnFile::OomScoreAdj, text.as_bytes(), 0, rights);
        assert_eq!(write("-1", NONE), Err(Errno(libc::EACCES)));
        assert_eq!(write("-500", ALL), Ok(4));
        assert_eq!(write("0", NONE), Ok(1));
        assert_eq!(write("-500", NONE), Ok(4));
        assert_eq!(write("-501", NONE), Err(Errno(libc::EACCES)));
        assert_eq!(files.text(OwnFile::OomScoreAdj), "-500\n");
        assert_eq!(files.text(OwnFile::OomAdj), "-8\n");
    }

    #[test]
    fn who_has_logged_in_is_said_once() {
        let mut files = OwnFiles::default();
        assert_eq!(files.text(OwnFile::Loginuid), "4294967295");
        assert_eq!(files.write(OwnFile::Loginuid, b"1000", 4, ALL), Err(Errno(libc::EINVAL)));
        assert_eq!(files.write(OwnFile::Loginuid, b"1000", 0, NONE), Ok(4));
        assert_eq!(files.write(OwnFile::Loginuid, b"0", 0, NONE), Err(Errno(libc::EPERM)));
        assert_eq!(files.text(OwnFile::Loginuid), "1000");
        assert_eq!(files.write(OwnFile::Loginuid, b"0", 0, ALL), Ok(1));
    }

    #[test]
    fn no_text_does_harm() {
        for text in
            [&b""[..], b"\xff\xff", b"-", b"+", b"0x", b"--1", b"0x-1", b"99999999999999999999999999999999999999999", b"\0", &[b'9'; 4096]]
        {
            for file in ["oom_score_adj", "oom_adj", "coredump_filter", "timerslack_ns", "loginuid"] {
                let file = OwnFile::named(file).unwrap();
                let _ =
                    OwnFiles::default().write(file, text, 0, ALL).map_err(|errno| assert!([libc::EINVAL, libc::ERANGE].contains(&errno.0)));
            }
        }
    }
}
