/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which members of a pool a worker uses: the law, without I/O or clock. The members stand on a ring,
 * ordered by a hash of their names; worker w of W begins at the w-th part of it and has `own` in a row:
 *
 *   ring      a  b  c  d  e  f  g  h
 *   worker 0  [own.......]-->           further on, while too few of its own are connected
 *   worker 1     >        [own.......]--
 *
 * Places that are spread evenly give each member as many workers as any other, or one more; and a member
 * that comes or goes moves each place by one at most, so it changes hardly any connection of the others.
 *
 *   too few        connected are less than two, and than an eighth of its own: it borrows from those further
 *                  on as many as are missing, of those with which another worker is connected, so that they
 *                  are known to be well; and others, where they do not come up either
 *   back           goes what was borrowed when enough of its own have been connected for SL_SUBSET_BACK_NS
 */
#ifndef SL_GATEWAY_SUBSET_H
#define SL_GATEWAY_SUBSET_H

#include <stdbool.h>
#include <stdint.h>

#define SL_SUBSET_START_NS UINT64_C(1500000000) /* its own have so long to come up at first */
#define SL_SUBSET_TRY_NS   UINT64_C(300000000)  /* and those that are borrowed */
#define SL_SUBSET_BACK_NS  UINT64_C(5000000000)

/* The members in the order of the ring, by their places in `names`. 0 or -ENOMEM. */
int sl_subset_order(const char *const *names, uint32_t cnt, uint16_t *order);
/* How many of cnt members each worker has: `wanted`, or as many more as leave out none. */
uint32_t sl_subset_size(uint32_t wanted, uint32_t cnt, uint32_t worker_cnt);
/* Where on the ring a worker begins. */
static inline uint32_t sl_subset_start(uint32_t worker, uint32_t worker_cnt, uint32_t cnt)
{
	return (uint32_t)((uint64_t)worker * cnt / worker_cnt);
}

/* What one worker has of the ring: members 0 to width - 1, counted from where it begins. */
struct sl_subset {
	uint32_t own, width;
	uint64_t grow_ns;   /* it borrows no more before */
	uint64_t enough_ns; /* since when enough of its own have been connected; 0: they are not */
};

/* Of a member, for one worker: connected with it, with others only, or with nobody. */
enum sl_subset_state { SL_SUBSET_NONE, SL_SUBSET_OTHERS, SL_SUBSET_UP };

/* before: of the same worker, when the ring was another one; NULL: there was none. */
void sl_subset_begin(struct sl_subset *s, uint32_t own, uint32_t cnt,
		     const struct sl_subset *before, uint64_t now_ns);
/* spots: of all cnt members from where it begins. Width is what it is from now on. */
void sl_subset_look(struct sl_subset *s, const uint8_t *states, uint32_t cnt, uint64_t now_ns);
/* Whether what it uses is enough of it connected, so that it can let go of others. */
bool sl_subset_enough(const struct sl_subset *s, const uint8_t *states);
/* When it is to be looked at though no spot has changed; UINT64_MAX: not before. */
uint64_t sl_subset_due_ns(const struct sl_subset *s, uint64_t now_ns);

#endif
