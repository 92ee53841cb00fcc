// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * cm_patient - perftest -R without its race
 *
 * usage: LD_PRELOAD=build/cm_patient.so PROGRAM...
 *
 * perftest -R makes two connections: one to talk, and by what is said over it one for
 * each QP. The server has closed its first listener by then and opens another one, while
 * the client connects at once: nothing tells it that there is somebody to listen, it is
 * refused if it comes first, and its attempt to try again uses what it has freed. So
 * rdma_connect() waits here until somebody on this host listens on the port.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LIMIT	300	/* looks, each of which takes a while in itself */

struct rdma_cm_id;
struct rdma_conn_param;

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	int (*connect_now)(struct rdma_cm_id *id, struct rdma_conn_param *param);
	uint16_t (*port_of)(struct rdma_cm_id *id);
	char look[160];
	int i;

	connect_now = dlsym(RTLD_NEXT, "rdma_connect");
	port_of = dlsym(RTLD_NEXT, "rdma_get_dst_port");
	snprintf(look, sizeof(look),
		 "LD_PRELOAD= rdma resource show cm_id | grep -q 'LISTEN.*:%u\\b'",
		 ntohs(port_of(id)));
	for (i = 0; i < LIMIT && system(look); i++)
		usleep(50000);
	return connect_now(id, param);
}
