/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Health checks of a server over kernel sockets, with a connection per probe. The owner has events
 * and clock.
 */
#ifndef SL_ORIGIN_HEALTH_CHECK_H
#define SL_ORIGIN_HEALTH_CHECK_H

#include <sys/socket.h>

#include "origin/probe.h"

struct origin_check;
struct sl_prng;

/* The owner's TLS. */
struct origin_check_tls {
	/* Returns 1 when done, 0 if it waits for input, -1 after an error. */
	int (*handshake)(struct origin_check *c);
	/* As send() and recv(), or -errno. */
	ssize_t (*send)(struct origin_check *c, const uint8_t *bytes, size_t len);
	ssize_t (*receive)(struct origin_check *c, uint8_t *bytes, size_t len);
	/* Returns true if there may be input without an event. */
	bool (*has_more)(struct origin_check *c);
	/* Returns the reason of an error. */
	const char *(*why)(struct origin_check *c);
	/* Called before `fd` is closed. */
	void (*close)(struct origin_check *c);
};

struct origin_check_owner {
	/* Returns the length of the server's address in *to; 0: not known, or no descriptors. */
	socklen_t (*address)(struct origin_check *c, struct sockaddr_storage *to);
	/*
	 * Calls origin_check_event() for EPOLLIN or EPOLLOUT of `fd`. Returns 0, or -1 and errno.
	 */
	int (*watch)(struct origin_check *c, uint32_t event, bool is_new);
	/* Success (NULL), or the reason of failures in a row. */
	void (*result)(struct origin_check *c, const char *why);
	/* Returns true if the server has all requests that it takes: it answers no other. */
	bool (*is_full)(struct origin_check *c);
	const struct origin_check_tls *tls; /* NULL: none */
};

struct origin_check_config {
	struct origin_probe_target target; /* texts are copied, but not `authority` */
	uint64_t interval_ns, timeout_ns;
	uint32_t failures;
	int fd_max; /* descriptors are below it */
};

struct origin_check {
	const struct origin_check_owner *owner;
	struct origin_check_config cfg;
	struct sl_prng *prng;
	struct origin_probe reply;
	uint64_t due_ns; /* next probe, or deadline; changed by each call */
	int fd;          /* -1: none */
	bool connected, sent, settled;
	uint32_t received; /* discarded bytes after the result */
	uint32_t failures;
};

/*
 * Starts checks; the first is due at `now_ns`. Owner and prng must outlive c. Returns false without
 * memory; origin_check_fini() follows.
 */
bool origin_check_init(struct origin_check *c, const struct origin_check_owner *owner,
		       const struct origin_check_config *cfg, struct sl_prng *prng,
		       uint64_t now_ns);
/* Ends a probe without a result, and frees the texts. */
void origin_check_fini(struct origin_check *c);
/* Continues the probe; called on events of `fd`. */
void origin_check_event(struct origin_check *c, uint64_t now_ns);
/* Starts a probe, or ends one that is late. Called when `due_ns` has passed. */
void origin_check_due(struct origin_check *c, uint64_t now_ns);

#endif
