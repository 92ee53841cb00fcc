// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * tcp_echo - a program of TCP that knows nothing of RDMA, for librspreload. That knows no
 * accept4() and no flags of socket(), so neither is used here: a program that does has
 * TCP, and is not told.
 *
 * usage: tcp_echo server ADDRESS PORT	takes BYTES of one client, sends them back
 *	  tcp_echo client ADDRESS PORT
 *
 * Exit code: 0 all bytes were right, 1 not, 2 could not run.
 */
#include <arpa/inet.h>
#include <sys/socket.h>
#include "rt.h"

#define BYTES	1000000
#define SEED	815

static char buf[BYTES], want[BYTES];

static int receive(int fd)
{
	ssize_t n;
	int sum;

	for (sum = 0; sum < BYTES; sum += n) {
		n = recv(fd, buf + sum, BYTES - sum, 0);
		if (n <= 0)
			rt_die("after %d bytes: %s", sum, n ? strerror(errno) : "the end");
	}
	return memcmp(buf, want, BYTES) ? 1 : 0;
}

static void transmit(int fd)
{
	ssize_t n;
	int sum;

	for (sum = 0; sum < BYTES; sum += n) {
		n = send(fd, want + sum, BYTES - sum, 0);
		if (n <= 0)
			rt_die("send after %d bytes: %s", sum, strerror(errno));
	}
}

static int serve(int fd, const struct sockaddr_in *a)
{
	int one = 1, conn, rc;
	char end;

	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, (void *)a, sizeof(*a)) || listen(fd, 1))
		rt_die("listen: %s", strerror(errno));
	conn = accept(fd, NULL, NULL);
	if (conn < 0)
		rt_die("accept: %s", strerror(errno));
	rc = receive(conn);
	transmit(conn);
	/* the client has all when it leaves */
	recv(conn, &end, 1, 0);
	close(conn);
	return rc;
}

static int ask(int fd, const struct sockaddr_in *a)
{
	if (connect(fd, (void *)a, sizeof(*a)))
		rt_die("connect: %s", strerror(errno));
	transmit(fd);
	return receive(fd);
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int fd, rc;

	if (argc != 4 || inet_pton(AF_INET, argv[2], &a.sin_addr) != 1)
		rt_die("usage: tcp_echo server|client ADDRESS PORT");
	a.sin_port = htons(atoi(argv[3]));
	rt_fill(want, BYTES, SEED, 0);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0)
		rt_die("socket: %s", strerror(errno));
	rc = !strcmp(argv[1], "server") ? serve(fd, &a) : ask(fd, &a);
	close(fd);
	return rc;
}
