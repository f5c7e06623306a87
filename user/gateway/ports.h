/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel sockets of the served addresses and ports (sock/reserve.h): one per listener, but "*"
 * includes other addresses of its port.
 *
 *   reload:  sl_ports_reserve(next list) -> workers switch -> sl_ports_follow(lists in force)
 *
 * "*" cannot be bound while an address of its port is, and vice versa: the new one is pending until
 * the old one is closed. Control thread.
 */
#ifndef SL_GATEWAY_PORTS_H
#define SL_GATEWAY_PORTS_H

#include "base/err.h"
#include "config/config.h"
#include "net/net.h"
#include "sock/sock.h"

enum { SL_PORTS_MAX = 3 * SL_MAX_LISTENERS }; /* in force, removed, next */

struct sl_port_socket {
	struct sl_addr at;
	uint8_t protocol;
	bool wanted; /* sl_ports_follow() */
	bool serves, listening;
	int fd;      /* -1: pending */
	uint32_t id; /* sl_sock_listener.id */
};

struct sl_ports {
	struct sl_port_socket list[SL_PORTS_MAX];
	uint32_t cnt;
	uint32_t pending_cnt;
	uint32_t next_id;
	uint64_t retry_ns;
	int excluded[SL_SOCK_EXCLUDED_MAX]; /* interfaces that XDP serves, and VLANs on them */
	unsigned excluded_cnt;
	bool changed; /* cleared by the caller */
};

/* Served addresses. */
struct sl_ports_want {
	const struct sl_net_listener *list;
	uint32_t cnt;
};

/* Reserves missing ports. Returns 0, or -errno and err without a change. */
int sl_ports_reserve(struct sl_ports *p, const struct sl_config *cfg, struct sl_ports_want want,
		     struct sl_err *err);
/*
 * Closes sockets of addresses in no list, then retries pending ones. If cfg is not NULL, local HTTP
 * listeners of `now` listen. `next`: of a reload in preparation.
 */
void sl_ports_follow(struct sl_ports *p, const struct sl_config *cfg, struct sl_ports_want now,
		     struct sl_ports_want stale, struct sl_ports_want next);
/* Tries to bind pending addresses again, once a second. */
void sl_ports_retry(struct sl_ports *p, uint64_t now_ns);
/*
 * Excludes interfaces and their VLANs, where XDP decides. Must be called again when links change.
 */
void sl_ports_exclude(struct sl_ports *p, const int *ifindex, unsigned cnt);
/* Closes all sockets. */
void sl_ports_close(struct sl_ports *p);

#endif
