/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ethernet and IP of a worker: its ports <-> tcp, udp.
 *
 *   sl_net_input: frames -> eth_rx -> ip_rx -> { tcp_input, udp_input, icmp }
 *   sl_net_tx:    tcp, udp -> one pending burst per port -> sl_net_flush -> port
 *
 * Once per burst sl_net_input() or sl_net_set_now() sets net->now_ns.
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

/* A served address. An address of zeros matches any of its family. */
struct sl_net_listener {
	struct sl_addr at;
	uint8_t protocol;
	uint16_t listener; /* index in the configuration */
};

/* Interface of tcp and udp to net. */
struct sl_l4 {
	void *ctx;
	/*
	 * Takes the frame: state RX, data at the L4 header, len to the end of the IP packet,
	 * addresses checked. key: the flow (ports 0 if len has no room for them); NULL without
	 * `flows`.
	 */
	void (*input)(void *ctx, struct sl_frame *f, const struct sl_flow_key *key);
	/*
	 * Keys and f->flow_hash of a burst are computed, and buckets prefetched, before input is
	 * called. May be NULL.
	 */
	const struct sl_flow_table *flows;
	/*
	 * An ICMP error with a correct checksum that quotes a packet of its receiver. mtu > 0: too
	 * big; else unreachable. hard: may abort an opening connection (RFC 1122). l4: at least 8
	 * bytes. May be NULL.
	 */
	void (*icmp_error)(void *ctx, const void *ip_header, const uint8_t *l4, uint32_t mtu,
			   bool hard);
};

/* Flags of received frames. */
enum sl_net_flags {
	SL_NET_HANDED_OVER = 1,  /* must not be handed over again */
	SL_NET_PORT_UNKNOWN = 2, /* and from an interface without a port here */
};

/*
 * Path to a peer. Plain data. `routed`: the peer's packets come from `mac`, and packets to it go by
 * the host's route, if that is known. A `mac` of zeros: nothing has come from the peer yet.
 */
struct sl_net_path {
	uint8_t local[16], remote[16]; /* IPv4: first four bytes, the rest zero */
	uint32_t sender;               /* sl_net_sender() of the peer's frames */
	uint8_t mac[6];                /* next hop */
	uint16_t vlan[2];              /* TCI in host order, outer first */
	uint8_t vlan_cnt;
	bool vlan_ad : 1; /* outer tag is 802.1ad */
	bool routed : 1;
	uint8_t changed_at : 6; /* of the next hop: tenths of a second, modulo 64 */
	uint8_t family;         /* 4 or 6 */
	uint8_t port;           /* index in the worker */
};
_Static_assert(sizeof(struct sl_net_path) == 52, "kept per connection");

/* Ends of a path, with ports of L4. */
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
	SL_NET_LISTENER_SLOTS = 1024, /* power of two, four times SL_MAX_LISTENERS */
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
	uint8_t hash_key[16];                    /* random per process */
	struct sl_handover *handover;            /* other workers; NULL: none */
	struct sl_routes *routes;                /* NULL: packets go back the way they came */
	uint64_t nexthop_changes;                /* of connections */
	int raw_fd[2];                           /* IPv4, IPv6; -1: not open */
	unsigned kernel_tx_left;                 /* packets in this tenth of a second */
	uint64_t kernel_tx_tenth, kernel_tx_cnt; /* cnt: sent by the kernel */
	uint64_t drops[SL_DROP_CNT];
};

static inline void sl_net_drop(struct sl_net *n, enum sl_drop why)
{
	n->drops[why]++;
}

static inline void sl_net_drop_frame(struct sl_net *n, struct sl_frame *f, enum sl_drop why)
{
	n->drops[why]++;
	sl_frame_put(n->umem, f);
}

/* Returns 0 or -errno. */
int sl_net_init(struct sl_net *n, struct sl_umem *umem);
/* Adds a port: next free index, same umem. Returns 0 or -EINVAL. */
int sl_net_add_port(struct sl_net *n, struct sl_port *p);
/* Replaces the listeners by copies of at most SL_MAX_LISTENERS. Returns 0 or -errno. */
int sl_net_set_listeners(struct sl_net *n, const struct sl_net_listener *l, uint32_t cnt);
/* Frees queued frames; ports stay open. */
void sl_net_fini(struct sl_net *n);

/* Returns the listener index for a local address, or -1. An exact address wins. */
int sl_net_find_listener(const struct sl_net *n, uint8_t family, const uint8_t *addr,
			 uint16_t port_be, uint8_t protocol);
/* Returns true if any listener has that address. */
bool sl_net_serves(const struct sl_net *n, uint8_t family, const uint8_t *addr);

