/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Flavour race under a weak memory model: stores that other CPUs do not see yet.
 *
 * Kernel: a processor keeps stores in a buffer; its own loads see them, others' do not. Ours: a CPU's late stores are in
 * memory only while it runs. When it stops at a point they are taken out, and what was there before comes back; when it
 * goes on they are put in again. So unmodified code, instrumented or not, loads what its CPU would load.
 *
 *	cpu0: x = 1, late	memory x=1	kept for cpu0: x, below it 0
 *	cpu0 stops, cpu1 runs	memory x=0
 *	cpu0 goes on		memory x=1
 *	cpu0: smp_mb()		memory x=1	nothing is kept: x is seen
 *
 * Which stores are late is the schedule's choice: one, or one and all behind it. They are seen from the next thing on
 * that orders them: a full barrier, an atomic operation with a result, an interrupt, a context switch, the way out of the
 * kernel; a single late store also before a write barrier or a release. Under tso (x86) locks and all atomic operations
 * do that, and stores behind a late one are late, too. Under lkmm a lock is no barrier for stores before it, and atomic
 * operations without a result may be late: they are kept as operations, since others may change the same word.
 *
 * Code without points stores at once, even behind a late store: under tso that is more than x86 does. What it allocates
 * and frees is safe: its own atomic operations, locks and interrupt flags end all lateness of its CPU before.
 */
#include <linux/sched.h>
#include "versions.h"
#include "warp.h"
#include "race_late.h"

/* a buffer that is full is flushed */
#define WARP_LATE_MAX 32

struct warp_race_late {
	unsigned long address;
	u64 value;		/* of a store, while its CPU stands: what it stored; of an operation: its operand */
	u64 under;		/* of a store: what others see; of an operation: the bits that it has changed */
	u8 size, op;		/* WARP_OP_* */
};
struct warp_race_buffer {
	unsigned int nr;
	bool all;		/* what is stored from here on is late */
	struct warp_race_late late[WARP_LATE_MAX];
};

unsigned int warp_race_model;
unsigned int warp_race_nr_late;
static struct warp_race_buffer warp_race_buffers[NR_CPUS];

static struct warp_race_buffer *warp_race_buffer(void) { return &warp_race_buffers[warp_this->id]; }

static u64 warp_late_load(unsigned long address, unsigned int size)
{
	switch (size) {
	case 1: return *(volatile u8 *)address;
	case 2: return *(volatile u16 *)address;
	case 4: return *(volatile u32 *)address;
	default: return *(volatile u64 *)address;
	}
}

static void warp_late_store(unsigned long address, unsigned int size, u64 value)
{
	switch (size) {
	case 1: *(volatile u8 *)address = value; break;
	case 2: *(volatile u16 *)address = value; break;
	case 4: *(volatile u32 *)address = value; break;
	default: *(volatile u64 *)address = value;
	}
}

/* when the fast way has to ask again (warp_race_at()) */
static void warp_late_rearm(struct warp_race_cpu *c)
{
	struct warp_race_buffer *b = warp_race_buffer();

	c->late_at = b->nr || b->all ? 0 : c->nr_late ? c->late->at : ~0ULL;
}

/* All late stores of this CPU are seen. */
static void warp_race_seen(void)
{
	struct warp_race_buffer *b = warp_race_buffer();

	if (b->nr)
		warp_race_noted(WARP_SAYS_SEEN, NULL, (unsigned long)__builtin_return_address(0));
	warp_race_nr_late -= b->nr;
	b->nr = 0;
	b->all = false;
	warp_late_rearm(&warp_race_cpus[warp_this->id]);
}

/* a late store or operation that touches these bytes; whole: that covers them */
static struct warp_race_late *warp_late_at(struct warp_race_buffer *b, unsigned long address, unsigned int size,
					   bool whole)
{
	for (unsigned int n = 0; n < b->nr; n++) {
		struct warp_race_late *l = &b->late[n];

		if (whole ? l->address <= address && address + size <= l->address + l->size && !l->op :
			    l->address < address + size && address < l->address + l->size)
			return l;
	}
	return NULL;
}

/* The store or operation that comes next is late; or not, if there is no room for it. */
static bool warp_late_keep(struct warp_race_buffer *b, const volatile void *p, unsigned int size, unsigned int op,
			   u64 value)
{
	unsigned long address = (unsigned long)p;
	struct warp_race_late *l;
	u64 now;

	if (warp_late_at(b, address, size, true) && !op)
		return true;	/* its new value is what this CPU's memory has */
	if (warp_late_at(b, address, size, false) || b->nr == WARP_LATE_MAX ||
	    (size != 1 && size != 2 && size != 4 && size != 8)) {
		warp_race_seen();
		return false;
	}
	now = warp_late_load(address, size);
	l = &b->late[b->nr++];
	warp_race_nr_late++;
	*l = (struct warp_race_late){ .address = address, .size = size, .op = op, .value = value, .under = now };
	if (op == WARP_OP_or)
		l->under = value & ~now;
	else if (op == WARP_OP_and)
		l->under = now & ~value;
	return true;
}

