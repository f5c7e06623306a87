/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel sockets of the served addresses and ports (sock/reserve.h). One for each entry of a list
 * of listeners, except that "*" includes the other addresses of its port.
 *
 *   reload:  sl_ports_reserve(next list) -> workers switch -> sl_ports_follow(lists in force)
 *
 * "*" cannot be bound while an address of its port is, and vice versa. A reload that changes one
 * to the other leaves the new one pending; sl_ports_retry() binds it after the old one is closed.
 * Control thread.
 */
#ifndef SL_GATEWAY_PORTS_H
#define SL_GATEWAY_PORTS_H

#include "base/err.h"
#include "config/config.h"
#include "net/net.h"
#include "sock/sock.h"

enum { SL_PORTS_MAX = 3 * SL_MAX_LISTENERS }; /* in force, removed, and of a reload */

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
	bool changed; /* listening sockets or excluded interfaces; cleared by the caller */
};

/* Addresses that packets are taken for. */
struct sl_ports_want {
	const struct sl_net_listener *list;
	uint32_t cnt;
};

/*
 * Reserves what is not reserved yet. Returns 0, or -errno and one line in err without any change.
 */
int sl_ports_reserve(struct sl_ports *p, const struct sl_config *cfg, struct sl_ports_want want,
		     struct sl_err *err);
/*
 * Closes the sockets of addresses that are in no list, then retries pending ones. Sockets of local
 * HTTP listeners in `now` listen, if cfg is not NULL. next: of a reload that is being prepared.
 */
void sl_ports_follow(struct sl_ports *p, const struct sl_config *cfg, struct sl_ports_want now,
		     struct sl_ports_want stale, struct sl_ports_want next);
/* Binds pending ones, at most once a second. */
void sl_ports_retry(struct sl_ports *p, uint64_t now_ns);
/*
 * Excludes the interfaces of `ifindex`, and VLAN interfaces on them: there XDP decides on prefixes
 * and VLANs. Must be called again when links change.
 */
void sl_ports_exclude(struct sl_ports *p, const int *ifindex, unsigned cnt);
void sl_ports_close(struct sl_ports *p);

#endif
