/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A ready queue that is a red-black tree with a note of its leftmost node, as Linux's (Guibas, Sedgewick, 1978; the text is that of
 * Cormen et al.). Node 0 is the leaf of all, and black. `schedlab race samples/race/queue_rbtree.c`, `--stress`, `--cost`
 */
#include "queue.h"

enum { LEAF = 0, LEFT = 0, RIGHT = 1 };

static struct tree {
	struct node { long key; int child[2], up, is_red; } nodes[TASKS_MAX + 1];
	int root, first, unused;	/* unused nodes: a list by child[RIGHT] */
} trees[RACE_CPUS_MAX];

static void queue_build(int cpu)
{
	struct tree *t = &trees[cpu];

	t->root = t->first = LEAF;
	t->nodes[LEAF] = (struct node){ .is_red = 0 };
	for (int i = 1; i <= TASKS_MAX; i++)
		t->nodes[i].child[RIGHT] = i < TASKS_MAX ? i + 1 : LEAF;
	t->unused = 1;
	sizes[cpu] = 0;
}

static void replace(struct tree *t, int old, int new)
{
	int up = t->nodes[old].up;

	if (up == LEAF)
		t->root = new;
	else
		t->nodes[up].child[t->nodes[up].child[RIGHT] == old] = new;
	t->nodes[new].up = up;
}

/* The child on the other side takes the place of `at`, which goes down to side `to`. */
static void rotate(struct tree *t, int at, int to)
{
	struct node *n = t->nodes;
	int rises = n[at].child[!to], inner = n[rises].child[to];

	replace(t, at, rises);
	n[at].child[!to] = inner;
	if (inner != LEAF)
		n[inner].up = at;
	n[rises].child[to] = at;
	n[at].up = rises;
}

static void queue_insert(int cpu, long key)
{
	struct tree *t = &trees[cpu];
	struct node *n = t->nodes;
	int new = t->unused, up = LEAF, side = LEFT, is_first = 1;

	if (new == LEAF)
		race_fail("the queue is full");
	t->unused = n[new].child[RIGHT];
	for (int at = t->root; at != LEAF; at = n[at].child[side]) {
		up = at;
		side = key < n[at].key ? LEFT : RIGHT;
		if (side == RIGHT)
			is_first = 0;
	}
	n[new] = (struct node){ .key = key, .up = up, .is_red = 1 };
	if (up == LEAF)
		t->root = new;
	else
		n[up].child[side] = new;
	if (is_first)
		t->first = new;
	for (int at = new; n[n[at].up].is_red;) {
		int above = n[n[at].up].up, its = n[above].child[RIGHT] == n[at].up, uncle = n[above].child[!its];

		if (n[uncle].is_red) {
			n[n[at].up].is_red = n[uncle].is_red = 0;
			n[above].is_red = 1;
			at = above;
			continue;
		}
		if (at == n[n[at].up].child[!its]) {
			at = n[at].up;
			rotate(t, at, its);
		}
		n[n[at].up].is_red = 0;
		n[above].is_red = 1;
		rotate(t, above, !its);
	}
	n[t->root].is_red = 0;
}

static int leftmost(const struct tree *t, int at)
{
	while (at != LEAF && t->nodes[at].child[LEFT] != LEAF)
		at = t->nodes[at].child[LEFT];
	return at;
}

static int next_of(const struct tree *t, int at)
{
	const struct node *n = t->nodes;

	if (n[at].child[RIGHT] != LEAF)
		return leftmost(t, n[at].child[RIGHT]);
	while (n[at].up != LEAF && n[n[at].up].child[RIGHT] == at)
		at = n[at].up;
	return n[at].up;
}

/* A black node has gone from above `at`. */
static void mend(struct tree *t, int at)
{
	struct node *n = t->nodes;

	while (at != t->root && !n[at].is_red) {
		int up = n[at].up, its = n[up].child[RIGHT] == at, other = n[up].child[!its];

		if (n[other].is_red) {
			n[other].is_red = 0;
			n[up].is_red = 1;
			rotate(t, up, its);
			other = n[up].child[!its];
		}
		if (!n[n[other].child[LEFT]].is_red && !n[n[other].child[RIGHT]].is_red) {
			n[other].is_red = 1;
			at = up;
			continue;
		}
		if (!n[n[other].child[!its]].is_red) {
			n[n[other].child[its]].is_red = 0;
			n[other].is_red = 1;
			rotate(t, other, !its);
			other = n[up].child[!its];
		}
		n[other].is_red = n[up].is_red;
		n[up].is_red = n[n[other].child[!its]].is_red = 0;
		rotate(t, up, its);
		at = t->root;
	}
	n[at].is_red = 0;
}

static int queue_erase(int cpu, long key)
{
	struct tree *t = &trees[cpu];
	struct node *n = t->nodes;
	int gone = t->root, moved, from, was_red;
	unsigned long steps = 1;

	for (; gone != LEAF && n[gone].key != key; steps++)
		gone = n[gone].child[key < n[gone].key ? LEFT : RIGHT];
	if (gone == LEAF)
		return 0;
	race_count("places looked at", steps);
	/* the first one goes: equal keys before it there are none, and of equal ones any will do */
	if (gone == t->first)
		t->first = next_of(t, gone);
	moved = n[gone].child[LEFT] != LEAF && n[gone].child[RIGHT] != LEAF ? leftmost(t, n[gone].child[RIGHT]) : gone;
	was_red = n[moved].is_red;
	from = n[moved].child[n[moved].child[LEFT] == LEAF];
	replace(t, moved, from);
	if (moved != gone) {
		int up = n[from].up == gone ? moved : n[from].up;

		replace(t, gone, moved);
		for (int side = LEFT; side <= RIGHT; side++) {
			n[moved].child[side] = n[gone].child[side];
			if (n[moved].child[side] != LEAF)
				n[n[moved].child[side]].up = moved;
		}
		n[moved].is_red = n[gone].is_red;
		n[from].up = up;
	}
	if (!was_red)
		mend(t, from);
	n[gone].child[RIGHT] = t->unused;
	t->unused = gone;
	return 1;
}

static long queue_first(int cpu)
{
	return trees[cpu].first == LEAF ? -1 : trees[cpu].nodes[trees[cpu].first].key;
}

/* Black nodes on each way down from here. */
static int blacks(const struct tree *t, int at, int *nr)
{
	const struct node *n = t->nodes;
	int left, right;

	if (at == LEAF)
		return 1;
	++*nr;
	for (int side = LEFT; side <= RIGHT; side++) {
		int child = n[at].child[side];

		if (child == LEAF)
			continue;
		if (n[child].up != at || (side == LEFT ? n[child].key > n[at].key : n[child].key < n[at].key))
			race_fail("the tree is out of order");
		if (n[at].is_red && n[child].is_red)
			race_fail("a red node has a red child");
	}
	left = blacks(t, n[at].child[LEFT], nr);
	right = blacks(t, n[at].child[RIGHT], nr);
	if (left != right)
		race_fail("the tree is out of balance");
	return left + !n[at].is_red;
}

static void queue_check(int cpu)
{
	const struct tree *t = &trees[cpu];
	int nr = 0;

	blacks(t, t->root, &nr);
	if (nr != sizes[cpu])
		race_fail("nodes of the tree are lost");
	if (t->nodes[LEAF].is_red || t->nodes[t->root].is_red)
		race_fail("the root is red");
	if (t->first != leftmost(t, t->root))
		race_fail("the note of the leftmost node is wrong");
}

QUEUE_TARGET("queue_rbtree");
