/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte streams (front/conn.h) of clients over kernel TCP and Unix sockets. One worker.
 *
 * sl_sock_poll() makes all upcalls except those within `resume`. sl_sock_output() sends what a
 * burst has written, once for each connection. Connections are registered edge-triggered, so a
 * request costs no epoll_ctl(). Bytes wait in frames of the worker.
 *
 * Times are those of sl_sock_poll().
 */
#ifndef SL_SOCK_SOCK_H
#define SL_SOCK_SOCK_H

#include <stdbool.h>
#include <stdint.h>
#include "front/conn.h"

struct sl_sock_set;
struct sl_sock_conn;

struct sl_sock_ops {
	/*
	 * Returns the argument of `events`, or NULL to refuse the connection (RST). info->listener
	 * is SL_SOCK_BY_ADDRESS for TCP.
	 */
	void *(*accepted)(void *app, struct sl_sock_conn *c, const struct sl_conn_info *info);
	const struct sl_conn_user *events;
	/* Change of the number of frames to send or to consume. Must only count. May be NULL. */
	void (*holds)(void *handle, int32_t frames);
	/* Returns true to keep the send queue at its minimum. NULL: never. */
	bool (*full)(void *handle);
};

struct sl_sock_config {
	uint32_t max_conns;
	uint32_t snd_buf;     /* bytes per connection that the kernel has not taken */
	uint32_t snd_ahead;   /* the same while the kernel takes none */
	uint32_t discard_max; /* bytes read after `close` */
	uint64_t linger_ns;   /* wait for the peer's end after `close` */
};
/* Sets the default limits. */
void sl_sock_config_default(struct sl_sock_config *cfg);

enum { SL_SOCK_BY_ADDRESS = UINT16_MAX };

struct sl_sock_listener {
	int fd;
	uint32_t id;      /* unique per socket in the process */
	int32_t listener; /* index in the configuration; TCP: SL_SOCK_BY_ADDRESS */
	uint64_t name;    /* hash of a Unix socket's path; 0: TCP */
};

/* Copies cfg and ops. Returns NULL and errno on error. */
struct sl_sock_set *sl_sock_create(struct sl_umem *umem, const struct sl_sock_config *cfg,
				   const struct sl_sock_ops *ops, void *app);
/* Frees s (may be NULL); resets all connections without an upcall. */
void sl_sock_destroy(struct sl_sock_set *s);

/*
 * Replaces the listeners. Takes the descriptors; one with a known id, or beyond
 * SL_SOCK_LISTENERS_MAX, is closed.
 */
void sl_sock_set_listeners(struct sl_sock_set *s, const struct sl_sock_listener *l, uint32_t cnt);
/*
 * Refuses TCP connections by these interfaces, at most SL_SOCK_EXCLUDED_MAX; replaces earlier ones.
 */
enum { SL_SOCK_EXCLUDED_MAX = 64 };
void sl_sock_exclude(struct sl_sock_set *s, const int *ifindex, uint32_t cnt);

/*
 * Renumbers after a change of configuration. `find` returns a Unix socket's new index, or -1:
 * removed.
 */
void sl_sock_renumber(struct sl_sock_set *s, int32_t (*find)(const void *arg, uint64_t name),
		      const void *arg);

/* Accepts and reads. Returns the amount of work. */
unsigned sl_sock_poll(struct sl_sock_set *s, uint64_t now_ns);
/* Sends what was written. Returns the number of connections that sent. */
unsigned sl_sock_output(struct sl_sock_set *s);
/* Returns when sl_sock_poll() must be called at the latest. */
uint64_t sl_sock_next_ns(const struct sl_sock_set *s);
/* Returns a descriptor of s, readable when sl_sock_poll() has work. */
int sl_sock_fd(const struct sl_sock_set *s);
/* Returns how many more connections can be accepted. */
uint32_t sl_sock_free_places(const struct sl_sock_set *s);

/* Downcalls of a connection; self: struct sl_sock_conn. */
extern const struct sl_conn_ops sl_sock_stream;
/*
 * Returns the index of a Unix socket's listener, or -1: removed. TCP: SL_SOCK_BY_ADDRESS.
 */
int32_t sl_sock_listener(const struct sl_sock_conn *c);

struct sl_sock_stats {
	uint64_t accepted, refused, accept_failures, closed, resets_in, resets_out, timeouts;
	uint64_t bytes_in, bytes_out, reads, writes;
	uint32_t conns, conn_bytes;
};
/* Copies the counters. */
void sl_sock_stats(const struct sl_sock_set *s, struct sl_sock_stats *out);

#endif
