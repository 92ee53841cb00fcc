// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * mpi_ring - real messages between MPI ranks, every byte checked.
 *
 * usage: mpirun -np N mpi_ring [ROUNDS]
 *
 * In each of ROUNDS (default 3) rounds and for sizes from 1 byte to 1 MiB each
 * rank sends a pattern to the next rank and receives from the one before, by
 * MPI_Sendrecv, then by nonblocking calls; then all exchange small and large
 * messages by MPI_Alltoall and sum by MPI_Allreduce.
 *
 * Output: rank 0 prints "mpi_ring: N ranks, M messages, ok". Exit code: 0 all
 * bytes right, 1 not.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_SIZE	(1 << 20)

static unsigned char out[MAX_SIZE], in[MAX_SIZE];
static int rank, ranks, messages;

static unsigned char pattern(int from, int round, int i)
{
	return from * 131 + round * 17 + i * 7 + (i >> 8);
}

static void check(const unsigned char *got, int from, int round, int size)
{
	int i;

	for (i = 0; i < size; i++) {
		if (got[i] == pattern(from, round, i))
			continue;
		fprintf(stderr, "mpi_ring: rank %d: byte %d of %d from %d is wrong\n",
			rank, i, size, from);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	messages++;
}

static void shift(int round, int size)
{
	int next = (rank + 1) % ranks, prev = (rank + ranks - 1) % ranks, i;
	MPI_Request r[2];

	for (i = 0; i < size; i++)
		out[i] = pattern(rank, round, i);
	MPI_Sendrecv(out, size, MPI_BYTE, next, size, in, size, MPI_BYTE, prev,
		     size, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	check(in, prev, round, size);

	for (i = 0; i < size; i++)
		out[i] = pattern(rank, round + 1, i);
	MPI_Irecv(in, size, MPI_BYTE, prev, 1, MPI_COMM_WORLD, &r[0]);
	MPI_Isend(out, size, MPI_BYTE, next, 1, MPI_COMM_WORLD, &r[1]);
	MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	check(in, prev, round + 1, size);
}

/* Everybody to everybody, @size bytes each */
static void all_to_all(int size)
{
	int i, j;

	for (i = 0; i < ranks; i++)
		for (j = 0; j < size; j++)
			out[i * size + j] = pattern(rank, i, j);
	MPI_Alltoall(out, size, MPI_BYTE, in, size, MPI_BYTE, MPI_COMM_WORLD);
	for (i = 0; i < ranks; i++)
		check(in + i * size, i, rank, size);
}

static void sum_up(void)
{
	int sum = 0;

	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (sum == ranks * (ranks - 1) / 2)
		return;
	fprintf(stderr, "mpi_ring: rank %d: the sum is %d\n", rank, sum);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 3, i, size;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (i = 0; i < rounds; i++)
		for (size = 1; size <= MAX_SIZE; size *= 4)
			shift(i, size);
	all_to_all(8);
	all_to_all(MAX_SIZE / ranks);
	sum_up();
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank)
		printf("mpi_ring: %d ranks, %d messages, ok\n", ranks, messages);
	MPI_Finalize();
	return 0;
}
