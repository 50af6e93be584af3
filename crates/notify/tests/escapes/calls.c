// Tries every way past the filter that is known; one line each: what, and what came of it (0 or more: it worked, else -errno).
// Standard input is a datagram socket of the host's; the argument is the port of another one, on its loopback.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

// A call of the i386 table; all pointers must lie below 4 GiB.
static long i386(long number, long a, long b, long c, long d, long e, long f)
{
	long result;
	asm volatile("push %%rbp; mov %7, %%rbp; int $0x80; pop %%rbp"
		     : "=a"(result)
		     : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e), "r"(f)
		     : "memory", "r8", "r9", "r10", "r11");
	return (int)result;
}

static long native(long result)
{
	return result < 0 ? -errno : result;
}

static void say(const char *what, long result)
{
	printf("%s %ld\n", what, result);
}

int main(int argc, char **argv)
{
	char *low = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	struct sockaddr_in *to = (void *)low;
	struct ifreq *interface = (void *)(low + 256);
	int local = socket(AF_UNIX, SOCK_DGRAM, 0), stand_in = socket(AF_INET, SOCK_DGRAM, 0), pair[2];
	if (argc < 2 || low == MAP_FAILED || local < 0 || stand_in < 0)
		return 1;
	*to = (struct sockaddr_in){AF_INET, htons(atoi(argv[1])), {htonl(INADDR_LOOPBACK)}};
	long address = (long)to, data = (long)strcpy(low + 128, "escaped"), end = (long)(low + 512);

	say("i386 socketcall", i386(102, 1, end, 0, 0, 0, 0));
	say("i386 socket", i386(359, AF_INET, SOCK_STREAM, 0, 0, 0, 0));
	say("i386 socketpair", i386(360, AF_TIPC, SOCK_SEQPACKET, 0, end, 0, 0));
	say("i386 io_uring_setup", i386(425, 8, end, 0, 0, 0, 0));
	for (int pass = 0; pass < 2; pass++) {
		int fd = pass ? stand_in : 0;
		say("i386 sendto", i386(369, fd, data, 7, 0, address, sizeof *to));
		say("i386 bind", i386(361, fd, address, sizeof *to, 0, 0, 0));
		say("i386 connect", i386(362, fd, address, sizeof *to, 0, 0, 0));
		say("i386 listen", i386(363, fd, 1, 0, 0, 0, 0));
		say("i386 accept4", i386(364, fd, 0, 0, 0, 0, 0));
		say("i386 getsockopt", i386(365, fd, SOL_SOCKET, SO_TYPE, data, end, 0));
		say("i386 setsockopt", i386(366, fd, SOL_SOCKET, SO_BROADCAST, address, 4, 0));
		say("i386 getsockname", i386(367, fd, data, end, 0, 0, 0));
		say("i386 getpeername", i386(368, fd, data, end, 0, 0, 0));
		say("i386 sendmsg", i386(370, fd, end, 0, 0, 0, 0));
		say("i386 recvfrom", i386(371, fd, data, 7, MSG_DONTWAIT, 0, 0));
		say("i386 recvmsg", i386(372, fd, end, MSG_DONTWAIT, 0, 0, 0));
		say("i386 shutdown", i386(373, fd, SHUT_RDWR, 0, 0, 0, 0));
		say("i386 sendmmsg", i386(345, fd, end, 1, 0, 0, 0));
		say("i386 recvmmsg", i386(337, fd, end, 1, MSG_DONTWAIT, 0, 0));
		say("i386 recvmmsg_time64", i386(417, fd, end, 1, MSG_DONTWAIT, 0, 0));
	}
	say("x32 socket", native(syscall(0x40000000 | SYS_socket, AF_INET, SOCK_STREAM, 0)));
	say("x32 sendto", native(syscall(0x40000000 | SYS_sendto, 0, data, 7, 0, address, sizeof *to)));
	say("x32 ioctl", native(syscall(0x40000000 | 514, local, SIOCGIFMTU, interface)));

	// The stack has a lo of its own; the test looks whether the host's has become another.
	strcpy(interface->ifr_name, "lo");
	interface->ifr_mtu = 65000;
	say("i386 SIOCSIFMTU", i386(54, local, SIOCSIFMTU, (long)interface, 0, 0, 0));
	say("i386 SIOCGIFMTU", i386(54, local, SIOCGIFMTU, (long)interface, 0, 0, 0));
	say("native SIOCSIFMTU", native(ioctl(local, SIOCSIFMTU, interface)));
	say("native SIOCSIFMTU on the host's", native(ioctl(0, SIOCSIFMTU, interface)));
	int null = open("/dev/null", O_RDWR), tun = open("/dev/net/tun", O_RDWR);
	say("native SIOCSIFMTU on a device", native(ioctl(null, SIOCSIFMTU, interface)));
	say("native SIOCOUTQNSD on another", native(ioctl(local, 0x894b, interface)));
	memset(interface, 0, sizeof *interface);
	strcpy(interface->ifr_name, "escape0");
	interface->ifr_flags = IFF_TAP | IFF_NO_PI;
	say("native TUNSETIFF", native(ioctl(tun, TUNSETIFF, interface)));
	say("native TUNSETIFF, other bits", native(syscall(SYS_ioctl, tun, TUNSETIFF | 1L << 40, interface)));
	say("i386 TUNSETIFF", i386(54, tun, TUNSETIFF, (long)interface, 0, 0, 0));
	say("native socketpair", native(socketpair(AF_TIPC, SOCK_SEQPACKET, 0, pair)));
	say("native io_uring_enter", native(syscall(SYS_io_uring_enter, 0, 0, 0, 0, 0, 0)));
	// What must go on working.
	say("i386 getpid", i386(20, 0, 0, 0, 0, 0, 0) == getpid());
	say("i386 FIONREAD", i386(54, local, FIONREAD, data, 0, 0, 0));
	say("native socketpair of files", native(socketpair(AF_UNIX, SOCK_STREAM, 0, pair)));
	return 0;
}
