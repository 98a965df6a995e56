#!/bin/sh
# Installs what the build needs, by apt; says what is missing and what still works where it cannot.
# Usage: scripts/setup.sh [PACKAGE[:SIGN]...]     (further packages beside the standard ones; SIGN as below)
set -eu

# package:command or package:/file that shows it is there
needed="gcc:gcc make:make flex:flex bison:bison bc:bc xz-utils:xz cpio:cpio rsync:rsync
qemu-system-x86:qemu-system-x86_64 valgrind:valgrind gdb:gdb libelf-dev:/usr/include/libelf.h dwarves:pahole bpftool:/usr/sbin/bpftool libssl-dev:/usr/include/openssl/ssl.h
python3:python3 python3-venv:/usr/lib/python3*/ensurepip"
for extra in "$@"; do
	case $extra in
	*:*) needed="$needed $extra" ;;
	*) needed="$needed $extra:$extra" ;;
	esac
done

missing=""
for pair in $needed; do
	package=${pair%%:*} sign=${pair#*:}
	case $sign in
	/*)
		for file in $sign; do break; done # (it may be a pattern)
		[ -e "$file" ] || missing="$missing $package"
		;;
	*) command -v "$sign" >/dev/null 2>&1 || missing="$missing $package" ;;
	esac
done

if ! command -v cargo >/dev/null 2>&1; then
	echo "setup: cargo is missing. Install Rust with rustup (https://rustup.rs), then run this again." >&2
	exit 2
fi

# the kernel's source comes as a package; its index must be there once
index_needed=""
if ! [ -e /usr/src/linux-source-6.12.tar.xz ] && command -v apt-cache >/dev/null 2>&1 &&
	! apt-cache show linux-source-6.12 >/dev/null 2>&1; then
	index_needed=yes
fi

[ -n "$missing$index_needed" ] || exit 0

if [ "$(id -u)" = 0 ]; then
	as_root=""
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
	as_root="sudo"
else
	as_root="none"
fi

if [ "$as_root" = none ] || ! command -v apt-get >/dev/null 2>&1; then
	[ -z "$missing" ] || echo "setup: missing packages:$missing" >&2
	echo "setup: they cannot be installed here (needs apt, and root or sudo). As root, run:" >&2
	echo "setup:     apt-get update && apt-get install$missing" >&2
	echo "setup: without them real Linux cannot be built; native schedulers, import, log and reports still work." >&2
	exit 0
fi

echo "setup: installing by apt:${missing:- (package index only)}" >&2
$as_root apt-get update -qq
if [ -n "$missing" ]; then
	# shellcheck disable=SC2086 # a list of packages
	DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi
