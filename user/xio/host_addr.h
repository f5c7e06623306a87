/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's addresses, and its interfaces' MAC addresses and MTUs.
 *
 * Reads at most once in SL_HOST_ADDRS_PERIOD_NS. One thread.
 */
#ifndef SL_XIO_HOST_ADDR_H
#define SL_XIO_HOST_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "wire/addr.h"

#define SL_HOST_ADDRS_PERIOD_NS UINT64_C(100000000)

struct sl_host_link {
	char ifname[16];
	uint32_t mtu; /* 0: unknown */
	uint8_t mac[6];
	uint8_t pad[2];
};

struct sl_host_addrs {
	struct sl_addr *addrs; /* port 0; unicast without loopback; sorted, each once */
	uint32_t addr_cnt;
	struct sl_host_link *links; /* Ethernet only, sorted by name */
	uint32_t link_cnt;

	/* private */
	int fd; /* netlink; -1: closed */
	bool changed;
	uint64_t next_ns;
};

/* Returns 0, or -errno and a line in err; *h is then closed. */
int sl_host_addrs_open(struct sl_host_addrs *h, struct sl_err *err);

/* Frees the lists. Idempotent; *h may also be zero with fd -1. */
void sl_host_addrs_close(struct sl_host_addrs *h);

/* Returns true if a list has changed since the last call. A failed reading is repeated later. */
bool sl_host_addrs_poll(struct sl_host_addrs *h, uint64_t now_ns);

/* Returns the interface or NULL, valid until the next poll. */
const struct sl_host_link *sl_host_addrs_link(const struct sl_host_addrs *h, const char *ifname);

#endif