/* This CPU stops at a point: others see what is without its late stores. */
void warp_race_late_hide(void)
{
	struct warp_race_buffer *b = warp_race_buffer();

	for (unsigned int n = b->nr; n-- > 0;) {
		struct warp_race_late *l = &b->late[n];
		u64 now = warp_late_load(l->address, l->size);

		switch (l->op) {
		case WARP_OP_STORE: l->value = now; now = l->under; break;
		case WARP_OP_add: now -= l->value; break;
		case WARP_OP_sub: now += l->value; break;
		case WARP_OP_xor: now ^= l->value; break;
		case WARP_OP_or: now &= ~l->under; break;
		case WARP_OP_and: now |= l->under; break;
		}
		warp_late_store(l->address, l->size, now);
	}
}

/* It goes on. */
void warp_race_late_show(void)
{
	struct warp_race_buffer *b = warp_race_buffer();

	for (unsigned int n = 0; n < b->nr; n++) {
		struct warp_race_late *l = &b->late[n];
		u64 now = warp_late_load(l->address, l->size);

		switch (l->op) {
		case WARP_OP_STORE: l->under = now; now = l->value; break;
		case WARP_OP_add: now += l->value; break;
		case WARP_OP_sub: now -= l->value; break;
		case WARP_OP_xor: now ^= l->value; break;
		case WARP_OP_or: l->under = l->value & ~now; now |= l->value; break;
		case WARP_OP_and: l->under = now & ~l->value; now &= l->value; break;
		}
		warp_late_store(l->address, l->size, now);
	}
}

bool warp_race_late_point(struct warp_race_cpu *c, unsigned int what, const volatile void *address, unsigned int op,
			  unsigned long value)
{
	struct warp_race_buffer *b = warp_race_buffer();
	unsigned int size = what >> 8;
	bool is_late = false, kept = false;

	for (; c->nr_late && c->late->at <= c->at; c->late++, c->nr_late--) {
		if (c->late->at < c->at)
			continue;
		is_late = true;
		b->all |= !c->late->one;
	}
	is_late |= b->all;
	switch (what & 0xff & ~WARP_RELAXED) {
	case WARP_POINT_WRITE:
	case WARP_POINT_MARKED_WRITE:
		if (is_late)
			kept = warp_late_keep(b, address, size, WARP_OP_STORE, 0);
		else if (warp_late_at(b, (unsigned long)address, size, false) &&
			 !warp_late_at(b, (unsigned long)address, size, true))
			warp_race_seen();
		break;
	case WARP_POINT_ATOMIC:
	case WARP_POINT_LOCK:
		if (warp_race_late_ends(what, address))
			warp_race_seen();
		else if (is_late && op)
			kept = warp_late_keep(b, address, size, op, value);
		break;
	}
	warp_late_rearm(c);
	return kept;
}

bool warp_race_late_ends(unsigned int what, const volatile void *address)
{
	struct warp_race_buffer *b = warp_race_buffer();

	if (!b->nr && !b->all)
		return false;
	switch (what & 0xff) {
	case WARP_SAYS_RELEASE:
	case WARP_SAYS_WMB:
	case WARP_SAYS_STORE_RELEASE:
		return !b->all;	/* what comes behind is late, too */
	case WARP_POINT_ATOMIC | WARP_RELAXED:
	case WARP_POINT_LOCK:
		return warp_race_model != WARP_MODEL_LKMM ||
		       warp_late_at(b, (unsigned long)address, what >> 8, false);
	case WARP_POINT_ATOMIC:
	case WARP_SAYS_MB:
		return true;
	}
	return false;
}

void warp_race_late_says(struct warp_race_cpu *c, unsigned int what, const volatile void *address)
{
	struct warp_race_buffer *b = warp_race_buffer();

	if (warp_race_late_ends(what, address))
		warp_race_seen();
	else if ((what & 0xff) == WARP_SAYS_RELEASE && b->all)
		/* the lock becomes free behind all that is late, and so may be late itself */
		warp_late_keep(b, &((arch_spinlock_t *)address)->locked, sizeof(unsigned int), WARP_OP_STORE, 0);
	warp_late_rearm(c);
}
