//! Flags of calls, with their names as in the kernel's headers (include/uapi/linux, asm-generic; x86-64).

use super::types::{Argument, Shown};

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident { $($flag:ident = $bits:literal),* $(,)? })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(transparent)]
        pub struct $name(pub usize);

        impl $name {
            /// As the kernel takes it.
            pub fn get(self) -> usize {
                self.0
            }
        }

        impl Argument for $name {
            const SHOWN: Shown = Shown::Flags(&[$((stringify!($flag), $bits)),*]);
            const NAME: &'static str = "int";
            fn of(word: usize) -> Self {
                Self(word)
            }
            fn word(self) -> usize {
                self.0
            }
        }
    )* };
}

flags! {
    /// Of sending and receiving (linux/socket.h).
    MsgFlags {
        MSG_OOB = 0x1, MSG_PEEK = 0x2, MSG_DONTROUTE = 0x4, MSG_CTRUNC = 0x8, MSG_PROBE = 0x10, MSG_TRUNC = 0x20, MSG_DONTWAIT = 0x40,
        MSG_EOR = 0x80, MSG_WAITALL = 0x100, MSG_FIN = 0x200, MSG_SYN = 0x400, MSG_CONFIRM = 0x800, MSG_RST = 0x1000,
        MSG_ERRQUEUE = 0x2000, MSG_NOSIGNAL = 0x4000, MSG_MORE = 0x8000, MSG_WAITFORONE = 0x1_0000, MSG_BATCH = 0x4_0000,
        MSG_ZEROCOPY = 0x400_0000, MSG_FASTOPEN = 0x2000_0000, MSG_CMSG_CLOEXEC = 0x4000_0000,
    }
    /// Of new descriptors: O_CLOEXEC and O_NONBLOCK, which accept4, pipe2, dup3, eventfd2, epoll_create1, timerfd_create, … call by names of their own.
    NewFlags { O_NONBLOCK = 0x800, O_CLOEXEC = 0x8_0000 }
    /// eventfd2(2)
    EventFlags { EFD_SEMAPHORE = 0x1, EFD_NONBLOCK = 0x800, EFD_CLOEXEC = 0x8_0000 }
    /// Protection of memory (asm-generic/mman-common.h).
    Protection { PROT_READ = 0x1, PROT_WRITE = 0x2, PROT_EXEC = 0x4, PROT_SEM = 0x8, PROT_GROWSDOWN = 0x100_0000, PROT_GROWSUP = 0x200_0000 }
    /// mmap(2)
    MapFlags {
        MAP_SHARED = 0x1, MAP_PRIVATE = 0x2, MAP_FIXED = 0x10, MAP_ANONYMOUS = 0x20, MAP_32BIT = 0x40, MAP_GROWSDOWN = 0x100,
        MAP_DENYWRITE = 0x800, MAP_EXECUTABLE = 0x1000, MAP_LOCKED = 0x2000, MAP_NORESERVE = 0x4000, MAP_POPULATE = 0x8000,
        MAP_NONBLOCK = 0x1_0000, MAP_STACK = 0x2_0000, MAP_HUGETLB = 0x4_0000, MAP_SYNC = 0x8_0000, MAP_FIXED_NOREPLACE = 0x10_0000,
    }
    /// mremap(2)
    RemapFlags { MREMAP_MAYMOVE = 0x1, MREMAP_FIXED = 0x2, MREMAP_DONTUNMAP = 0x4 }
    /// msync(2)
    SyncFlags { MS_ASYNC = 0x1, MS_INVALIDATE = 0x2, MS_SYNC = 0x4 }
    /// clone(2), unshare(2), setns(2) (linux/sched.h). The lowest byte of clone(2) is a signal.
    CloneFlags {
        CLONE_NEWTIME = 0x80, CLONE_VM = 0x100, CLONE_FS = 0x200, CLONE_FILES = 0x400, CLONE_SIGHAND = 0x800, CLONE_PIDFD = 0x1000,
        CLONE_PTRACE = 0x2000, CLONE_VFORK = 0x4000, CLONE_PARENT = 0x8000, CLONE_THREAD = 0x1_0000, CLONE_NEWNS = 0x2_0000,
        CLONE_SYSVSEM = 0x4_0000, CLONE_SETTLS = 0x8_0000, CLONE_PARENT_SETTID = 0x10_0000, CLONE_CHILD_CLEARTID = 0x20_0000,
        CLONE_DETACHED = 0x40_0000, CLONE_UNTRACED = 0x80_0000, CLONE_CHILD_SETTID = 0x100_0000, CLONE_NEWCGROUP = 0x200_0000,
        CLONE_NEWUTS = 0x400_0000, CLONE_NEWIPC = 0x800_0000, CLONE_NEWUSER = 0x1000_0000, CLONE_NEWPID = 0x2000_0000,
        CLONE_NEWNET = 0x4000_0000, CLONE_IO = 0x8000_0000,
    }
    /// wait4(2), waitid(2)
    WaitOptions {
        WNOHANG = 0x1, WUNTRACED = 0x2, WEXITED = 0x4, WCONTINUED = 0x8, WNOWAIT = 0x100_0000, __WNOTHREAD = 0x2000_0000,
        __WALL = 0x4000_0000, __WCLONE = 0x8000_0000,
    }
    /// Of calls with a folder and a path (linux/fcntl.h). 0x200 means something else to each of the three that have it.
    AtFlags {
        AT_SYMLINK_NOFOLLOW = 0x100, AT_SYMLINK_FOLLOW = 0x400, AT_NO_AUTOMOUNT = 0x800, AT_EMPTY_PATH = 0x1000,
        AT_STATX_FORCE_SYNC = 0x2000, AT_STATX_DONT_SYNC = 0x4000, AT_RECURSIVE = 0x8000,
    }
    /// unlinkat(2)
    UnlinkFlags { AT_REMOVEDIR = 0x200 }
    /// faccessat2(2)
    AccessFlags { AT_SYMLINK_NOFOLLOW = 0x100, AT_EACCESS = 0x200, AT_EMPTY_PATH = 0x1000 }
    /// name_to_handle_at(2)
    HandleFlags { AT_HANDLE_MNT_ID_UNIQUE = 0x1, AT_HANDLE_FID = 0x200, AT_SYMLINK_FOLLOW = 0x400, AT_EMPTY_PATH = 0x1000 }
    /// futex(2): FUTEX_WAIT is 0 in the lowest bits.
    FutexFlags { FUTEX_PRIVATE_FLAG = 0x80, FUTEX_CLOCK_REALTIME = 0x100 }
    /// clock_nanosleep(2), timer_settime(2)
    TimerFlags { TIMER_ABSTIME = 0x1 }
    /// timerfd_settime(2)
    TimerfdFlags { TFD_TIMER_ABSTIME = 0x1, TFD_TIMER_CANCEL_ON_SET = 0x2 }
    /// splice(2), tee(2), vmsplice(2)
    SpliceFlags { SPLICE_F_MOVE = 0x1, SPLICE_F_NONBLOCK = 0x2, SPLICE_F_MORE = 0x4, SPLICE_F_GIFT = 0x8 }
    /// getrandom(2)
    RandomFlags { GRND_NONBLOCK = 0x1, GRND_RANDOM = 0x2, GRND_INSECURE = 0x4 }
    /// memfd_create(2)
    MemoryFileFlags { MFD_CLOEXEC = 0x1, MFD_ALLOW_SEALING = 0x2, MFD_HUGETLB = 0x4, MFD_NOEXEC_SEAL = 0x8, MFD_EXEC = 0x10 }
    /// inotify_add_watch(2)
    WatchMask {
        IN_ACCESS = 0x1, IN_MODIFY = 0x2, IN_ATTRIB = 0x4, IN_CLOSE_WRITE = 0x8, IN_CLOSE_NOWRITE = 0x10, IN_OPEN = 0x20,
        IN_MOVED_FROM = 0x40, IN_MOVED_TO = 0x80, IN_CREATE = 0x100, IN_DELETE = 0x200, IN_DELETE_SELF = 0x400, IN_MOVE_SELF = 0x800,
        IN_ONLYDIR = 0x100_0000, IN_DONT_FOLLOW = 0x200_0000, IN_EXCL_UNLINK = 0x400_0000, IN_MASK_CREATE = 0x1000_0000,
        IN_MASK_ADD = 0x2000_0000, IN_ONESHOT = 0x8000_0000,
    }
    /// preadv2(2), pwritev2(2)
    VectorFlags { RWF_HIPRI = 0x1, RWF_DSYNC = 0x2, RWF_SYNC = 0x4, RWF_NOWAIT = 0x8, RWF_APPEND = 0x10 }
    /// renameat2(2)
    RenameFlags { RENAME_NOREPLACE = 0x1, RENAME_EXCHANGE = 0x2, RENAME_WHITEOUT = 0x4 }
    /// close_range(2)
    CloseFlags { CLOSE_RANGE_UNSHARE = 0x2, CLOSE_RANGE_CLOEXEC = 0x4 }
    /// fallocate(2)
    AllocateFlags {
        FALLOC_FL_KEEP_SIZE = 0x1, FALLOC_FL_PUNCH_HOLE = 0x2, FALLOC_FL_COLLAPSE_RANGE = 0x8, FALLOC_FL_ZERO_RANGE = 0x10,
        FALLOC_FL_INSERT_RANGE = 0x20, FALLOC_FL_UNSHARE_RANGE = 0x40,
    }
    /// Of setxattr(2) and its relatives.
    AttributeFlags { XATTR_CREATE = 0x1, XATTR_REPLACE = 0x2 }
    /// mlockall(2)
    LockFlags { MCL_CURRENT = 0x1, MCL_FUTURE = 0x2, MCL_ONFAULT = 0x4 }
    /// mount(2)
    MountFlags {
        MS_RDONLY = 0x1, MS_NOSUID = 0x2, MS_NODEV = 0x4, MS_NOEXEC = 0x8, MS_SYNCHRONOUS = 0x10, MS_REMOUNT = 0x20, MS_MANDLOCK = 0x40,
        MS_DIRSYNC = 0x80, MS_NOSYMFOLLOW = 0x100, MS_NOATIME = 0x400, MS_NODIRATIME = 0x800, MS_BIND = 0x1000, MS_MOVE = 0x2000,
        MS_REC = 0x4000, MS_SILENT = 0x8000, MS_UNBINDABLE = 0x2_0000, MS_PRIVATE = 0x4_0000, MS_SLAVE = 0x8_0000, MS_SHARED = 0x10_0000,
        MS_RELATIME = 0x20_0000, MS_STRICTATIME = 0x100_0000, MS_LAZYTIME = 0x200_0000,
    }
    /// umount2(2)
    UnmountFlags { MNT_FORCE = 0x1, MNT_DETACH = 0x2, MNT_EXPIRE = 0x4, UMOUNT_NOFOLLOW = 0x8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_set_names_each_bit_once() {
        for shown in
            [MsgFlags::SHOWN, MapFlags::SHOWN, CloneFlags::SHOWN, AtFlags::SHOWN, MountFlags::SHOWN, WatchMask::SHOWN, WaitOptions::SHOWN]
        {
            let Shown::Flags(names) = shown else { panic!("{shown:?}") };
            let mut seen = 0_u64;
            for (name, bits) in names {
                assert!(bits.is_power_of_two() && seen & bits == 0, "{name}");
                seen |= bits;
            }
        }
    }
}
