/* SPDX-License-Identifier: Apache-2.0 */
#include "control/control.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "control/control_impl.h"
#include "control/request_feed.h"
#include "control/stage_map.h"
#include "sandbox/notify.h"

enum { POLL_MS = 100, LOG_POLL_MS = 20, STEP_POLL_MS = 5, TICK_NS = 1000000000 };

static void fill_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
	sigaddset(set, SIGUSR1);
	sigaddset(set, SIGPIPE);
}

void sl_control_block_signals(void)
{
	sigset_t set;

	fill_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

struct sl_control *sl_control_open(const struct sl_control_options *opt, struct sl_err *err)
{
	struct sl_control *c = calloc(1, sizeof(*c));
	sigset_t set;

	if (!c) {
		sl_err_set(err, "control: out of memory");
		return NULL;
	}
	c->opt = *opt;
	c->otlp = sl_otlp_new();
	if (!c->otlp) {
		sl_err_set(err, "control: out of memory");
		free(c);
		return NULL;
	}
	sl_otlp_configure(c->otlp, &opt->config->trace);
	c->service_max = sl_gateway_info(opt->gateway)->service_max;
	fill_signals(&set);
	c->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (c->signal_fd < 0 || sl_window_init(&c->window, c->service_max) != 0) {
		sl_err_set(err, "control: %s", strerror(errno));
		goto fail;
	}
	if (opt->config->access_log.file) {
		c->log = sl_access_log_open(opt->config, err);
		if (!c->log)
			goto fail;
	}
	if (opt->config->admin.port || strcmp(opt->config->admin.socket, "none") != 0) {
		c->admin = sl_admin_open(c, opt->gateway, opt->config, &c->window, err);
		if (!c->admin)
			goto fail;
	}
	return c;
fail:
	sl_control_close(c);
	return NULL;
}

void sl_control_close(struct sl_control *c)
{
	sl_admin_close(c->admin);
	c->admin = NULL;
	if (c->log || sl_otlp_is_on(c->otlp))
		sl_request_feed_run(c);
	sl_otlp_finish(c->otlp);
	sl_otlp_free(c->otlp);
	sl_access_log_close(c->log);
	sl_config_free(c->reload_wait);
	sl_window_fini(&c->window);
	if (c->signal_fd >= 0)
		close(c->signal_fd);
	free(c);
}

const char *sl_control_socket(const struct sl_control *c)
{
	return c->admin ? sl_admin_path(c->admin) : "";
}

void sl_control_drain(struct sl_control *c)
{
	if (c->draining)
		return;
	c->draining = true;
	c->drain_until_ns =
		sl_now_ns() + sl_gateway_info(c->opt.gateway)->cfg->limits.drain_timeout_ns;
	sl_log_info("draining: no new connections, finishing what runs");
	sl_notify(SL_NOTIFY_STOPPING);
}

bool sl_control_ready(struct sl_control *c, struct sl_err *why)
{
	if (c->draining) {
		sl_err_set(why, "draining");
		return false;
	}
	if (sl_gateway_fault(c->opt.gateway, why))
		return false;
	return sl_gateway_ready(c->opt.gateway, why);
}

static void take_signals(struct sl_control *c)
{
	struct signalfd_siginfo si;

	while (read(c->signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGHUP) {
			static char text[SL_CFG_ERR_LEN];
			struct sl_err err = {text, sizeof(text)};

			sl_control_reload(c, NULL, &err);
		} else if (si.ssi_signo == SIGUSR1) {
			if (c->log)
				sl_access_log_reopen(c->log);
		} else if (si.ssi_signo == SIGTERM || si.ssi_signo == SIGINT) {
			if (c->draining)
				c->stop = true;
			sl_control_drain(c);
		}
	}
}

static void report_status(struct sl_control *c)
{
	char text[STATUS_LEN];

	sl_gateway_status(c->opt.gateway, text, sizeof(text));
	if (strcmp(text, c->status_reported) == 0)
		return;
	memcpy(c->status_reported, text, sizeof(text));
	sl_notify_status(text);
}

static uint64_t unix_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / SL_NS_PER_MS;
}

