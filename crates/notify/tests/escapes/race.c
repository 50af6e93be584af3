// Exchanges a descriptor while calls are made on it, and says how often a request about interfaces got through.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static volatile int stop;
static int socket_end, device, work;

static void *exchange(void *unused)
{
	while (!stop) {
		dup2(socket_end, work);
		dup2(device, work);
	}
	return unused;
}

int main(void)
{
	pthread_t thread;
	int through = 0, refused = 0, other = 0;
	socket_end = socket(AF_UNIX, SOCK_DGRAM, 0);
	device = open("/dev/null", O_RDWR);
	work = dup(device);
	if (socket_end < 0 || work < 0 || pthread_create(&thread, 0, exchange, 0))
		return 1;
	for (int round = 0; round < 5000; round++) {
		// The stack has a lo of its own; the test looks whether the host's has become another.
		struct ifreq interface = {.ifr_name = "lo"};
		interface.ifr_mtu = 65000;
		if (!ioctl(work, SIOCSIFMTU, &interface))
			through++;
		else if (errno == EPERM || errno == ENOTTY || errno == EBADF)
			refused++;
		else
			other++;
	}
	stop = 1;
	pthread_join(thread, 0);
	printf("answered %d, other %d\n", through + refused, other);
	return 0;
}
