/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ethernet and IP of a worker: its ports <-> tcp, udp.
 *
 *   sl_net_input: frames -> eth_rx -> ip_rx -> { tcp_input, udp_input, icmp }
 *   sl_net_tx:    tcp, udp -> one pending burst per port -> sl_net_flush -> port
 *
 * sl_net_input() or sl_net_set_now() sets net->now_ns once per burst.
 */
#ifndef SL_NET_NET_H
#define SL_NET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/bytes.h"
#include "base/cpu.h"
#include "sluice/drop.h"
#include "wire/addr.h"
#include "wire/csum.h"
#include "wire/ip4.h"
#include "wire/ip6.h"
#include "xio/port.h"

struct sl_tcp;
struct sl_udp;
struct sl_handover;
struct sl_flow_key;
struct sl_flow_table;
struct sl_routes;
struct sl_rss_list;

/* A served address. Zeros match any address of the family. */
struct sl_net_listener {
	struct sl_addr at;
	uint8_t protocol;
	uint16_t listener; /* index in the configuration */
};

struct sl_l4 {
	void *ctx;
	/*
	 * Takes the frame: state RX, data at the L4 header, len to the end of the IP packet,
	 * addresses checked. key: ports 0 if len has no room for them; NULL without `flows`.
	 */
	void (*input)(void *ctx, struct sl_frame *f, const struct sl_flow_key *key);
	/*
	 * May be NULL. Otherwise keys and f->flow_hash are computed, and buckets prefetched, before
	 * input is called.
	 */
	const struct sl_flow_table *flows;
	/*
	 * An ICMP error that quotes a packet of its receiver, checksum checked. mtu > 0: too big;
	 * else unreachable. hard: may abort an opening connection (RFC 1122). l4: at least 8 bytes.
	 * May be NULL.
	 */
	void (*icmp_error)(void *ctx, const void *ip_header, const uint8_t *l4, uint32_t mtu,
			   bool hard);
};

enum sl_net_flags {
	SL_NET_HANDED_OVER = 1,
	SL_NET_PORT_UNKNOWN = 2, /* and from an interface without a port here */
};

/*
 * Path to a peer, plain data. `routed`: packets from the peer come from `mac`; packets to it go by
 * the host's route, if known. A `mac` of zeros: no packet has come from the peer yet.
 */
struct sl_net_path {
	uint8_t local[16], remote[16]; /* IPv4: first four bytes, the rest zero */
	uint32_t sender;               /* of the peer's frames */
	uint8_t mac[6];                /* next hop */
	uint16_t vlan[2];              /* TCI in host order, outer first */
	uint8_t vlan_cnt;
	bool vlan_ad : 1; /* outer tag is 802.1ad */
	bool routed : 1;
	uint8_t changed_at : 6; /* of the next hop: tenths of a second, modulo 64 */
	uint8_t family;         /* 4 or 6 */
	uint8_t port;
};
_Static_assert(sizeof(struct sl_net_path) == 52, "kept per connection");

/* Return the path's ends with these ports. */
static inline struct sl_addr sl_net_local(const struct sl_net_path *path, uint16_t port_be)
{
	return sl_addr_of(path->family, path->local, port_be);
}
static inline struct sl_addr sl_net_remote(const struct sl_net_path *path, uint16_t port_be)
{
	return sl_addr_of(path->family, path->remote, port_be);
}

enum {
	SL_NET_HOP_LIMIT = 64,
	SL_NET_MIN_MTU6 = 1280,       /* RFC 8200 5 */
	SL_NET_LISTENER_SLOTS = 1024, /* a power of two */
};

struct sl_net {
	uint64_t now_ns;
	struct sl_umem *umem;
	struct sl_port *ports[SL_MAX_PORTS];
	uint8_t port_cnt;
	struct sl_l4 tcp, udp;
	struct {
		struct sl_frame *frames[SL_BURST];
		unsigned cnt;
	} tx[SL_MAX_PORTS];
	struct sl_net_listener *listeners;
	uint32_t listener_cnt;
	/* index + 1, by hash of port, family, protocol */
	uint16_t listener_slot[SL_NET_LISTENER_SLOTS];
	uint8_t hash_key[16];
	struct sl_handover *handover; /* NULL: no other workers */
	struct sl_routes *routes;     /* NULL: packets go back the way they came */
	struct sl_rss_list *rss;      /* NULL: unknown */
	uint64_t nexthop_changes;
	int raw_fd[2];           /* IPv4, IPv6; -1: not open */
	unsigned kernel_tx_left; /* packets in this tenth of a second */
	uint64_t kernel_tx_tenth, kernel_tx_cnt;
	uint64_t drops[SL_DROP_CNT];
};

