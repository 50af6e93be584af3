//! /proc/sys/net: the node's own settings, under the names that Linux gives them (Documentation/networking/ip-sysctl.rst). They are parameters of blocks.

mod table;

use super::caller::{Caller, Posted};
use super::ids::ThreadId;
use super::object::{Body, Written};
use super::outcome::Outcome;
use super::outside::Outside;
use super::own_files::OwnFiles;
use super::tree::Tree;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use table::{Form, KEPT, Kept, OF_A_BYTE, OF_AN_INTERFACE, SETTINGS, Setting};
use weft_core::parameter::parse_duration;
use weft_core::{Op, Selector};
use weft_intercept::memory::Memory as _;
use weft_intercept::sys::Errno;
use weft_intercept::sys_net;
use weft_intercept::tables;

/// Longest text that is taken.
pub(super) const VALUE_BYTES_MAX: usize = 256;
const PAGE: u64 = 4096;
/// IFNAMSIZ, which names of queueing disciplines keep to.
const NAME_BYTES_MAX: usize = 16;
/// KMALLOC_MAX_SIZE of x86-64.
const TOO_LARGE: u64 = 4 << 20;
/// Addresses of programs end here (TASK_SIZE_MAX of x86-64).
const ADDRESS_END: u64 = 0x7fff_ffff_f000;

/// A setting that a scenario gives.
#[derive(Clone, Copy, Debug)]
pub struct Row(&'static Setting);

/// The names of all settings that can be written, below /proc/sys/net.
pub fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|(name, ..)| *name)
}

/// The setting with this name below /proc/sys/net.
pub fn find(name: &str) -> Option<Row> {
    SETTINGS.iter().find(|(known, ..)| *known == name).map(Row)
}

impl Row {
    /// The assignments to parameters (`tcp.fin_timeout=60s`) that a line stands for; None: it cannot be written there.
    pub fn assignments(self, line: &str) -> Option<Vec<String>> {
        let Row((_, form, parameters)) = self;
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() || words.len() > parameters.len() {
            return None;
        }
        let assign = |(word, (block, name)): (&&str, &(&str, &str))| {
            let value = match form {
                // What a person writes has a unit.
                Form::Seconds => format!("{}s", word.parse::<u32>().ok()?),
                Form::Milliseconds => format!("{}ms", word.parse::<u32>().ok()?),
                Form::Microseconds => format!("{}us", word.parse::<u32>().ok()?),
                Form::Nanoseconds => format!("{}ns", word.parse::<u32>().ok()?),
                _ => meant(*form, word)?.to_string(),
            };
            Some(format!("{block}.{name}={value}"))
        };
        words.iter().zip(parameters.iter()).map(assign).collect()
    }

    /// What it takes, for people.
    pub fn takes(self) -> String {
        let Row((_, form, parameters)) = self;
        let one = match form {
            Form::OneOf(words) => return words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(" or "),
            Form::Word => "a word",
            Form::Number => "a whole number",
            Form::Flag | Form::Not | Form::Is(..) => "0 or 1",
            Form::On(_) => "0, or what it is by default",
            Form::Seconds => "seconds, a whole number",
            Form::Milliseconds => "milliseconds, a whole number",
            Form::Microseconds => "microseconds, a whole number",
            Form::Nanoseconds => "nanoseconds, a whole number",
            Form::Pages => "pages of 4096 bytes, a whole number",
        };
        match parameters.len() {
            1 => one.to_owned(),
            several => format!("{one}; up to {several} of them, as in \"1 2\""),
        }
    }
}

/// What a name below /proc/sys/net stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum There {
    File,
    Folder,
}

/// Every congestion control that there is.
const CONGESTION_CONTROLS: &str = "reno cubic bbr lia olia balia wvegas\n";
const SCHEDULERS: &str = "mptcp/available_schedulers";
/// What cannot be set, and whether it can be opened for writing all the same.
const FIXED: [(&str, &str, bool); 4] = [
    ("ipv4/tcp_available_congestion_control", CONGESTION_CONTROLS, false),
    ("ipv4/tcp_allowed_congestion_control", CONGESTION_CONTROLS, true),
    // The block says which.
    (SCHEDULERS, "", false),
    ("mptcp/available_path_managers", "kernel userspace\n", false),
];

