// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * On-demand paging: the table of the pages that are known, and how a page is taken back while
 * packets run. See odp.h.
 */
#include <linux/mm.h>
#include "mr.h"
#include "odp.h"

/* Looks at the count of accesses before new accesses are turned away. */
#define PATIENCE	2000

/* Page frame and write permission, as a value of the table. */
static void *to_entry(const struct page *page, bool write)
{
	return xa_mk_value(page_to_pfn(page) << 1 | write);
}

static struct page *to_page(const void *entry)
{
	return pfn_to_page(xa_to_value(entry) >> 1);
}

static bool is_writable(const void *entry)
{
	return xa_to_value(entry) & 1;
}

/**
 * roe_odp_init - an empty table with one reference
 * @odp: zeroed
 */
void roe_odp_init(struct roe_odp *odp)
{
	static atomic64_t last_id;

	/* a process may make the table as large as it likes: it is charged for it */
	xa_init_flags(&odp->pages, XA_FLAGS_LOCK_BH | XA_FLAGS_ACCOUNT);
	refcount_set(&odp->refs, 1);
	odp->id = atomic64_inc_return(&last_id);
}

ROE_EXPORT_FOR_TEST(roe_odp_init);

/**
 * roe_odp_find - kernel address of a byte of the process
 * @odp: of an MR that is held
 * @addr: user address
 * @write: the page will be written to
 *
 * Context: between roe_mr_get() and roe_mr_put(), where the address may be used, to the end of
 * the page.
 * Return: kernel address, NULL if the page is not there, or not writable but @write.
 */
void *roe_odp_find(struct roe_odp *odp, u64 addr, bool write)
{
	const void *entry;

	if (READ_ONCE(odp->closed))
		return NULL;
	entry = xa_load(&odp->pages, addr >> PAGE_SHIFT);
	if (!entry || (write && !is_writable(entry)))
		return NULL;
	return page_address(to_page(entry)) + offset_in_page(addr);
}

ROE_EXPORT_FOR_TEST(roe_odp_find);

/**
 * roe_odp_missing - find the first byte of a range that is not there
 * @odp: of an MR that is held
 * @addr: user address
 * @len: bytes, not 0; only the first ROE_ODP_AHEAD of them are checked
 * @write: they will be written to
 *
 * Context: as roe_odp_find().
 * Return: its address; @addr + @len or more if nothing is missing.
 */
u64 roe_odp_missing(struct roe_odp *odp, u64 addr, u64 len, bool write)
{
	u64 end = addr + len, stop = addr + min_t(u64, len, ROE_ODP_AHEAD);

	while (addr < stop && roe_odp_find(odp, addr, write))
		addr = (addr & PAGE_MASK) + PAGE_SIZE;
	return addr < stop ? addr : end;
}

ROE_EXPORT_FOR_TEST(roe_odp_missing);

/**
 * roe_odp_set - make a page known
 * @odp: table; xa_lock held, under which the caller has made sure that @page is mapped
 * @index: user address / PAGE_SIZE
 * @page: as mapped now
 * @write: it may be written to
 *
 * Return: 0 or -ENOMEM: the caller must make room by xa_reserve_bh(), without the lock.
 */
int roe_odp_set(struct roe_odp *odp, unsigned long index, struct page *page, bool write)
{
	void *old = xa_load(&odp->pages, index);

	lockdep_assert_held(&odp->pages.xa_lock);
	/* an entry that allows writing keeps that permission */
	if (old == to_entry(page, true))
		return 0;
	/* not GFP_ATOMIC, which may exceed the limit of a memory cgroup */
	return xa_err(__xa_store(&odp->pages, index, to_entry(page, write),
				 GFP_NOWAIT | __GFP_NOWARN));
}

ROE_EXPORT_FOR_TEST(roe_odp_set);

/* The table is cleared: wait for the accesses that have read it before. */
static void wait_for_accesses(struct roe_odp *odp)
{
	const atomic_t *users = &odp->users;
	unsigned int i;

	/* clear the table before reading the count: pairs with roe_odp_enter() */
	smp_mb();
	for (i = 0; i < PATIENCE && atomic_read(users); i++)
		cpu_relax();
	if (atomic_read(users)) {
		/* accesses follow one another on several CPUs: turn away new ones */
		WRITE_ONCE(odp->closed, true);
		while (atomic_read(users))
			cpu_relax();
		WRITE_ONCE(odp->closed, false);
	}
	/* the accesses end before what follows: pairs with roe_odp_leave() */
	smp_mb();
}

/**
 * roe_odp_take - take pages back
 * @odp: table; xa_lock held
 * @first: user address / PAGE_SIZE
 * @last: the same, inclusive
 * @written: takes the pages that may have been written to, with a reference each; room for
 *	ROE_ODP_BATCH
 * @nwritten: set to their number
 *
 * When it returns, no access to the pages is left.
 *
 * Return: pages taken; if ROE_ODP_BATCH there may be more.
 */
unsigned int roe_odp_take(struct roe_odp *odp, unsigned long first, unsigned long last,
			  struct page **written, unsigned int *nwritten)
{
	unsigned long index;
	unsigned int n = 0;
	void *entry;

	lockdep_assert_held(&odp->pages.xa_lock);
	*nwritten = 0;
	xa_for_each_range(&odp->pages, index, entry, first, last) {
		if (is_writable(entry)) {
			get_page(to_page(entry));
			written[(*nwritten)++] = to_page(entry);
		}
		__xa_erase(&odp->pages, index);
		if (++n == ROE_ODP_BATCH)
			break;
	}
	if (n)
		wait_for_accesses(odp);
	return n;
}

ROE_EXPORT_FOR_TEST(roe_odp_take);