/* Count a drop; sl_net_drop_frame() also frees the frame. */
static inline void sl_net_drop(struct sl_net *n, enum sl_drop why)
{
	n->drops[why]++;
}
static inline void sl_net_drop_frame(struct sl_net *n, struct sl_frame *f, enum sl_drop why)
{
	n->drops[why]++;
	sl_frame_put(n->umem, f);
}

/* Returns 0, or the -errno of drawing the process's hash key. The umem must outlive n. */
int sl_net_init(struct sl_net *n, struct sl_umem *umem);
/* Adds a port of the same umem at the next index. Returns 0 or -EINVAL. */
int sl_net_add_port(struct sl_net *n, struct sl_port *p);
/* Copies at most SL_MAX_LISTENERS. Returns 0, -EINVAL or -ENOMEM: unchanged. */
int sl_net_set_listeners(struct sl_net *n, const struct sl_net_listener *l, uint32_t cnt);
/* Frees queued frames, routes and RSS, closes raw sockets. Ports stay open. */
void sl_net_fini(struct sl_net *n);

/* Returns sl_net_listener.listener, or -1. An exact address wins. */
int sl_net_find_listener(const struct sl_net *n, uint8_t family, const uint8_t *addr,
			 uint16_t port_be, uint8_t protocol);
/* Returns true if any listener has the address. */
bool sl_net_serves(const struct sl_net *n, uint8_t family, const uint8_t *addr);

/* Handles received frames, and takes them; sets n->now_ns. */
void sl_net_input(struct sl_net *n, struct sl_frame **frames, unsigned cnt, uint64_t now_ns);

/* Sets the time of a burst without input. */
static inline void sl_net_set_now(struct sl_net *n, uint64_t now_ns)
{
	n->now_ns = now_ns;
}

/* Returns the IP header. */
static inline const uint8_t *sl_net_l3(const struct sl_net *n, const struct sl_frame *f)
{
	return sl_frame_base(n->umem, f) + f->l3_off;
}

/* Copies both addresses, 16 bytes each; IPv4 leaves the rest zero. */
static inline void sl_net_addresses(const struct sl_net *n, const struct sl_frame *f,
				    uint8_t *local, uint8_t *remote)
{
	const struct sl_ip4_hdr *v4 = (const struct sl_ip4_hdr *)sl_net_l3(n, f);
	const struct sl_ip6_hdr *v6 = (const struct sl_ip6_hdr *)sl_net_l3(n, f);

	if (f->family == 4) {
		memset(local, 0, 16);
		memset(remote, 0, 16);
		memcpy(local, &v4->dst_be, 4);
		memcpy(remote, &v4->src_be, 4);
		return;
	}
	memcpy(local, v6->dst, 16);
	memcpy(remote, v6->src, 16);
}

/* Take the reference and drop the previous one. */
void sl_net_set_routes(struct sl_net *n, struct sl_routes *r);
void sl_net_set_rss(struct sl_net *n, struct sl_rss_list *l);

/* Sets the path back to the frame's sender. */
void sl_net_path_from_rx(const struct sl_net *n, const struct sl_frame *f,
			 struct sl_net_path *path);

/*
 * Fills the path to a remote address by the host's route, used until a packet of the peer arrives.
 * Returns false without a route by one of the ports.
 */
bool sl_net_path_by_route(const struct sl_net *n, const struct sl_addr *local,
			  const struct sl_addr *remote, struct sl_net_path *path);

/* Returns 1 if RSS brings the peer's segments to this worker, 0: to another one, -1: unknown. */
int sl_net_receives(const struct sl_net *n, const struct sl_net_path *path, uint16_t local_port_be,
		    uint16_t remote_port_be);

