//! A new stand-in in the place of one that does not serve any more: at the numbers that the process has for it, and in the process's epolls.
//!
//! An epoll knows a member by its file and its number. So whoever puts the new file there needs it at the very number that the program uses, in a table
//! of descriptors: a thread with a table of its own does that ([`sys::with_own_table`]).

use super::pidfds::Pidfds;
use super::state::Supervisor;
use crate::call::Call;
use crate::sys::{self, Errno, Member};
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use weft_intercept::calls::Calls;

/// Most descriptors of a process that are looked at.
const DESCRIPTORS_MAX: usize = 4096;
/// Most bytes that are read of what an epoll watches: about 12,000 members.
const FDINFO_BYTES_MAX: u64 = 1 << 20;

/// A stand-in that has taken another's place, but in no epoll yet. Where it has not (see [`Supervisor::exchange`]), epolls watch the old one as before.
#[derive(Debug)]
pub(crate) struct Exchanged {
    tid: u32,
    /// The program's end of the one, and of the other. They are held only as long as the call lasts.
    pub old: OwnedFd,
    pub new: OwnedFd,
    epolls: Vec<i32>,
}

impl Supervisor {
    /// Puts a stand-in's new end in the place of its old one, at `fd` and where the program has a duplicate. While other threads run, only at `fd`:
    /// they may close a duplicate at this moment, and open something else.
    ///
    /// # Errors
    /// The call was cancelled; then nothing has changed.
    pub(crate) fn exchange(&mut self, call: &Call, fd: i32, old: OwnedFd, new: OwnedFd) -> Result<Exchanged, Errno> {
        let tree = self.trees.get(call.tree).ok_or(Errno(libc::ENOENT))?;
        let places = Places::of(call.tid, sys::inode(old.as_fd())?);
        tree.replace(call.id, new.as_fd(), fd, sys::is_close_on_exec(call.tid, fd))?;
        if is_alone(call.tid) {
            for number in places.numbers.into_iter().filter(|number| *number != fd) {
                let _ = tree.replace(call.id, new.as_fd(), number, sys::is_close_on_exec(call.tid, number));
            }
        }
        if places.cut {
            self.calls
                .unsupported(format!("a socket used again by a program with more than {DESCRIPTORS_MAX} descriptors"), Errno(libc::ENFILE));
        }
        Ok(Exchanged { tid: call.tid, old, new, epolls: places.epolls })
    }

    /// The epolls that watched the old stand-in watch the new one from now on. It should show by now what the program shall see.
    pub(crate) fn move_in_epolls(&mut self, exchanged: Exchanged) {
        let Supervisor { pidfds, calls, .. } = self;
        exchanged.move_in_epolls(pidfds, calls);
    }
}

impl Exchanged {
    fn move_in_epolls(self, pidfds: &mut Pidfds, calls: &mut Calls) {
        let Exchanged { tid, old, new, epolls } = self;
        let Ok(inode) = sys::inode(old.as_fd()) else { return };
        for epoll in epolls {
            let (mut members, cut) = members(&Path::new("/proc").join(format!("{tid}/fdinfo/{epoll}")), inode);
            if cut {
                calls.unsupported("a socket used again that is in an epoll of more than 10,000".to_owned(), Errno(libc::ENFILE));
            }
            // A number that still leads to the old file is a duplicate that keeps it, and what the program does with that is about this member. One that
            // leads elsewhere is the new one's, or was closed: then the member lives by the file alone, which is gone.
            members.retain(|one| !leads_to(tid, one.number, inode));
            if members.is_empty() {
                continue;
            }
            let Ok(epoll) = pidfds.borrow(tid, epoll) else { continue };
            let moved = sys::with_own_table(|| sys::move_in_epoll(epoll.as_fd(), &members, old.as_fd(), new.as_fd()));
            if let Err(errno) | Ok(Err(errno)) = moved {
                calls.unsupported("a socket used again that is in an epoll".to_owned(), errno);
            }
        }
    }
}

/// Where a process has a stand-in, and its epolls.
#[derive(Debug, Default)]
struct Places {
    numbers: Vec<i32>,
    epolls: Vec<i32>,
    /// There are more than were looked at.
    cut: bool,
}