/// The folder of an interface in a name below /proc/sys/net, `ipv4/conf/eth0/forwarding`, and what has the same settings for the whole node.
fn of_interface(name: &str) -> Option<(&str, String)> {
    let (family, rest) = name.split_once("/conf/")?;
    let (interface, setting) = rest.split_once('/')?;
    let whole = format!("{family}/conf/all/{setting}");
    let known = find(&whole).is_some() || KEPT.iter().any(|(name, ..)| *name == whole);
    (interface != "all" && matches!(family, "ipv4" | "ipv6") && known).then_some((interface, whole))
}

/// The name under which the node has a setting: a folder below `conf` for each of its interfaces, and `default`, have what `all` has, as far as a parameter
/// stands for it. Blocks have it for the whole node.
pub(super) fn known_as(name: &str, outside: &mut dyn Outside) -> String {
    if find(name).is_some() {
        return name.to_owned();
    }
    let Some((interface, whole)) = of_interface(name).filter(|_| own(name).is_none()) else { return name.to_owned() };
    let there = interface == "default" || is_interface(interface, outside);
    if there { whole } else { name.to_owned() }
}

fn is_interface(name: &str, outside: &mut dyn Outside) -> bool {
    tables::interfaces(outside.stack()).iter().any(|row| row.name == name)
}

/// A setting that an interface has for itself.
struct Own<'a> {
    interface: &'a str,
    block: &'static str,
    procedure: &'static str,
    argument: &'static str,
}

fn own(name: &str) -> Option<Own<'_>> {
    let (interface, setting) = name.strip_prefix("ipv6/conf/")?.split_once('/')?;
    let (_, block, procedure, argument) = OF_AN_INTERFACE.iter().find(|(known, ..)| *known == setting)?;
    (!matches!(interface, "all" | "default")).then_some(Own { interface, block, procedure, argument })
}

impl Own<'_> {
    /// What it says; `value`: what is set before.
    fn exec(&self, value: Option<bool>, outside: &mut dyn Outside) -> Option<Value> {
        let mut arguments = serde_json::json!({ "interface": self.interface });
        if let Some(value) = value {
            arguments[self.argument] = value.into();
        }
        let target = Selector::Name(self.block.to_owned());
        let answer = outside.control(Op::Exec { target, procedure: self.procedure.to_owned(), arguments })?;
        Some(answer.get(self.block).cloned().unwrap_or(answer))
    }
}

/// Is there such a file below /proc/sys/net, or such a folder, of the node's: of one of its interfaces?
pub(super) fn is_there(name: &str, outside: &mut dyn Outside) -> Option<There> {
    let is_file = |name: &str| is_writable(name, false).is_some();
    if let Some(own) = own(name) {
        return is_interface(own.interface, outside).then_some(There::File);
    }
    if is_file(&known_as(name, outside)) {
        return Some(There::File);
    }
    (name.contains("/conf/") && is_file(&known_as(&format!("{name}/forwarding"), outside))).then_some(There::Folder)
}

/// May root open a file below /proc/sys/net for writing? `there`: the kernel has opened one of that name. None: the kernel is to say what it is.
pub(super) fn is_writable(name: &str, there: bool) -> Option<bool> {
    let fixed = FIXED.iter().find(|(known, ..)| *known == name).map(|(.., writable)| *writable);
    let known = || find(name).is_some() || KEPT.iter().any(|(kept, ..)| *kept == name);
    fixed.or_else(|| (there || known()).then_some(true))
}

