/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte streams (front/conn.h) of clients over kernel TCP and Unix sockets, for one worker.
 *
 *   listeners -> accept4 -> [ connection ] -> readable -> recvmsg  -> events->input
 *                                          <- writable <- sendmsg  <- ops->write
 *
 * sl_sock_poll() reads events of an own epoll set, and makes all upcalls except those within
 * `resume`. sl_sock_output() sends what a burst has written, once for each connection. Connections
 * are registered edge-triggered, so a request costs no epoll_ctl(). Bytes wait in frames of the
 * worker; a connection that is not read, or does not read, stops.
 *
 * One worker owns all objects. Times are those of sl_sock_poll().
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
	/* Change of the number of frames queued or not consumed. Must only count. May be NULL. */
	void (*holds)(void *handle, int32_t frames);
	/* Returns true if the send queue should stay at its minimum. NULL: never. */
	bool (*full)(void *handle);
};

struct sl_sock_config {
	uint32_t max_conns;
	uint32_t snd_buf;     /* bytes that the kernel has not taken, of a connection */
	uint32_t snd_ahead;   /* the same while the kernel takes none */
	uint32_t discard_max; /* bytes read after `close` */
	uint64_t linger_ns;   /* wait for the peer's end after `close` */
};
void sl_sock_config_default(struct sl_sock_config *cfg);

enum { SL_SOCK_BY_ADDRESS = UINT16_MAX };

/* A listening socket. Plain data. */
struct sl_sock_listener {
	int fd;
	uint32_t id;      /* unique per socket in the process */
	int32_t listener; /* index in the configuration; TCP: SL_SOCK_BY_ADDRESS */
	uint64_t name;    /* hash of a Unix socket's path; 0: TCP */
};

/* Returns NULL and sets errno on error. */
struct sl_sock_set *sl_sock_create(struct sl_umem *umem, const struct sl_sock_config *cfg,
				   const struct sl_sock_ops *ops, void *app);
/* Resets all connections without an upcall, and closes the listeners. NULL is allowed. */
void sl_sock_destroy(struct sl_sock_set *s);

/*
 * Replaces the listeners. Takes ownership of the descriptors; one whose id is known already is
 * closed. A descriptor that cannot be watched is closed and logged.
 */
void sl_sock_set_listeners(struct sl_sock_set *s, const struct sl_sock_listener *l, uint32_t cnt);
/* Refuses TCP connections that come by these interfaces, at most SL_SOCK_EXCLUDED_MAX. */
enum { SL_SOCK_EXCLUDED_MAX = 64 };
void sl_sock_exclude(struct sl_sock_set *s, const int *ifindex, uint32_t cnt);

/*
 * Asks for the new index of each Unix socket, -1: removed. Called when the configuration changes.
 */
void sl_sock_renumber(struct sl_sock_set *s, int32_t (*find)(const void *arg, uint64_t name),
		      const void *arg);

/* Reads events, accepts, reads. Returns the amount of work. */
unsigned sl_sock_poll(struct sl_sock_set *s, uint64_t now_ns);
/* Sends. Returns the number of connections that sent. */
unsigned sl_sock_output(struct sl_sock_set *s);
/* Returns when sl_sock_poll() must be called at the latest. */
uint64_t sl_sock_next_ns(const struct sl_sock_set *s);
/* Readable when sl_sock_poll() has work. */
int sl_sock_fd(const struct sl_sock_set *s);
/* Returns how many more connections can be accepted. */
uint32_t sl_sock_free_places(const struct sl_sock_set *s);

/* Downcalls of a connection; self: struct sl_sock_conn. */
extern const struct sl_conn_ops sl_sock_stream;
/*
 * Returns the index of a Unix socket's listener now, SL_SOCK_BY_ADDRESS for TCP, or -1 if it was
 * removed.
 */
int32_t sl_sock_listener(const struct sl_sock_conn *c);

struct sl_sock_stats {
	uint64_t accepted, refused, accept_failures, closed, resets_in, resets_out, timeouts;
	uint64_t bytes_in, bytes_out, reads, writes;
	uint32_t conns, conn_bytes;
};
void sl_sock_stats(const struct sl_sock_set *s, struct sl_sock_stats *out);

#endif
