//! What a node has as files: those of its section, folders of the host's that it has beside, and the folder that is its
//! root.

use super::draft::NodeDraft;
use super::raw::{Mounted, OwnText};
use super::source::Source;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use weft_node::Spanned;
use weft_node::StackError;
use weft_process::{Files, Mount, OwnFile, Wanted};

/// The folder that is its root, and the files that it has beside.
pub(super) fn own_files(source: &Source<'_>, draft: &NodeDraft) -> Result<Files, StackError> {
    let root = draft.section.root.as_ref().map(|root| {
        let folder = source.beside(root.get_ref());
        match folder.is_dir() {
            true => Ok(folder),
            false => Err(source.error(
                root.span(),
                format!("'{}' is no folder", folder.display()),
                "name one that is like /: with bin, etc, usr …",
            )),
        }
    });
    let mut files = Files { root: root.transpose()?, mounts: mounts(source, draft)?, ..Files::default() };
    for (path, file) in &draft.section.files {
        if !is_place(path.get_ref()) {
            return Err(source.error(
                path.span(),
                format!("'{}' is no place for a file", path.get_ref()),
                "write it as \"/srv/www/index.html\"",
            ));
        }
        if let Some(folder) = reserved(path.get_ref()) {
            let what = format!("nobody puts files into {folder}/");
            let help =
                "/dev, /proc, /sys and /run/weft are the node's; for /proc/sys/net there are sysctls = { \"net.ipv4.ip_forward\" = 1 }";
            return Err(source.error(path.span(), what, help));
        }
        if let Some(mount) = files.mounts.iter().find(|mount| covers(mount, Path::new(path.get_ref()))) {
            return Err(hidden(source, path, mount));
        }
        let (contents, executable) = contents(source, draft, file)?;
        files.own.push(OwnFile { path: path.get_ref().into(), contents: contents.into(), executable });
    }
    Ok(files)
}

/// What is in a file of the node's, and whether it can be executed: as the one that it comes from, and scripts.
fn contents(source: &Source<'_>, draft: &NodeDraft, file: &Spanned<OwnText>) -> Result<(Vec<u8>, bool), StackError> {
    let from = match file.get_ref() {
        OwnText::Text(text) => return Ok((text.clone().into_bytes(), text.starts_with("#!"))),
        OwnText::From(from) => from,
    };
    let name = draft.expand(&from.from);
    let wrong = |what: String, help: &str| source.error(file.span(), what, help);
    let mut contents = (source.read)(&name).map_err(|why| {
        wrong(format!("cannot read '{name}': {why}"), "a name that does not begin with / is looked for beside the scenario")
    })?;
    if from.expand {
        let text = String::from_utf8(contents)
            .map_err(|_| wrong(format!("'{name}' is no text, in which {{n}} could stand"), "leave out expand"))?;
        contents = draft.expand(&text).into_bytes();
    }
    let mode = std::fs::metadata(source.beside(&name)).map_or(0, |found| found.permissions().mode());
    let executable = contents.starts_with(b"#!") || mode & 0o100 != 0;
    Ok((contents, executable))
}

/// Folders of the host that it has beside.
fn mounts(source: &Source<'_>, draft: &NodeDraft) -> Result<Vec<Mount>, StackError> {
    let mount = |(to, from): (&Spanned<String>, &Spanned<Mounted>)| {
        let path = to.get_ref();
        if !is_place(path) || reserved(path).is_some() {
            return Err(source.error(
                to.span(),
                format!("'{path}' is no place for a folder"),
                "write it as \"/data\"; /dev, /proc and /sys are the node's",
            ));
        }
        let from = &from.get_ref().from;
        let folder = source.beside(from.get_ref());
        match folder.canonicalize() {
            Ok(folder) if folder.is_dir() => Ok(Mount { from: folder, to: path.into(), writable: false }),
            _ => Err(source.error(
                from.span(),
                format!("'{}' is no folder", folder.display()),
                "name one by its path, or from the folder of the scenario on",
            )),
        }
    };
    draft.section.mounts.iter().map(mount).collect()
}

/// Files that are taken out of a node when it ends.
pub(super) fn collected(source: &Source<'_>, patterns: &[Spanned<String>]) -> Result<Vec<String>, StackError> {
    let pattern = |text: &Spanned<String>| {
        let found = Wanted::new(std::slice::from_ref(text.get_ref()));
        let wrong = |(pattern, why)| source.error(text.span(), format!("'{pattern}' names no files: {why}"), "write it as \"/var/log/**\"");
        found.map(|_| text.get_ref().clone()).map_err(wrong)
    };
    patterns.iter().map(pattern).collect()
}

/// Would this file lie below a folder that is mounted, or that folder below the file?
pub(super) fn covers(mount: &Mount, file: &Path) -> bool {
    file.starts_with(&mount.to) || mount.to.starts_with(file)
}

/// A mount lies over everything that is there otherwise.
pub(super) fn hidden(source: &Source<'_>, path: &Spanned<String>, mount: &Mount) -> StackError {
    let what = format!("nobody would see '{}': the folder {} is mounted at '{}'", path.get_ref(), mount.from.display(), mount.to.display());
    source.error(path.span(), what, "put the file into that folder, or somewhere else")
}

/// Nothing of the scenario's can be there.
const RESERVED: [&str; 4] = ["/dev", "/proc", "/sys", "/run/weft"];

/// In which of these it would be.
fn reserved(path: &str) -> Option<&'static str> {
    RESERVED.into_iter().find(|reserved| Path::new(path).starts_with(reserved))
}

/// Can something of the scenario's be there: an absolute path in its shortest form?
fn is_place(path: &str) -> bool {
    path.strip_prefix('/').is_some_and(|below| below.split('/').all(|part| !matches!(part, "" | "." | "..")))
}