/// The text of a setting by its name below /proc/sys/net; None: it is none of the node's.
pub(super) fn read(name: &str, written: &BTreeMap<&str, String>, outside: &mut dyn Outside) -> Option<String> {
    if let Some(line) = written.get(name) {
        return Some(line.clone() + "\n");
    }
    // The names are of a kernel with Multipath TCP; a node without it has none of them.
    if name.starts_with("mptcp/") && get(outside, "mptcp", "enabled").is_none() {
        return None;
    }
    if name == SCHEDULERS {
        return get(outside, "mptcp", "available_schedulers").and_then(|names| Some(names.as_str()?.to_owned() + "\n"));
    }
    if let Some((_, text, _)) = FIXED.iter().find(|(known, ..)| *known == name) {
        return Some((*text).to_owned());
    }
    if let Some(own) = own(name) {
        return is_interface(own.interface, outside)
            .then(|| own.exec(None, outside).and_then(|value| shown(Form::Flag, &value)))
            .flatten()
            .map(|text| text + "\n");
    }
    if let Some((.., shown)) = KEPT.iter().find(|(known, ..)| *known == name) {
        return Some(format!("{shown}\n"));
    }
    let (_, form, parameters) = SETTINGS.iter().find(|(known, ..)| *known == name)?;
    let values: Option<Vec<String>> = parameters.iter().map(|(block, name)| shown(*form, &get(outside, block, name)?)).collect();
    Some(values?.join("\t") + "\n")
}

fn get(outside: &mut dyn Outside, block: &str, name: &str) -> Option<Value> {
    let answer = outside.control(Op::Get { target: Selector::Name(block.to_owned()), name: Some(name.to_owned()) })?;
    answer.get(block).cloned()
}

fn shown(form: Form, value: &Value) -> Option<String> {
    let span = || match value {
        Value::String(text) => parse_duration(text).ok(),
        other => other.as_u64().map(Duration::from_nanos),
    };
    match form {
        Form::Word => value.as_str().map(str::to_owned),
        Form::Number => value.as_u64().map(|number| number.to_string()),
        Form::Flag => value.as_bool().map(|is| u8::from(is).to_string()),
        Form::Not => value.as_bool().map(|is| u8::from(!is).to_string()),
        Form::On(number) => value.as_bool().map(|is| if is { number.to_string() } else { "0".to_owned() }),
        Form::Seconds => span().map(|span| span.as_secs().to_string()),
        Form::Milliseconds => span().map(|span| span.as_millis().to_string()),
        Form::Microseconds => span().map(|span| span.as_micros().to_string()),
        Form::Nanoseconds => span().map(|span| span.as_nanos().to_string()),
        Form::Pages => value.as_u64().map(|bytes| (bytes / PAGE).to_string()),
        Form::Is(named, _) => value.as_str().map(|value| u8::from(value == named).to_string()),
        Form::OneOf(words) => {
            let value = value.as_str()?;
            words.iter().find(|(_, known)| *known == value).or(words.first()).map(|(word, _)| (*word).to_owned())
        }
    }
}

fn meant(form: Form, text: &str) -> Option<Value> {
    match form {
        Form::Word => return Some(text.into()),
        Form::OneOf(words) => return words.iter().find(|(word, _)| *word == text).map(|(_, value)| (*value).into()),
        _ => {}
    }
    let number: u64 = text.parse().ok()?;
    Some(match form {
        Form::Flag => (number != 0).into(),
        Form::Not => (number == 0).into(),
        Form::On(on) => (number == 0 || number == on).then_some(number == on)?.into(),
        Form::Seconds => number.checked_mul(1_000_000_000)?.into(),
        Form::Milliseconds => number.checked_mul(1_000_000)?.into(),
        Form::Microseconds => number.checked_mul(1_000)?.into(),
        Form::Nanoseconds => number.into(),
        Form::Pages => number.checked_mul(PAGE)?.into(),
        Form::Is(named, other) => [other, named].get(usize::try_from(number).ok()?).copied()?.into(),
        Form::Word | Form::OneOf(_) | Form::Number => number.into(),
    })
}

/// What is shown of a line that changes nothing.
fn keep(kind: Kept, only: &str, line: &[u8]) -> Result<String, Errno> {
    let invalid = Errno(libc::EINVAL);
    if kind == Kept::Name {
        let word: String = line.iter().take_while(|byte| !matches!(byte, 0 | b'\n')).map(|byte| char::from(*byte)).collect();
        let fits = (1..NAME_BYTES_MAX).contains(&word.len()) && word.chars().all(|one| one.is_ascii_alphanumeric() || one == '_');
        // sch_default: "default qdisc not found".
        return if fits { Ok(word) } else { Err(Errno(libc::ENOENT)) };
    }
    let said = parse(Form::Number, line, 1);
    let number = said.values.first().filter(|_| !said.wrong).ok_or(invalid)?.to_string();
    if kind == Kept::Only && number != only { Err(invalid) } else { Ok(number) }
}

