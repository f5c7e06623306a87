/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The measurements of bench/rpc over RDMA, made for UCX's active messages: ucx MODE ADDRESS PORT
 *
 *   serve  accepts one connection by the RDMA connection manager, and replies to each message with
 *          one of as many bytes until the client leaves
 *   rtt    64-byte round trips, one at a time
 *   rate   64-byte requests per second, so many under way as in bench/rpc/speed.c, each a message
 *
 * Rows are name<TAB>value<TAB>unit. UCX_NET_DEVICES names each end's device, UCX_TLS the
 * transports.
 *
 * Payload, numbers, CPUs and clock are those of bench/rpc. The differences favour UCX: it has no
 * keys, deadlines, classes or checks of input, and its handler knows the connection to reply to.
 * Both its ends poll all the time, also in `rate`, where the RPC's sleep without work. The RPC
 * posts requests that are sent at once with one doorbell; UCX posts each as it is sent.
 */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include "base/clock.h"
#include "base/cpu.h"
#include "base/hist.h"

enum {
	LEN = 64,
	ROUNDS = 3000,
	WARM_UP = ROUNDS / 20,
	DEPTH = 128,
	/* Buffers are used in turns; as many as DEPTH are under way. */
	BUFFERS = 2 * DEPTH,
	AM_ID = 1,
	CPU_CLIENT = 0,
	CPU_SERVER = 1,
};

static ucp_worker_h worker;
static ucp_ep_h peer;
static bool gone; /* The client has left the server. */
static bool serving;
static uint64_t sent_cnt, replied_cnt;
static uint8_t buffers[BUFFERS][LEN];

static _Noreturn void die(const char *what, ucs_status_t why)
{
	fprintf(stderr, "ucx: %s: %s\n", what, ucs_status_string(why));
	_Exit(1);
}

static void check(ucs_status_t status, const char *what)
{
	if (status != UCS_OK)
		die(what, status);
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	(void)arg, (void)ep;
	if (!serving)
		die("connection lost", status);
	gone = true;
}

static void on_sent(void *request, ucs_status_t status, void *arg)
{
	(void)arg;
	ucp_request_free(request);
	if (!serving)
		check(status, "cannot send");
}

/* Takes its turn in buffers; UCX has read it before that buffer's next turn. */
static void send_next(size_t len)
{
	static const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
								  UCP_OP_ATTR_FIELD_FLAGS,
						  .flags = UCP_AM_SEND_FLAG_EAGER,
						  .cb.send = on_sent};
	ucs_status_ptr_t p =
		ucp_am_send_nbx(peer, AM_ID, NULL, 0, buffers[sent_cnt++ % BUFFERS], len, &param);

	if (UCS_PTR_IS_ERR(p) && !serving)
		die("cannot send", UCS_PTR_STATUS(p));
}

static ucs_status_t on_request(void *arg, const void *header, size_t header_len, void *data,
			       size_t len, const ucp_am_recv_param_t *param)
{
	(void)arg, (void)header, (void)header_len, (void)param;
	len = len < LEN ? len : LEN;
	memcpy(buffers[sent_cnt % BUFFERS], data, len);
	send_next(len);
	return UCS_OK;
}

static ucs_status_t on_reply(void *arg, const void *header, size_t header_len, void *data,
			     size_t len, const ucp_am_recv_param_t *param)
{
	(void)arg, (void)header, (void)header_len, (void)data, (void)param;
	if (len != LEN)
		die("short reply", UCS_ERR_MESSAGE_TRUNCATED);
	replied_cnt++;
	return UCS_OK;
}

static ucp_context_h open_worker(ucp_am_recv_callback_t handle)
{
	const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
				     .features = UCP_FEATURE_AM};
	const ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
						   .thread_mode = UCS_THREAD_MODE_SINGLE};
	const ucp_am_handler_param_t am = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
							 UCP_AM_HANDLER_PARAM_FIELD_CB,
					   .id = AM_ID,
					   .cb = handle};
	ucp_context_h context;

	check(ucp_init(&params, NULL, &context), "cannot start UCX");
	check(ucp_worker_create(context, &worker_params, &worker), "cannot make a worker");
	check(ucp_worker_set_am_recv_handler(worker, &am), "cannot set the handler");
	return context;
}

static void close_worker(ucp_context_h context)
{
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
}

/* A closed connection reports its end to the other side. */
static void close_peer(void)
{
	static const ucp_request_param_t param = {.op_attr_mask = 0};
	ucs_status_ptr_t p = ucp_ep_close_nbx(peer, &param);

	if (!UCS_PTR_IS_PTR(p))
		return;
	while (ucp_request_check_status(p) == UCS_INPROGRESS)
		ucp_worker_progress(worker);
	ucp_request_free(p);
}

