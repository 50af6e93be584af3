/* What the programs share that do the same natively and in virtual time: parts, each a line "PART: WHAT CAME OF IT (STATUS)". */
#pragma once
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAYBE __attribute__((unused)) static

struct part { const char *name; void (*run)(void); };

MAYBE void ms(int n) { struct timespec t = {n / 1000, n % 1000 * 1000000}; nanosleep(&t, 0); }
MAYBE volatile int seen[65];
MAYBE void saw(int number) { seen[number]++; }
MAYBE void handle(int number)
{
    struct sigaction action = {.sa_handler = saw};
    sigaction(number, &action, 0);
}
MAYBE long came(long result) { return result < 0 ? -errno : result; }

/* `PROGRAM PART`, or all of them, each in a process of its own. */
static int parts(int count, char **words, const struct part *all, unsigned many)
{
    for (unsigned part = 0; part < many; part++) {
        if (count > 1 && strcmp(words[1], all[part].name)) continue;
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            alarm(30);
            printf("%s: ", all[part].name);
            fflush(stdout);
            all[part].run();
            fflush(stdout);
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        printf(" (%x)\n", status);
    }
    return 0;
}
