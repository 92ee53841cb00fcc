/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Address handles. A send WQE holds a reference to the entry behind its AH, so a
 * posted WQE is sent even if the AH is destroyed meanwhile.
 */
#ifndef ROE_AH_H
#define ROE_AH_H

#include <linux/refcount.h>
#include "net.h"

struct roe_ah_entry {
	refcount_t		refs;	/* the AH's own, and one for each WQE */
	u32			num;	/* 0: kernel user, not in the table */
	const struct ib_pd	*pd;	/* to be compared, not followed */
	struct roe_path		path;
	struct rcu_head		rcu;
};

struct roe_ah {
	struct ib_ah		ib;
	struct roe_ah_entry	*entry;
};

static inline struct roe_ah *roe_ah(struct ib_ah *ibah)
{
	return container_of(ibah, struct roe_ah, ib);
}

static inline struct roe_ah_entry *roe_ah_hold(struct roe_ah_entry *entry)
{
	refcount_inc(&entry->refs);
	return entry;
}

struct roe_ah_entry *roe_ah_get(struct roe_dev *dev, const struct ib_pd *pd, u32 num);
void roe_ah_put(struct roe_ah_entry *entry);

u16 roe_ah_source_port(const struct roe_av *av, const struct ib_pd *pd, u32 flow_label);
bool roe_ah_usable(const struct roe_dev *dev, const struct rdma_ah_attr *attr);

/* verbs */
int roe_ah_create(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata);
int roe_ah_query(struct ib_ah *ibah, struct rdma_ah_attr *attr);
int roe_ah_destroy(struct ib_ah *ibah, u32 flags);

#endif /* ROE_AH_H */
