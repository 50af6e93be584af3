//! Snapshots as files: written as a whole or not at all, readable to their owner only, and read with bounds.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use weft_core::snapshot::SNAPSHOT_BYTES_MAX;

/// Attempts to find a name that nobody has.
const NAMES_MAX: u32 = 100;

/// Writes a snapshot under a name of the moment in the same folder, with mode 0600, and gives it its own when it is complete: who reads the file sees the
/// old content or the new.
///
/// # Errors
/// What is in the way, and what to do. Nothing is left behind.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if let Ok(found) = path.symlink_metadata()
        && !found.is_file()
    {
        return Err("something is there that is no file: name another one".to_owned());
    }
    let (mut file, temporary) = create(path).map_err(|error| cannot(&error))?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| std::fs::rename(&temporary, path));
    drop(file);
    written.map_err(|error| {
        let _ = std::fs::remove_file(&temporary);
        cannot(&error)
    })
}

/// Reads a file that may be a snapshot, as far as its length and kind say.
///
/// # Errors
/// What it is instead.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    // A FIFO would wait for its writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| cannot(&errno.into()))?;
    let file = File::from(file);
    let facts = file.metadata().map_err(|error| cannot(&error))?;
    if !facts.is_file() {
        return Err("it is no file: name one that `weft snapshot` wrote".to_owned());
    }
    let max = SNAPSHOT_BYTES_MAX as u64;
    if facts.len() > max {
        return Err(format!("it has {} bytes, more than the {max} that a snapshot may have", facts.len()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(facts.len()).unwrap_or_default());
    file.take(max + 1).read_to_end(&mut bytes).map_err(|error| cannot(&error))?;
    Ok(bytes)
}

fn cannot(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file or folder".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied: weft may not write or read there".to_owned(),
        _ => error.to_string(),
    }
}

/// A new file beside `path`.
fn create(path: &Path) -> io::Result<(File, PathBuf)> {
    let name = path.file_name().ok_or_else(|| io::Error::other("it names no file"))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for number in 0..NAMES_MAX {
        let mut temporary = std::ffi::OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{}-{number}", std::process::id()));
        let temporary = path.with_file_name(temporary);
        match rustix::fs::open(&temporary, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => return Ok((File::from(file), temporary)),
            Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    #[test]
    fn a_file_is_there_as_a_whole_and_its_owners_only() {
        let folder = std::env::temp_dir().join(format!("weft-snapshot-file-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.snapshot");
        for content in [&b"first"[..], b"second"] {
            write(&path, content).unwrap();
            assert_eq!(read(&path).unwrap(), content);
            assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o600);
        }
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing of the moment is left");
        symlink("a.snapshot", folder.join("link")).unwrap();
        for (wrong, why) in
            [(folder.clone(), "something is there"), (folder.join("link"), "something is there"), (folder.join("no/b"), "no such file")]
        {
            assert!(write(&wrong, b"x").unwrap_err().contains(why), "{}", wrong.display());
        }
        assert_eq!(read(&path).unwrap(), b"second");
        for (wrong, why) in
            [(folder.clone(), "it is no file"), (folder.join("none"), "no such file"), ("/dev/zero".into(), "it is no file")]
        {
            assert!(read(&wrong).unwrap_err().contains(why), "{}", wrong.display());
        }
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.join("fifo"), Mode::RUSR).unwrap();
        assert!(read(&folder.join("fifo")).unwrap_err().contains("it is no file"));
        let large = folder.join("large");
        File::create(&large).unwrap().set_len(SNAPSHOT_BYTES_MAX as u64 + 1).unwrap();
        assert!(read(&large).unwrap_err().contains("more than the 1073741824"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