/// Its two values are taken together (net/ipv4/sysctl_net_ipv4.c, ipv4_local_port_range); of other lines those before a wrong one stay.
const TOGETHER: &str = "ipv4/ip_local_port_range";

/// What a line says.
#[derive(Debug, PartialEq)]
struct Said {
    values: Vec<Value>,
    /// Bytes up to and with the blanks behind the last value.
    used: usize,
    /// What stands behind the values is none.
    wrong: bool,
}

/// kernel/sysctl.c, strtoul_lenient with base 0: "0x" before sixteens, "0" before eights.
fn number(digits: &str) -> Option<String> {
    let parsed = match (digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")), digits.strip_prefix('0')) {
        (Some(rest), _) => u64::from_str_radix(rest, 16),
        (None, Some(rest)) if !rest.is_empty() => u64::from_str_radix(rest, 8),
        _ => digits.parse(),
    };
    // from_str_radix takes a sign; of the kernel's numbers none has a plus.
    parsed.ok().filter(|_| digits.starts_with(|c: char| c.is_ascii_digit()) && !digits.contains('+')).map(|number| number.to_string())
}

/// Up to `most` values from the beginning of a line, as __do_proc_dointvec reads them: blanks, a number, and one of `proc_wspace_sep` behind it.
fn parse(form: Form, line: &[u8], most: usize) -> Said {
    // isspace of the kernel.
    let blanks = |at: usize| line[at..].iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    let mut said = Said { values: Vec::new(), used: 0, wrong: false };
    for _ in 0..most {
        said.used += blanks(said.used);
        let rest = &line[said.used..];
        if rest.is_empty() {
            break;
        }
        let word = rest.iter().position(|byte| matches!(byte, b' ' | b'\t' | b'\n')).map_or(rest, |end| &rest[..end]);
        match std::str::from_utf8(word).ok().and_then(number).and_then(|text| meant(form, &text)) {
            Some(value) => said.values.push(value),
            None => {
                said.wrong = true;
                return said;
            }
        }
        said.used += word.len();
    }
    said.used += blanks(said.used);
    // "if (!write && !first && left && !err) …; if (write && !err && left) left -= proc_skip_spaces(&p, &left); if (write && first) return err ? : -EINVAL;"
    said.wrong = said.values.is_empty();
    said
}

/// Sets what a line says, and how many bytes of it were taken: what follows the last value is nobody's. EINVAL as proc_dointvec and its kind give it, ENOENT
/// for a word that is none.
fn write(name: &str, line: &[u8], outside: &mut dyn Outside) -> Result<usize, Errno> {
    let invalid = Errno(libc::EINVAL);
    if let Some(own) = own(name) {
        let said = parse(Form::Flag, line, 1);
        let value = said.values.first().and_then(Value::as_bool).filter(|_| !said.wrong).ok_or(invalid)?;
        return own.exec(Some(value), outside).map(|_| said.used).ok_or(invalid);
    }
    let (_, form, parameters) = SETTINGS.iter().find(|(known, ..)| *known == name).ok_or(invalid)?;
    let set = |outside: &mut dyn Outside, (block, name): (&str, &str), value| {
        outside.control(Op::Set { target: Selector::Name(block.to_owned()), name: name.to_owned(), value })
    };
    // What it is already stays: of values that are no other word here there may be several.
    let stays = |before: Option<&Value>, value: &Value| {
        matches!(form, Form::Is(..) | Form::OneOf(_)) && before.is_some_and(|before| shown(*form, before) == shown(*form, value))
    };
    if form.is_word() {
        // _proc_do_string: "if (c == 0 || c == '\n') break;"
        let word = line.split(|byte| matches!(byte, 0 | b'\n')).next().unwrap_or_default();
        let taken = parameters.first().zip(meant(*form, &String::from_utf8_lossy(word))).and_then(|(parameter, value)| {
            let before = get(outside, parameter.0, parameter.1);
            if stays(before.as_ref(), &value) { before } else { set(outside, *parameter, value) }
        });
        return taken.map(|_| line.len()).ok_or(Errno(libc::ENOENT));
    }
    let said = parse(*form, line, parameters.len());
    if said.wrong && (name == TOGETHER || said.values.is_empty()) {
        return Err(invalid);
    }
    let before: Vec<Option<Value>> = parameters.iter().map(|(block, name)| get(outside, block, name)).collect();
    for (at, (parameter, value)) in parameters.iter().zip(said.values).enumerate() {
        if !stays(before[at].as_ref(), &value) && set(outside, *parameter, value).is_none() {
            for (parameter, value) in parameters.iter().zip(&before).take(if name == TOGETHER { at } else { 0 }) {
                if let Some(value) = value {
                    let _ = set(outside, *parameter, value.clone());
                }
            }
            return Err(invalid);
        }
    }
    match (said.wrong, OF_A_BYTE.contains(&name)) {
        (true, _) => Err(invalid),
        (false, true) => Ok(line.len()),
        (false, false) => Ok(said.used),
    }
}

