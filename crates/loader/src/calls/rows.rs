//! The table of system calls: one row a call, in the order of the numbers (arch/x86/entry/syscalls/syscall_64.tbl of Linux 6.12).
//!
//! A row reads: number, constant, type of its arguments, and each argument's name (as in the kernel's SYSCALL_DEFINE) and type (see
//! [`super::types`]); then who answers it in virtual time, and behind `strict` who does with `--strict`, where that is not the kernel alone:
//!
//! | word | who answers |
//! |---|---|
//! | `kernel` | the kernel, and nothing is changed |
//! | `program(handler)` | the loader's handler, in the program; it may go on to the kernel or to the controller |
//! | `frame(handler)` | the same, for a handler that needs the registers with which the call was made |
//! | `forward` | the controller, as the call is |
//! | `refused(errno)` | nobody: this error, and a line in the list of what a program asked for and did not get, with the first argument or 0 |
//! | `absent(errno)` | nobody: this error, which programs expect |
//! | `entry` | the entry itself: what it returns is no result |
//! | `same` | whoever does in virtual time |
//!
//! Behind `->` stands the controller's handler of a call that comes to it and is about no descriptor of sockets (`answer.rs` of
//! weft-process). Behind `notify` stands the supervisor's handler of the calls at which the notify adapter's filter stops, and a sentence about what it does.
//! Behind `note` stand rows of docs/compatibility.md that say what is not as on Linux in virtual time.

