// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * smc_stream - a byte stream by an SMC socket, every byte of it checked.
 *
 * usage: smc_stream ueid NAME		let SMC-Rv2 be used between those who call
 *					themselves NAME (capital letters and digits)
 *	  smc_stream timeouts		how many connections of this namespace went on with
 *					TCP because the first message by RDMA was late
 *	  smc_stream server PORT	answers one client
 *	  smc_stream client ADDRESS PORT
 *
 * The client sends messages of many sizes, each of which the server sends back, and then
 * 8 MiB that the server only checks.
 *
 * Exit code: 0 all bytes were right, 1 not, 2 could not run.
 */
#include <arpa/inet.h>
#include <linux/genetlink.h>
#include <linux/smc.h>
#include <sys/socket.h>
#include "rt.h"

#ifndef AF_SMC
#define AF_SMC	43
#endif

/* of net/smc/smc_clc.h */
#define DECL_TIMEOUT_CL	0x02010000

#define MESSAGES	200
#define LARGEST		70000
#define BULK		(8 << 20)
#define SEED		4711

static char buf[BULK], back[LARGEST];

/* --- generic netlink ------------------------------------------------------- */

struct request {
	struct nlmsghdr nl;
	struct genlmsghdr genl;
	struct nlattr attr;
	char text[64];
};

/*
 * Sends a command with one string, and puts the answer into @buf, which is an acknowledgment
 * from all but the controller. Returns -errno or 0.
 */
static int command(int fd, int type, int cmd, int version, int attr, const char *text, int len)
{
	struct request r = {
		.nl = { .nlmsg_type = type,
			.nlmsg_flags = NLM_F_REQUEST | (type == GENL_ID_CTRL ? 0 : NLM_F_ACK) },
		.genl = { .cmd = cmd, .version = version },
		.attr = { .nla_type = attr, .nla_len = NLA_HDRLEN + len },
	};
	struct nlmsghdr *nl = (void *)buf;

	memcpy(r.text, text, len);
	r.nl.nlmsg_len = NLMSG_ALIGN(offsetof(struct request, text) + len);
	if (send(fd, &r, r.nl.nlmsg_len, 0) < 0 || recv(fd, buf, sizeof(buf), 0) < 0)
		return -errno;
	return nl->nlmsg_type == NLMSG_ERROR ? ((struct nlmsgerr *)NLMSG_DATA(nl))->error : 0;
}

/* The attribute of a message, of those that begin behind @skip bytes, or NULL. */
static char *attribute(struct nlmsghdr *nl, int skip, int type)
{
	char *p = (char *)NLMSG_DATA(nl) + skip, *end = (char *)nl + nl->nlmsg_len;

	while (p < end) {
		struct nlattr *a = (void *)p;

		if (a->nla_type == type)
			return p + NLA_HDRLEN;
		p += NLA_ALIGN(a->nla_len);
	}
	return NULL;
}

static int family(int fd)
{
	const char *name = SMC_GENL_FAMILY_NAME;
	struct nlmsghdr *nl = (void *)buf;
	char *id;

	if (command(fd, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 1, CTRL_ATTR_FAMILY_NAME, name,
		    strlen(name) + 1))
		rt_die("no SMC in this kernel");
	id = attribute(nl, GENL_HDRLEN, CTRL_ATTR_FAMILY_ID);
	if (!id)
		rt_die("generic netlink: no number for SMC");
	return *(uint16_t *)id;
}

static int add_ueid(const char *name)
{
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC);
	char id[SMC_MAX_EID_LEN + 1];
	int err;

	snprintf(id, sizeof(id), "%-*s", SMC_MAX_EID_LEN, name);
	err = command(fd, family(fd), SMC_NETLINK_ADD_UEID, SMC_GENL_FAMILY_VERSION,
		      SMC_NLA_EID_TABLE_ENTRY, id, sizeof(id));
	if (err && err != -EEXIST)
		rt_die("add user EID: %s", strerror(-err));
	return 0;
}