impl Places {
    fn of(tid: u32, inode: u64) -> Places {
        let mut found = Places::default();
        let wanted = format!("socket:[{inode}]");
        let Ok(descriptors) = std::fs::read_dir(format!("/proc/{tid}/fd")) else { return found };
        for (index, descriptor) in descriptors.flatten().enumerate() {
            if index == DESCRIPTORS_MAX {
                found.cut = true;
                break;
            }
            let Some(number) = descriptor.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            match std::fs::read_link(descriptor.path()) {
                Ok(target) if target.as_os_str() == wanted.as_str() => found.numbers.push(number),
                Ok(target) if target.as_os_str() == "anon_inode:[eventpoll]" => found.epolls.push(number),
                _ => {}
            }
        }
        found
    }
}

/// Is a process's descriptor this socket?
fn leads_to(tid: u32, number: i32, inode: u64) -> bool {
    std::fs::read_link(format!("/proc/{tid}/fd/{number}")).is_ok_and(|target| target.as_os_str() == format!("socket:[{inode}]").as_str())
}

/// Has the thread's process no other?
fn is_alone(tid: u32) -> bool {
    std::fs::read_dir(format!("/proc/{tid}/task")).is_ok_and(|tasks| tasks.count() == 1)
}

/// The members of an epoll that are this file. True: there is more than was read.
fn members(fdinfo: &Path, inode: u64) -> (Vec<Member>, bool) {
    let mut text = String::new();
    let Ok(file) = std::fs::File::open(fdinfo) else { return (Vec::new(), false) };
    if file.take(FDINFO_BYTES_MAX).read_to_string(&mut text).is_err() {
        return (Vec::new(), false);
    }
    (text.lines().filter_map(|line| member(line, inode)).collect(), text.len() as u64 == FDINFO_BYTES_MAX)
}