/// As [`write`], of a setting that no parameter may stand for, too: such lines are kept, and shown.
pub(super) fn change(
    name: &str,
    line: &[u8],
    written: &mut BTreeMap<&'static str, String>,
    outside: &mut dyn Outside,
) -> Result<usize, Errno> {
    match KEPT.iter().find(|(known, ..)| *known == name) {
        Some((name, kind, only)) => keep(*kind, only, line).map(|shown| {
            written.insert(name, shown);
            line.len()
        }),
        None => write(name, line, outside),
    }
}

/// Names of all files of the node's below /proc/sys/net. `interfaces`: by their names.
pub(super) fn files(interfaces: &[String]) -> Vec<String> {
    let mut all: Vec<String> =
        names().chain(KEPT.iter().map(|(name, ..)| *name)).chain(FIXED.iter().map(|(name, ..)| *name)).map(str::to_owned).collect();
    let of_all: Vec<(String, String)> = all
        .iter()
        .filter_map(|name| name.split_once("/conf/all/").map(|(family, setting)| (family.to_owned(), setting.to_owned())))
        .collect();
    for interface in interfaces.iter().map(String::as_str).chain(["default"]) {
        all.extend(of_all.iter().map(|(family, setting)| format!("{family}/conf/{interface}/{setting}")));
        if interface != "default" {
            all.extend(OF_AN_INTERFACE.iter().map(|(setting, ..)| format!("ipv6/conf/{interface}/{setting}")));
        }
    }
    all.sort();
    all.dedup();
    all
}

/// lseek(2) of a file without a size (fs/read_write.c, default_llseek).
fn seek(position: usize, offset: i64, whence: i32) -> Result<usize, Errno> {
    let from = match whence {
        libc::SEEK_SET | libc::SEEK_END => 0,
        libc::SEEK_CUR => position as i64,
        // "In the generic case the entire file is data, so as long as offset isn't at the end of the file then the offset is data."
        libc::SEEK_DATA | libc::SEEK_HOLE if offset >= 0 => return Err(Errno(libc::ENXIO)),
        // "… there is a virtual hole at the end of the file, so as long as offset isn't i_size or larger, return i_size."
        libc::SEEK_HOLE => return Ok(0),
        libc::SEEK_DATA => 0,
        _ => return Err(Errno(libc::EINVAL)),
    };
    let at = from.checked_add(offset).filter(|at| *at >= 0).ok_or(Errno(libc::EINVAL))?;
    Ok(at as usize)
}

/// rw_verify_area: what ends beyond the largest place there is.
fn check_end(position: usize, bytes: u64) -> Result<(), Errno> {
    let end = (position as u64).checked_add(bytes).and_then(|end| i64::try_from(end).ok());
    end.map(|_| ()).ok_or(Errno(libc::EINVAL))
}

