// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The bodies of the tracepoints. */
#define CREATE_TRACE_POINTS
#include "trace.h"
