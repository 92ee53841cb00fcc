/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What icrc_x86.S takes from the kernel's headers, for a program. */
#define SYM_TYPED_FUNC_START(name)	.globl name; .balign 16; name:
#define SYM_FUNC_START_LOCAL(name)	.balign 16; name:
#define SYM_FUNC_END(name)		.type name, @function; .size name, . - name
#define RET				ret

.section .note.GNU-stack, "", @progbits