/// Gives every row to the macro of this name.
#[macro_export]
macro_rules! for_each_call {
    ($then:ident) => {
        $then! {
            0 READ Read(fd: Fd, buf: OutBytes, count: Size): program(data::read), strict program(calls::read);
            1 WRITE Write(fd: Fd, buf: InBytes, count: Size): program(data::write), strict program(calls::write);
            2 OPEN Open(filename: Path, flags: OpenFlags, mode: Mode): program(files::open), strict program(calls::open);
            3 CLOSE Close(fd: Fd): program(descriptors::close), strict program(calls::close);
            4 STAT Stat(filename: Path, statbuf: Out<kernel::Stat>): program(files::stat), note "file-numbers";
            5 FSTAT Fstat(fd: Fd, statbuf: Out<kernel::Stat>): program(files::fstat), note "file-numbers";
            6 LSTAT Lstat(filename: Path, statbuf: Out<kernel::Stat>): program(files::lstat), note "file-numbers";
            7 POLL Poll(ufds: InOut<kernel::PollFds>, nfds: Uint, timeout: Int): program(poll::poll), strict program(poll::poll), note "poll-size";
            8 LSEEK Lseek(fd: Fd, offset: Long, whence: Uint): program(files::lseek);
            9 MMAP Mmap(addr: Address, len: Size, prot: Protection, flags: MapFlags, fd: Fd, off: Long):
                program(memory::mmap) -> mmap, strict program(memory::mmap);
            10 MPROTECT Mprotect(start: Address, len: Size, prot: Protection): program(memory::mprotect), strict program(memory::mprotect);
            11 MUNMAP Munmap(addr: Address, len: Size): program(memory::munmap), strict program(memory::munmap);
            12 BRK Brk(brk: Address): program(memory::brk), strict program(memory::brk), note "memory-limit";
            13 RT_SIGACTION RtSigaction(sig: Signal, act: In<kernel::SigAction>, oact: Out<kernel::SigAction>, sigsetsize: Size):
                program(signals::rt_sigaction), strict program(signal::rt_sigaction);
            14 RT_SIGPROCMASK RtSigprocmask(how: Int, nset: In<kernel::SigSet>, oset: Out<kernel::SigSet>, sigsetsize: Size):
                program(signals::rt_sigprocmask), strict frame(signal::rt_sigprocmask);
            15 RT_SIGRETURN RtSigreturn(): entry, strict entry;
            16 IOCTL Ioctl(fd: Fd, cmd: Flags, arg: Address): program(descriptors::ioctl), strict program(calls::ioctl),
                notify option::ioctl "model; interfaces from the node's tables",
                note "terminals" "kernel-signals";
            17 PREAD64 Pread64(fd: Fd, buf: OutBytes, count: Size, pos: Long): program(positions::pread64);
            18 PWRITE64 Pwrite64(fd: Fd, buf: InBytes, count: Size, pos: Long): program(positions::pwrite64);
            19 READV Readv(fd: Fd, vec: In<kernel::IoVecs>, vlen: Size): program(data::readv), strict program(calls::readv);
            20 WRITEV Writev(fd: Fd, vec: In<kernel::IoVecs>, vlen: Size): program(data::writev), strict program(calls::writev);
            21 ACCESS Access(filename: Path, mode: Int): program(files::access);
            22 PIPE Pipe(fildes: Out<kernel::FdPair>): program(descriptors::pipe), note "pipes";
            23 SELECT Select(n: Int, inp: InOut<kernel::FdSet>, outp: InOut<kernel::FdSet>, exp: InOut<kernel::FdSet>,
                tvp: InOut<kernel::Timeval>):
                program(poll::select), strict program(poll::select), note "poll-size" "stopped-select";
            24 SCHED_YIELD SchedYield(): program(machine::sched_yield);
            25 MREMAP Mremap(addr: Address, old_len: Size, new_len: Size, flags: RemapFlags, new_addr: Address):
                program(memory::mremap), strict program(memory::mremap);
            26 MSYNC Msync(start: Address, len: Size, flags: SyncFlags): kernel;
            27 MINCORE Mincore(start: Address, len: Size, vec: Address): program(memory::mincore);
            28 MADVISE Madvise(start: Address, len: Size, behavior: Int): program(memory::madvise), strict program(memory::madvise);
            29 SHMGET Shmget(key: Int, size: Size, shmflg: Flags): kernel;
            30 SHMAT Shmat(shmid: Int, shmaddr: Address, shmflg: Flags): program(memory::shmat), strict program(memory::shmat);
            31 SHMCTL Shmctl(shmid: Int, cmd: Int, buf: Address): program(memory::shmctl);
            32 DUP Dup(fildes: Fd): program(descriptors::dup), strict same;
            33 DUP2 Dup2(oldfd: Fd, newfd: Fd): program(descriptors::dup2), strict same;
            34 PAUSE Pause(): forward -> pause;
            35 NANOSLEEP Nanosleep(rqtp: In<kernel::Timespec>, rmtp: Address): program(time::nanosleep) -> nanosleep;
            36 GETITIMER Getitimer(which: Int, value: Out<kernel::Itimerval>): forward -> getitimer;
            37 ALARM Alarm(seconds: Uint): forward -> alarm;
            38 SETITIMER Setitimer(which: Int, value: In<kernel::Itimerval>, ovalue: Out<kernel::Itimerval>): forward -> setitimer,
                note "cpu-clocks";
            39 GETPID Getpid(): kernel;
            40 SENDFILE Sendfile(out_fd: Fd, in_fd: Fd, offset: InOut<kernel::Offset>, count: Size):
                program(data::sendfile), strict program(calls::sendfile);
            41 SOCKET Socket(family: Family, kind: SocketType, protocol: Int): program(sockets::socket) -> socket, strict program(calls::socket),
                notify socket::socket "makes a stand-in", note "other-families" "packet-sockets";
            42 CONNECT Connect(fd: Fd, addr: In<kernel::SockAddr>, addrlen: Int): program(sockets::connect), strict program(calls::connect),
                notify on_socket::connect "model; waits";
            43 ACCEPT Accept(fd: Fd, addr: Out<kernel::SockAddr>, addrlen: InOut<kernel::SockLen>):
                program(sockets::accept), strict program(calls::accept),
                notify on_socket::accept "model; waits; makes a stand-in";
            44 SENDTO Sendto(fd: Fd, buf: InBytes, len: Size, flags: MsgFlags, addr: In<kernel::SockAddr>, addrlen: Int):
                program(sockets::sendto), strict program(calls::sendto),
                notify on_socket::sendto "model; waits";
            45 RECVFROM Recvfrom(fd: Fd, buf: OutBytes, len: Size, flags: MsgFlags, addr: Out<kernel::SockAddr>,
                addrlen: InOut<kernel::SockLen>):
                program(sockets::recvfrom), strict program(calls::recvfrom),
                notify on_socket::recvfrom "stand-in and model; waits";
            46 SENDMSG Sendmsg(fd: Fd, msg: In<kernel::MsgHdr>, flags: MsgFlags): program(sockets::sendmsg), strict program(calls::sendmsg),
                notify data::sendmsg "model, or the kernel on plain streams; waits";
            47 RECVMSG Recvmsg(fd: Fd, msg: InOut<kernel::MsgHdr>, flags: MsgFlags): program(sockets::recvmsg), strict program(calls::recvmsg),
                notify data::recvmsg "stand-in and model, or the kernel on plain streams; waits";
            48 SHUTDOWN Shutdown(fd: Fd, how: Int): program(sockets::shutdown), strict program(calls::shutdown),
                notify on_socket::shutdown "model, in order with the data";
            49 BIND Bind(fd: Fd, addr: In<kernel::SockAddr>, addrlen: Int): program(sockets::bind), strict program(calls::bind),
                notify on_socket::bind "model", note "abstract-names";
            50 LISTEN Listen(fd: Fd, backlog: Int): program(sockets::listen), strict program(calls::listen),
                notify on_socket::listen "model";
            51 GETSOCKNAME Getsockname(fd: Fd, addr: Out<kernel::SockAddr>, addrlen: InOut<kernel::SockLen>):
                program(sockets::getsockname), strict program(calls::getsockname),
                notify on_socket::getsockname "model";
            52 GETPEERNAME Getpeername(fd: Fd, addr: Out<kernel::SockAddr>, addrlen: InOut<kernel::SockLen>):
                program(sockets::getpeername), strict program(calls::getpeername),
                notify on_socket::getpeername "model";
            53 SOCKETPAIR Socketpair(family: Family, kind: SocketType, protocol: Int, usockvec: Out<kernel::FdPair>): kernel,
                notify socket::refuse_pair "refused: the kernel makes AF_UNIX ones, and there are no others here";
            54 SETSOCKOPT Setsockopt(fd: Fd, level: Int, optname: Int, optval: In<kernel::OptVal>, optlen: Int):
                program(sockets::setsockopt), strict program(calls::setsockopt),
                notify on_socket::setsockopt "model; time limits also on the stand-in", note "send-buffer";
            55 GETSOCKOPT Getsockopt(fd: Fd, level: Int, optname: Int, optval: Out<kernel::OptVal>, optlen: InOut<kernel::SockLen>):
                program(sockets::getsockopt), strict program(calls::getsockopt),
                notify on_socket::getsockopt "model";
            56 CLONE Clone(flags: CloneFlags, newsp: Address, parent_tid: Address, child_tid: Address, tls: Address):
                frame(threads::clone) -> clone, strict frame(thread::clone_call), note "namespaces";
            57 FORK Fork(): frame(threads::fork), strict frame(thread::fork_call);
            58 VFORK Vfork(): frame(threads::vfork), strict frame(thread::vfork_call);
            59 EXECVE Execve(filename: Path, argv: Address, envp: Address): program(processes::execve), strict same,
                note "setuid" "unreadable" "32-bit";
            60 EXIT Exit(error_code: Int): program(threads::exit) -> exit, strict program(calls::exit);
            61 WAIT4 Wait4(upid: Int, stat_addr: Address, options: WaitOptions, ru: Out<kernel::Rusage>): program(processes::wait4) -> wait4;
            62 KILL Kill(pid: Int, sig: Signal): forward -> kill_process;
            63 UNAME Uname(name: Out<kernel::Utsname>): program(machine::uname);
            64 SEMGET Semget(key: Int, nsems: Int, semflg: Flags): kernel, note "ipc-users";
            65 SEMOP Semop(semid: Int, tsops: Address, nsops: Uint): program(ipc::semop);
            66 SEMCTL Semctl(semid: Int, semnum: Int, cmd: Int, arg: Address): program(ipc::semctl), note "kernel-order";
            67 SHMDT Shmdt(shmaddr: Address): kernel;
            68 MSGGET Msgget(key: Int, msgflg: Flags): kernel, note "ipc-users";
            69 MSGSND Msgsnd(msqid: Int, msgp: Address, msgsz: Size, msgflg: Flags): program(ipc::msgsnd);
            70 MSGRCV Msgrcv(msqid: Int, msgp: Address, msgsz: Size, msgtyp: Long, msgflg: Flags): program(ipc::msgrcv);
            71 MSGCTL Msgctl(msqid: Int, cmd: Int, buf: Address): program(ipc::msgctl), note "kernel-order";
            72 FCNTL Fcntl(fd: Fd, cmd: Int, arg: Address): program(descriptors::fcntl), strict program(calls::fcntl), note "kernel-signals";
            73 FLOCK Flock(fd: Fd, cmd: Int): program(descriptors::flock), note "host-locks";
            74 FSYNC Fsync(fd: Fd): kernel;
            75 FDATASYNC Fdatasync(fd: Fd): kernel;
            76 TRUNCATE Truncate(path: Path, length: Long): program(files::truncate);
            77 FTRUNCATE Ftruncate(fd: Fd, length: Long): program(files::ftruncate);
            78 GETDENTS Getdents(fd: Fd, dirent: Address, count: Uint): program(files::getdents), note "file-numbers" "folder-order";
            79 GETCWD Getcwd(buf: Path, size: Size): kernel;
            80 CHDIR Chdir(filename: Path): kernel;
            81 FCHDIR Fchdir(fd: Fd): kernel;
            82 RENAME Rename(oldname: Path, newname: Path): program(files::rename);
            83 MKDIR Mkdir(pathname: Path, mode: Mode): program(files::mkdir);
            84 RMDIR Rmdir(pathname: Path): kernel;
            85 CREAT Creat(pathname: Path, mode: Mode): program(files::creat);
            86 LINK Link(oldname: Path, newname: Path): program(files::hard_link);
            87 UNLINK Unlink(pathname: Path): kernel;
            88 SYMLINK Symlink(oldname: Path, newname: Path): program(files::symlink);
            89 READLINK Readlink(path: Path, buf: Address, bufsiz: Int): program(files::readlink), strict program(calls::readlink);
            90 CHMOD Chmod(filename: Path, mode: Mode): program(files::chmod);
            91 FCHMOD Fchmod(fd: Fd, mode: Mode): program(files::fchmod);
            92 CHOWN Chown(filename: Path, user: Id, group: Id): program(files::chown), note "users";
            93 FCHOWN Fchown(fd: Fd, user: Id, group: Id): program(files::fchown), note "users";
            94 LCHOWN Lchown(filename: Path, user: Id, group: Id): program(files::lchown);
            95 UMASK Umask(mask: Mode): kernel;
            96 GETTIMEOFDAY Gettimeofday(tv: Out<kernel::Timeval>, tz: Address): program(time::gettimeofday), note "clocks";
            97 GETRLIMIT Getrlimit(resource: Uint, rlim: Out<kernel::Rlimit>): program(machine::getrlimit), strict same, note "limits";
            98 GETRUSAGE Getrusage(who: Int, ru: Out<kernel::Rusage>): program(machine::getrusage), note "rusage";
            99 SYSINFO Sysinfo(info: Out<kernel::Sysinfo>): program(machine::sysinfo), note "memory-limit";
            100 TIMES Times(tbuf: Out<kernel::Tms>): program(time::times), note "rusage";
            101 PTRACE Ptrace(request: Long, pid: Long, addr: Address, data: Address): refused(EPERM), note "own-filters";
            102 GETUID Getuid(): program(identity::getuid);
            103 SYSLOG Syslog(kind: Int, buf: Address, len: Int): refused(ENOSYS);
            104 GETGID Getgid(): program(identity::getgid);
            105 SETUID Setuid(uid: Id): program(identity::setuid), note "users";
            106 SETGID Setgid(gid: Id): program(identity::setgid), note "users";
            107 GETEUID Geteuid(): program(identity::geteuid);
            108 GETEGID Getegid(): program(identity::getegid);
            109 SETPGID Setpgid(pid: Int, pgid: Int): program(processes::setpgid) -> setpgid;
            110 GETPPID Getppid(): kernel;
            111 GETPGRP Getpgrp(): kernel;
            112 SETSID Setsid(): program(processes::setsid) -> setsid;
            113 SETREUID Setreuid(ruid: Id, euid: Id): program(identity::setreuid);
            114 SETREGID Setregid(rgid: Id, egid: Id): program(identity::setregid);
            115 GETGROUPS Getgroups(gidsetsize: Int, grouplist: Address): program(identity::getgroups);
            116 SETGROUPS Setgroups(gidsetsize: Int, grouplist: Address): program(identity::setgroups), note "users";
            117 SETRESUID Setresuid(ruid: Id, euid: Id, suid: Id): program(identity::setresuid), note "users";
            118 GETRESUID Getresuid(ruid: Out<u32>, euid: Out<u32>, suid: Out<u32>): program(identity::getresuid);
            119 SETRESGID Setresgid(rgid: Id, egid: Id, sgid: Id): program(identity::setresgid), note "users";
            120 GETRESGID Getresgid(rgid: Out<u32>, egid: Out<u32>, sgid: Out<u32>): program(identity::getresgid);
            121 GETPGID Getpgid(pid: Int): kernel;
            122 SETFSUID Setfsuid(uid: Id): program(identity::setfsuid);
            123 SETFSGID Setfsgid(gid: Id): program(identity::setfsgid);
            124 GETSID Getsid(pid: Int): kernel;
            125 CAPGET Capget(header: InOut<kernel::CapHeader>, data: Address): program(identity::capget), note "users";
            126 CAPSET Capset(header: InOut<kernel::CapHeader>, data: Address): program(identity::capset), note "users";
            127 RT_SIGPENDING RtSigpending(uset: Out<kernel::SigSet>, sigsetsize: Size):
                program(signals::rt_sigpending), strict program(signal::rt_sigpending);
            128 RT_SIGTIMEDWAIT RtSigtimedwait(uthese: In<kernel::SigSet>, uinfo: Out<kernel::SigInfo>, uts: In<kernel::Timespec>,
                sigsetsize: Size):
                forward -> rt_sigtimedwait, strict program(signal::rt_sigtimedwait);
            129 RT_SIGQUEUEINFO RtSigqueueinfo(pid: Int, sig: Signal, uinfo: In<kernel::SigInfo>): forward -> rt_sigqueueinfo;
            130 RT_SIGSUSPEND RtSigsuspend(unewset: In<kernel::SigSet>, sigsetsize: Size): program(signals::rt_sigsuspend);
            131 SIGALTSTACK Sigaltstack(uss: In<kernel::SigStack>, uoss: Out<kernel::SigStack>): frame(signals::sigaltstack), strict same;
            132 UTIME Utime(filename: Path, times: Address): program(files::utime);
            133 MKNOD Mknod(filename: Path, mode: Mode, dev: Uint): program(files::mknod);
            134 USELIB Uselib(library: Path): refused(ENOSYS);
            135 PERSONALITY Personality(personality: Flags): kernel;
            136 USTAT Ustat(dev: Uint, ubuf: Address): refused(ENOSYS);
            137 STATFS Statfs(pathname: Path, buf: Out<kernel::Statfs>): program(files::statfs), note "file-numbers";
            138 FSTATFS Fstatfs(fd: Fd, buf: Out<kernel::Statfs>): program(files::fstatfs), note "file-numbers";
            139 SYSFS Sysfs(option: Int, arg1: Address, arg2: Address): refused(ENOSYS);
            140 GETPRIORITY Getpriority(which: Int, who: Int): program(machine::getpriority);
            141 SETPRIORITY Setpriority(which: Int, who: Int, niceval: Int): program(machine::setpriority), note "started-with";
            142 SCHED_SETPARAM SchedSetparam(pid: Int, param: Address): program(machine::sched_setparam);
            143 SCHED_GETPARAM SchedGetparam(pid: Int, param: Address): program(machine::sched_getparam);
            144 SCHED_SETSCHEDULER SchedSetscheduler(pid: Int, policy: Int, param: Address): program(machine::sched_setscheduler);
            145 SCHED_GETSCHEDULER SchedGetscheduler(pid: Int): program(machine::sched_getscheduler);
            146 SCHED_GET_PRIORITY_MAX SchedGetPriorityMax(policy: Int): kernel;
            147 SCHED_GET_PRIORITY_MIN SchedGetPriorityMin(policy: Int): kernel;
            148 SCHED_RR_GET_INTERVAL SchedRrGetInterval(pid: Int, interval: Address): absent(ENOSYS);
            149 MLOCK Mlock(start: Address, len: Size): program(memory::mlock);
            150 MUNLOCK Munlock(start: Address, len: Size): kernel;
            151 MLOCKALL Mlockall(flags: LockFlags): program(memory::mlockall), strict program(memory::mlockall);
            152 MUNLOCKALL Munlockall(): kernel;
            153 VHANGUP Vhangup(): refused(ENOSYS);
            154 MODIFY_LDT ModifyLdt(func: Int, ptr: Address, bytecount: Size): refused(ENOSYS);
            155 PIVOT_ROOT PivotRoot(new_root: Path, put_old: Path): refused(ENOSYS);
            156 SYSCTL Sysctl(args: Address): refused(ENOSYS);
            157 PRCTL Prctl(option: Int, arg2: Address, arg3: Address, arg4: Address, arg5: Address):
                program(processes::prctl) -> prctl, strict program(calls::prctl), note "own-filters";
            158 ARCH_PRCTL ArchPrctl(option: Flags, arg2: Address): program(processes::arch_prctl), strict program(calls::arch_prctl),
                note "clocks";
            159 ADJTIMEX Adjtimex(txc: Address): forward -> adjtimex, note "clock-set";
            160 SETRLIMIT Setrlimit(resource: Uint, rlim: In<kernel::Rlimit>): program(machine::setrlimit), strict same,
                note "limits" "descriptor-limit";
            161 CHROOT Chroot(filename: Path): program(processes::chroot);
            162 SYNC Sync(): kernel;
            163 ACCT Acct(name: Path): refused(ENOSYS);
            164 SETTIMEOFDAY Settimeofday(tv: Address, tz: Address): forward -> settimeofday, note "clock-set";
            165 MOUNT Mount(dev_name: Path, dir_name: Path, kind: Path, flags: MountFlags, data: Address): refused(EPERM), note "namespaces";
            166 UMOUNT2 Umount2(name: Path, flags: UnmountFlags): refused(EPERM);
            167 SWAPON Swapon(specialfile: Path, swap_flags: Flags): refused(ENOSYS);
            168 SWAPOFF Swapoff(specialfile: Path): refused(ENOSYS);
            169 REBOOT Reboot(magic1: Flags, magic2: Flags, cmd: Flags, arg: Address): refused(ENOSYS);
            170 SETHOSTNAME Sethostname(name: Path, len: Int): refused(EPERM), note "host-name";
            171 SETDOMAINNAME Setdomainname(name: Path, len: Int): refused(EPERM), note "host-name";
            172 IOPL Iopl(level: Uint): refused(ENOSYS);
            173 IOPERM Ioperm(from: Size, num: Size, turn_on: Int): refused(ENOSYS);
            174 CREATE_MODULE CreateModule(name: Path, size: Size): refused(ENOSYS);
            175 INIT_MODULE InitModule(umod: Address, len: Size, uargs: Path): refused(ENOSYS);
            176 DELETE_MODULE DeleteModule(name_user: Path, flags: Flags): refused(ENOSYS);
            177 GET_KERNEL_SYMS GetKernelSyms(table: Address): refused(ENOSYS);
            178 QUERY_MODULE QueryModule(name: Path, which: Int, buf: Address, bufsize: Size, ret: Address): refused(ENOSYS);
            179 QUOTACTL Quotactl(cmd: Flags, special: Path, id: Id, addr: Address): refused(ENOSYS);
            180 NFSSERVCTL Nfsservctl(cmd: Int, argp: Address, resp: Address): refused(ENOSYS);
            181 GETPMSG Getpmsg(): refused(ENOSYS);
            182 PUTPMSG Putpmsg(): refused(ENOSYS);
            183 AFS_SYSCALL AfsSyscall(): refused(ENOSYS);
            184 TUXCALL Tuxcall(): refused(ENOSYS);
            185 SECURITY Security(): refused(ENOSYS);
            186 GETTID Gettid(): kernel;
            187 READAHEAD Readahead(fd: Fd, offset: Long, count: Size): kernel;
            188 SETXATTR Setxattr(pathname: Path, name: Path, value: Address, size: Size, flags: AttributeFlags): kernel;
            189 LSETXATTR Lsetxattr(pathname: Path, name: Path, value: Address, size: Size, flags: AttributeFlags): kernel;
            190 FSETXATTR Fsetxattr(fd: Fd, name: Path, value: Address, size: Size, flags: AttributeFlags): kernel;
            191 GETXATTR Getxattr(pathname: Path, name: Path, value: Address, size: Size): kernel;
            192 LGETXATTR Lgetxattr(pathname: Path, name: Path, value: Address, size: Size): kernel;
            193 FGETXATTR Fgetxattr(fd: Fd, name: Path, value: Address, size: Size): kernel;
            194 LISTXATTR Listxattr(pathname: Path, list: Address, size: Size): kernel;
            195 LLISTXATTR Llistxattr(pathname: Path, list: Address, size: Size): kernel;
            196 FLISTXATTR Flistxattr(fd: Fd, list: Address, size: Size): kernel;
            197 REMOVEXATTR Removexattr(pathname: Path, name: Path): kernel;
            198 LREMOVEXATTR Lremovexattr(pathname: Path, name: Path): kernel;
            199 FREMOVEXATTR Fremovexattr(fd: Fd, name: Path): kernel;
            200 TKILL Tkill(pid: Int, sig: Signal): forward -> tkill;
            201 TIME Time(tloc: Address): program(time::time), note "clocks";
            202 FUTEX Futex(uaddr: Address, op: FutexFlags, val: Int, utime: In<kernel::Timespec>, uaddr2: Address, val3: Uint):
                program(futex::futex) -> futex, note "futex-pi";
            203 SCHED_SETAFFINITY SchedSetaffinity(pid: Int, len: Uint, user_mask_ptr: Address): program(machine::sched_setaffinity);
            204 SCHED_GETAFFINITY SchedGetaffinity(pid: Int, len: Uint, user_mask_ptr: Address): program(machine::sched_getaffinity),
                note "one-processor";
            205 SET_THREAD_AREA SetThreadArea(u_info: Address): refused(ENOSYS);
            206 IO_SETUP IoSetup(nr_events: Uint, ctxp: Address): refused(ENOSYS);
            207 IO_DESTROY IoDestroy(ctx: Address): refused(ENOSYS);
            208 IO_GETEVENTS IoGetevents(ctx_id: Address, min_nr: Long, nr: Long, events: Address, timeout: In<kernel::Timespec>):
                refused(ENOSYS);
            209 IO_SUBMIT IoSubmit(ctx_id: Address, nr: Long, iocbpp: Address): refused(ENOSYS);
            210 IO_CANCEL IoCancel(ctx_id: Address, iocb: Address, result: Address): refused(ENOSYS);
            211 GET_THREAD_AREA GetThreadArea(u_info: Address): refused(ENOSYS);
            212 LOOKUP_DCOOKIE LookupDcookie(cookie: Long, buf: Address, len: Size): refused(ENOSYS);
            213 EPOLL_CREATE EpollCreate(size: Int): forward -> epoll_create;
            214 EPOLL_CTL_OLD EpollCtlOld(): refused(ENOSYS);
            215 EPOLL_WAIT_OLD EpollWaitOld(): refused(ENOSYS);
            216 REMAP_FILE_PAGES RemapFilePages(start: Address, size: Size, prot: Protection, pgoff: Size, flags: MapFlags): refused(ENOSYS);
            217 GETDENTS64 Getdents64(fd: Fd, dirent: Address, count: Uint): program(files::getdents64),
                note "file-numbers" "folder-order";
            218 SET_TID_ADDRESS SetTidAddress(tidptr: Address): program(threads::set_tid_address);
            219 RESTART_SYSCALL RestartSyscall(): refused(ENOSYS);
            220 SEMTIMEDOP Semtimedop(semid: Int, tsops: Address, nsops: Uint, timeout: In<kernel::Timespec>):
                program(ipc::semtimedop);
            221 FADVISE64 Fadvise64(fd: Fd, offset: Long, len: Size, advice: Int): kernel;
            222 TIMER_CREATE TimerCreate(which_clock: Int, timer_event_spec: In<kernel::SigEvent>, created_timer_id: Address): forward -> timer_create,
                note "cpu-clocks";
            223 TIMER_SETTIME TimerSettime(timer_id: Int, flags: TimerFlags, new_setting: In<kernel::Itimerspec>,
                old_setting: Out<kernel::Itimerspec>):
                forward -> timer_settime;
            224 TIMER_GETTIME TimerGettime(timer_id: Int, setting: Out<kernel::Itimerspec>): forward -> timer_gettime;
            225 TIMER_GETOVERRUN TimerGetoverrun(timer_id: Int): forward -> timer_getoverrun;
            226 TIMER_DELETE TimerDelete(timer_id: Int): forward -> timer_delete;
            227 CLOCK_SETTIME ClockSettime(which_clock: Int, tp: Address): forward -> clock_settime, note "clock-set";
            228 CLOCK_GETTIME ClockGettime(which_clock: Int, tp: Out<kernel::Timespec>): program(time::clock_gettime) -> clock_gettime,
                note "clocks" "cpu-clocks";
            229 CLOCK_GETRES ClockGetres(which_clock: Int, tp: Out<kernel::Timespec>): program(time::clock_getres) -> clock_getres;
            230 CLOCK_NANOSLEEP ClockNanosleep(which_clock: Int, flags: TimerFlags, rqtp: In<kernel::Timespec>, rmtp: Address):
                program(time::clock_nanosleep) -> clock_nanosleep, note "cpu-clocks";
            231 EXIT_GROUP ExitGroup(error_code: Int): program(threads::exit_group) -> exit_group, strict program(thread::exit_group);
            232 EPOLL_WAIT EpollWait(epfd: Fd, events: Out<kernel::EpollEvents>, maxevents: Int, timeout: Int):
                program(poll::epoll_wait), strict program(poll::epoll_wait), note "edge-native" "poll-size";
            233 EPOLL_CTL EpollCtl(epfd: Fd, op: Int, fd: Fd, event: In<kernel::EpollEvent>):
                program(poll::epoll_ctl) -> epoll_ctl, strict program(poll::epoll_ctl), note "epoll-members";
            234 TGKILL Tgkill(tgid: Int, pid: Int, sig: Signal): forward -> tgkill;
            235 UTIMES Utimes(filename: Path, utimes: Address): program(files::utimes);
            236 VSERVER Vserver(): refused(ENOSYS);
            237 MBIND Mbind(start: Address, len: Size, mode: Uint, nmask: Address, maxnode: Size, flags: Flags): kernel;
            238 SET_MEMPOLICY SetMempolicy(mode: Int, nmask: Address, maxnode: Size): kernel;
            239 GET_MEMPOLICY GetMempolicy(policy: Address, nmask: Address, maxnode: Size, addr: Address, flags: Flags): kernel;
            240 MQ_OPEN MqOpen(name: Path, oflag: OpenFlags, mode: Mode, attr: Address): program(ipc::mq_open), note "ipc-users" "host-limits";
            241 MQ_UNLINK MqUnlink(name: Path): kernel;
            242 MQ_TIMEDSEND MqTimedsend(mqdes: Fd, msg_ptr: InBytes, msg_len: Size, msg_prio: Uint, abs_timeout: In<kernel::Timespec>):
                program(ipc::mq_timedsend);
            243 MQ_TIMEDRECEIVE MqTimedreceive(mqdes: Fd, msg_ptr: OutBytes, msg_len: Size, msg_prio: Address,
                abs_timeout: In<kernel::Timespec>):
                program(ipc::mq_timedreceive);
            244 MQ_NOTIFY MqNotify(mqdes: Fd, notification: In<kernel::SigEvent>): program(ipc::mq_notify), note "queue-news";
            245 MQ_GETSETATTR MqGetsetattr(mqdes: Fd, mqstat: Address, omqstat: Address): kernel;
            246 KEXEC_LOAD KexecLoad(entry: Address, nr_segments: Size, segments: Address, flags: Flags): refused(ENOSYS);
            247 WAITID Waitid(which: Int, upid: Int, infop: Out<kernel::SigInfo>, options: WaitOptions, ru: Out<kernel::Rusage>):
                program(processes::waitid) -> waitid;
            248 ADD_KEY AddKey(kind: Path, description: Path, payload: Address, plen: Size, ringid: Int): refused(ENOSYS);
            249 REQUEST_KEY RequestKey(kind: Path, description: Path, callout_info: Path, destringid: Int): refused(ENOSYS);
            250 KEYCTL Keyctl(option: Int, arg2: Address, arg3: Address, arg4: Address, arg5: Address): refused(ENOSYS);
            251 IOPRIO_SET IoprioSet(which: Int, who: Int, ioprio: Int): kernel;
            252 IOPRIO_GET IoprioGet(which: Int, who: Int): program(machine::ioprio_get);
            253 INOTIFY_INIT InotifyInit(): program(files::inotify_init);
            254 INOTIFY_ADD_WATCH InotifyAddWatch(fd: Fd, pathname: Path, mask: WatchMask): program(files::inotify_add_watch);
            255 INOTIFY_RM_WATCH InotifyRmWatch(fd: Fd, wd: Int): kernel;
            256 MIGRATE_PAGES MigratePages(pid: Int, maxnode: Size, old_nodes: Address, new_nodes: Address): refused(ENOSYS);
            257 OPENAT Openat(dfd: Dir, filename: Path, flags: OpenFlags, mode: Mode): program(files::openat),
                strict program(calls::openat);
            258 MKDIRAT Mkdirat(dfd: Dir, pathname: Path, mode: Mode): program(files::mkdirat);
            259 MKNODAT Mknodat(dfd: Dir, filename: Path, mode: Mode, dev: Uint): program(files::mknodat);
            260 FCHOWNAT Fchownat(dfd: Dir, filename: Path, user: Id, group: Id, flag: AtFlags): program(files::fchownat), note "users";
            261 FUTIMESAT Futimesat(dfd: Dir, filename: Path, utimes: Address): program(files::futimesat);
            262 NEWFSTATAT Newfstatat(dfd: Dir, filename: Path, statbuf: Out<kernel::Stat>, flag: AtFlags): program(files::newfstatat),
                note "file-numbers";
            263 UNLINKAT Unlinkat(dfd: Dir, pathname: Path, flag: UnlinkFlags): kernel;
            264 RENAMEAT Renameat(olddfd: Dir, oldname: Path, newdfd: Dir, newname: Path): program(files::renameat);
            265 LINKAT Linkat(olddfd: Dir, oldname: Path, newdfd: Dir, newname: Path, flags: AtFlags): program(files::linkat);
            266 SYMLINKAT Symlinkat(oldname: Path, newdfd: Dir, newname: Path): program(files::symlinkat);
            267 READLINKAT Readlinkat(dfd: Dir, pathname: Path, buf: Address, bufsiz: Int):
                program(files::readlinkat), strict program(calls::readlinkat);
            268 FCHMODAT Fchmodat(dfd: Dir, filename: Path, mode: Mode): program(files::fchmodat);
            269 FACCESSAT Faccessat(dfd: Dir, filename: Path, mode: Int): program(files::faccessat);
            270 PSELECT6 Pselect6(n: Int, inp: InOut<kernel::FdSet>, outp: InOut<kernel::FdSet>, exp: InOut<kernel::FdSet>,
                tsp: InOut<kernel::Timespec>, sig: Address):
                program(poll::pselect6), strict program(poll::pselect6), note "poll-size" "stopped-select";
            271 PPOLL Ppoll(ufds: InOut<kernel::PollFds>, nfds: Uint, tsp: InOut<kernel::Timespec>, sigmask: In<kernel::SigSet>,
                sigsetsize: Size):
                program(poll::ppoll), strict program(poll::ppoll), note "poll-size" "stopped-select";
            272 UNSHARE Unshare(unshare_flags: CloneFlags): program(threads::unshare), strict same, note "namespaces";
            273 SET_ROBUST_LIST SetRobustList(head: Address, len: Size): program(threads::set_robust_list);
            274 GET_ROBUST_LIST GetRobustList(pid: Int, head_ptr: Address, len_ptr: Address): kernel;
            275 SPLICE Splice(fd_in: Fd, off_in: InOut<kernel::Offset>, fd_out: Fd, off_out: InOut<kernel::Offset>, len: Size,
                flags: SpliceFlags):
                program(data::splice), strict program(calls::splice),
                note "urgent-splice" "splice-datagram" "splice-numbers" "splice-beside";
            276 TEE Tee(fdin: Fd, fdout: Fd, len: Size, flags: SpliceFlags): program(data::tee);
            277 SYNC_FILE_RANGE SyncFileRange(fd: Fd, offset: Long, nbytes: Long, flags: Flags): kernel;
            278 VMSPLICE Vmsplice(fd: Fd, uiov: In<kernel::IoVecs>, nr_segs: Size, flags: SpliceFlags): program(data::vmsplice);
            279 MOVE_PAGES MovePages(pid: Int, nr_pages: Size, pages: Address, nodes: Address, status: Address, flags: Flags):
                refused(ENOSYS);
            280 UTIMENSAT Utimensat(dfd: Dir, filename: Path, utimes: Address, flags: AtFlags): program(files::utimensat), note "file-times";
            281 EPOLL_PWAIT EpollPwait(epfd: Fd, events: Out<kernel::EpollEvents>, maxevents: Int, timeout: Int,
                sigmask: In<kernel::SigSet>, sigsetsize: Size):
                program(poll::epoll_pwait), strict program(poll::epoll_pwait), note "edge-native" "poll-size";
            282 SIGNALFD Signalfd(ufd: FdOrNone, user_mask: In<kernel::SigSet>, sizemask: Size): program(descriptors::signalfd) -> signalfd;
            283 TIMERFD_CREATE TimerfdCreate(clockid: Int, flags: NewFlags): forward -> timerfd_create;
            284 EVENTFD Eventfd(count: Uint): kernel;
            285 FALLOCATE Fallocate(fd: Fd, mode: AllocateFlags, offset: Long, len: Long): program(files::fallocate);
            286 TIMERFD_SETTIME TimerfdSettime(ufd: Fd, flags: TimerfdFlags, utmr: In<kernel::Itimerspec>, otmr: Out<kernel::Itimerspec>):
                program(time::timerfd_settime) -> timerfd_settime;
            287 TIMERFD_GETTIME TimerfdGettime(ufd: Fd, otmr: Out<kernel::Itimerspec>): program(time::timerfd_gettime) -> timerfd_gettime;
            288 ACCEPT4 Accept4(fd: Fd, addr: Out<kernel::SockAddr>, addrlen: InOut<kernel::SockLen>, flags: NewFlags):
                program(sockets::accept4), strict program(calls::accept4),
                notify on_socket::accept4 "model; waits; makes a stand-in";
            289 SIGNALFD4 Signalfd4(ufd: FdOrNone, user_mask: In<kernel::SigSet>, sizemask: Size, flags: NewFlags):
                program(descriptors::signalfd4) -> signalfd4;
            290 EVENTFD2 Eventfd2(count: Uint, flags: EventFlags): kernel;
            291 EPOLL_CREATE1 EpollCreate1(flags: NewFlags): forward -> epoll_create1;
            292 DUP3 Dup3(oldfd: Fd, newfd: Fd, flags: NewFlags): program(descriptors::dup3), strict same;
            293 PIPE2 Pipe2(fildes: Out<kernel::FdPair>, flags: NewFlags): program(descriptors::pipe2), note "pipes";
            294 INOTIFY_INIT1 InotifyInit1(flags: NewFlags): program(files::inotify_init1), note "host-limits";
            295 PREADV Preadv(fd: Fd, vec: In<kernel::IoVecs>, vlen: Size, pos_l: Long): program(positions::preadv);
            296 PWRITEV Pwritev(fd: Fd, vec: In<kernel::IoVecs>, vlen: Size, pos_l: Long): program(positions::pwritev);
            297 RT_TGSIGQUEUEINFO RtTgsigqueueinfo(tgid: Int, pid: Int, sig: Signal, uinfo: In<kernel::SigInfo>): forward -> rt_tgsigqueueinfo;
            298 PERF_EVENT_OPEN PerfEventOpen(attr: Address, pid: Int, cpu: Int, group_fd: FdOrNone, flags: Flags): refused(ENOSYS);
            299 RECVMMSG Recvmmsg(fd: Fd, mmsg: InOut<kernel::MMsgHdrs>, vlen: Uint, flags: MsgFlags, timeout: InOut<kernel::Timespec>):
                program(sockets::recvmmsg), strict program(calls::recvmmsg),
                notify data::recvmmsg "stand-in and model; waits";
            300 FANOTIFY_INIT FanotifyInit(flags: Flags, event_f_flags: Flags): refused(ENOSYS);
            301 FANOTIFY_MARK FanotifyMark(fanotify_fd: Fd, flags: Flags, mask: Flags, dfd: Dir, pathname: Path): refused(ENOSYS);
            302 PRLIMIT64 Prlimit64(pid: Int, resource: Uint, new_rlim: In<kernel::Rlimit>, old_rlim: Out<kernel::Rlimit>):
                program(machine::prlimit64), strict same, note "limits" "descriptor-limit" "cpu-limit";
            303 NAME_TO_HANDLE_AT NameToHandleAt(dfd: Dir, name: Path, handle: Address, mnt_id: Address, flag: HandleFlags):
                program(files::name_to_handle_at), note "kernel-order";
            304 OPEN_BY_HANDLE_AT OpenByHandleAt(mountdirfd: Dir, handle: Address, flags: OpenFlags): refused(ENOSYS);
            305 CLOCK_ADJTIME ClockAdjtime(which_clock: Int, utx: Address): forward -> clock_adjtime, note "clock-set";
            306 SYNCFS Syncfs(fd: Fd): kernel;
            307 SENDMMSG Sendmmsg(fd: Fd, mmsg: InOut<kernel::MMsgHdrs>, vlen: Uint, flags: MsgFlags):
                program(sockets::sendmmsg), strict program(calls::sendmmsg),
                notify on_socket::sendmmsg "model; waits";
            308 SETNS Setns(fd: Fd, flags: CloneFlags): refused(EPERM), note "namespaces";
            309 GETCPU Getcpu(cpup: Out<u32>, nodep: Out<u32>, unused: Address): program(machine::getcpu), note "one-processor";
            310 PROCESS_VM_READV ProcessVmReadv(pid: Int, lvec: In<kernel::IoVecs>, liovcnt: Size, rvec: In<kernel::IoVecs>,
                riovcnt: Size, flags: Flags):
                kernel;
            311 PROCESS_VM_WRITEV ProcessVmWritev(pid: Int, lvec: In<kernel::IoVecs>, liovcnt: Size, rvec: In<kernel::IoVecs>,
                riovcnt: Size, flags: Flags):
                kernel;
            312 KCMP Kcmp(pid1: Int, pid2: Int, kind: Int, idx1: Long, idx2: Long): program(machine::kcmp), note "kernel-order";
            313 FINIT_MODULE FinitModule(fd: Fd, uargs: Path, flags: Flags): refused(ENOSYS);
            314 SCHED_SETATTR SchedSetattr(pid: Int, uattr: Address, flags: Flags): program(machine::sched_setattr);
            315 SCHED_GETATTR SchedGetattr(pid: Int, uattr: Address, usize: Uint, flags: Flags): program(machine::sched_getattr);
            316 RENAMEAT2 Renameat2(olddfd: Dir, oldname: Path, newdfd: Dir, newname: Path, flags: RenameFlags): program(files::renameat2);
            317 SECCOMP Seccomp(op: Uint, flags: Flags, uargs: Address): refused(EINVAL), strict refused(EINVAL), note "own-filters";
            318 GETRANDOM Getrandom(buf: Address, count: Size, flags: RandomFlags): program(machine::getrandom);
            319 MEMFD_CREATE MemfdCreate(name: Path, flags: MemoryFileFlags): kernel;
            320 KEXEC_FILE_LOAD KexecFileLoad(kernel_fd: Fd, initrd_fd: Fd, cmdline_len: Size, cmdline: Address, flags: Flags):
                refused(ENOSYS);
            321 BPF Bpf(cmd: Int, attr: Address, size: Uint): refused(EPERM);
            322 EXECVEAT Execveat(dfd: Dir, filename: Path, argv: Address, envp: Address, flags: AtFlags): program(processes::execveat),
                strict same, note "setuid" "unreadable" "32-bit";
            323 USERFAULTFD Userfaultfd(flags: Flags): refused(EPERM),
                notify socket::userfaultfd "left to the kernel; workers touch the program's memory from then on";
            324 MEMBARRIER Membarrier(cmd: Int, flags: Flags, cpu_id: Int): kernel;
            325 MLOCK2 Mlock2(start: Address, len: Size, flags: Flags): program(memory::mlock2);
            326 COPY_FILE_RANGE CopyFileRange(fd_in: Fd, off_in: InOut<kernel::Offset>, fd_out: Fd, off_out: InOut<kernel::Offset>,
                len: Size, flags: Flags):
                program(data::copy_file_range);
            327 PREADV2 Preadv2(fd: Fd, vec: In<kernel::IoVecs>, vlen: Size, pos_l: Long, pos_h: Long, flags: VectorFlags):
                program(positions::preadv2), strict program(calls::preadv2);
            328 PWRITEV2 Pwritev2(fd: Fd, vec: In<kernel::IoVecs>, vlen: Size, pos_l: Long, pos_h: Long, flags: VectorFlags):
                program(positions::pwritev2), strict program(calls::pwritev2);
            329 PKEY_MPROTECT PkeyMprotect(start: Address, len: Size, prot: Protection, pkey: Int):
                program(memory::pkey_mprotect), strict program(memory::pkey_mprotect);
            330 PKEY_ALLOC PkeyAlloc(flags: Flags, init_val: Flags): kernel;
            331 PKEY_FREE PkeyFree(pkey: Int): kernel;
            332 STATX Statx(dfd: Dir, filename: Path, flags: AtFlags, mask: Flags, buffer: Out<kernel::Statx>): program(files::statx),
                note "file-numbers" "file-times";
            333 IO_PGETEVENTS IoPgetevents(ctx_id: Address, min_nr: Long, nr: Long, events: Address, timeout: In<kernel::Timespec>,
                usig: Address):
                refused(ENOSYS);
            334 RSEQ Rseq(rseq: Address, rseq_len: Uint, flags: Flags, sig: Flags): absent(ENOSYS);
            335 URETPROBE Uretprobe(): refused(ENOSYS);
            424 PIDFD_SEND_SIGNAL PidfdSendSignal(pidfd: Fd, sig: Signal, info: In<kernel::SigInfo>, flags: Flags):
                program(processes::pidfd_send_signal);
            425 IO_URING_SETUP IoUringSetup(entries: Uint, params: Address): refused(ENOSYS, 0), strict refused(ENOSYS, 0),
                notify socket::refuse_ring "refused: a ring would get past the filter", note "io-uring";
            426 IO_URING_ENTER IoUringEnter(fd: Fd, to_submit: Uint, min_complete: Uint, flags: Flags, argp: Address, argsz: Size):
                refused(ENOSYS, 0), strict refused(ENOSYS, 0),
                notify socket::refuse_ring "refused: a ring from outside, too";
            427 IO_URING_REGISTER IoUringRegister(fd: Fd, opcode: Uint, arg: Address, nr_args: Uint):
                refused(ENOSYS, 0), strict refused(ENOSYS, 0),
                notify socket::refuse_ring "refused: a ring from outside, too";
            428 OPEN_TREE OpenTree(dfd: Dir, filename: Path, flags: AtFlags): refused(ENOSYS);
            429 MOVE_MOUNT MoveMount(from_dfd: Dir, from_pathname: Path, to_dfd: Dir, to_pathname: Path, flags: Flags): refused(ENOSYS);
            430 FSOPEN Fsopen(fs_name: Path, flags: Flags): refused(ENOSYS);
            431 FSCONFIG Fsconfig(fs_fd: Fd, cmd: Uint, key: Path, value: Address, aux: Int): refused(ENOSYS);
            432 FSMOUNT Fsmount(fs_fd: Fd, flags: Flags, attr_flags: Flags): refused(ENOSYS);
            433 FSPICK Fspick(dfd: Dir, path: Path, flags: Flags): refused(ENOSYS);
            434 PIDFD_OPEN PidfdOpen(pid: Int, flags: Flags): kernel;
            435 CLONE3 Clone3(uargs: Address, size: Size): frame(threads::clone3), strict frame(thread::clone3_call), note "namespaces";
            436 CLOSE_RANGE CloseRange(fd: Uint, max_fd: Uint, flags: CloseFlags):
                program(descriptors::close_range), strict program(calls::close_range);
            437 OPENAT2 Openat2(dfd: Dir, filename: Path, how: In<kernel::OpenHow>, usize: Size):
                program(files::openat2), strict program(calls::openat2);
            438 PIDFD_GETFD PidfdGetfd(pidfd: Fd, fd: Int, flags: Flags): refused(EPERM);
            439 FACCESSAT2 Faccessat2(dfd: Dir, filename: Path, mode: Int, flags: AccessFlags): program(files::faccessat2);
            440 PROCESS_MADVISE ProcessMadvise(pidfd: Fd, vec: In<kernel::IoVecs>, vlen: Size, behavior: Int, flags: Flags):
                refused(ENOSYS);
            441 EPOLL_PWAIT2 EpollPwait2(epfd: Fd, events: Out<kernel::EpollEvents>, maxevents: Int, timeout: In<kernel::Timespec>,
                sigmask: In<kernel::SigSet>, sigsetsize: Size):
                program(poll::epoll_pwait2), strict program(poll::epoll_pwait2), note "edge-native" "poll-size";
            442 MOUNT_SETATTR MountSetattr(dfd: Dir, path: Path, flags: AtFlags, uattr: Address, usize: Size): refused(ENOSYS);
            443 QUOTACTL_FD QuotactlFd(fd: Fd, cmd: Flags, id: Id, addr: Address): refused(ENOSYS);
            444 LANDLOCK_CREATE_RULESET LandlockCreateRuleset(attr: Address, size: Size, flags: Flags): refused(ENOSYS);
            445 LANDLOCK_ADD_RULE LandlockAddRule(ruleset_fd: Fd, rule_type: Int, rule_attr: Address, flags: Flags): refused(ENOSYS);
            446 LANDLOCK_RESTRICT_SELF LandlockRestrictSelf(ruleset_fd: Fd, flags: Flags): refused(ENOSYS);
            447 MEMFD_SECRET MemfdSecret(flags: Flags): refused(ENOSYS);
            448 PROCESS_MRELEASE ProcessMrelease(pidfd: Fd, flags: Flags): refused(ENOSYS);
            449 FUTEX_WAITV FutexWaitv(waiters: In<kernel::FutexWaiters>, nr_futexes: Uint, flags: Flags, timeout: In<kernel::Timespec>,
                clockid: Int): program(futex::futex_waitv) -> futex_waitv;
            450 SET_MEMPOLICY_HOME_NODE SetMempolicyHomeNode(start: Address, len: Size, home_node: Size, flags: Flags): refused(ENOSYS);
            451 CACHESTAT Cachestat(fd: Fd, cstat_range: Address, cstat: Address, flags: Flags): refused(ENOSYS);
            452 FCHMODAT2 Fchmodat2(dfd: Dir, filename: Path, mode: Mode, flags: AtFlags): program(files::fchmodat2);
            453 MAP_SHADOW_STACK MapShadowStack(addr: Address, size: Size, flags: Flags): refused(ENOSYS);
            454 FUTEX_WAKE FutexWake(uaddr: Address, mask: Flags, nr: Int, flags: Flags): refused(ENOSYS);
            455 FUTEX_WAIT FutexWait(uaddr: Address, val: Flags, mask: Flags, flags: Flags, timeout: In<kernel::Timespec>, clockid: Int):
                refused(ENOSYS);
            456 FUTEX_REQUEUE FutexRequeue(waiters: In<kernel::FutexWaiters>, flags: Flags, nr_wake: Int, nr_requeue: Int): refused(ENOSYS);
            457 STATMOUNT Statmount(req: Address, buf: Address, bufsize: Size, flags: Flags): refused(ENOSYS);
            458 LISTMOUNT Listmount(req: Address, mnt_ids: Address, nr_mnt_ids: Size, flags: Flags): refused(ENOSYS);
            459 LSM_GET_SELF_ATTR LsmGetSelfAttr(attr: Uint, ctx: Address, size: Address, flags: Flags): refused(ENOSYS);
            460 LSM_SET_SELF_ATTR LsmSetSelfAttr(attr: Uint, ctx: Address, size: Uint, flags: Flags): refused(ENOSYS);
            461 LSM_LIST_MODULES LsmListModules(ids: Address, size: Address, flags: Flags): refused(ENOSYS);
            462 MSEAL Mseal(start: Address, len: Size, flags: Flags): refused(ENOSYS);
        }
    };
}