impl Tree {
    /// write(2) to a file below /proc/sys/net that was opened for writing: how many bytes it takes.
    fn write_setting(
        &mut self,
        name: &str,
        [address, bytes]: [u64; 2],
        position: usize,
        caller: &Caller<'_>,
        outside: &mut dyn Outside,
    ) -> Result<usize, Errno> {
        // vfs_write asks access_ok first; then fs/proc/proc_sysctl.c: "don't even try if the size is too large".
        if address.checked_add(bytes).is_none_or(|end| end > ADDRESS_END) {
            return Err(Errno(libc::EFAULT));
        }
        check_end(position, bytes)?;
        if bytes >= TOO_LARGE {
            return Err(Errno(libc::ENOMEM));
        }
        // "sysctl_writes_strict": what is written anywhere but at the beginning is ignored.
        if bytes == 0 || position != 0 {
            return Ok(bytes as usize);
        }
        let mut text = vec![0; (bytes as usize).min(VALUE_BYTES_MAX)];
        caller.read(address, &mut text)?;
        let done = change(name, &text, &mut self.settings_written, outside);
        // What programs were shown of sockets may be another now.
        self.shows.disturbed();
        match done {
            // Of a line that is longer than any that was looked at.
            Ok(used) if used == text.len() => Ok(bytes as usize),
            Ok(used) => Ok(used),
            Err(errno) => {
                let line = String::from_utf8_lossy(&text).into_owned();
                let request = format!("/proc/sys/net/{name} = {}", line.trim().escape_debug());
                tracing::warn!(node = %self.config.name, "a program could not set {request}: {errno:?}");
                self.calls.unsupported(request, errno);
                Err(errno)
            }
        }
    }

    /// write(2) to such a file.
    fn write_to(
        &mut self,
        thread: ThreadId,
        of: &Written,
        [address, bytes]: [u64; 2],
        position: usize,
        caller: &Caller<'_>,
        outside: &mut dyn Outside,
    ) -> Result<usize, Errno> {
        let (pid, file) = match of {
            Written::Node(name) => return self.write_setting(name, [address, bytes], position, caller, outside),
            Written::Interface(name, file) => {
                // kernfs_fop_write_iter takes a page at a time.
                let mut text = vec![0; (bytes as usize).min(sys_net::WRITTEN_BYTES_MAX)];
                caller.read(address, &mut text)?;
                sys_net::write(name, file, &text, outside.stack())?;
                self.shows.disturbed();
                return Ok(text.len());
            }
            Written::Process(pid, file) => (*pid, *file),
        };
        let mut text = vec![0; (bytes as usize).min(VALUE_BYTES_MAX)];
        caller.read(address, &mut text)?;
        let rights = self.rights_of(thread);
        self.own_files(pid)?.write(file, &text, position, rights)
    }

    /// "task = get_proc_task(file_inode(file)); if (!task) return -ESRCH;"
    fn own_files(&mut self, pid: u32) -> Result<&mut OwnFiles, Errno> {
        let process = self.tasks.process_by_pid(pid);
        process.and_then(|process| self.tasks.processes.get_mut(&process)).map(|one| &mut one.own_files).ok_or(Errno(libc::ESRCH))
    }

    /// What a read of such a file shows that begins at `position`.
    fn shown(&mut self, of: &Written, position: usize, outside: &mut dyn Outside) -> Result<Vec<u8>, Errno> {
        match of {
            Written::Node(name) => {
                let text = read(name, &self.settings_written, outside).unwrap_or_default();
                Ok(left(name, text.as_bytes(), position).to_vec())
            }
            Written::Interface(name, file) => {
                let text = sys_net::read(name, file, outside.stack())?;
                Ok(text.as_bytes().get(position..).unwrap_or_default().to_vec())
            }
            Written::Process(pid, file) => {
                let text = self.own_files(*pid)?.text(*file);
                Ok(text.as_bytes().get(position..).unwrap_or_default().to_vec())
            }
        }
    }

