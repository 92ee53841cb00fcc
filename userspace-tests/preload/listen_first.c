// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * listen_first - a server that listens before it tells its port
 *
 * usage: LD_PRELOAD=build/listen_first.so PROGRAM...
 *
 * qperf's server binds, sends its port to the client and only then listens on it
 * (cm_open_server()): a client that is quicker is rejected, by any device. So
 * rdma_bind_addr() listens as well here, and the program's own rdma_listen() finds it done.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

struct rdma_cm_id;
struct sockaddr;

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
int rdma_listen(struct rdma_cm_id *id, int backlog);

static struct rdma_cm_id *listens;

static int listen_now(struct rdma_cm_id *id, int backlog)
{
	int (*next)(struct rdma_cm_id *id, int backlog) = dlsym(RTLD_NEXT, "rdma_listen");

	return next(id, backlog);
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	int (*next)(struct rdma_cm_id *id, struct sockaddr *addr) =
		dlsym(RTLD_NEXT, "rdma_bind_addr");
	int err = next(id, addr);

	listens = NULL;
	if (!err && !listen_now(id, 0))
		listens = id;
	return err;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	return id == listens ? 0 : listen_now(id, backlog);
}