/// proc_pid_fdinfo(5): "tfd:        9 events:       19 data: 74253d2500000009 pos:0 ino:8c8 sdev:9", all but the number and the position in base 16.
fn member(line: &str, inode: u64) -> Option<Member> {
    let spaced = line.replace(':', ": ");
    let words: Vec<&str> = spaced.split_ascii_whitespace().collect();
    let of = |name: &str| words.windows(2).find(|pair| pair[0] == name).map(|pair| pair[1]);
    let hexadecimal = |name: &str| of(name).and_then(|word| u64::from_str_radix(word, 16).ok());
    let number = of("tfd:")?.parse().ok()?;
    (hexadecimal("ino:")? == inode).then_some(Member { number, events: hexadecimal("events:")? as u32, data: hexadecimal("data:")? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    fn ready(epoll: &OwnedFd) -> Vec<(u32, u64)> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
        // SAFETY: four events of ours.
        let count = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), 4, 0) };
        events[..count.max(0) as usize].iter().map(|event| (event.events, event.u64)).collect()
    }

    fn control(epoll: &OwnedFd, what: i32, fd: i32, events: i32, data: u64) -> i32 {
        let mut event = libc::epoll_event { events: events as u32, u64: data };
        // SAFETY: one event of ours.
        unsafe { libc::epoll_ctl(epoll.as_raw_fd(), what, fd, &raw mut event) }
    }

    #[test]
    fn an_epoll_watches_the_new_file_where_the_old_one_is_no_more() {
        const DATA: u64 = 0x1234_5678_9abc_def0;
        let epoll = weft_intercept::sys::epoll().unwrap();
        let (old, old_peer) = sys::unix_pair(libc::SOCK_STREAM).unwrap();
        let (new, new_peer) = sys::unix_pair(libc::SOCK_STREAM).unwrap();
        let (tid, inode) = (std::process::id(), sys::inode(old.as_fd()).unwrap());
        // Three members: one whose number gets the new file, a duplicate that keeps the old one, and one whose number is closed.
        let [replaced, keeps, closed] = [(); 3].map(|()| old.try_clone().unwrap());
        for (one, data) in [(&replaced, DATA), (&keeps, 7), (&closed, 8)] {
            assert_eq!(control(&epoll, libc::EPOLL_CTL_ADD, one.as_raw_fd(), libc::EPOLLIN, data), 0);
        }
        let places = Places::of(tid, inode);
        assert!(
            [&replaced, &keeps].iter().all(|one| places.numbers.contains(&one.as_raw_fd())) && places.epolls.contains(&epoll.as_raw_fd())
        );
        let exchanged = Exchanged { tid, old: old.try_clone().unwrap(), new: new.try_clone().unwrap(), epolls: vec![epoll.as_raw_fd()] };
        drop(closed);
        // SAFETY: takes no pointers.
        assert_eq!(unsafe { libc::dup2(new.as_raw_fd(), replaced.as_raw_fd()) }, replaced.as_raw_fd());

        exchanged.move_in_epolls(&mut Pidfds::default(), &mut Calls::default());
        let mut shown = ready(&epoll);
        assert!(shown.is_empty(), "nothing has come");
        sys::send_vectors(new_peer.as_fd(), &[b"x"], 0).unwrap();
        shown = ready(&epoll);
        shown.sort_unstable();
        assert_eq!(shown, [(1, 8), (1, DATA)]);
        // The program can change and remove what it has, by the numbers that it has.
        for one in [&replaced, &keeps] {
            assert_eq!(control(&epoll, libc::EPOLL_CTL_MOD, one.as_raw_fd(), libc::EPOLLIN, 9), 0);
        }
        sys::send_vectors(old_peer.as_fd(), &[b"y"], 0).unwrap();
        shown = ready(&epoll);
        shown.sort_unstable();
        assert_eq!(shown, [(1, 8), (1, 9), (1, 9)]);
        for one in [&replaced, &keeps] {
            assert_eq!(control(&epoll, libc::EPOLL_CTL_DEL, one.as_raw_fd(), 0, 0), 0);
        }
    }

    #[test]
    fn a_member_that_somebody_has_taken_out_does_not_come_back() {
        let epoll = weft_intercept::sys::epoll().unwrap();
        let (old, _old_peer) = sys::unix_pair(libc::SOCK_STREAM).unwrap();
        let (new, _new_peer) = sys::unix_pair(libc::SOCK_STREAM).unwrap();
        let member = Member { number: old.as_raw_fd(), events: libc::EPOLLOUT as u32, data: 1 };
        let move_it = || sys::move_in_epoll(epoll.as_fd(), &[member], old.as_fd(), new.as_fd());
        assert_eq!(sys::with_own_table(move_it).unwrap(), Ok(()));
        assert!(ready(&epoll).is_empty());
    }

    #[test]
    fn members_may_have_the_numbers_that_the_mover_has_for_what_it_moves() {
        let epoll = weft_intercept::sys::epoll().unwrap();
        let (old, _old_peer) = sys::unix_pair(libc::SOCK_STREAM).unwrap();
        let (new, new_peer) = sys::unix_pair(libc::SOCK_STREAM).unwrap();
        let mut numbers = [old.as_raw_fd(), new.as_raw_fd(), epoll.as_raw_fd()];
        let (watched, watcher) = (old.try_clone().unwrap(), epoll.try_clone().unwrap());
        let watch = || {
            for number in numbers {
                // SAFETY: takes no pointers; the numbers are this thread's own.
                assert_eq!(unsafe { libc::dup2(watched.as_raw_fd(), number) }, number);
                assert_eq!(control(&watcher, libc::EPOLL_CTL_ADD, number, libc::EPOLLIN, number as u64), 0);
            }
        };
        sys::with_own_table(watch).unwrap();
        for order in 0..numbers.len() {
            numbers.rotate_left(order);
            let members = numbers.map(|number| Member { number, events: libc::EPOLLIN as u32, data: number as u64 });
            let (from, to) = if order % 2 == 0 { (&old, &new) } else { (&new, &old) };
            let moved = sys::with_own_table(|| sys::move_in_epoll(epoll.as_fd(), &members, from.as_fd(), to.as_fd()));
            assert_eq!(moved.unwrap(), Ok(()));
        }
        sys::send_vectors(new_peer.as_fd(), &[b"x"], 0).unwrap();
        let mut shown = ready(&epoll);
        shown.sort_unstable();
        numbers.sort_unstable();
        assert_eq!(shown, numbers.map(|number| (1, number as u64)));
    }

    #[test]
    fn lines_of_fdinfo() {
        let line = "tfd:       12 events: 4000001d data: ffffffffffffffff  pos:0 ino:61af sdev:7";
        assert_eq!(member(line, 0x61af), Some(Member { number: 12, events: 0x4000_001d, data: u64::MAX }));
        assert_eq!(member(line, 0x61ae), None);
        for other in ["", "pos:\t0", "tfd:", "tfd: x events: 1 data: 1 pos:0 ino:61af sdev:7", "tfd: 1 events: 1 data: 1"] {
            assert_eq!(member(other, 0x61af), None, "{other}");
        }
    }
}
