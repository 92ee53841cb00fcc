// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The module's CRC-32 kernels as a program, on the CPU of this host: emulated
 * machines have neither AVX-512 nor the speed of metal.
 *
 * Each kernel that the CPU can do: right for every length, alignment and pair of
 * start values; copies what it should and nothing beside; and never touches a
 * byte outside of source and destination, which both end, and begin, at pages
 * that must not be touched. Then its speed. Prints TAP.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

typedef uint32_t crc_fn(uint32_t crc, const void *src, size_t len, void *dst);

crc_fn roe_icrc_pclmul, roe_icrc_vpclmul128, roe_icrc_vpclmul256, roe_icrc_vpclmul512;

#define PAGE	4096
#define MIN_LEN	16
#define MAX_LEN	1300
#define GUARD	0xa5

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

static bool has_pclmul(void)
{
	return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}

static bool has_vpclmul128(void)
{
	return has_pclmul() && __builtin_cpu_supports("avx");
}

static bool has_vpclmul256(void)
{
	return has_pclmul() && __builtin_cpu_supports("vpclmulqdq") &&
	       __builtin_cpu_supports("avx2");
}

static bool has_vpclmul512(void)
{
	return has_vpclmul256() && __builtin_cpu_supports("avx512f");
}

static const struct kernel {
	const char	*name;
	bool		(*usable)(void);
	crc_fn		*crc;
} kernels[] = {
	{ "pclmul", has_pclmul, roe_icrc_pclmul },
	{ "vpclmul128", has_vpclmul128, roe_icrc_vpclmul128 },
	{ "vpclmul256", has_vpclmul256, roe_icrc_vpclmul256 },
	{ "vpclmul512", has_vpclmul512, roe_icrc_vpclmul512 },
};

/* One page between two that must not be touched. */
static uint8_t *lone_page(void)
{
	uint8_t *p = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p + PAGE, PAGE, PROT_READ | PROT_WRITE)) {
		perror("mmap");
		exit(2);
	}
	return p + PAGE;
}

static uint32_t crc_by_bit(uint32_t crc, const uint8_t *data, size_t len)
{
	while (len--) {
		crc ^= *data++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return crc;
}

/* Without and with a copy, @dst being GUARD all over before and around it after. */
static bool right(const struct kernel *k, uint32_t start, const uint8_t *src, size_t len,
		  uint8_t *page, uint8_t *dst)
{
	uint32_t want = crc_by_bit(start, src, len);
	size_t i;

	if (k->crc(start, src, len, NULL) != want)
		return false;
	memset(page, GUARD, PAGE);
	if (k->crc(start, src, len, dst) != want || memcmp(dst, src, len))
		return false;
	for (i = 0; i < PAGE; i++)
		if ((page + i < dst || page + i >= dst + len) && page[i] != GUARD)
			return false;
	return true;
}

/* At the beginning of the page, at its end, and at an offset in between. */
static const char *test(const struct kernel *k, uint8_t *src, uint8_t *dst)
{
	static char why[80];
	size_t len, off;

	for (off = 0; off < PAGE; off++)
		src[off] = off * 2654435761u >> 24;
	for (len = MIN_LEN; len <= MAX_LEN; len++) {
		size_t end = PAGE - len, at = 17 + len * 7 % 64;

		snprintf(why, sizeof(why), "%zu bytes", len);
		if (!right(k, len, src, len, dst, dst + end) ||
		    !right(k, ~0u, src + end, len, dst, dst) ||
		    !right(k, 0xdebb20e3, src + at, len, dst, dst + 64 + len % 64))
			return why;
	}
	return NULL;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static double gb_per_s(const struct kernel *k, const uint8_t *src, uint8_t *dst, size_t len)
{
	const int passes = 2000, rounds = 50;
	double best = 1e9;
	uint32_t crc = 0;

	for (int round = 0; round < rounds; round++) {
		double begin = seconds();

		for (int pass = 0; pass < passes; pass++)
			crc = k->crc(crc, src, len, dst);
		begin = seconds() - begin;
		if (begin < best)
			best = begin;
	}
	return passes * len / best / 1e9;
}

int main(void)
{
	static const size_t lens[] = { 64, 256, 1024, 4096 };
	uint8_t *src = lone_page(), *dst = lone_page();
	size_t i, j;
	int n = 0, bad = 0, ran = 0;

	for (i = 0; i < ARRAY_SIZE(kernels); i++) {
		const struct kernel *k = &kernels[i];
		const char *why;

		if (!k->usable()) {
			printf("ok %d - %s # SKIP this CPU cannot\n", ++n, k->name);
			continue;
		}
		ran++;
		why = test(k, src, dst);
		bad += !!why;
		printf("%s %d - %s%s%s\n", why ? "not ok" : "ok", ++n, k->name,
		       why ? " is wrong for " : ": right, also between forbidden pages",
		       why ? why : "");
		printf("# %s, GB/s of CRC / copy and CRC:", k->name);
		for (j = 0; j < ARRAY_SIZE(lens); j++)
			printf("  %zu bytes %.1f / %.1f", lens[j],
			       gb_per_s(k, src, NULL, lens[j]), gb_per_s(k, src, dst, lens[j]));
		printf("\n");
	}
	printf("1..%d\n", n);
	return bad || !ran;
}