    /// Calls on such a file.
    pub(super) fn setting_call(
        &mut self,
        thread: ThreadId,
        of: &Written,
        position: usize,
        posted: &Posted,
        caller: &Caller<'_>,
        outside: &mut dyn Outside,
    ) -> Result<Outcome, Errno> {
        let a = &posted.arguments;
        let number = posted.number as i64;
        // pread(2) and pwrite(2) leave the file where it is.
        let placed = matches!(number, libc::SYS_pread64 | libc::SYS_pwrite64);
        let at = if placed { a[3] as usize } else { position };
        let moved = match number {
            libc::SYS_lseek => {
                let to = seek(position, a[1] as i64, posted.int(2))?;
                self.stand(posted, to);
                return Ok(Outcome::Done(to as i64));
            }
            libc::SYS_write | libc::SYS_pwrite64 => self.write_to(thread, of, [a[1], a[2]], at, caller, outside)?,
            // Of a gathered write, as the C library makes none of such files, the first piece.
            libc::SYS_writev => {
                let mut first = [0_u8; 16];
                caller.read(a[1], &mut first)?;
                let piece = [0, 8].map(|at| first.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_ne_bytes));
                self.write_to(thread, of, piece, at, caller, outside)?
            }
            libc::SYS_read | libc::SYS_pread64 => {
                check_end(at, a[2])?;
                let rest = self.shown(of, at, outside)?;
                let piece = rest.get(..(a[2] as usize).min(rest.len())).unwrap_or_default();
                caller.write(a[1], piece)?;
                piece.len()
            }
            _ => return Err(Errno(libc::EINVAL)),
        };
        if !placed {
            self.stand(posted, position.saturating_add(moved));
        }
        Ok(Outcome::Done(moved as i64))
    }

    /// The next call begins there.
    fn stand(&mut self, posted: &Posted, to: usize) {
        if let Some(Body::Setting { position, .. }) = self.objects.body_mut(posted.inode()) {
            *position = to;
        }
    }
}

