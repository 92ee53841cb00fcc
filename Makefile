# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# For people; the kernel's build system reads Kbuild.

KDIR ?= /lib/modules/$(shell uname -r)/build
KERNEL ?= 6.12
VERSION := $(shell sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' dkms.conf)
LIB := . scripts/lib.sh

# What built the kernel builds the module: the default gcc or clang, if that one is not here,
# may be older. A kernel of clang's needs clang, for its flags, LTO and CFI. Who says CC=, LLVM=
# or CROSS_COMPILE= knows better. (kbuild does not take CC from the environment.)
kconf = $(shell sed -n 's/^CONFIG_$(1)="\{0,1\}\([^" ]*\).*/\1/p' \
	$(KDIR)/include/config/auto.conf 2>/dev/null)
tools =
compiler =
programs =
ifeq ($(filter command,$(origin CC))$(origin LLVM)$(origin CROSS_COMPILE),undefinedundefined)
kernel-gcc = $(call kconf,CC_VERSION_TEXT)
found-gcc = $(if $(shell command -v $(kernel-gcc) 2>/dev/null),CC=$(kernel-gcc))
clang-version = -$(shell echo $$(($(call kconf,CLANG_VERSION) / 10000)))
llvm = $(if $(shell command -v clang$(clang-version) 2>/dev/null),$(clang-version),1)
tools = $(if $(call kconf,CC_IS_CLANG),LLVM=$(llvm),$(found-gcc))
suffix = $(patsubst LLVM=%,%,$(filter LLVM=-%,$(tools)))
compiler = $(if $(filter LLVM=%,$(tools)),$(addsuffix $(suffix),clang lld llvm), \
	$(or $(patsubst CC=%,%,$(tools)),gcc))
programs = $(if $(filter LLVM=%,$(tools)),$(addsuffix $(suffix),clang ld.lld llvm-nm),$(compiler))
endif

# All processors build, unless somebody says how many (DKMS does) or a make above hands out jobs.
jobs = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))

modules: | build-needs
	$(if $(word 2,$(CURDIR)),$(error roe: the makefiles of the kernel take no path with a space))
	$(MAKE) $(jobs) -C $(KDIR) M=$(CURDIR) $(tools) modules

# $(call lib,COMMAND,WHAT) - runs a function that installs WHAT; the tree of DKMS has none
lib = if [ -e scripts/lib.sh ]; then $(LIB); $(1); else echo "roe: no $(2)" >&2; exit 1; fi

# Somebody else's KDIR= or compiler is theirs to complete.
build-needs:
	@if [ ! -e $(KDIR)/Makefile ]; then \
		case $(KDIR) in \
		/lib/modules/*/build) \
			$(call lib,need_headers $(KDIR:/lib/modules/%/build=%),kernel headers in $(KDIR)) ;; \
		*) echo "roe: no kernel headers in $(KDIR)" >&2; exit 1 ;; \
		esac; \
	fi
	@for p in $(programs); do \
		command -v $$p >/dev/null && continue; \
		$(call lib,need $(compiler),$(compiler)); \
	done

install: modules
	@scripts/install module $(KDIR)

dkms-install: | build-needs
	@scripts/install dkms $(KDIR)

uninstall:
	@scripts/install remove

demo:
	@scripts/demo $(KERNEL)

check:
	@scripts/check $(JOBS)

native:
	@scripts/native

kunit:
	@scripts/kunit $(SUITE)

test-vm:
	@$(LIB); need_kernel $(KERNEL); \
		scripts/vm -k $(KERNEL) -t $$ROE_JOB_SECONDS -o "$$ROE_CACHE/results/test-vm-$(KERNEL)" -- \
			run-tests $(or $(TEST),$$(tests_of test $(KERNEL)))

wire:
	@scripts/wire $(if $(USO),--uso) -k $(KERNEL) -t 1200 -- run-tests $(TEST)

bench:
	@BENCH=$(or $(BENCH),quick) scripts/bench $(if $(filter command line environment,$(origin KERNEL)),$(KERNEL))

bench-native:
	@scripts/bench-native $(ROUNDS)

shell:
	@scripts/vm -k $(KERNEL) -i

lint:
	@scripts/lint $(PART)

clean:
	@if [ -n "$(word 2,$(CURDIR))" ]; then :; \
	elif [ -e $(KDIR)/Makefile ]; then $(MAKE) -s -C $(KDIR) M=$(CURDIR) clean; \
	else echo "roe: no kernel headers in $(KDIR), whose makefiles know what they made: say KDIR=..." >&2; fi
	@if [ -e userspace-tests/Makefile ]; then $(MAKE) -s -C userspace-tests clean; fi

clean-all: clean
	@. scripts/lib.sh; [ -e "$$ROE_CACHE" ] || exit 0; \
		[ -d "$$ROE_CACHE/lock" ] || die "$$ROE_CACHE is no cache of roe's"; \
		say "removing $$ROE_CACHE"; rm -rf "$$ROE_CACHE"

help:
	@echo "roe $(VERSION): a software RoCEv2 RDMA device"
	@echo
	@echo "  make                  build roe.ko for the running kernel, or for KDIR=..."
	@echo "  make install          install it for that kernel"
	@echo "  make dkms-install     install it for that kernel and every one to come (DKMS)"
	@echo "  make uninstall        remove what these two installed"
	@echo
	@echo "Nothing of these is loaded on this host; machines are virtual ones (KERNEL=6.1, 6.12, 7.2, debug,"
	@echo "6.1-rt, 6.12-rt, 6.1-cloud, 6.12-cloud, kcsan; $(KERNEL) if not given):"
	@echo "  make demo             see the stock ibv_rc_pingpong run over roe"
	@echo "  make shell KERNEL=..  a shell in a machine with roe loaded"
	@echo "  make check            lint, KUnit, userspace tests on the kernels that scripts/verdict names (two"
	@echo "                       machines: 6.1 and 6.12, 7.2 and debug), ICRC code on this processor, costs,"
	@echo "                       these targets; JOBS=\"lint kunit test-6.12 wire-7.2 ...\""
	@echo "  make kunit            the KUnit suites on the debug kernel; SUITE=glob"
	@echo "  make test-vm KERNEL=..  userspace tests on one kernel; TEST=\"name ...\""
	@echo "  make wire KERNEL=.. TEST=wire-NAME  a test on two machines on one wire, KERNEL=A,B with a kernel"
	@echo "                       each (USO=1: a wire with UDP segmentation offload)"
	@echo "  make bench            roe beside rdma_rxe and TCP; BENCH=quick|cost|slow|nvme|full, KERNEL=\"A B\""
	@echo "  make bench-native     processor time per message at native speed (User Mode Linux); ROUNDS=N"
	@echo "  make native           the CRC-32 kernels on the CPU of this host"
	@echo "  make lint             checkpatch, sparse, shellcheck, vectors, docs, w1, arm64; PART=..."
	@echo
	@echo "  make clean            remove what was built in the tree"
	@echo "  make clean-all        also the cache of images, kernels, builds and results"
	@echo "                        ($${ROE_CACHE:-~/.cache/roe})"

SHELL := /bin/bash
.DEFAULT_GOAL := modules
.PHONY: modules build-needs install dkms-install uninstall demo check native kunit test-vm wire bench bench-native shell lint clean clean-all help
