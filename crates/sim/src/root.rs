//! Folders that are `/` for nodes: their digest, by which two of them are known to be the same.

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fs::{Metadata, Permissions};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// What is in such a folder.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Root {
    /// Regular files.
    pub files: u64,
    /// In them.
    pub bytes: u64,
    /// SHA-256 over all entries in the order of their paths: kind, permissions, time of modification (of files, in seconds), path, and contents or where a link
    /// leads. Owners are left out: in a node all files are root's.
    pub digest: String,
}

/// Where the digest of a folder stands.
fn place(folder: &Path) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".digest.json");
    folder.with_file_name(name)
}

/// Writes the digest beside the folder.
///
/// # Errors
/// The file cannot be written.
pub fn say(folder: &Path, root: &Root) -> io::Result<()> {
    std::fs::write(place(folder), format!("{}\n", serde_json::to_string_pretty(root)?))
}

/// What the file beside a folder says; None: there is none.
pub fn said(folder: &Path) -> Option<Root> {
    let real = folder.canonicalize().ok()?;
    serde_json::from_slice(&std::fs::read(place(&real)).ok()?).ok()
}

/// Reads everything in a folder.
///
/// # Errors
/// Something cannot be read.
pub fn digest(folder: &Path) -> io::Result<Root> {
    let (mut hash, mut files, mut bytes) = (Sha256::new(), 0, 0);
    walk(folder, Path::new(""), &mut |path, found| {
        let of_kind: (u8, u64, Vec<u8>) = if found.is_symlink() {
            (b'l', 0, std::fs::read_link(folder.join(path))?.as_os_str().as_bytes().to_vec())
        } else if found.is_dir() {
            (b'd', 0, Vec::new())
        } else if found.is_file() {
            files += 1;
            bytes += found.len();
            (b'f', found.mtime().unsigned_abs(), of_file(&folder.join(path))?)
        } else {
            (b'o', 0, Vec::new())
        };
        let (kind, time, contents) = of_kind;
        hash.update([kind]);
        hash.update((found.mode() & 0o7777).to_le_bytes());
        hash.update(time.to_le_bytes());
        for part in [path.as_os_str().as_bytes(), &contents] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Ok(())
    })?;
    let digest = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Root { files, bytes, digest })
}

fn of_file(path: &Path) -> io::Result<Vec<u8>> {
    let (mut file, mut hash, mut piece) = (std::fs::File::open(path)?, Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hash.finalize().to_vec()),
            count => hash.update(&piece[..count]),
        }
    }
}

/// Takes away what would have power on the host and none in a node, where all are root and have devices of their own: device nodes, and the set-ID bits of
/// files.
///
/// # Errors
/// Something cannot be changed.
pub fn disarm(folder: &Path) -> io::Result<()> {
    walk(folder, Path::new(""), &mut |path, found| {
        let place = folder.join(path);
        let kind = found.file_type();
        if kind.is_block_device() || kind.is_char_device() {
            return std::fs::remove_file(place);
        }
        match found.is_file() && found.mode() & SET_IDS != 0 {
            true => std::fs::set_permissions(place, Permissions::from_mode(found.mode() & 0o7777 & !SET_IDS)),
            false => Ok(()),
        }
    })
}

/// S_ISUID and S_ISGID (inode(7)).
const SET_IDS: u32 = 0o6000;

/// Makes no file newer than a time, in seconds since 1970.
///
/// # Errors
/// A time cannot be set.
pub fn settle(folder: &Path, newest: u64) -> io::Result<()> {
    let newest = i64::try_from(newest).unwrap_or(i64::MAX);
    let at = |seconds: i64| Timespec { tv_sec: seconds, tv_nsec: 0 };
    walk(folder, Path::new(""), &mut |path, found| {
        let time = at(found.mtime().min(newest));
        Ok(utimensat(CWD, folder.join(path), &Timestamps { last_access: time, last_modification: time }, AtFlags::SYMLINK_NOFOLLOW)?)
    })
}

/// Everything below a folder; of each folder first what is in it, in the order of names.
fn walk(folder: &Path, below: &Path, see: &mut dyn FnMut(&Path, &Metadata) -> io::Result<()>) -> io::Result<()> {
    let mut entries = std::fs::read_dir(folder.join(below))?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = below.join(entry.file_name());
        let found = entry.metadata()?;
        if found.is_dir() {
            walk(folder, &path, see)?;
        }
        see(&path, &found)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn make(folder: &Path) {
        std::fs::create_dir_all(folder.join("usr/bin")).unwrap();
        std::fs::write(folder.join("usr/bin/x"), "program").unwrap();
        symlink("usr/bin", folder.join("bin")).unwrap();
        settle(folder, 1_000_000_000).unwrap();
    }

    #[test]
    fn nothing_has_power_on_the_host() {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path());
        let mode = |path: &str| folder.path().join(path).symlink_metadata().unwrap().mode() & 0o7777;
        std::fs::set_permissions(folder.path().join("usr/bin/x"), Permissions::from_mode(0o6755)).unwrap();
        std::fs::set_permissions(folder.path().join("usr"), Permissions::from_mode(0o2775)).unwrap();
        symlink("/usr/bin/su", folder.path().join("su")).unwrap();
        disarm(folder.path()).unwrap();
        assert_eq!((mode("usr/bin/x"), mode("usr")), (0o755, 0o2775));
        assert!(folder.path().join("su").is_symlink());
    }

    #[test]
    fn two_folders_with_the_same_in_them_have_one_digest_and_any_change_makes_another() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        make(&one);
        make(&two);
        let first = digest(&one).unwrap();
        assert_eq!((first.files, first.bytes, &first), (1, 7, &digest(&two).unwrap()));
        let changes: [&dyn Fn(); 4] = [
            &|| std::fs::set_permissions(two.join("usr/bin/x"), Permissions::from_mode(0o755)).unwrap(),
            &|| std::fs::write(two.join("usr/bin/x"), "progrbm").unwrap(),
            &|| std::fs::rename(two.join("usr/bin/x"), two.join("usr/bin/y")).unwrap(),
            &|| symlink("elsewhere", two.join("lib")).unwrap(),
        ];
        let mut seen = vec![first.digest.clone()];
        for change in changes {
            change();
            settle(&two, 1_000_000_000).unwrap();
            let found = digest(&two).unwrap().digest;
            assert!(!seen.contains(&found));
            seen.push(found);
        }
        say(&one, &first).unwrap();
        assert_eq!((said(&one), said(&two)), (Some(first), None));
    }
}
