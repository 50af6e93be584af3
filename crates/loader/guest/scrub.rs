//! Answers of the kernel that would tell real time, chance or the host, made plain: they come back as they would from a machine that the node has to itself.

use crate::abi;
use crate::arena::header;
use crate::arena::is_own_machine;
use crate::identity;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;

/// Does a descriptor say what becomes of files (inotify), which is to be made plain?
pub fn tells_of_files(word: u64) -> bool {
    word & abi::INOTIFY != 0 && is_own_machine()
}

/// The kernel counts renames for all of the host (fsnotify_get_cookie); a program sees 1, 2, 3 … Last number of the kernel's, and of ours.
static mut COOKIES: [u32; 2] = [0; 2];

/// What was read from an inotify descriptor.
pub fn inotify(at: usize, bytes: usize) -> Result<(), isize> {
    // struct inotify_event: wd, mask, cookie, len, then the name.
    let mut offset = 0;
    while offset + 16 <= bytes {
        let cookie = sys::read_u32(at + offset + 8)?;
        if cookie != 0 {
            // SAFETY: one thread runs at a time.
            let [last, ours] = unsafe { &mut *(&raw mut COOKIES) };
            if cookie != *last {
                (*last, *ours) = (cookie, ours.wrapping_add(1));
            }
            sys::write_u32(at + offset + 8, *ours)?;
        }
        offset += 16 + sys::read_u32(at + offset + 12)? as usize;
    }
    Ok(())
}

const SOL_SOCKET: u32 = 1;
/// SCM_TIMESTAMP, SCM_TIMESTAMPNS, and those of 64 bits on machines of 32.
const MICROSECONDS: [u32; 2] = [29, 63];
const NANOSECONDS: [u32; 2] = [35, 64];

/// SCM_CREDENTIALS.
const CREDENTIALS: u32 = 2;

/// Control messages of an AF_UNIX socket: when something was sent is the present; who sent it is who that is in the node.
pub fn control(message: usize) -> Result<(), isize> {
    // struct msghdr: msg_control at 32, msg_controllen at 40.
    let (mut at, mut left) = (sys::read_u64(message + 32)? as usize, sys::read_u64(message + 40)? as usize);
    let now = header().present(abi::Clock::Realtime);
    while at != 0 && left >= 16 {
        let length = sys::read_u64(at)? as usize;
        let (level, kind) = (sys::read_u32(at + 8)?, sys::read_u32(at + 12)?);
        let micro = MICROSECONDS.contains(&kind);
        if level == SOL_SOCKET && length >= 32 && (micro || NANOSECONDS.contains(&kind)) {
            sys::write_u64(at + 16, now / 1_000_000_000)?;
            sys::write_u64(at + 24, now % 1_000_000_000 / if micro { 1000 } else { 1 })?;
        }
        if level == SOL_SOCKET && kind == CREDENTIALS && length >= 28 {
            // struct ucred: pid, uid, gid.
            if let Some([user, group]) = identity::real_of(crate::block::current(), sys::read_u32(at + 16)?) {
                sys::write_u32(at + 20, user)?;
                sys::write_u32(at + 24, group)?;
            }
        }
        let step = length.next_multiple_of(8);
        if step < 16 || step > left {
            break;
        }
        (at, left) = (at + step, left - step);
    }
    Ok(())
}

/// Asked about by number of the ioctl: what a file system knows of a file (generation, blocks on the disk) is chance or the host's.
pub fn hides(request: usize) -> bool {
    // FS_IOC_GETVERSION, FS_IOC_FIEMAP, FIBMAP; and what came after Linux 6.1 with numbers of the host's: FS_IOC_GETFSUUID, FS_IOC_GETFSSYSFSPATH, NS_GET_MNTNS_ID,
    // NS_MNT_GET_INFO and its two neighbours, NS_GET_ID; PIDFD_GET_INFO of any size.
    let of_host = [0x8008_7601, 0xc020_660b, 1, 0x8011_1500, 0x8081_1501, 0x8008_b705, 0x8010_b70a, 0x8010_b70b, 0x8010_b70c, 0x8008_b70d];
    (of_host.contains(&request) || request & 0xffff == 0xff0b) && is_own_machine()
}
