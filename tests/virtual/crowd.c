// crowd COUNT FOLDER: what the kernel alone needs for so many nodes that sleep. Each is a process of its own mount, pid, uts and ipc namespaces with a file system
// in memory, an overlay over /etc in it and a /proc, which then executes sleep. Says the seconds until the last of them has executed it, and kills them.
// Needs root. FOLDER is an empty folder; nothing that is mounted there is seen outside.
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STACK_BYTES = 64 * 1024 };

static const char *folder;
static int done[2];

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static void make(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (mkdir(path, 0755) != 0)
        err(1, "mkdir %s", path);
}

static int node(void *unused) {
    (void)unused;
    char options[16384], to[4096];
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || mount("crowd", folder, "tmpfs", 0, "mode=755") != 0)
        err(1, "mount in %s", folder);
    make("upper"), make("work"), make("root");
    snprintf(to, sizeof to, "%s/root", folder);
    snprintf(options, sizeof options, "lowerdir=/etc,upperdir=%s/upper,workdir=%s/work", folder, folder);
    if (mount("crowd", to, "overlay", 0, options) != 0)
        err(1, "overlay %s", options);
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
        err(1, "mount /proc");
    // Both ends of the pipe go with execve.
    execlp("sleep", "sleep", "1000", (char *)NULL);
    err(1, "sleep");
}

int main(int argc, char **argv) {
    if (argc != 3)
        errx(2, "usage: crowd COUNT FOLDER");
    int count = atoi(argv[1]);
    folder = argv[2];
    pid_t *nodes = calloc(count, sizeof *nodes);
    char *stack = malloc(STACK_BYTES);
    if (!nodes || !stack || pipe2(done, O_CLOEXEC) != 0)
        err(1, "begin");
    double start = now();
    for (int index = 0; index < count; index++) {
        int flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC | SIGCHLD;
        // A copy of this process: each has the stack to itself.
        if ((nodes[index] = clone(node, stack + STACK_BYTES, flags, NULL)) < 0)
            err(1, "clone");
    }
    close(done[1]);
    char byte;
    // The end of the pipe: nobody has the other side any more.
    if (read(done[0], &byte, 1) != 0)
        errx(1, "somebody wrote");
    double seconds = now() - start;
    int alive = 0;
    for (int index = 0; index < count; index++)
        alive += waitpid(nodes[index], NULL, WNOHANG) == 0;
    for (int index = 0; index < count; index++)
        kill(nodes[index], SIGKILL);
    while (wait(NULL) > 0) {
    }
    if (alive != count)
        errx(1, "%d of %d are there", alive, count);
    printf("%.4f\n", seconds);
    return 0;
}