static void pin(unsigned nth)
{
	int cpu = sl_cpu_nth(nth % sl_cpu_count());

	(void)sl_cpu_pin(cpu < 0 ? 0 : (unsigned)cpu);
}

static void on_connection(ucp_conn_request_h request, void *arg)
{
	const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST |
						      UCP_EP_PARAM_FIELD_ERR_HANDLER |
						      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
					.conn_request = request,
					.err_mode = UCP_ERR_HANDLING_MODE_PEER,
					.err_handler.cb = on_error};

	(void)arg;
	check(ucp_ep_create(worker, &params, &peer), "cannot accept");
}

static ucs_sock_addr_t address_of(const struct sockaddr_in *sin)
{
	return (ucs_sock_addr_t){.addr = (const struct sockaddr *)sin, .addrlen = sizeof(*sin)};
}

static void serve(const struct sockaddr_in *sin)
{
	const ucp_listener_params_t params = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
							    UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
					      .sockaddr = address_of(sin),
					      .conn_handler.cb = on_connection};
	ucp_context_h context = open_worker(on_request);
	ucp_listener_h listener;

	serving = true;
	pin(CPU_SERVER);
	check(ucp_listener_create(worker, &params, &listener), "cannot listen");
	while (!gone)
		ucp_worker_progress(worker);
	close_peer();
	ucp_listener_destroy(listener);
	close_worker(context);
}

static ucp_context_h dial(const struct sockaddr_in *sin)
{
	const ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
			      UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
		.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
		.sockaddr = address_of(sin),
		.err_mode = UCP_ERR_HANDLING_MODE_PEER,
		.err_handler.cb = on_error};
	ucp_context_h context = open_worker(on_reply);

	pin(CPU_CLIENT);
	memset(buffers, 1, sizeof(buffers));
	check(ucp_ep_create(worker, &params, &peer), "cannot connect");
	return context;
}

static void hang_up(ucp_context_h context)
{
	close_peer();
	close_worker(context);
}

/* Latencies go into h, unless it is NULL. */
static void round_trips(unsigned rounds, struct sl_hist_fine *h)
{
	for (unsigned i = 0; i < rounds; i++) {
		uint64_t start = sl_now_ns();

		send_next(LEN);
		while (replied_cnt < sent_cnt)
			ucp_worker_progress(worker);
		if (h)
			sl_hist_fine_add(h, sl_now_ns() - start);
	}
}

static void measure_rtt(const struct sockaddr_in *sin)
{
	ucp_context_h context = dial(sin);
	struct sl_hist_fine h;

	if (sl_hist_fine_init(&h, SL_HIST_FINE_SUB_BITS))
		die("cannot start", UCS_ERR_NO_MEMORY);
	round_trips(WARM_UP, NULL);
	round_trips(ROUNDS, &h);
	printf("ucx_rtt_64B_min\t%.1f\tus\n", (double)sl_hist_fine_quantile(&h, 0) / 1e3);
	printf("ucx_rtt_64B_p50\t%.1f\tus\n", (double)sl_hist_fine_quantile(&h, 0.5) / 1e3);
	printf("ucx_rtt_64B_p99\t%.1f\tus\n", (double)sl_hist_fine_quantile(&h, 0.99) / 1e3);
	sl_hist_fine_fini(&h);
	hang_up(context);
}

static void measure_rate(const struct sockaddr_in *sin)
{
	ucp_context_h context = dial(sin);
	uint64_t start, end, now, done;

	round_trips(1, NULL);
	done = replied_cnt;
	now = start = sl_now_ns();
	end = start + SL_NS_PER_SEC;
	while (now < end) {
		while (sent_cnt - replied_cnt < DEPTH)
			send_next(LEN);
		ucp_worker_progress(worker);
		now = sl_now_ns();
	}
	done = replied_cnt - done;
	printf("ucx_requests_64B\t%.0f\trequests/s per core\n",
	       (double)done * 1e9 / (double)(now - start));
	while (replied_cnt < sent_cnt)
		ucp_worker_progress(worker);
	hang_up(context);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(const struct sockaddr_in *sin);
	} modes[] = {{"serve", serve}, {"rtt", measure_rtt}, {"rate", measure_rate}};
	struct sockaddr_in sin = {.sin_family = AF_INET};

	if (argc == 4 && inet_pton(AF_INET, argv[2], &sin.sin_addr) == 1) {
		sin.sin_port = htons((uint16_t)strtoul(argv[3], NULL, 10));
		for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
			if (strcmp(argv[1], modes[i].name) == 0) {
				modes[i].run(&sin);
				return 0;
			}
		}
	}
	fputs("Usage: ucx serve|rtt|rate ADDRESS PORT\n", stderr);
	return 2;
}