/* Takes the frames; sets n->now_ns. */
void sl_net_input(struct sl_net *n, struct sl_frame **frames, unsigned cnt, uint64_t now_ns);

static inline void sl_net_set_now(struct sl_net *n, uint64_t now_ns)
{
	n->now_ns = now_ns;
}

static inline const uint8_t *sl_net_l3(const struct sl_net *n, const struct sl_frame *f)
{
	return sl_frame_base(n->umem, f) + f->l3_off;
}

/* Local: destination; remote: source. */
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

/* Replaces the routes; takes the reference, which the previous table loses. */
void sl_net_set_routes(struct sl_net *n, struct sl_routes *r);

/* Fills the path for replies to a received frame. */
void sl_net_path_from_rx(const struct sl_net *n, const struct sl_frame *f,
			 struct sl_net_path *path);

/*
 * Fills the path to a remote address by the host's route: until a packet of it arrives, each packet
 * goes by the route. Returns false without a route by one of the ports.
 */
bool sl_net_path_by_route(const struct sl_net *n, const struct sl_addr *local,
			  const struct sl_addr *remote, struct sl_net_path *path);

/*
 * Returns a number for the sender of a frame on its link: port, MAC address, VLANs. Different
 * senders can have the same, with a probability of 2^-32.
 */
static inline uint32_t sl_net_sender(const uint8_t mac[6], uint8_t port)
{
	uint32_t high, low;

	memcpy(&high, mac, sizeof(high));
	memcpy(&low, mac + 2, sizeof(low));
	return ((high + port) * UINT32_C(0x9e3779b1)) ^ low;
}

/*
 * Returns true if a received frame came from the next hop of `path`: port, MAC address and VLANs.
 * SL_NET_PORT_UNKNOWN and a routed path count as from there.
 */
static inline bool sl_net_from_next_hop(const struct sl_frame *f, const struct sl_net_path *path)
{
	return f->sender == path->sender || f->flags & SL_NET_PORT_UNKNOWN || path->routed;
}
/*
 * Makes the sender of a received frame the next hop of `path`, at most ten times a second. Returns
 * true if it did (nexthop_changes).
 */
bool sl_net_follow_next_hop(struct sl_net *n, const struct sl_frame *f, struct sl_net_path *path);

/* Ports are zero if the frame ends before them. */
void sl_net_flow_key(const struct sl_net *n, const struct sl_frame *f, struct sl_flow_key *key);

/*
 * Checks the L4 checksum at csum_off. A port with partial_csum also accepts the bare pseudo-header
 * sum of a local sender.
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

/* Returns the checksum of an outgoing L4 packet; its field must be zero. */
uint16_t sl_net_l4_csum(const struct sl_net_path *path, uint8_t protocol, const void *l4,
			size_t len);

static inline size_t sl_net_header_len(const struct sl_net_path *path)
{
	return 14u + 4u * path->vlan_cnt + (path->family == 4 ? 20u : 40u);
}

/* Returns the largest IP packet on the path's interface, for IPv6 at least 1280. */
uint32_t sl_net_mtu(const struct sl_net *n, const struct sl_net_path *path);

/*
 * Prepends IP and Ethernet headers to an L4 packet and queues it like sl_net_tx(). Needs
 * sl_net_header_len() bytes in front of data; must fit the MTU.
 */
bool sl_net_send(struct sl_net *n, struct sl_frame *f, const struct sl_net_path *path,
		 uint8_t protocol);

/*
 * Queues a complete Ethernet frame (HELD, TX or UNACKED; TX from now on) on port f->port. A frame
 * with retain stays the caller's and becomes UNACKED; others are freed after transmission. Returns
 * false if the ring is full: counted, and the frame is UNACKED or freed. sl_net_send() also returns
 * it if the next hop is unknown.
 */
bool sl_net_tx(struct sl_net *n, struct sl_frame *f);
/*
 * Opens raw sockets for sl_net_copy_to_kernel(); needs CAP_NET_RAW. Returns 0, or -errno; copies
 * are not sent then.
 */
int sl_net_open_kernel_tx(struct sl_net *n);
void sl_net_close_kernel_tx(struct sl_net *n);
/*
 * Sends a copy of a packet that sl_net_send() has queued by the kernel, whose route and neighbour
 * may have changed. Drops what exceeds 160 packets a second.
 */
void sl_net_copy_to_kernel(struct sl_net *n, const struct sl_frame *f,
			   const struct sl_net_path *path);
/* Passes queued frames to the ports; then refill and wake-up. */
void sl_net_flush(struct sl_net *n);

#endif
