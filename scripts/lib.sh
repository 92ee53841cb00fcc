# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
#
# scripts/lib.sh - what the scripts of the bench share. Source it, do not run it:
#
#	. "$(dirname "$(readlink -f "$0")")/lib.sh"
#
# Sets:
#	ROE_TOP		top of the source tree
#	ROE_CACHE	the one cache folder (default ~/.cache/roe; `make clean-all`
#			removes it). Everything slow to make is an entry in it.
#
# A cache entry is a folder made by `cache_entry NAME RECIPE FUNCTION`. It is
# rebuilt when RECIPE (any text: package lists, file hashes) changes. Its marker
# `.complete` holds the recipe's hash and is written last, so that a build that
# was cut short is never taken for a finished one; a lock per entry makes
# concurrent callers wait for one build instead of colliding.

ROE_TOP=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
: "${HOME:=$(getent passwd "$(id -u)" | cut -d: -f6)}"
export HOME
ROE_CACHE=${ROE_CACHE:-$HOME/.cache/roe}
export ROE_TOP ROE_CACHE
ROE_KERNELS="6.1 6.12 7.2 debug"
# Debian's with PREEMPT_RT, those for clouds, and one that looks for races: for who asks, make
# check does not
ROE_KERNELS_MORE="6.1-rt 6.12-rt 6.1-cloud 6.12-cloud kcsan"
ROE_MIRROR=${ROE_MIRROR:-http://deb.debian.org/debian}

# Debian's tools live in sbin; a plain user's PATH may lack it.
PATH=$PATH:/usr/sbin:/sbin
# Logs are read by scripts.
export LC_ALL=C
# Under make -j a make that is run from here, with a number of its own, warns of that. What else
# was said to it, as CC=, stays.
unset MAKELEVEL
MAKEFLAGS=$(echo " ${MAKEFLAGS:-}" | sed -E 's/ -j[0-9]*\>//g; s/ --jobserver-[a-z]+=[^ ]*//g; s/^ //')
export MAKEFLAGS

say()  { printf '==> %s\n' "$*" >&2; }
warn() { printf 'roe: %s\n' "$*" >&2; }
die()  { printf 'roe: error: %s\n' "$*" >&2; exit 2; }

ROE_CACHE=$(realpath -m "$ROE_CACHE")
case $ROE_CACHE in
*[[:space:]]*) die "$ROE_CACHE: the kernel's makefiles take no path with a space: say ROE_CACHE=..." ;;
esac

elapsed() { printf '%d:%02d' $((($1) / 60)) $((($1) % 60)); }

is_kernel() {
	case " $ROE_KERNELS $ROE_KERNELS_MORE " in
	*" $1 "*) return 0 ;;
	esac
	return 1
}

# built_here KERNEL - from linux-source-6.12, not one of Debian's
built_here() {
	[ "$1" = debug ] || [ "$1" = kcsan ]
}

need_kernel() {
	is_kernel "${1:-}" || die "unknown kernel '${1:-}': one of $ROE_KERNELS $ROE_KERNELS_MORE"
}

# need_tests COMMAND... - where it is run-tests, are there tests of these names?
need_tests() {
	local t d=$ROE_TOP/userspace-tests/tests
	[ "${1:-}" = run-tests ] || return 0
	shift
	for t in "$@"; do
		[ -x "$d/$t" ] || [ -x "$d/$t.sh" ] || [ -x "$d/$t.test" ] ||
			die "no test '$t' in userspace-tests/tests"
	done
}

