// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * while_moved - run a command while a device is moved into this network namespace.
 *
 * usage: while_moved COMMAND [ARG...]
 *
 * A device tells of its move in the middle of it, to one listener after the other. Most
 * of those here are slow to say that they do not want to know; the first one runs COMMAND
 * at once, so that it has a second or so before the move goes on. Prints "ready" once it
 * listens; becomes COMMAND, whose exit code is the program's.
 *
 * Exit code: 2 could not run.
 */
#include <linux/bpf.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include "rt.h"

#define LISTENERS	1000
/* Of each: so many times so many divisions; a socket has no room for a longer filter. */
#define TIMES		15
#define DIVISIONS	2000

#ifndef SO_ATTACH_BPF
#define SO_ATTACH_BPF	50
#endif

/* A filter that takes its time and wants nothing. */
static int slow_filter(void)
{
	static struct bpf_insn insns[DIVISIONS + 6];
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
		.insns = (uintptr_t)insns,
		.license = (uintptr_t)"GPL",
	};
	unsigned int i, n = 0;
	int fd;

	insns[n++] = (struct bpf_insn){ BPF_ALU64 | BPF_MOV | BPF_K, 1, .imm = TIMES };
	insns[n++] = (struct bpf_insn){ BPF_ALU64 | BPF_MOV | BPF_K, 0, .imm = 0 };
	for (i = 0; i < DIVISIONS; i++)
		insns[n++] = (struct bpf_insn){ BPF_ALU64 | BPF_DIV | BPF_K, 0, .imm = 1 };
	insns[n++] = (struct bpf_insn){ BPF_ALU64 | BPF_SUB | BPF_K, 1, .imm = 1 };
	insns[n++] = (struct bpf_insn){ BPF_JMP | BPF_JNE | BPF_K, 1, .off = -DIVISIONS - 2 };
	insns[n++] = (struct bpf_insn){ BPF_ALU64 | BPF_MOV | BPF_K, 0, .imm = 0 };
	insns[n++] = (struct bpf_insn){ BPF_JMP | BPF_EXIT };
	attr.insn_cnt = n;
	fd = syscall(__NR_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
	if (fd < 0)
		rt_die("bpf: %s", strerror(errno));
	return fd;
}

/* @filter: -1: none */
static int listener(int filter)
{
	struct sockaddr_nl addr = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	int fd = socket(AF_NETLINK, SOCK_DGRAM, NETLINK_KOBJECT_UEVENT);

	if (fd < 0 || (filter >= 0 && setsockopt(fd, SOL_SOCKET, SO_ATTACH_BPF, &filter,
						 sizeof(filter))) ||
	    bind(fd, (struct sockaddr *)&addr, sizeof(addr)))
		rt_die("uevents: %s", strerror(errno));
	return fd;
}

int main(int argc, char **argv)
{
	int filter = slow_filter(), fd, i;
	char msg[4096] = "";

	if (argc < 2)
		rt_die("no command");
	/* who comes last is told first */
	for (i = 0; i < LISTENERS; i++)
		listener(filter);
	fd = listener(-1);
	setlinebuf(stdout);
	printf("ready\n");
	while (strncmp(msg, "move@", 5))
		if (recv(fd, msg, sizeof(msg) - 1, 0) < 0)
			rt_die("uevents: %s", strerror(errno));
	/* the sockets stay open: their end would wait for the move */
	execvp(argv[1], argv + 1);
	rt_die("%s: %s", argv[1], strerror(errno));
}