/* Returns a hash of a frame's port and MAC address, to which sl_net_set_sender() adds VLANs. */
static inline uint32_t sl_net_sender(const uint8_t mac[6], uint8_t port)
{
	uint32_t high, low;

	memcpy(&high, mac, sizeof(high));
	memcpy(&low, mac + 2, sizeof(low));
	return ((high + port) * UINT32_C(0x9e3779b1)) ^ low;
}

/* Returns true if f came by the next hop, or that is unknown: SL_NET_PORT_UNKNOWN, routed path. */
static inline bool sl_net_from_next_hop(const struct sl_frame *f, const struct sl_net_path *path)
{
	return f->sender == path->sender || f->flags & SL_NET_PORT_UNKNOWN || path->routed;
}
/*
 * Makes the sender of a received frame the next hop of `path`, at most ten times a second. Returns
 * true if so.
 */
bool sl_net_follow_next_hop(struct sl_net *n, const struct sl_frame *f, struct sl_net_path *path);

/* Sets a received frame's key. Ports are zero if the frame ends before them. */
void sl_net_flow_key(const struct sl_net *n, const struct sl_frame *f, struct sl_flow_key *key);

/*
 * Returns true if the L4 checksum is right. A port with partial_csum also accepts a local sender's
 * bare pseudo-header sum.
 */
bool sl_net_l4_csum_ok(const struct sl_net *n, const struct sl_frame *f, uint8_t protocol,
		       uint16_t csum_off);

/* Returns the sum of an outgoing pseudo-header; len: of the L4 packet. */
static inline uint64_t sl_net_pseudo_sum(const struct sl_net_path *path, uint8_t protocol,
					 uint32_t len)
{
	uint32_t src_be, dst_be;

	if (path->family == 6)
		return sl_csum_pseudo6(path->local, path->remote, protocol, len);
	memcpy(&src_be, path->local, 4);
	memcpy(&dst_be, path->remote, 4);
	return sl_csum_pseudo4(src_be, dst_be, protocol, len);
}

/* Returns an outgoing L4 packet's checksum. The field must be zero. */
uint16_t sl_net_l4_csum(const struct sl_net_path *path, uint8_t protocol, const void *l4,
			size_t len);

/* Returns the length of the Ethernet and IP headers. */
static inline size_t sl_net_header_len(const struct sl_net_path *path)
{
	return 14u + 4u * path->vlan_cnt + (path->family == 4 ? 20u : 40u);
}

/* Return the largest IP packet received, and sent: at least 1280 for IPv6. */
uint32_t sl_net_rx_mtu(const struct sl_net *n, const struct sl_net_path *path);
uint32_t sl_net_mtu(const struct sl_net *n, const struct sl_net_path *path);

/*
 * Prepends IP and Ethernet headers to an L4 packet and calls sl_net_tx(). Needs sl_net_header_len()
 * bytes in front of data; must fit the MTU. Returns false like sl_net_tx(), or without a next hop.
 */
bool sl_net_send(struct sl_net *n, struct sl_frame *f, const struct sl_net_path *path,
		 uint8_t protocol);

/*
 * Queues an Ethernet frame (HELD, TX or UNACKED; TX from now on) on port f->port. A frame with
 * retain stays the caller's and becomes UNACKED; others are freed after transmission. Returns false
 * if the ring is full: counted, and the frame is UNACKED or freed.
 */
bool sl_net_tx(struct sl_net *n, struct sl_frame *f);
/* Opens raw sockets for sl_net_copy_to_kernel(); needs CAP_NET_RAW. Returns 0 or -errno. */
int sl_net_open_kernel_tx(struct sl_net *n);
/* Closes them; repeatable. */
void sl_net_close_kernel_tx(struct sl_net *n);
/*
 * Passes the kernel a copy of a packet that sl_net_send() has queued: its route or neighbour may
 * differ. Drops more than 160 packets a second.
 */
void sl_net_copy_to_kernel(struct sl_net *n, const struct sl_frame *f,
			   const struct sl_net_path *path);
/* Passes queued frames to the ports, refills and wakes them. */
void sl_net_flush(struct sl_net *n);

#endif
