//! Files that tell of a node's network, by their paths: /proc/net, /proc/sys/net and /sys/class/net. For who shows them to programs that the loader does not run.

use super::outside::Outside;
use super::proc_files::{COUNTED, counted};
use super::settings;
use std::collections::BTreeMap;
use weft_intercept::sys::Errno;
use weft_intercept::{proc_net, sys_net, tables};

/// Where files of the first kind are.
pub const PROC_NET: &str = "/proc/net";
/// Where those of interfaces are.
pub const DEVICES: &str = "/sys/class/net";
/// And settings.
pub const SETTINGS: &str = "/proc/sys/net";
/// Sockets of this family are the host's kernel's for such programs.
const OF_THE_HOST: &str = "unix";
/// And its setting, which they may read.
const SETTING_OF_THE_HOST: &str = "unix/max_dgram_qlen";

/// What stands at a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A file.
    File {
        /// May it be written?
        writable: bool,
    },
}

/// The files.
#[derive(Debug, Default)]
pub struct NetworkFiles {
    /// Lines of settings for which no parameter of a block stands.
    written: BTreeMap<&'static str, String>,
}

impl NetworkFiles {
    /// What stands at an absolute path.
    pub fn look(&mut self, path: &str, outside: &mut dyn Outside) -> Option<Kind> {
        if let Some(name) = below(path, PROC_NET) {
            let there = in_proc_net().any(|known| known == name);
            return if name.is_empty() { Some(Kind::Folder) } else { there.then_some(Kind::File { writable: false }) };
        }
        if let Some(name) = below(path, DEVICES) {
            return device(name, outside);
        }
        let name = below(path, SETTINGS)?;
        if self.setting(name, outside).is_some() {
            return Some(file(name, outside));
        }
        files(outside).iter().any(|one| below(one, name).is_some() && self.setting(one, outside).is_some()).then_some(Kind::Folder)
    }

    /// What is in a folder, by its names in their order.
    pub fn list(&mut self, path: &str, outside: &mut dyn Outside) -> BTreeMap<String, Kind> {
        if path == PROC_NET {
            return in_proc_net().map(|name| (name.to_owned(), Kind::File { writable: false })).collect();
        }
        if let Some(folder) = below(path, DEVICES) {
            return in_devices(folder, outside);
        }
        let Some(folder) = below(path, SETTINGS) else { return BTreeMap::new() };
        let mut there = BTreeMap::new();
        for one in files(outside) {
            let Some(rest) = below(&one, folder) else { continue };
            match rest.split_once('/') {
                Some((name, _)) if there.contains_key(name) || self.setting(&one, outside).is_none() => {}
                Some((name, _)) => {
                    there.insert(name.to_owned(), Kind::Folder);
                }
                None if self.setting(&one, outside).is_some() => {
                    there.insert(rest.to_owned(), file(&one, outside));
                }
                None => {}
            }
        }
        there
    }

    /// What a file says now.
    ///
    /// # Errors
    /// ENOENT: it is not there, or not any more.
    pub fn read(&mut self, path: &str, outside: &mut dyn Outside) -> Result<Vec<u8>, Errno> {
        if let Some((interface, file)) = below(path, DEVICES).and_then(|name| name.split_once('/')) {
            sys_net::is_writable(file).ok_or(Errno(libc::ENOENT))?;
            return sys_net::read(interface, file, outside.stack()).map(String::into_bytes);
        }
        let text = match (below(path, PROC_NET), below(path, SETTINGS)) {
            (Some(OF_THE_HOST), _) => std::fs::read_to_string(format!("{PROC_NET}/{OF_THE_HOST}")).ok(),
            (Some(name), _) => proc_net::file(name, outside.stack()).or_else(|| counted(name, outside)),
            (_, Some(name)) => self.setting(name, outside),
            (None, None) => None,
        };
        text.map(String::into_bytes).ok_or(Errno(libc::ENOENT))
    }

