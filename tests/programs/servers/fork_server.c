// A forking server in the old style: one child per connection, which execs sha256sum with the connection as its
// standard input and output. The client half-closes, sha256sum sees the end of file and answers.
//
//   fork_server ADDRESS PORT
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char *what) {
    perror(what);
    exit(1);
}

// Children end while accept is waiting: SA_RESTART has to bring it back.
static void reap(int number) {
    (void)number;
    int saved = errno;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    errno = saved;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: fork_server ADDRESS PORT\n");
        return 2;
    }
    struct sigaction action = {.sa_handler = reap, .sa_flags = SA_RESTART};
    if (sigaction(SIGCHLD, &action, NULL) != 0) fail("sigaction");

    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *address;
    if (getaddrinfo(argv[1], argv[2], &hints, &address) != 0) fail("address");
    int listener = socket(address->ai_family, SOCK_STREAM, 0);
    if (listener < 0) fail("socket");
    int on = 1;
    if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) fail("SO_REUSEADDR");
    if (bind(listener, address->ai_addr, address->ai_addrlen) != 0) fail("bind");
    if (listen(listener, 64) != 0) fail("listen");

    for (;;) {
        int connection = accept(listener, NULL, NULL);
        if (connection < 0) fail("accept");
        pid_t child = fork();
        if (child < 0) fail("fork");
        if (child == 0) {
            close(listener);
            if (dup2(connection, 0) < 0 || dup2(connection, 1) < 0) fail("dup2");
            close(connection);
            execlp("sha256sum", "sha256sum", "-", (char *)NULL);
            fail("exec");
        }
        close(connection);
    }
}
