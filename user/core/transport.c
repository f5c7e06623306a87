/* SPDX-License-Identifier: Apache-2.0 */
#include "core/client.h"

struct conn_upper {
	const struct sl_conn_user *up;
	void *user;
};

static struct conn_upper upper_of(void *handle)
{
	struct sl_client *cl = handle;
	struct sl_filter *f;

	if (!cl->filtered)
		return (struct conn_upper){&sl_client_events, cl};
	f = sl_filter_bottom(cl->filter);
	return (struct conn_upper){f->below_tells, f};
}

static bool add_filters(struct sl_core *c, struct sl_client *cl, const struct sl_conn_info *info)
{
	struct sl_filter *f = NULL;

	if (!c->filters.open(c->filters.arg, sl_client_stream(cl), info, &f))
		return false;
	if (!f)
		return true;
	f->up = &sl_client_events;
	f->user = cl;
	cl->filter = f;
	cl->filtered = true;
	if (f->talks)
		sl_client_await_filters(cl);
	return true;
}

static bool expects_proxy_header(struct sl_core *c, const struct sl_conn_info *info)
{
	return c->filters.expects_proxy_header &&
	       c->filters.expects_proxy_header(c->filters.arg, info);
}

static struct sl_client *open_client(struct sl_core *c, struct sl_conn transport,
				     const struct sl_conn_info *info)
{
	struct sl_client *cl = sl_client_open(c, transport, info, expects_proxy_header(c, info));

	if (cl && c->filters.open && !add_filters(c, cl, info)) {
		sl_client_events.closed(cl);
		return NULL;
	}
	return cl;
}

static void *on_accepted(void *app, struct sl_tcp_conn *conn, uint16_t listener,
			 const struct sl_addr *local, const struct sl_addr *remote)
{
	struct sl_conn_info info = {.local = *local, .peer = *remote, .listener = listener};

	return open_client(app, (struct sl_conn){&sl_client_tcp_stream, conn}, &info);
}

/*
 * Makes a client, or NULL: the socket of "*" also accepts connections to an address whose listener
 * is not local.
 */
static void *on_sock_accepted(void *app, struct sl_sock_conn *conn, const struct sl_conn_info *info)
{
	struct sl_core *c = app;
	struct sl_conn_info known = *info;

	if (info->listener == SL_SOCK_BY_ADDRESS) {
		int at = sl_net_find_listener(c->net, info->local.family, info->local.addr,
					      info->local.port_be, SL_IP_PROTO_TCP);

		if (at < 0 || !c->cfg->listeners[at].local)
			return NULL;
		known.listener = (uint16_t)at;
	}
	return open_client(c, (struct sl_conn){&sl_sock_stream, conn}, &known);
}

static size_t on_data(void *handle, struct sl_chunk *chunk)
{
	struct conn_upper u = upper_of(handle);

	return u.up->input(u.user, chunk);
}

static void on_fin(void *handle)
{
	struct conn_upper u = upper_of(handle);

	u.up->eof(u.user);
}

static void on_writable(void *handle)
{
	struct conn_upper u = upper_of(handle);

	u.up->writable(u.user);
}

static void on_closed(void *handle)
{
	struct conn_upper u = upper_of(handle);

	u.up->closed(u.user);
}

static void on_tcp_closed(void *handle, enum sl_tcp_close_reason why)
{
	(void)why;
	on_closed(handle);
}

static void on_holds(void *handle, int32_t frames)
{
	const struct sl_client *cl = handle;

	sl_addr_quota_add_frames(&cl->core->quotas, sl_client_quota(cl), frames);
}

static bool on_full(void *handle)
{
	const struct sl_client *cl = handle;

	return !sl_addr_quota_may_queue(&cl->core->quotas, sl_client_quota(cl));
}

const struct sl_tcp_ops sl_client_tcp_ops = {
	.accepted = on_accepted,
	.data = on_data,
	.fin = on_fin,
	.writable = on_writable,
	.closed = on_tcp_closed,
	.holds = on_holds,
	.full = on_full,
};

static const struct sl_conn_user sock_events = {
	.input = on_data,
	.eof = on_fin,
	.writable = on_writable,
	.closed = on_closed,
};

const struct sl_sock_ops sl_client_sock_ops = {
	.accepted = on_sock_accepted,
	.events = &sock_events,
	.holds = on_holds,
	.full = on_full,
};