    /// Writes to a setting, from its beginning: how many of these bytes it takes.
    ///
    /// # Errors
    /// Those of Linux: EINVAL, ENOENT; EACCES where nothing may be written.
    pub fn write(&mut self, path: &str, bytes: &[u8], outside: &mut dyn Outside) -> Result<usize, Errno> {
        if let Some((interface, file)) = below(path, DEVICES).and_then(|name| name.split_once('/')) {
            sys_net::is_writable(file).ok_or(Errno(libc::ENOENT))?;
            let line = bytes.get(..sys_net::WRITTEN_BYTES_MAX).unwrap_or(bytes);
            return sys_net::write(interface, file, line, outside.stack()).map(|()| bytes.len());
        }
        let Some(name) = below(path, SETTINGS) else { return Err(Errno(libc::EACCES)) };
        let line = bytes.get(..settings::VALUE_BYTES_MAX).unwrap_or(bytes);
        let used = settings::change(&settings::known_as(name, outside), line, &mut self.written, outside)?;
        // Of a line that is longer than any that was looked at.
        Ok(if used == line.len() { bytes.len() } else { used })
    }

    /// The line of a setting; a block that is not there has none.
    fn setting(&self, name: &str, outside: &mut dyn Outside) -> Option<String> {
        if name == SETTING_OF_THE_HOST {
            return std::fs::read_to_string(format!("{SETTINGS}/{name}")).ok();
        }
        settings::read(&settings::known_as(name, outside), &self.written, outside)
    }
}

/// What a read shows that begins behind the beginning of a file which said this there.
pub fn rest<'a>(path: &str, text: &'a [u8], at: usize) -> &'a [u8] {
    match below(path, SETTINGS) {
        Some(name) => settings::left(name, text, at),
        None => text.get(at..).unwrap_or_default(),
    }
}

/// Names of the files below /proc/net.
fn in_proc_net() -> impl Iterator<Item = &'static str> {
    proc_net::names().chain(COUNTED).chain([OF_THE_HOST])
}

fn file(setting: &str, outside: &mut dyn Outside) -> Kind {
    Kind::File {
        writable: setting != SETTING_OF_THE_HOST && settings::is_writable(&settings::known_as(setting, outside), true).unwrap_or(false),
    }
}

/// What stands below /sys/class/net. Linux has links there, to folders elsewhere; here they are the folders.
fn device(name: &str, outside: &mut dyn Outside) -> Option<Kind> {
    if name.is_empty() {
        return Some(Kind::Folder);
    }
    let (interface, file) = name.split_once('/').unwrap_or((name, ""));
    sys_net::names(outside.stack()).iter().find(|one| *one == interface)?;
    let is_folder = file.is_empty() || sys_net::FILES.iter().any(|(one, _)| one.strip_suffix('/') == Some(file));
    if is_folder { Some(Kind::Folder) } else { sys_net::is_writable(file).map(|writable| Kind::File { writable }) }
}

fn in_devices(folder: &str, outside: &mut dyn Outside) -> BTreeMap<String, Kind> {
    if folder.is_empty() {
        return sys_net::names(outside.stack()).into_iter().map(|name| (name, Kind::Folder)).collect();
    }
    let folder = folder.split_once('/').map_or("", |(_, folder)| folder);
    let entry = |(name, writable): &(&str, bool)| {
        let rest = below(name, folder)?;
        match (rest.strip_suffix('/').unwrap_or(rest), rest.ends_with('/')) {
            ("", _) => None,
            (own, _) if own.contains('/') => None,
            (own, true) => Some((own.to_owned(), Kind::Folder)),
            (own, false) => Some((own.to_owned(), Kind::File { writable: *writable })),
        }
    };
    sys_net::FILES.iter().filter_map(entry).collect()
}

/// Names of all settings, those of blocks that are not there, too.
fn files(outside: &mut dyn Outside) -> Vec<String> {
    let interfaces: Vec<String> = tables::interfaces(outside.stack()).into_iter().map(|row| row.name).collect();
    let mut all = settings::files(&interfaces);
    all.push(SETTING_OF_THE_HOST.to_owned());
    all
}

/// What of a path stands below a folder; nothing of the folder itself.
fn below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    if folder.is_empty() {
        return Some(path);
    }
    match path.strip_prefix(folder)? {
        "" => Some(""),
        rest => rest.strip_prefix('/'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_below_a_folder_and_not_beside_it() {
        assert_eq!(below("/proc/net/dev", PROC_NET), Some("dev"));
        assert_eq!(below("/proc/net", PROC_NET), Some(""));
        assert_eq!(below("/proc/network", PROC_NET), None);
        assert_eq!(below("ipv4/conf/all/forwarding", "ipv4/conf"), Some("all/forwarding"));
        assert_eq!(below("ipv4", ""), Some("ipv4"));
    }
}
