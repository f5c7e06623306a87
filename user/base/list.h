/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intrusive circular doubly linked list.
 *
 * An empty head, and an unlinked node, point to themselves.
 */
#ifndef SL_BASE_LIST_H
#define SL_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct sl_list {
	struct sl_list *next;
	struct sl_list *prev;
};

#define SL_LIST_INIT(head)                                                                         \
	{                                                                                          \
		&(head), &(head)                                                                   \
	}

#define sl_container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Makes an empty head or an unlinked node. */
static inline void sl_list_init(struct sl_list *l)
{
	l->next = l;
	l->prev = l;
}

/* Returns true for an empty head or an unlinked node. */
static inline bool sl_list_empty(const struct sl_list *head)
{
	return head->next == head;
}

/* Links an unlinked node between two neighbours. */
static inline void sl_list_insert_between(struct sl_list *node, struct sl_list *prev,
					  struct sl_list *next)
{
	node->prev = prev;
	node->next = next;
	prev->next = node;
	next->prev = node;
}

/* Links an unlinked node as the first. */
static inline void sl_list_add_head(struct sl_list *head, struct sl_list *node)
{
	sl_list_insert_between(node, head, head->next);
}

/* Links an unlinked node as the last; before a node given as `head`. */
static inline void sl_list_add_tail(struct sl_list *head, struct sl_list *node)
{
	sl_list_insert_between(node, head->prev, head);
}

/* Unlinks an initialised node, which stays initialised; may be repeated. */
static inline void sl_list_del(struct sl_list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	sl_list_init(node);
}

/* Unlinks and returns the first node; NULL: empty. */
static inline struct sl_list *sl_list_pop_head(struct sl_list *head)
{
	struct sl_list *node = head->next;

	if (node == head)
		return NULL;
	/* The analyzer takes it for freed. */
	sl_list_del(node); /* NOLINT(clang-analyzer-unix.Malloc) */
	return node;
}

/* Moves all nodes of `from` to the end of `head`. */
static inline void sl_list_splice_tail(struct sl_list *head, struct sl_list *from)
{
	if (sl_list_empty(from))
		return;
	from->next->prev = head->prev;
	head->prev->next = from->next;
	from->prev->next = head;
	head->prev = from->prev;
	sl_list_init(from);
}

#define sl_list_first(head, type, member)                                                          \
	(sl_list_empty(head) ? NULL : sl_container_of((head)->next, type, member))
#define sl_list_last(head, type, member)                                                           \
	(sl_list_empty(head) ? NULL : sl_container_of((head)->prev, type, member))

/* In the _safe form the body may delete pos, and only pos. */
#define sl_list_for_each(pos, head) for ((pos) = (head)->next; (pos) != (head); (pos) = (pos)->next)
#define sl_list_for_each_safe(pos, tmp, head)                                                      \
	for ((pos) = (head)->next, (tmp) = (pos)->next; (pos) != (head);                           \
	     (pos) = (tmp), (tmp) = (pos)->next)

#endif
