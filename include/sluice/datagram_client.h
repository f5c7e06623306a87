/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Client of sluice/datagram.h over a UDP socket of the kernel. Link with -lsluice-datagram -lm.
 *
 *   c = sl_datagram_client_open(&(struct sl_datagram_client_options){
 *           .host = "192.0.2.10", .port = "80" }, err, sizeof(err));
 *   sl_datagram_client_ask(c, &(struct sl_datagram_call){
 *           .service = 1, .payload = "hi", .payload_len = 2 }, &reply, buf, sizeof(buf));
 *
 * Several requests: call sl_datagram_client_send() for each, then sl_datagram_client_poll(). In an
 * event loop, poll when sl_datagram_client_fd() is readable and after sl_datagram_client_wait_ms().
 *
 *   send -> IN FLIGHT -reply------------------------> done(status of the gateway)
 *              | ^ \--wait_us has passed-------------> done(-ETIMEDOUT)
 *              | |  \-sl_datagram_client_close()-----> done(-ECANCELED)
 *              v |   \sl_datagram_client_cancel()----> nothing
 *            no reply in time: same id again, time-out doubled if below 1 s
 *
 * A request without a reply may have been executed; one with a reply was executed once, while the
 * gateway remembers it.
 *
 * Only open allocates memory. A client must be used by one thread at a time.
 */
#ifndef SLUICE_DATAGRAM_CLIENT_H
#define SLUICE_DATAGRAM_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sluice/datagram.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sl_datagram_client;

struct sl_datagram_client_options {
	const char *host; /* name or address for getaddrinfo(3) */
	const char *port;
	unsigned max_in_flight; /* 0: 64; at most 65536 */
	uint32_t retry_us;      /* time to the first retry; 0: from measured round trips */
	uint16_t datagram_max;  /* UDP payload; 0: path MTU, at most 9000 */
};

/* Views are valid during the call only. */
struct sl_datagram_answer {
	uint64_t id;
	int status;    /* enum sl_datagram_status; -ETIMEDOUT, -ECANCELED, -EMSGSIZE: no reply */
	uint16_t code; /* SL_DATAGRAM_OK: the backend's HTTP status */
	uint16_t retries;
	uint32_t service_us; /* time the backend took; 0: unknown */
	uint64_t waited_ns;  /* since the first transmission */
	const uint8_t *payload;
	size_t payload_len;
};

/* Called when a request is complete. May send and cancel; must not poll, ask or close. */
typedef void sl_datagram_done_fn(void *arg, const struct sl_datagram_answer *answer);

struct sl_datagram_call {
	uint16_t service;   /* datagram_service of a route */
	const char *method; /* not NUL-terminated; may be NULL */
	size_t method_len;
	const void *payload;
	size_t payload_len;
	size_t reply_len;     /* the request is padded for a reply of this length */
	uint32_t deadline_us; /* 0: that of the route */
	uint32_t wait_us;     /* time-out; 0: 100 ms after the deadline, or 1 s */
	sl_datagram_done_fn *done;
	void *arg;
};

/* Opens a client. Returns NULL and one line in `err` on error. */
struct sl_datagram_client *sl_datagram_client_open(const struct sl_datagram_client_options *opt,
						   char *err, size_t err_len);
/* Completes requests with -ECANCELED, and frees the client. */
void sl_datagram_client_close(struct sl_datagram_client *c);

/*
 * Copies and sends a request. *id identifies it; `id` may be NULL. Returns 0, -EINVAL (no service
 * or no `done`), -EAGAIN (max_in_flight reached) or -EMSGSIZE (above the path MTU).
 */
int sl_datagram_client_send(struct sl_datagram_client *c, const struct sl_datagram_call *call,
			    uint64_t *id);

/*
 * Receives replies and sends retries, waiting at most wait_ms (-1: no limit) for the first
 * completion. Returns the number of completed requests, at once if none is in flight, or -EINTR.
 */
int sl_datagram_client_poll(struct sl_datagram_client *c, int wait_ms);

/* Cancels a request: `done` is not called. Returns false if it is not in flight. */
bool sl_datagram_client_cancel(struct sl_datagram_client *c, uint64_t id);

/* Returns the descriptor to wait for, not to read. */
int sl_datagram_client_fd(const struct sl_datagram_client *c);
/* Returns the time until poll must be called, or -1 if nothing is in flight. */
int sl_datagram_client_wait_ms(const struct sl_datagram_client *c);

/*
 * Sends one request and waits for its reply, without `done`. The payload is copied to `buf`,
 * truncated, and *answer points there. Also polls for other requests. Returns the status of the
 * answer, or an error of sl_datagram_client_send().
 */
int sl_datagram_client_ask(struct sl_datagram_client *c, const struct sl_datagram_call *call,
			   struct sl_datagram_answer *answer, void *buf, size_t buf_len);

/* Returns the largest payload of a request with such a method; for method_len 0 also of a reply. */
size_t sl_datagram_client_max_payload(const struct sl_datagram_client *c, size_t method_len);

/* Returns the name of a status; never NULL. */
const char *sl_datagram_status_name(int status);

struct sl_datagram_client_stats {
	uint64_t sent, retried; /* first transmissions; retries */
	uint64_t answered, timed_out;
	uint64_t ignored; /* datagrams that are not a reply to a request in flight */
};
/* Copies the counters since the client was opened. */
void sl_datagram_client_stats(const struct sl_datagram_client *c,
			      struct sl_datagram_client_stats *out);

#ifdef __cplusplus
}
#endif

#endif
