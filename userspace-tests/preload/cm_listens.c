// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * cm_listens - tells when a server of the RDMA-CM listens
 *
 * usage: CM_LISTENS=FILE LD_PRELOAD=build/cm_listens.so PROGRAM...
 *
 * The kernel shows an ID in state LISTEN a moment before it really listens (rdma_listen() in
 * cma.c), and rejects whoever comes in between. FILE is there when the call has returned.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct rdma_cm_id;

int rdma_listen(struct rdma_cm_id *id, int backlog);

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	int (*next)(struct rdma_cm_id *id, int backlog) = dlsym(RTLD_NEXT, "rdma_listen");
	const char *file = getenv("CM_LISTENS");
	int err = next(id, backlog);

	if (!err && file)
		close(creat(file, 0600));
	return err;
}
