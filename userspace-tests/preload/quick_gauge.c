// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * quick_gauge - perftest without the quarter of a second in which it gauges the processor
 *
 * usage: LD_PRELOAD=build/quick_gauge.so ib_send_bw...
 *
 * Before it reports on a size, perftest counts the processor's ticks in 200 loops that each last
 * up to 2 ms by gettimeofday(), which it has no other use for. By this clock they are over 16
 * times sooner. It then reports 16 times too little: not for who wants to know how fast anything
 * is (scripts/bench).
 */
#include <sys/time.h>
#include <time.h>

#define FASTER 16

int gettimeofday(struct timeval *tv, void *tz)
{
	struct timespec t;
	long long us;

	clock_gettime(CLOCK_MONOTONIC, &t);
	us = FASTER * (t.tv_sec * 1000000LL + t.tv_nsec / 1000);
	tv->tv_sec = us / 1000000;
	tv->tv_usec = us % 1000000;
	return 0;
}