static void check_state(struct sl_control *c, uint64_t now_ns)
{
	struct sl_err why = SL_ERR(160);
	bool fault;

	if (!c->ready_reported && sl_control_ready(c, &why)) {
		c->ready_reported = true;
		if (c->opt.on_ready)
			c->opt.on_ready(c->opt.arg);
	}
	if (!c->open_reported && sl_gateway_is_open(c->opt.gateway)) {
		c->open_reported = true;
		sl_notify(SL_NOTIFY_READY);
		report_status(c);
	}
	if (now_ns < c->tick_ns)
		return;
	c->tick_ns = now_ns + TICK_NS;
	report_status(c);
	sl_log_report_lost();
	if (sl_window_tick(&c->window, c->opt.gateway, now_ns))
		sl_stage_map_write(c->opt.gateway, &c->window, &c->stages_of);
	sl_history_tick(c->window.history, c->opt.gateway, now_ns);
	sl_notes_tick(c->window.notes, c->opt.gateway, unix_ms());
	if (c->admin)
		sl_admin_tick(c->admin);
	sl_otlp_configure(c->otlp, &sl_gateway_info(c->opt.gateway)->cfg->trace);
	if (c->log)
		sl_access_log_tick(c->log, &sl_gateway_info(c->opt.gateway)->cfg->access_log);
	fault = sl_gateway_fault(c->opt.gateway, &why);
	if (fault && !c->fault)
		sl_log_err("%s", why.text);
	else if (!fault && c->fault)
		sl_log_info("all interfaces are back");
	c->fault = fault;
	if (!c->draining && sl_gateway_needs_restart(c->opt.gateway, now_ns, &why)) {
		sl_log_err("%s: the gateway ends, and its supervisor starts it again", why.text);
		c->broken = c->restart = true;
	}
	if (c->opt.is_whole && !c->opt.is_whole(c->opt.arg))
		c->broken = true;
}

bool sl_control_wants_restart(const struct sl_control *c)
{
	return c->restart;
}

static int wait_ms(const struct sl_control *c, bool reads)
{
	bool busy = c->draining || c->reload_wait || c->reloading || !c->open_reported;
	uint64_t now_ns = sl_now_ns(), due_ns = sl_gateway_due_ns(c->opt.gateway);
	int ms = busy ? STEP_POLL_MS : reads ? LOG_POLL_MS : POLL_MS;

	if (c->admin && sl_admin_is_busy(c->admin))
		ms = 1;
	if (due_ns >= now_ns + (uint64_t)ms * SL_NS_PER_MS)
		return ms;
	return due_ns > now_ns ? (int)((due_ns - now_ns) / SL_NS_PER_MS) + 1 : 0;
}

uint32_t sl_control_run(struct sl_control *c)
{
	struct pollfd fds[3] = {
		{.fd = c->signal_fd, .events = POLLIN},
		{.fd = -1, .events = POLLIN},
		{.fd = sl_gateway_fd(c->opt.gateway), .events = POLLIN},
	};
	bool reads = c->log || sl_otlp_is_on(c->otlp);

	for (;;) {
		/* Accept no admin requests before READY=1 was sent. */
		if (c->admin && c->open_reported)
			fds[1].fd = sl_admin_fd(c->admin);
		if (poll(fds, 3, wait_ms(c, reads)) < 0 && errno != EINTR)
			sl_log_err("control: poll: %s", strerror(errno));
		take_signals(c);
		if (c->admin && c->open_reported)
			sl_admin_run(c->admin);
		reads = sl_request_feed_run(c);
		sl_control_step(c);
		if (c->broken || (c->draining && (sl_gateway_drain(c->opt.gateway) || c->stop ||
						  sl_now_ns() >= c->drain_until_ns))) {
			const struct sl_gateway_info *in = sl_gateway_info(c->opt.gateway);
			uint32_t n = 0;

			for (uint32_t w = 0; w < in->worker_cnt; w++)
				n += in->workers[w].exchanges_used;
			return n;
		}
		check_state(c, sl_now_ns());
	}
}
