// Uses sockets while an interval timer fires. With "restart" its handler restarts calls, else every call is repeated when it gives EINTR.
// Prints what was done twice, what failed, and (on standard error) how many calls were interrupted that Linux never interrupts.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 250, MICROSECONDS = 200 };
static int interrupted, failed;

static void tick(int signal)
{
	(void)signal;
}

#define AGAIN(call) ({ long r; while ((r = (call)) < 0 && errno == EINTR) interrupted++; r; })
#define MUST(what, call) do { if (AGAIN(call) < 0) { failed++; printf("%s: %s\n", what, strerror(errno)); } } while (0)

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct sockaddr_in server = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}};
	socklen_t length = sizeof server;
	int twice = 0, lost = 0, listener = socket(AF_INET, SOCK_STREAM, 0);
	MUST("bind", bind(listener, (void *)&server, sizeof server));
	MUST("listen", listen(listener, ROUNDS));
	MUST("getsockname", getsockname(listener, (void *)&server, &length));

	setvbuf(stdout, 0, _IOLBF, 0);
	struct sigaction action = {.sa_handler = tick, .sa_flags = argc > 1 && !strcmp(argv[1], "restart") ? SA_RESTART : 0};
	sigaction(SIGALRM, &action, 0);
	setitimer(ITIMER_REAL, &(struct itimerval){{0, MICROSECONDS}, {0, MICROSECONDS}}, 0);
	// Until a signal has cancelled a call of this thread, weft does not know that its answers are in doubt.
	for (int warm = 0; warm < 2000; warm++)
		MUST("getsockname", getsockname(listener, (void *)&(struct sockaddr_in){}, &(socklen_t){sizeof server}));
	for (int round = 0; round < ROUNDS; round++) {
		struct sockaddr_in own = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}};
		int one = 1, got = 0, data, fd = AGAIN(socket(AF_INET, SOCK_DGRAM, 0)), stream = AGAIN(socket(AF_INET, SOCK_STREAM, 0));
		struct ip_mreq group = {{inet_addr("224.1.2.3")}, {htonl(INADDR_LOOPBACK)}};
		length = sizeof own;
		if (fd < 0 || stream < 0) {
			failed++;
			printf("socket: %s\n", strerror(errno));
		}
		MUST("bind", bind(fd, (void *)&own, sizeof own));
		MUST("getsockname", getsockname(fd, (void *)&own, &length));
		MUST("setsockopt", setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &one, sizeof one));
		MUST("membership", setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group));
		// A plain number, and not one of its own: nothing but the socket tells one round's message from the next one's.
		data = 7;
		MUST("sendto", sendto(fd, &data, sizeof data, 0, (void *)&own, sizeof own));
		for (double end = now() + 0.01; now() < end && got < 2;)
			if (recv(fd, &data, sizeof data, MSG_DONTWAIT) == sizeof data) {
				got++;
				end = now() + 0.002;
			}
		twice += got > 1;
		lost += got == 0;
		fcntl(stream, F_SETFL, O_NONBLOCK);
		if (AGAIN(connect(stream, (void *)&server, sizeof server)) < 0 && errno != EINPROGRESS) {
			failed++;
			printf("connect: %s\n", strerror(errno));
		}
		close(stream);
		close(fd);
	}
	setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, 0);
	fprintf(stderr, "interrupted %d, late %d\n", interrupted, lost);
	printf("twice %d, failed %d\n", twice, failed);
	return 0;
}