/// What a read shows that begins at `position`. Words go on where the last read ended (_proc_do_string); of numbers Linux shows nothing but at the beginning:
/// kernel/sysctl.c, __do_proc_dointvec, "if (!tbl_data || !table->maxlen || !*lenp || (*ppos && !write)) { *lenp = 0; return 0; }".
pub(super) fn left<'a>(name: &str, text: &'a [u8], position: usize) -> &'a [u8] {
    let words = !SETTINGS.iter().any(|(known, form, _)| *known == name && !form.is_word());
    if position == 0 || words { text.get(position..).unwrap_or_default() } else { &[] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Each line was written to such a file of Linux 6.18, in a network namespace; used: what write(2) returned.
    #[test]
    fn lines_are_read_as_linux_reads_them() {
        let rows: [(&str, usize, &[u64], usize, bool); 16] = [
            ("30 40", 1, &[30], 3, false),
            ("38   39", 1, &[38], 5, false),
            ("  39   40", 1, &[39], 7, false),
            ("32\n33", 1, &[32], 3, false),
            ("\n41", 1, &[41], 3, false),
            ("33x", 1, &[], 0, true),
            ("36-37", 1, &[], 0, true),
            (" ", 1, &[], 1, true),
            ("0x10", 1, &[16], 4, false),
            ("010", 1, &[8], 3, false),
            ("0+7", 1, &[], 0, true),
            ("0x+7", 1, &[], 0, true),
            ("41\0 7", 1, &[], 0, true),
            ("41 \0 7", 1, &[41], 3, false),
            ("4096 5000 6000 7000", 3, &[4096, 5000, 6000], 15, false),
            ("4098 x 6001", 3, &[4098], 5, true),
        ];
        for (line, most, values, used, wrong) in rows {
            let wanted = Said { values: values.iter().map(|value| json!(value)).collect(), used, wrong };
            assert_eq!(parse(Form::Number, line.as_bytes(), most), wanted, "{line:?}");
        }
        assert_eq!(
            (seek(7, -3, libc::SEEK_CUR), seek(7, 5, libc::SEEK_END), seek(7, i64::MAX, libc::SEEK_SET)),
            (Ok(4), Ok(5), Ok(i64::MAX as usize))
        );
        for (offset, whence, errno) in [
            (-1, libc::SEEK_SET, libc::EINVAL),
            (0, libc::SEEK_DATA, libc::ENXIO),
            (-1, libc::SEEK_DATA, libc::EINVAL),
            (0, 9, libc::EINVAL),
        ] {
            assert_eq!(seek(0, offset, whence), Err(Errno(errno)));
        }
        let whole = |name: &str| of_interface(name).map(|(interface, whole)| format!("{interface} {whole}"));
        assert_eq!(whole("ipv4/conf/eth0.7/forwarding").as_deref(), Some("eth0.7 ipv4/conf/all/forwarding"));
        assert_eq!(whole("ipv6/conf/default/hop_limit").as_deref(), Some("default ipv6/conf/all/hop_limit"));
        for other in [
            "ipv4/conf/all/forwarding",
            "ipv4/conf/eth0/arp_ignore",
            "ipv4/conf/eth0",
            "ipv4/conf/a/b/forwarding",
            "core/conf/eth0/forwarding",
        ] {
            assert_eq!(whole(other), None, "{other}");
        }
        assert!(OF_A_BYTE.iter().all(|name| find(name).is_some()) && find(TOGETHER).is_some());
    }

    const MANAGERS: Form = Form::OneOf(&[("kernel", "all"), ("userspace", "userspace")]);

    #[test]
    fn values_are_written_as_linux_writes_them() {
        let rows = [
            (Form::Word, json!("reno"), "reno"),
            (Form::Number, json!(7), "7"),
            (Form::Flag, json!(true), "1"),
            (Form::Not, json!(true), "0"),
            (Form::Seconds, json!("7200s"), "7200"),
            (Form::Milliseconds, json!("500ms"), "500"),
            (Form::Microseconds, json!("200ms"), "200000"),
            (Form::Nanoseconds, json!("1ms"), "1000000"),
            (Form::On(2), json!(true), "2"),
            (Form::On(2), json!(false), "0"),
            (Form::Pages, json!(8192), "2"),
            (MANAGERS, json!("userspace"), "userspace"),
            (MANAGERS, json!("ndiffports"), "kernel"),
        ];
        for (form, value, text) in rows {
            assert_eq!(shown(form, &value).as_deref(), Some(text), "{form:?}");
        }
        assert_eq!(meant(Form::Seconds, "2"), Some(json!(2_000_000_000_u64)));
        assert_eq!(meant(Form::Pages, "2"), Some(json!(8192)));
        assert_eq!(meant(Form::Flag, "yes"), None);
        assert_eq!(["kernel", "userspace", "all"].map(|text| meant(MANAGERS, text)), [Some(json!("all")), Some(json!("userspace")), None]);
        assert_eq!(find("mptcp/path_manager").map(Row::takes).as_deref(), Some("kernel or userspace"));
        assert_eq!(["0", "2", "1"].map(|text| meant(Form::On(2), text)), [Some(json!(false)), Some(json!(true)), None]);
        assert_eq!(
            (keep(Kept::Numbers, "", b" 5000\n"), keep(Kept::Numbers, "", b"much")),
            (Ok("5000".to_owned()), Err(Errno(libc::EINVAL)))
        );
        assert_eq!((keep(Kept::Only, "1", b"1"), keep(Kept::Only, "1", b"0")), (Ok("1".to_owned()), Err(Errno(libc::EINVAL))));
        assert_eq!((keep(Kept::Name, "", b"fq\n"), keep(Kept::Name, "", b"a/b")), (Ok("fq".to_owned()), Err(Errno(libc::ENOENT))));
        let line = |name: &str, line: &str| find(name).and_then(|row| row.assignments(line));
        assert_eq!(line("ipv4/tcp_fin_timeout", "30"), Some(vec!["tcp.fin_timeout=30s".to_owned()]));
        assert_eq!(line("ipv4/tcp_rmem", "4096\t8192"), Some(vec!["tcp.rmem_min=4096".to_owned(), "tcp.rmem_default=8192".to_owned()]));
        assert_eq!((line("ipv4/tcp_fin_timeout", "30 30"), line("ipv4/tcp_sack", "")), (None, None));
        let mut listed: Vec<&str> = CONGESTION_CONTROLS.split_whitespace().collect();
        let mut there = weft_tcp::congestion::NAMES.to_vec();
        listed.sort_unstable();
        there.sort_unstable();
        assert_eq!(listed, there, "the congestion controls that tcp has");
        let kept = KEPT.iter().map(|(name, ..)| *name);
        let mut known: Vec<&str> = names().chain(FIXED.iter().map(|(name, ..)| *name)).chain(kept).collect();
        known.sort_unstable();
        assert!(known.windows(2).all(|two| two[0] != two[1]), "a name stands twice: {known:?}");
    }
}
