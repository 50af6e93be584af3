//! execve: everything that can fail is decided first; then the loader is executed in the program's place.

use crate::abi;
use crate::arena::header;
use crate::block::Thread;
use crate::call::files::note_executed;
use crate::calls::number as nr;
use crate::channel::post;
use crate::descriptor;
use crate::elf;
use crate::sys;
use crate::thread;
use core::sync::atomic::Ordering::Relaxed;

/// Scripts whose interpreter is a script, and so on (fs/exec.c: "This allows 4 levels of binfmt rewrites before failing hard").
const SCRIPTS_MAX: usize = 5;
/// BINPRM_BUF_SIZE
const HEAD_BYTES: usize = 256;

/// A buffer of a few paths, from one mapping.
struct Room {
    at: usize,
    used: usize,
    bytes: usize,
}

impl Room {
    fn new(bytes: usize) -> Result<Room, isize> {
        let at = sys::map(bytes).ok_or(sys::ENOMEM)?;
        Ok(Room { at, used: 0, bytes })
    }
    fn take(&mut self, bytes: usize) -> Result<&'static mut [u8], isize> {
        if self.used + bytes > self.bytes {
            return Err(sys::E2BIG);
        }
        let at = self.at + self.used;
        self.used += bytes.next_multiple_of(8);
        // SAFETY: a piece of a private mapping that nobody else has.
        Ok(unsafe { core::slice::from_raw_parts_mut(at as *mut u8, bytes) })
    }
    /// A text with a zero at its end; returns where.
    fn text(&mut self, text: &[u8]) -> Result<usize, isize> {
        let into = self.take(text.len() + 1)?;
        into[..text.len()].copy_from_slice(text);
        into[text.len()] = 0;
        Ok(into.as_ptr() as usize)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        sys::unmap(self.at, self.bytes);
    }
}

fn count(list: usize) -> Result<usize, isize> {
    const MAX: usize = 1 << 20;
    if list == 0 {
        return Ok(0);
    }
    for index in 0..MAX {
        if sys::read_u64(list + 8 * index)? == 0 {
            return Ok(index);
        }
    }
    Err(sys::E2BIG)
}

/// execve(2). Returns only when it fails.
pub fn execve(t: &mut Thread, path: usize, arguments: usize, environment: usize) -> isize {
    match prepare_and_go(t, path, arguments, environment) {
        Ok(errno) | Err(errno) => errno,
    }
}

fn prepare_and_go(t: &mut Thread, path: usize, arguments: usize, environment: usize) -> Result<isize, isize> {
    let given = count(arguments)?;
    let mut room = Room::new(64 * 1024 + (given + 2 + 2 * SCRIPTS_MAX) * 8)?;
    let buffer = room.take(abi::PATH_BYTES)?;
    let length = sys::copy_string(path, buffer)?.len();
    let name = &buffer[..length];
    // The list of arguments grows at the front by what scripts say.
    let spare = 2 * SCRIPTS_MAX;
    let list = room.take((spare + given.max(1) + 1) * 8)?.as_mut_ptr() as usize;
    for index in 0..given {
        sys::write_u64(list + (spare + index) * 8, sys::read_u64(arguments + 8 * index)?)?;
    }
    if given == 0 {
        // do_execveat_common: "process '%s' launched '%s' with NULL argv: empty string added"
        sys::write_u64(list + spare * 8, room.text(b"")? as u64)?;
    }
    sys::write_u64(list + (spare + given.max(1)) * 8, 0)?;
    let mut first = spare;
    let own_name = if is_self(name) { Some(own(t, &mut room)?) } else { None };
    let mut target = room.text(own_name.unwrap_or(name))?;
    for depth in 0.. {
        let fd = open_executable(target)?;
        let mut head = [0_u8; HEAD_BYTES];
        let bytes = sys::call(nr::PREAD64, &[fd, head.as_mut_ptr() as usize, HEAD_BYTES, 0]);
        let script = bytes >= 2 && head.starts_with(b"#!");
        let checked = if script { Ok(()) } else { check_image(fd) };
        if checked.is_ok() {
            note_executed(fd);
            if !script {
                remember_executable(t, fd);
            }
        }
        sys::call(nr::CLOSE, &[fd]);
        checked?;
        if !script {
            break;
        }
        if depth == SCRIPTS_MAX {
            return Err(sys::ELOOP);
        }
        let (interpreter, argument) = parse_script(&head[2..bytes.max(2) as usize])?;
        // argv[0] gives way to the script's path; before it, its argument; before that, the interpreter.
        sys::write_u64(list + first * 8, target as u64)?;
        if let Some(argument) = argument {
            first -= 1;
            sys::write_u64(list + first * 8, room.text(argument)? as u64)?;
        }
        first -= 1;
        target = room.text(interpreter)?;
        sys::write_u64(list + first * 8, target as u64)?;
    }
    // SAFETY: a text of the room, with a zero at its end.
    let target = unsafe { core::ffi::CStr::from_ptr(target as *const core::ffi::c_char) }.to_bytes_with_nul();
    if target.len() + length + 1 > abi::PATH_BYTES {
        return Err(sys::ENAMETOOLONG);
    }
    Ok(go(t, target, &buffer[..=length], list + first * 8, environment))
}

