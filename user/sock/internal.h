/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_SOCK_INTERNAL_H
#define SL_SOCK_INTERNAL_H

#include "base/list.h"
#include "base/mempool.h"
#include "sock/sock.h"

enum {
	SL_SOCK_LISTENERS_MAX = 256,
	SL_SOCK_READ_FRAMES = 16,      /* one recvmsg() */
	SL_SOCK_NARROW_FRAMES = 8,     /* with small windows */
	SL_SOCK_RETRY_NS = 1000000,    /* without frames */
	SL_SOCK_ACCEPT_NS = 100000000, /* without descriptors */
};

enum sl_sock_flags {
	SL_SOCKF_READABLE = 1,  /* the kernel may have bytes or an end */
	SL_SOCKF_HUP = 2,       /* the end follows the bytes */
	SL_SOCKF_EOF = 4,       /* was read */
	SL_SOCKF_EOF_TOLD = 8,  /* the layer above knows it */
	SL_SOCKF_PAUSED = 16,   /* the layer above has left bytes */
	SL_SOCKF_IN_INPUT = 32, /* `input` is running */
	SL_SOCKF_RESUME = 64,   /* `resume` was called within `input` */
	SL_SOCKF_BULK = 128,
	SL_SOCKF_NARROW = 256,  /* small reads */
	SL_SOCKF_BLOCKED = 512, /* the kernel takes no more */
	SL_SOCKF_WANT_ROOM = 1024,
	SL_SOCKF_CLOSING = 2048,
	SL_SOCKF_FIN_SENT = 4096,
	SL_SOCKF_BROKEN = 8192, /* reset, or failed sendmsg() */
};

struct sl_sock_queue {
	struct sl_frame *head, *tail;
};

struct sl_sock_source {
	int fd; /* -1: removed, with connections left */
	uint32_t id;
	uint32_t conns;
	int32_t listener;
	uint64_t name;
	bool watched, ready;
};

struct sl_sock_conn {
	struct sl_sock_set *sock;
	void *handle;
	int fd;               /* -1: gone; freed by the next poll */
	uint32_t flags;       /* enum sl_sock_flags */
	struct sl_list ready; /* in `ready` or `starved` */
	struct sl_list out;
	struct sl_list end; /* in `lingering` or `gone` */
	struct sl_sock_queue rx, tx;
	uint32_t rx_frames, tx_frames;
	uint32_t tx_bytes;
	uint32_t sent;
	uint32_t discarded;
	uint64_t progress_ns; /* last byte or end sent */
	struct sl_addr local, peer;
	uint16_t source; /* index */
};

struct sl_sock_set {
	struct sl_umem *umem;
	struct sl_sock_config cfg;
	struct sl_sock_ops ops;
	void *app;
	int epoll_fd;
	uint64_t now_ns;
	uint64_t poll_ns;   /* earliest epoll_wait() */
	uint64_t retry_ns;  /* retry of `starved` */
	uint64_t accept_ns; /* 0: accepting */
	struct sl_mempool conns;
	struct sl_list ready;   /* readable, or `writable` is due */
	struct sl_list starved; /* as ready, but without frames */
	struct sl_list out;
	struct sl_list lingering; /* oldest first */
	struct sl_list gone;
	struct sl_sock_source sources[SL_SOCK_LISTENERS_MAX];
	uint32_t source_cnt;
	int excluded[SL_SOCK_EXCLUDED_MAX];
	uint32_t excluded_cnt;
	struct sl_sock_stats stats;
};

/* Watch (after a pause, too), or close, all listening sockets. */
void sl_sock_watch_sources(struct sl_sock_set *s);
void sl_sock_close_sources(struct sl_sock_set *s);
/* Accepts from ready sockets. Returns how many descriptors. */
unsigned sl_sock_accept(struct sl_sock_set *s);

/* Takes the descriptor. Returns NULL at max_conns: it stays the caller's. */
struct sl_sock_conn *sl_sock_conn_open(struct sl_sock_set *s, int fd, uint16_t source,
				       const struct sl_addr *local, const struct sl_addr *peer);
/* Closes the descriptor, with RST if `reset`. Frees all but c, until sl_sock_free_gone(). */
void sl_sock_conn_drop(struct sl_sock_conn *c, bool reset);
/* The same, then calls `closed`. */
void sl_sock_conn_gone(struct sl_sock_conn *c, bool reset);
/* Frees dropped objects; no caller may use one. */
void sl_sock_free_gone(struct sl_sock_set *s);
/* Queues for the next poll, once. */
void sl_sock_make_ready(struct sl_sock_conn *c);
/* Reports a change to `holds`; nothing without a handle. */
void sl_sock_count_frames(struct sl_sock_conn *c, int32_t frames);

/* Handles a ready connection; may end it. Returns false without frames: to be retried. */
bool sl_sock_input(struct sl_sock_conn *c);
/* sl_conn_ops.resume. */
void sl_sock_resume(struct sl_sock_conn *c);

/* Free all frames, and append one. */
void sl_sock_free_queue(struct sl_sock_set *s, struct sl_sock_queue *q);
void sl_sock_append(struct sl_sock_queue *q, struct sl_frame *f);
/* After `close`, sends FIN if nothing is queued. */
void sl_sock_finish(struct sl_sock_conn *c);
/* Operations of sl_conn_ops (front/conn.h). `beyond`: ignores the limits, as for a head. */
size_t sl_sock_room(const struct sl_sock_conn *c);
bool sl_sock_fits_head(const struct sl_sock_conn *c, size_t len);
size_t sl_sock_write(struct sl_sock_conn *c, const void *bytes, size_t len, bool beyond);
uint8_t *sl_sock_lay(struct sl_sock_conn *c, size_t min, bool beyond, size_t *room);
void sl_sock_commit(struct sl_sock_conn *c, size_t len);

#endif
