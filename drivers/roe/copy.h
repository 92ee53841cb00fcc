/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Copying payload. */
#ifndef ROE_COPY_H
#define ROE_COPY_H

#include <linux/types.h>

void roe_copy(void *dst, const void *src, size_t len);
void roe_copy_out(void *dst, const void *src, size_t len);

/* Copy many pieces in one FPU section. Nothing else may be done between begin and end. */
bool roe_copy_begin(size_t bytes);
void roe_copy_piece(bool wide, void *dst, const void *src, size_t len);
void roe_copy_end(bool wide);

void roe_copy_init(void);

#endif /* ROE_COPY_H */