# kernel_reports - of a kernel's log on standard input, the lines that report anything wrong.
# Fails if there are none. scripts/alarms has a line of each kind.
kernel_reports() {
	local re
	re='WARNING: |BUG: |\bBUG at|kernel BUG|Oops|general protection fault|Kernel panic|KASAN|UBSAN|KCSAN'
	re+='|possible (circular|recursive|irq lock inversion|deadlock)|inconsistent lock state|suspicious RCU'
	re+='|INFO: (task .* blocked|rcu_|possible)|blocked for more than|rcu.*detected.*stall|self-detected stall|soft lockup|hard LOCKUP'
	re+='|ODEBUG:|kmemleak: [0-9]+ new suspected|unreferenced object|sleeping function called from|scheduling while atomic'
	re+='|bad unlock balance|held lock freed|lock held when returning|refcount_t:|unregister_netdevice: waiting'
	re+='|Attempt to release alive|Freeing alive in|NOHZ tick-stop error|Dead loop on virtual device|is buggy, dev'
	re+='|roe: ICRC by .* is wrong'
	re+='|page allocation failure|Call Trace:|stack backtrace:|workqueue lockup|locks? held by|BUG: MAX_LOCKDEP|turning off the locking'
	grep -vE 'kasan: KernelAddressSanitizer|ubsan: |Tainted:' | grep -E "$re"
}

# stale_code - does a kernel's log on standard input tell of a breakpoint that is not there? To
# patch a jump a CPU puts one in for a moment. Seldom, on a busy host, the emulator translates
# that on another CPU between its own look at the page and the write that takes it out again, and
# keeps the translation. A breakpoint in memory would be the byte cc before <RIP> in "Code:".
stale_code() {
	local code
	code=$(grep -A12 -E '\bint3: [0-9a-f]{4} \[#' | grep -m1 -oE 'Code: .*[0-9a-f]{2} <[0-9a-f]{2}>') || return
	[ "${code: -7:2}" != cc ]
}

# tests_of KIND KERNEL[,KERNEL] - the programs that a job of scripts/check runs, on all of the
# kernels: KIND is test, wire or uso. ROE_JOB_SECONDS is what the machine of a test job gets.
export ROE_JOB_SECONDS=4500
tests_of() {
	local f n row k
	for f in "$ROE_TOP"/userspace-tests/tests/*.{sh,test}; do
		[ -f "$f" ] && [ -x "$f" ] || continue
		n=${f##*/}
		case $1:$n in
		uso:wire-uso.*) ;;
		*:wire-uso.* | uso:*) continue ;;
		wire:wire-*) ;;
		*:wire-*) continue ;;
		test:debug-*) [ "$2" = debug ] || continue ;;
		# not built there: rdma_rxe, the targets of iSER and SRP
		test:rxe.* | test:storage.*) [[ $2 != *-cloud ]] || continue ;;
		test:*) ;;
		*) continue ;;
		esac
		row=$(sed -n "s/#.*//; s/^${n}[[:space:]]*//p" "$ROE_TOP/scripts/verdict")
		if [ -z "$row" ]; then
			[ -z "${ROE_OPEN:-}" ] || echo "$n"
			continue
		fi
		# rdma_rxe has races of its own
		case $2:$n in *kcsan*:rxe.sh | *kcsan*:wire-interop.sh | *kcsan*:wire-loss.sh) continue ;; esac
		for k in ${2//,/ }; do
			[ "$k" != kcsan ] || k=debug
			case " $row " in
			*" all "* | *" ${k%%-*} "*) ;;
			*) continue 2 ;;
			esac
		done
		echo "$n"
	done
}

