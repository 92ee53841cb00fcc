// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What makes the suites a module: each file registers its own.
 */
#include <linux/module.h>

MODULE_DESCRIPTION("KUnit suites of roe");
MODULE_LICENSE("Dual BSD/GPL");
