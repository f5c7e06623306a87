/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of sock:
 *
 *   sock.c    set-up, events, time-outs
 *   accept.c  listeners
 *   conn.c    life of a connection, downcalls
 *   input.c   from the kernel to the layer above
 *   output.c  send queue, from the layer above to the kernel
 */
#ifndef SL_SOCK_INTERNAL_H
#define SL_SOCK_INTERNAL_H

#include "base/list.h"
#include "base/mempool.h"
#include "sock/sock.h"

enum {
	SL_SOCK_LISTENERS_MAX = 256,
	SL_SOCK_READ_FRAMES = 16,      /* one recvmsg() */
	SL_SOCK_NARROW_FRAMES = 8,     /* the same while windows are small */
	SL_SOCK_RETRY_NS = 1000000,    /* without frames */
	SL_SOCK_ACCEPT_NS = 100000000, /* without descriptors */
};

enum sl_sock_flags {
	SL_SOCKF_READABLE = 1,     /* the kernel may have bytes or an end */
	SL_SOCKF_HUP = 2,          /* an end follows the bytes */
	SL_SOCKF_EOF = 4,          /* was read */
	SL_SOCKF_EOF_TOLD = 8,     /* the layer above knows it */
	SL_SOCKF_PAUSED = 16,      /* the layer above has left bytes */
	SL_SOCKF_IN_INPUT = 32,    /* `input` is running */
	SL_SOCKF_RESUME = 64,      /* `resume` was called within it */
	SL_SOCKF_BULK = 128,       /* the last read was full */
	SL_SOCKF_NARROW = 256,     /* small reads */
	SL_SOCKF_BLOCKED = 512,    /* the kernel takes no more */
	SL_SOCKF_WANT_ROOM = 1024, /* `writable` must follow */
	SL_SOCKF_CLOSING = 2048,   /* `close` was called: bytes are discarded */
	SL_SOCKF_FIN_SENT = 4096,
	SL_SOCKF_BROKEN = 8192, /* reset, or sendmsg() has failed */
};

/* A queue of frames, linked by next. */
struct sl_sock_queue {
	struct sl_frame *head, *tail;
};

struct sl_sock_source {
	int fd; /* -1: removed, but connections remain */
	uint32_t id;
	uint32_t conns;
	int32_t listener;
	uint64_t name;
	bool watched, ready;
};

struct sl_sock_conn {
	struct sl_sock_set *sock;
	void *handle;
	int fd;               /* -1: gone, freed by the next poll */
	uint32_t flags;       /* enum sl_sock_flags */
	struct sl_list ready; /* in sl_sock.ready or starved */
	struct sl_list out;   /* in sl_sock.out */
	struct sl_list end;   /* in sl_sock.lingering or gone */
	struct sl_sock_queue rx, tx;
	uint32_t rx_frames, tx_frames;
	uint32_t tx_bytes;
	uint32_t sent; /* modulo 2^32 */
	uint32_t discarded;
	uint64_t progress_ns; /* last bytes or end sent */
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
	uint64_t poll_ns;   /* no epoll_wait() before */
	uint64_t retry_ns;  /* retry of `starved` */
	uint64_t accept_ns; /* 0: accepting */
	struct sl_mempool conns;
	struct sl_list ready;     /* readable, or `writable` is due */
	struct sl_list starved;   /* the same, without frames */
	struct sl_list out;       /* bytes to send */
	struct sl_list lingering; /* oldest first */
	struct sl_list gone;
	struct sl_sock_source sources[SL_SOCK_LISTENERS_MAX];
	uint32_t source_cnt;
	int excluded[SL_SOCK_EXCLUDED_MAX];
	uint32_t excluded_cnt;
	struct sl_sock_stats stats;
};

/* accept.c */
void sl_sock_watch_sources(struct sl_sock_set *s);
void sl_sock_close_sources(struct sl_sock_set *s);
unsigned sl_sock_accept(struct sl_sock_set *s);

/* conn.c */
/* Returns NULL without room. The descriptor is the connection's. */
struct sl_sock_conn *sl_sock_conn_open(struct sl_sock_set *s, int fd, uint16_t source,
				       const struct sl_addr *local, const struct sl_addr *peer);
/* Closes the descriptor, with a RST if `reset`. Frees all but the object itself. */
void sl_sock_conn_drop(struct sl_sock_conn *c, bool reset);
/* The same, then calls `closed`. */
void sl_sock_conn_gone(struct sl_sock_conn *c, bool reset);
void sl_sock_free_gone(struct sl_sock_set *s);
void sl_sock_make_ready(struct sl_sock_conn *c);
void sl_sock_count_frames(struct sl_sock_conn *c, int32_t frames);

/* input.c */
/* Handles one connection of the ready list. May end it. Returns false without frames. */
bool sl_sock_input(struct sl_sock_conn *c);
void sl_sock_resume(struct sl_sock_conn *c);

/* output.c */
void sl_sock_free_queue(struct sl_sock_set *s, struct sl_sock_queue *q);
void sl_sock_append(struct sl_sock_queue *q, struct sl_frame *f);
/* Sends FIN once nothing is queued after `close`. */
void sl_sock_finish(struct sl_sock_conn *c);
size_t sl_sock_room(const struct sl_sock_conn *c);
bool sl_sock_fits_head(const struct sl_sock_conn *c, size_t len);
size_t sl_sock_write(struct sl_sock_conn *c, const void *bytes, size_t len, bool beyond);
uint8_t *sl_sock_lay(struct sl_sock_conn *c, size_t min, bool beyond, size_t *room);
void sl_sock_commit(struct sl_sock_conn *c, size_t len);

#endif