# below PID - all processes that it or its have begun
below() {
	local p
	for p in $(cat "/proc/$1"/task/*/children 2>/dev/null); do
		echo "$p"
		below "$p"
	done
}

# stop_all_when_told - for a script with jobs in the background, which have SIGINT ignored: ^C
# ends them, too. (It has gone to the whole process group, so nobody else is in there.) So does
# SIGTERM, which may be for this script alone.
stop_all_when_told() {
	trap 'trap "" INT TERM; warn interrupted; kill 0; wait; trap - INT; kill -INT $$' INT
	# shellcheck disable=SC2046 # numbers
	trap 'trap "" TERM; warn terminated; kill $(below $$) 2>/dev/null; wait; exit 143' TERM
}

# Which root image a kernel runs on.
suite_of() {
	case $1 in
	7.2) echo trixie ;;
	*) echo bookworm ;;
	esac
}

# ask_root COMMAND... - as a plain user, asks once before sudo is used.
ask_root() {
	[ "$(id -u)" != 0 ] || return 0
	command -v sudo >/dev/null || die "need root for: $* (and there is no sudo)"
	if [ -z "${ROE_SUDO_OK:-}" ]; then
		[ -t 0 ] || die "need root for: $* (ROE_SUDO_OK=1 lets this use sudo)"
		local a
		read -r -p "roe: run 'sudo $*'? [y/N] " a || :
		[ "$a" = y ] || [ "$a" = Y ] || die "not run: $*"
		export ROE_SUDO_OK=1
	fi
}

# as_root COMMAND... - runs it as root; asks once before sudo is used.
as_root() {
	ask_root "$@"
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

_installed() {
	dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
}

# need PACKAGE[=VERSION]... - installs what is missing; silent when nothing is.
need() {
	local p missing=()
	# What is missing on another distribution says so itself.
	command -v dpkg-query >/dev/null || return 0
	for p in "$@"; do
		_installed "${p%%=*}" || missing+=("$p")
	done
	[ ${#missing[@]} = 0 ] && return
	say "installing Debian packages: ${missing[*]}"
	ask_root apt-get install "${missing[@]}"
	apt_lists
	_apt_install "${missing[@]}" && return
	# Old lists have versions that the mirror has not.
	apt_update
	_apt_install "${missing[@]}" && return
	cat "$_roe_apt_log" >&2
	die "could not install ${missing[*]}"
}

# _apt_get ARGUMENT... - sudo keeps no proxy, if one is named by the environment alone
_apt_get() {
	as_root env DEBIAN_FRONTEND=noninteractive ${http_proxy:+http_proxy="$http_proxy"} \
		${https_proxy:+https_proxy="$https_proxy"} apt-get -qq "$@"
}

_apt_install() {
	_roe_apt_log=$(mktemp)
	_apt_get -y -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 \
		install --no-install-recommends "$@" >"$_roe_apt_log" 2>&1 || return
	rm -f "$_roe_apt_log"
}

# has_package NAME - does apt know it? `apt-cache show` takes NAME for a pattern.
has_package() {
	apt-cache pkgnames "$1" | grep -xF -- "$1" >/dev/null
}

# need_headers RELEASE - headers of a kernel that is installed here, and what builds with them
need_headers() {
	command -v dpkg-query >/dev/null ||
		die "no headers of kernel $1: install kernel-devel-$1 (Fedora, RHEL), kernel-default-devel (SUSE)" \
			"or linux-headers (Arch), or say KDIR=..."
	apt_lists
	if ! has_package "linux-headers-$1"; then
		apt_update
		has_package "linux-headers-$1" ||
			die "Debian has no headers of kernel $1 (any more): boot a newer one" \
				"(apt update && apt full-upgrade brings it), or say KDIR=..."
	fi
	need "linux-headers-$1" gcc
}

# machine_needs KERNEL... - prints the packages that it takes to make and run machines with
# these kernels, and modules for them. One list: a plain user is asked once.
machine_needs() {
	echo qemu-system-x86 busybox-static cpio kmod e2fsprogs xz-utils zstd \
		mmdebstrap uidmap debian-archive-keyring \
		gcc libc6-dev binutils make rsync libibverbs-dev pahole
	case " $* " in
	*" debug "* | *" kcsan "*) echo linux-source-6.12 flex bison bc libelf-dev libssl-dev ;;
	esac
}

# need_machines KERNEL... - installs them
need_machines() {
	local p
	[ "$(uname -m)" = x86_64 ] ||
		die "the test machines are amd64, and so must this one be (make and make install work here)"
	mapfile -t p < <(machine_needs "$@" | tr -s ' ' '\n')
	need "${p[@]}"
}

# older_than VERSION - is this host's kernel? Tap devices have UDP segmentation offload from 6.2 on.
older_than() {
	[ "$(printf '%s\n' "$1" "$(uname -r)" | sort -V | head -n 1)" != "$1" ]
}

# copy_build KERNEL FOLDER - builds, and makes FOLDER a copy of what scripts/build has made:
# another job, or another tree with the same cache, may make that anew at any time.
copy_build() {
	ROE_BUILD_COPY=$2 "$ROE_TOP/scripts/build" "$1" >/dev/null
}

# lint_needs, targets_needs - what scripts/lint and scripts/targets use, besides
lint_needs() {
	echo linux-source-6.12 perl xz-utils sparse shellcheck gcc-aarch64-linux-gnu rsync pahole python3-minimal \
		flex bison bc libelf-dev libssl-dev
}

targets_needs() {
	echo gcc make kmod dkms rsync
}

# apt_lists - makes sure that apt knows of the packages at all.
apt_lists() {
	[ -n "${_roe_apt_lists:-}" ] && return
	_roe_apt_lists=1
	apt-cache show busybox-static linux-source-6.12 >/dev/null 2>&1 && return
	apt_update
}

# apt_update - at most once
apt_update() {
	[ -z "${_roe_apt_updated:-}" ] || return 0
	_roe_apt_updated=1
	say "updating apt's package lists"
	local i err
	# a machine that has just booted may be at it itself; for this lock apt has no time-out
	for ((i = 0; i < 120; i++)); do
		err=$(_apt_get update 2>&1) && return
		case $err in
		*"Could not get lock"*) sleep 5 ;;
		*) break ;;
		esac
	done
	die "apt-get update failed: $err"
}

# fetch_debs DIR PACKAGE... - downloads and unpacks packages below DIR, without
# installing anything.
fetch_debs() {
	local dir=$1 tmp
	shift
	tmp=$(mktemp -d)
	(cd "$tmp" && apt-get -qq -o APT::Sandbox::User=root download "$@") >&2 || die "could not download $*"
	for d in "$tmp"/*.deb; do
		dpkg-deb -x "$d" "$dir" || die "could not unpack $d"
	done
	rm -rf "$tmp"
}

# recipe_hash RECIPE - what the cache knows it by
recipe_hash() {
	printf '%s' "$1" | sha256sum | cut -c1-16
}

# cache_entry NAME RECIPE FUNCTION [ARG...] - prints the entry's folder, which
# FUNCTION has filled (called with the folder as $1, stdout going to stderr).
cache_entry() {
	local name=$1 hash dir=$ROE_CACHE/$1
	hash=$(recipe_hash "$2")
	shift 2
	if [ "$(cat "$dir/.complete" 2>/dev/null)" != "$hash" ]; then
		mkdir -p "$ROE_CACHE/lock"
		(
			exec 9>"$ROE_CACHE/lock/$name"
			flock -n 9 || { say "waiting for another build of $name"; flock 9; }
			[ "$(cat "$dir/.complete" 2>/dev/null)" = "$hash" ] && exit 0
			start=$SECONDS
			say "making $name (once; kept in $dir)"
			rm -rf "$dir"
			mkdir -p "$dir"
			# In a caller's condition (cache_entry ... ||) there is no errexit, in no shell
			# below either: then the last command of FUNCTION says whether all went well.
			set -e
			fn=$1
			shift
			"$fn" "$dir" "$@" >&2 9>&-
			# shellcheck disable=SC2181 # an "if" would be such a condition
			[ $? = 0 ] || exit 1
			echo "$hash" >"$dir/.complete.tmp"
			mv "$dir/.complete.tmp" "$dir/.complete"
			say "made $name in $(elapsed $((SECONDS - start)))"
		)
		[ "$(cat "$dir/.complete" 2>/dev/null)" = "$hash" ] || die "making $name failed"
	fi
	echo "$dir"
}

# in_root DIR COMMAND... - runs COMMAND in the root DIR with its own /proc, as
# root or, for a plain user, in a user namespace.
in_root() {
	local dir=$1 map=()
	shift
	[ "$(id -u)" = 0 ] || map=(--map-root-user)
	unshare "${map[@]}" --mount --pid --fork -- \
		sh -ec 'mount -t proc proc "$0/proc"; mount --bind /dev "$0/dev" 2>/dev/null || :
			if [ -n "$ROE_BIND" ]; then mkdir -p "$0$ROE_BIND"; mount --bind "$ROE_BIND" "$0$ROE_BIND"; fi
			d=$0; exec chroot "$d" "$@"' "$dir" "$@"
}

# tsc_khz - prints the rate of this machine's TSC, which is that of the TSC of an
# emulated one (QEMU's TCG passes it through)
tsc_khz() {
	local dir
	dir=$(cache_entry tsc "$(declare -f tsc_build)" tsc_build) || return
	"$dir/tsc"
}

# tsc_build DIR - of several readings of both clocks the one counts that took least
tsc_build() {
	need gcc libc6-dev
	gcc -O2 -o "$1/tsc" -x c - <<-'C'
		#include <stdio.h>
		#include <time.h>
		#include <x86intrin.h>

		static double ns(void)
		{
			struct timespec t;

			clock_gettime(CLOCK_MONOTONIC_RAW, &t);
			return t.tv_sec * 1e9 + t.tv_nsec;
		}

		static void both(double *time, double *ticks)
		{
			double best = 1e18;
			int i;

			for (i = 0; i < 50; i++) {
				double a = ns(), x = __rdtsc(), b = ns();

				if (b - a < best) {
					best = b - a;
					*time = (a + b) / 2;
					*ticks = x;
				}
			}
		}

		int main(void)
		{
			struct timespec pause = { .tv_nsec = 100000000 };
			double t0, x0, t1, x1;

			both(&t0, &x0);
			nanosleep(&pause, NULL);
			both(&t1, &x1);
			printf("%.0f\n", (x1 - x0) / (t1 - t0) * 1e6);
			return 0;
		}
	C
}

# need_qemu - prints the emulator to use: $ROE_QEMU, or the one that scripts/check has built, or
# a new one, whose machines start processes in half the time of QEMU 7.2's, or if there is none to
# be had the installed one
need_qemu() {
	need qemu-system-x86
	if [ -n "${ROE_QEMU:-}" ]; then
		echo "$ROE_QEMU"
	elif [ "$(cat "$ROE_CACHE/qemu-built/.complete" 2>/dev/null)" = "$(recipe_hash "$(qemu_recipe)")" ]; then
		echo "$ROE_CACHE/qemu-built/qemu"
	else
		qemu_new || { warn "no newer QEMU: all takes longer"; echo qemu-system-x86_64; }
	fi
}

# qemu_new - prints a command that runs QEMU 8.1 or newer, whose virtio-net has UDP
# segmentation offload: the installed one, or bookworm-backports' unpacked in the cache
qemu_new() {
	local dir
	if qemu-system-x86_64 -device virtio-net-pci,help 2>/dev/null | grep host_uso >/dev/null; then
		echo qemu-system-x86_64
		return
	fi
	dir=$(cache_entry qemu-backports "$(declare -f qemu_backports apt_backports)" qemu_backports) || return
	echo "$dir/qemu"
}

# apt_backports DIR ARG... - apt-get that knows bookworm and its backports, with lists of its own in
# DIR/apt; nothing is installed
apt_backports() {
	local dir=$1
	shift
	if [ ! -e "$dir/apt/sources.list" ]; then
		mkdir -p "$dir"/apt/lists/partial "$dir"/apt/cache/archives/partial
		printf "deb $ROE_MIRROR %s main\ndeb-src $ROE_MIRROR %s main\n" \
			bookworm bookworm bookworm-backports bookworm-backports >"$dir/apt/sources.list"
		# some may be missing
		apt_backports "$dir" update || :
	fi
	apt-get -qq -o "Dir::Etc::sourcelist=$dir/apt/sources.list" -o Dir::Etc::sourceparts=/nonexistent \
		-o "Dir::State::lists=$dir/apt/lists" -o "Dir::Cache=$dir/apt/cache" -o Debug::NoLocking=1 \
		-o APT::Sandbox::User=root "$@"
}

# qemu_backports DIR
qemu_backports() {
	local dir=$1 d
	apt_backports "$dir" -y --no-install-recommends --download-only -t bookworm-backports install qemu-system-x86
	mkdir "$dir/root"
	for d in "$dir"/apt/cache/archives/*.deb; do dpkg-deb -x "$d" "$dir/root"; done
	rm -rf "$dir/apt"
	cat >"$dir/qemu" <<-Q
		#!/bin/sh
		d=$dir/root/usr
		# its own modules: those of another QEMU end it
		export QEMU_MODULE_DIR=\$d/lib/x86_64-linux-gnu/qemu LD_LIBRARY_PATH=\$d/lib/x86_64-linux-gnu
		exec \$d/bin/qemu-system-x86_64 -L \$d/share/qemu -L \$d/share/seabios "\$@"
	Q
	chmod +x "$dir/qemu"
	"$dir/qemu" -device virtio-net-pci,help | grep -q host_uso
}

# qemu_built - prints a QEMU with scripts/qemu.patch, whose machines take half as much of the
# processor with the debug kernel, two thirds with others; built in two minutes (qemu_needs are there)
qemu_built() {
	local dir
	dir=$(cache_entry qemu-built "$(qemu_recipe)" build_qemu) || return
	echo "$dir/qemu"
}

qemu_needs() {
	echo gcc libc6-dev make ninja-build pkg-config python3-venv libglib2.0-dev libfdt-dev zlib1g-dev patch xz-utils
}

qemu_recipe() {
	declare -f build_qemu apt_backports
	cat "$ROE_TOP/scripts/qemu.patch"
}

# build_qemu DIR - from the source of the one in bookworm-backports
build_qemu() {
	local dir=$1 src=$1/src new=
	mkdir "$src"
	(cd "$dir" && apt_backports "$dir" --download-only --tar-only source qemu/bookworm-backports) || return
	apt_backports "$dir" --download-only -y --no-install-recommends -t bookworm-backports install --reinstall meson ||
		return
	dpkg-deb -x "$(echo "$dir"/apt/cache/archives/meson_*.deb)" "$dir/meson" || return
	tar -C "$src" --strip-components=1 -xf "$(echo "$dir"/qemu_*.orig.tar.xz)" || return
	patch -s -d "$src" -p1 <"$ROE_TOP/scripts/qemu.patch" || return
	# what only its own tests need, and firmware that the source package lacks
	sed -i '/pycotap/d' "$src/pythondeps.toml"
	sed -i 's/^if unpack_edk2_blobs/if false/' "$src/pc-bios/meson.build"
	# the machine of scripts/vm
	printf 'CONFIG_%s=y\n' Q35 VIRTIO_PCI VIRTIO_BLK VIRTIO_NET VIRTIO_SERIAL VIRTIO_RNG \
		>"$src/configs/devices/x86_64-softmmu/roe.mak"
	say "building QEMU, two minutes on 2 cores"
	(
		export PYTHONPATH=$dir/meson/usr/lib/python3/dist-packages
		mkdir "$src/b" && cd "$src/b" &&
			../configure --python=/usr/bin/python3 --target-list=x86_64-softmmu --enable-tcg \
				--without-default-features --without-default-devices --with-devices-x86_64=roe \
				--enable-fdt=system --enable-trace-backends=nop --disable-qom-cast-debug \
				--disable-docs --disable-tools --disable-install-blobs --disable-werror \
				--disable-debug-info &&
			ninja -j"$(nproc)" qemu-system-x86_64
	) >"$dir/log" 2>&1 || { tail -n 20 "$dir/log"; return 1; }
	mv "$src/b/qemu-system-x86_64" "$dir/"
	rm -rf "$src" "$dir/meson" "$dir/apt" "$dir"/qemu_*
	# the firmware is that of the package
	new=$(qemu_new) || return
	case $new in
	/*) new=${new%/*}/root/usr ;;
	*) new=/usr ;;
	esac
	cat >"$dir/qemu" <<-Q
		#!/bin/sh
		exec $dir/qemu-system-x86_64 -L $new/share/qemu -L $new/share/seabios "\$@"
	Q
	chmod +x "$dir/qemu"
	"$dir/qemu" -device virtio-net-pci,help | grep -q host_uso
}
