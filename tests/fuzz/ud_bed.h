/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What targets of virtual connections have in common: the parts of a device (rpc/rdma/device.h) behind
 * which there is nothing, and the key. Pairs, and what comes and goes by them, are a target's own.
 */
#ifndef TESTS_FUZZ_UD_BED_H
#define TESTS_FUZZ_UD_BED_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "rpc/psk.h"
#include "rpc/rdma/device.h"

static struct sl_psk secret; /* from the first key_file() on */

static inline void require(bool holds)
{
	if (!holds)
		abort();
}

/* Returns a file with that key. */
static inline const char *key_file(void)
{
	static char path[64];
	int key;

	if (path[0])
		return path;
	secret = sl_psk_of("of this target only", 19);
	key = memfd_create("key", 0);
	require(write(key, secret.bytes, secret.len) == (ssize_t)secret.len);
	require(fchmod(key, 0600) == 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", key);
	return path;
}

/* One for all queue pairs. A write beyond a queue pair's datagram size is behind its end. */
static inline uint8_t *dev_slot(struct ud_qp *p)
{
	static uint8_t slot[UD_MTU_MAX];

	return slot + sizeof(slot) - p->mtu;
}

static inline int dev_ring(struct ud_qp *p)
{
	(void)p;
	return 0;
}

/* Each packet's bytes are from malloc(). */
static inline int dev_put_back(struct ud_qp *p, const struct ud_packet *packets, unsigned cnt)
{
	(void)p;
	for (unsigned i = 0; i < cnt; i++)
		free(packets[i].bytes);
	return 0;
}

static inline void dev_take_bell(struct ud_qp *p)
{
	(void)p;
}

/* It stays up. */
static inline struct rdma_port *dev_watch(const struct rdma_local *l, int *rc)
{
	struct rdma_port *p = calloc(1, sizeof(*p));

	(void)l;
	require(p);
	p->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	*rc = 0;
	return p;
}

static inline void dev_unwatch(struct rdma_port *p)
{
	close(p->fd);
	free(p);
}

static inline struct ibv_ah *dev_way_new(const struct rdma_local *l, const uint8_t gid[16],
					 uint8_t tos)
{
	(void)gid, (void)tos;
	return l->device;
}

static inline void dev_way_free(struct ibv_ah *way)
{
	(void)way;
}

#endif
