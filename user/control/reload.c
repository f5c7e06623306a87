/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "control/control_impl.h"

static void add_name(void *arg, const char *key)
{
	json_array_append_new(arg, json_string(key));
}

static void join(struct sl_strbuf *b, const json_t *names, const char *none)
{
	json_t *name;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)names, i, name)
	{
		if (i)
			sl_strbuf_str(b, ", ");
		sl_strbuf_str(b, json_string_value(name));
	}
	if (!json_array_size(names))
		sl_strbuf_str(b, none);
}

/*
 * What differs from what is in force, and, of that which needs a restart, from what the gateway was
 * started with.
 */
static json_t *compare(struct sl_control *c, const struct sl_config *next)
{
	const struct sl_config *now = sl_gateway_info(c->opt.gateway)->cfg;
	json_t *changed = json_array(), *restart = json_array();

	sl_config_diff(now, next, false, add_name, changed);
	sl_config_diff(c->opt.config, next, true, add_name, restart);
	return json_pack("{s:o, s:o}", "in_force", changed, "needs_restart", restart);
}

static void remember_text(struct sl_control *c, const json_t *diff)
{
	static const char cut[] = " and more";
	const json_t *restart = json_object_get(diff, "needs_restart");
	struct sl_strbuf b;

	sl_strbuf_fixed(&b, c->reload_text, sizeof(c->reload_text) - 16);
	sl_strbuf_str(&b, "in force: ");
	join(&b, json_object_get(diff, "in_force"), "nothing new");
	sl_strbuf_str(&b, "; needs a restart: ");
	join(&b, restart, "nothing");
	if (b.err)
		memcpy(c->reload_text + strlen(sl_strbuf_cstr(&b)), cut, sizeof(cut));
	else
		(void)sl_strbuf_cstr(&b);
	c->reload_warns = json_array_size(restart) != 0;
}

static void say_done(struct sl_control *c)
{
	c->reloading = false;
	sl_log_at(c->reload_warns ? SL_LOG_WARN : SL_LOG_INFO, "reload: %s", c->reload_text);
}

/* Hands the gateway what waits. 0 or -1 and one line in err; a gateway that is busy is no error. */
static int hand_over(struct sl_control *c, json_t **diff, char *err, size_t err_len)
{
	struct sl_config *next = c->reload_wait;
	json_t *d = compare(c, next);
	int rc = d ? sl_gateway_reload(c->opt.gateway, next, err, err_len) : -ENOMEM;

	if (rc == -EBUSY) {
		rc = 0;
	} else {
		c->reload_wait = NULL;
		if (rc) {
			sl_config_free(next);
		} else {
			c->reloading = true;
			remember_text(c, d);
			sl_log_level_set((enum sl_log_level)next->log_level);
		}
	}
	if (diff && !rc)
		*diff = d;
	else
		json_decref(d);
	return rc;
}

static void warn(void *arg, const char *line)
{
	(void)arg;
	sl_log_warn("%s", line);
}

int sl_control_reload(struct sl_control *c, json_t **diff, char *err, size_t err_len)
{
	struct sl_config *next;

	if (!c->opt.config_file) {
		snprintf(err, err_len, "started without a file");
		return -1;
	}
	if (c->draining) {
		snprintf(err, err_len, "draining");
		return -1;
	}
	next = sl_config_load(c->opt.config_file, err, err_len);
	if (!next || sl_config_check_system(next, err, err_len) != 0) {
		sl_config_free(next);
		return -1;
	}
	sl_config_each_warning(next, warn, NULL);
	sl_config_free(c->reload_wait);
	c->reload_wait = next;
	return hand_over(c, diff, err, err_len) ? -1 : 0;
}

void sl_control_step(struct sl_control *c)
{
	char err[600];

	if (!sl_gateway_step(c->opt.gateway) && c->reloading)
		say_done(c);
	if (c->reload_wait && hand_over(c, NULL, err, sizeof(err)))
		sl_log_err("reload: nothing changed: %s", err);
}