/// Puts what the new image must know where it finds it, and executes the loader.
fn go(t: &mut Thread, target: &[u8], name: &[u8], arguments: usize, environment: usize) -> isize {
    if t.strict.on {
        return crate::strict::next::execute(t, target, name, arguments, environment);
    }
    thread::leave_memory(t);
    let result = post(t, abi::EXEC, &[]);
    if result < 0 {
        return result as isize;
    }
    t.process.target.put(0, target);
    t.process.target.put(target.len(), name);
    thread::leave_block(t);
    let errno = execute(t.channel_index(), arguments, environment);
    thread::take_block_again(t);
    post(t, abi::EXEC_FAILED, &[-errno as u64]);
    errno
}

/// Executes the loader for the thread of a channel. Returns an errno.
pub fn execute(channel: usize, arguments: usize, environment: usize) -> isize {
    header().exec_channel.store(channel as u32, Relaxed);
    const AT_EMPTY_PATH: usize = 0x1000;
    sys::unblock_all();
    let empty = [0_u8];
    sys::call(nr::EXECVEAT, &[abi::DESCRIPTOR_LOADER as usize, empty.as_ptr() as usize, arguments, environment, AT_EMPTY_PATH])
}

fn is_self(path: &[u8]) -> bool {
    path == b"/proc/self/exe"
}
fn own<'a>(t: &Thread, room: &mut Room) -> Result<&'a [u8], isize> {
    let into = room.take(abi::PATH_BYTES)?;
    t.process.executable.get(0, into);
    let length = into.iter().position(|byte| *byte == 0).unwrap_or(0);
    Ok(&into[..length])
}

fn open_executable(path: usize) -> Result<usize, isize> {
    // X_OK first: a file that may be executed but not read cannot be loaded here, and is EACCES too.
    let allowed = sys::call(nr::ACCESS, &[path, 1]);
    if allowed < 0 {
        return Err(allowed);
    }
    let fd = sys::call(nr::OPENAT, &[sys::AT_FDCWD, path, 0x8_0800, 0]);
    if fd < 0 {
        return Err(if fd == sys::EISDIR { sys::EACCES } else { fd });
    }
    let mut stat = [0_u32; 36];
    sys::call(nr::FSTAT, &[fd as usize, stat.as_mut_ptr() as usize]);
    if stat[6] & 0o170_000 != 0o100_000 {
        sys::call(nr::CLOSE, &[fd as usize]);
        return Err(sys::EACCES);
    }
    Ok(fd as usize)
}

/// Is it an image that the loader can load, with an interpreter that is there?
fn check_image(fd: usize) -> Result<(), isize> {
    let mut path = [0_u8; 512];
    let length = elf::interpreter(fd, &mut path[..511])?;
    if length > 0 {
        path[length] = 0;
        let there = sys::call(nr::ACCESS, &[path.as_ptr() as usize, 4]);
        if there < 0 {
            return Err(there);
        }
    }
    Ok(())
}

/// /proc/self/exe of the new image.
fn remember_executable(t: &Thread, fd: usize) {
    let mut path = [0_u8; abi::PATH_BYTES];
    let length = descriptor::target(fd, &mut path[..abi::PATH_BYTES - 1]);
    path[length.max(0) as usize] = 0;
    t.process.executable.put(0, &path[..=length.max(0) as usize]);
}

/// `#!interpreter [argument]` (fs/binfmt_script.c).
fn parse_script(line: &[u8]) -> Result<(&[u8], Option<&[u8]>), isize> {
    let blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
    let end = line.iter().position(|byte| *byte == b'\n').unwrap_or(line.len());
    let line = &line[..end];
    let start = line.iter().position(|byte| !blank(byte)).ok_or(sys::ENOEXEC)?;
    let line = &line[start..];
    let end = line.iter().rposition(|byte| !blank(byte)).map_or(0, |last| last + 1);
    let line = &line[..end];
    let split = line.iter().position(|byte| blank(byte) || *byte == 0).unwrap_or(line.len());
    let rest = &line[split..];
    let argument = rest.iter().position(|byte| !blank(byte) && *byte != 0).map(|at| &rest[at..]);
    if split == 0 { Err(sys::ENOEXEC) } else { Ok((&line[..split], argument)) }
}
