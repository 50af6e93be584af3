// Runs a program under the part of Docker's default seccomp profile that matters to weft: without CAP_SYS_ADMIN no new namespaces, no mounts, no setns, no
// userfaultfd; clone3 is not there, so that libraries take clone (moby: profiles/seccomp/default.json).
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define REFUSE(call, error) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error)
// CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET.
#define NAMESPACES 0x7e020000

int main(int count, char **words) {
    struct sock_filter rules[] = {
        LOAD(nr),
        REFUSE(SYS_unshare, EPERM), REFUSE(SYS_mount, EPERM), REFUSE(SYS_umount2, EPERM), REFUSE(SYS_pivot_root, EPERM), REFUSE(SYS_setns, EPERM),
        REFUSE(SYS_userfaultfd, EPERM), REFUSE(SYS_open_tree, EPERM), REFUSE(SYS_move_mount, EPERM), REFUSE(SYS_fsopen, EPERM),
        REFUSE(SYS_clone3, ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
        LOAD(args[0]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NAMESPACES, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
    if (count < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter)) {
        perror("seccomp");
        return 125;
    }
    execvp(words[1], words + 1);
    perror(words[1]);
    return 126;
}