/* Of one reason in the list: how often it was a CONFIRM LINK that did not come in time. */
static int late(struct nlmsghdr *nl)
{
	char *reason = attribute(nl, GENL_HDRLEN + NLA_HDRLEN, SMC_NLA_FBACK_STATS_RSN_CODE);
	char *count = attribute(nl, GENL_HDRLEN + NLA_HDRLEN, SMC_NLA_FBACK_STATS_RSN_CNT);

	if (!reason || !count || *(uint32_t *)reason != DECL_TIMEOUT_CL)
		return 0;
	return *(uint16_t *)count;
}

static int timeouts(void)
{
	struct {
		struct nlmsghdr nl;
		struct genlmsghdr genl;
	} r = {
		.nl = { .nlmsg_len = sizeof(r), .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.genl = { .cmd = SMC_NETLINK_GET_FBACK_STATS, .version = SMC_GENL_FAMILY_VERSION },
	};
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC), n, sum = 0;
	struct nlmsghdr *nl;

	r.nl.nlmsg_type = family(fd);
	if (send(fd, &r, sizeof(r), 0) < 0)
		rt_die("ask for fall-backs: %s", strerror(errno));
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		for (nl = (void *)buf; NLMSG_OK(nl, n); nl = NLMSG_NEXT(nl, n)) {
			if (nl->nlmsg_type == NLMSG_DONE) {
				printf("%d\n", sum);
				return 0;
			}
			if (nl->nlmsg_type == NLMSG_ERROR)
				rt_die("fall-backs: the kernel does not tell");
			sum += late(nl);
		}
	}
	rt_die("fall-backs: %s", strerror(errno));
}

/* --- the stream ------------------------------------------------------------ */

static void put(int fd, const char *p, size_t len)
{
	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		if (n <= 0)
			rt_die("send: %s", strerror(errno));
		p += n;
		len -= n;
	}
}

static void get(int fd, char *p, size_t len)
{
	while (len) {
		ssize_t n = recv(fd, p, len, 0);

		if (n <= 0)
			rt_die("receive: %s", n ? strerror(errno) : "end of stream");
		p += n;
		len -= n;
	}
}

static size_t size_of(int i)
{
	uint64_t state = SEED + i;

	return i < 20 ? i + 1 : rt_rand(&state) % LARGEST + 1;
}

static int serve(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_SMC, SOCK_STREAM, 0), conn, i, one = 1;
	char ok;

	/* of the connection before this one there may be a rest */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, (void *)&a, sizeof(a)) || listen(fd, 1))
		rt_die("listen: %s", strerror(errno));
	conn = accept(fd, NULL, NULL);
	if (conn < 0)
		rt_die("accept: %s", strerror(errno));
	for (i = 0; i < MESSAGES; i++) {
		get(conn, back, size_of(i));
		put(conn, back, size_of(i));
	}
	get(conn, buf, BULK);
	ok = rt_check(buf, BULK, SEED, 0);
	put(conn, &ok, 1);
	/* until the client has it */
	recv(conn, &ok, 1, 0);
	return !ok;
}

static int ask(const char *address, int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket(AF_SMC, SOCK_STREAM, 0), i;
	char ok;

	inet_pton(AF_INET, address, &a.sin_addr);
	if (fd < 0 || connect(fd, (void *)&a, sizeof(a)))
		rt_die("connect: %s", strerror(errno));
	for (i = 0; i < MESSAGES; i++) {
		rt_fill(buf, size_of(i), SEED, i * 8);
		put(fd, buf, size_of(i));
		get(fd, back, size_of(i));
		if (memcmp(buf, back, size_of(i)))
			rt_die("message %d came back changed", i);
	}
	rt_fill(buf, BULK, SEED, 0);
	put(fd, buf, BULK);
	get(fd, &ok, 1);
	if (!ok)
		rt_die("the server has other bytes");
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "ueid"))
		return add_ueid(argv[2]);
	if (argc == 2 && !strcmp(argv[1], "timeouts"))
		return timeouts();
	if (argc == 3 && !strcmp(argv[1], "server"))
		return serve(atoi(argv[2]));
	if (argc == 4 && !strcmp(argv[1], "client"))
		return ask(argv[2], atoi(argv[3]));
	fprintf(stderr,
		"usage: smc_stream ueid NAME | timeouts | server PORT | client ADDRESS PORT\n");
	return 2;
}
