/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's end of sluice/datagram.h: asks services of a gateway over one UDP socket of the
 * kernel. Link with -lsluice-datagram -lm; it needs nothing else.
 *
 *   c = sl_datagram_client_open(&(struct sl_datagram_client_options){
 *           .host = "192.0.2.10", .port = "80" }, err, sizeof(err));
 *   sl_datagram_client_ask(c, &(struct sl_datagram_call){
 *           .service = 1, .payload = "hi", .payload_len = 2 }, &reply, buf, sizeof(buf));
 *
 * Many at a time: sl_datagram_client_send() each, then sl_datagram_client_poll() until their `done`
 * was called; or in a loop of one's own, whenever sl_datagram_client_fd() is readable, and after
 * sl_datagram_client_wait_ms().
 *
 *   send -> IN FLIGHT -reply------------------------> done(status of the gateway)
 *              | ^ \--wait_us is over----------------> done(-ETIMEDOUT)
 *              | |  \-sl_datagram_client_close()-----> done(-ECANCELED)
 *              v |   \sl_datagram_client_cancel()----> nothing
 *            no reply in time: the same id again, twice as patient up to 1 s
 *
 * A request that got no reply may have been carried out. One that got a reply was carried out once,
 * as long as its gateway remembers it (see sluice/datagram.h).
 *
 * Replies are hostile until their id is that of a request in flight and their lengths agree; all
 * others are counted and ignored. Memory is taken when a client is opened, not later. A client is
 * for one thread at a time.
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
	const char *host;       /* name or address, as getaddrinfo(3) takes it */
	const char *port;       /* number or service name */
	unsigned max_in_flight; /* 0: 64; at most 65536 */
	uint32_t retry_us; /* to the first retry; 0: follows the round trips that are measured */
	uint16_t datagram_max; /* bytes of UDP payload; 0: what the path takes now, at most 9000 */
};

/* What a request has come to. Views are valid during the call only. */
struct sl_datagram_answer {
	uint64_t id;
	int status;       /* enum sl_datagram_status; -ETIMEDOUT, -ECANCELED, -EMSGSIZE: no reply */
	uint16_t code;    /* SL_DATAGRAM_OK: the backend's HTTP status */
	uint16_t retries; /* datagrams sent beyond the first */
	uint32_t service_us; /* that the backend took; 0 not known */
	uint64_t waited_ns;  /* since it was sent first */
	const uint8_t *payload;
	size_t payload_len;
};

/* May send, and cancel others; must not poll, ask or close. */
typedef void sl_datagram_done_fn(void *arg, const struct sl_datagram_answer *answer);

struct sl_datagram_call {
	uint16_t service;   /* datagram_service of a route */
	const char *method; /* text for the backend; need not end in NUL; may be NULL */
	size_t method_len;
	const void *payload;
	size_t payload_len;
	size_t reply_len;     /* payload expected in the reply: pads the request as far as needed */
	uint32_t deadline_us; /* told to the gateway; 0: the route's */
	uint32_t wait_us;     /* tries so long; 0: 100 ms longer than the deadline, or 1 s */
	sl_datagram_done_fn *done;
	void *arg;
};

/* Returns NULL and one line in err (expected, found, what to do). */
struct sl_datagram_client *sl_datagram_client_open(const struct sl_datagram_client_options *opt,
						   char *err, size_t err_len);
void sl_datagram_client_close(struct sl_datagram_client *c);

/*
 * Copies the request and sends it; *id, unless NULL, is valid until it is done. Returns 0, or
 * -EINVAL (no service, no `done`), -EAGAIN (max_in_flight are), -EMSGSIZE (larger than the path
 * takes). What the network refuses for now is sent again like what it loses.
 */
int sl_datagram_client_send(struct sl_datagram_client *c, const struct sl_datagram_call *call,
			    uint64_t *id);

/* Takes replies and sends retries, waiting at most wait_ms (-1: as long as it takes) for the first
 * that is done. Returns how many are, at once when none is in flight; -EINTR after a signal. */
int sl_datagram_client_poll(struct sl_datagram_client *c, int wait_ms);

/* `done` is not called any more. False: not in flight. */
bool sl_datagram_client_cancel(struct sl_datagram_client *c, uint64_t id);

/* Readable when there is something to poll for. The caller must not read it. */
int sl_datagram_client_fd(const struct sl_datagram_client *c);
/* Until poll has to be called even if nothing is readable; -1: nothing is in flight. */
int sl_datagram_client_wait_ms(const struct sl_datagram_client *c);

/*
 * One request, start to end; `done` and `arg` are not used. The reply's payload is copied to buf,
 * and *answer points there; what exceeds it is cut. Polls for others in flight meanwhile. Returns
 * the answer's status, or what send returns.
 */
int sl_datagram_client_ask(struct sl_datagram_client *c, const struct sl_datagram_call *call,
			   struct sl_datagram_answer *answer, void *buf, size_t buf_len);

/* Largest payload of a request with a method of that length, or of a reply with method_len 0. */
size_t sl_datagram_client_max_payload(const struct sl_datagram_client *c, size_t method_len);

/* "overloaded" and so on; never NULL. */
const char *sl_datagram_status_name(int status);

struct sl_datagram_client_stats {
	uint64_t sent, retried; /* datagrams, first ones and others */
	uint64_t answered, timed_out;
	uint64_t ignored; /* datagrams that are no reply to a request in flight */
};
void sl_datagram_client_stats(const struct sl_datagram_client *c,
			      struct sl_datagram_client_stats *out);

#ifdef __cplusplus
}
#endif

#endif
