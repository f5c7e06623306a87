/* SPDX-License-Identifier: Apache-2.0 */
/* During another reload, only the newest configuration waits; sl_control_step() tries again. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "config/api_keys.h"
#include "front/tls/server.h"
#include "control/control_impl.h"

static void add_name(void *arg, const char *key)
{
	json_array_append_new(arg, json_string(key));
}

static void join_names(struct sl_strbuf *b, const json_t *names, const char *none)
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

static void remember_text(struct sl_control *c, const json_t *diff)
{
	static const char cut[] = " and more";
	const json_t *restart = json_object_get(diff, "needs_restart");
	struct sl_strbuf b;

	sl_strbuf_fixed(&b, c->reload_text, sizeof(c->reload_text) - 16);
	sl_strbuf_str(&b, "in force: ");
	join_names(&b, json_object_get(diff, "in_force"), "nothing new");
	sl_strbuf_str(&b, "; needs a restart: ");
	join_names(&b, restart, "nothing");
	if (b.err)
		memcpy(c->reload_text + strlen(sl_strbuf_cstr(&b)), cut, sizeof(cut));
	else
		(void)sl_strbuf_cstr(&b);
	c->reload_warns = json_array_size(restart) != 0;
}

static int hand_over(struct sl_control *c, json_t **diff, struct sl_err *err)
{
	const struct sl_config *now = sl_gateway_info(c->opt.gateway)->cfg;
	struct sl_config *next = c->reload_wait;
	json_t *changed = json_array(), *restart = json_array(), *d;
	int rc;

	sl_config_diff(now, next, false, add_name, changed);
	sl_config_diff(c->opt.config, next, true, add_name, restart);
	d = json_pack("{s:o, s:o, s:I}", "in_force", changed, "needs_restart", restart, "number",
		      (json_int_t)c->reload.asked);
	rc = d ? sl_gateway_reload(c->opt.gateway, next, err) : -ENOMEM;

	if (!d)
		sl_err_set(err, "%s: out of memory", next->file);
	if (rc == -EBUSY) {
		rc = 0;
	} else {
		c->reload_wait = NULL;
		if (rc) {
			sl_config_free(next);
		} else {
			c->reloading = true;
			c->reload.handed = c->reload.asked;
			if (c->opt.on_config)
				c->opt.on_config(c->opt.arg, next);
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

static void log_warning(void *arg, const char *line)
{
	(void)arg;
	sl_log_warn("%s", line);
}

static void log_refused(const char *lines)
{
	for (const char *end; *lines; lines = end + (*end == '\n')) {
		end = strchrnul(lines, '\n');
		sl_log_err("reload: nothing changed: %.*s", (int)(end - lines), lines);
	}
}

static bool check_system(struct sl_config *next, struct sl_err *err)
{
	static char text[SL_CFG_ERR_LEN];
	struct sl_err more = {text, sizeof(text)};
	bool ok = true;

	sl_err_set(err, "%s", "");
	if (sl_config_check_system(next, &more) != 0)
		ok = sl_err_add(err, more.text);
	if (sl_tls_load(next, &more) != 0)
		ok = sl_err_add(err, more.text);
	if (sl_api_keys_load(next, &more) != 0)
		ok = sl_err_add(err, more.text);
	return ok;
}

static int load_next(struct sl_control *c, json_t **diff, struct sl_err *err)
{
	struct sl_config *next;

	if (!c->opt.config_file)
		return sl_fail(err, -1, "started without a file");
	if (c->draining)
		return sl_fail(err, -1, "draining");
	next = sl_config_load(c->opt.config_file, err);
	if (!next || !check_system(next, err)) {
		sl_config_free(next);
		return -1;
	}
	sl_config_each_warning(next, log_warning, NULL);
	sl_tls_each_warning(next, log_warning, NULL);
	sl_tls_log_ends(next);
	sl_config_free(c->reload_wait);
	c->reload_wait = next;
	c->reload_refused[0] = 0;
	c->reload.asked++;
	return hand_over(c, diff, err) ? -1 : 0;
}

int sl_control_reload(struct sl_control *c, json_t **diff, struct sl_err *err)
{
	int rc = load_next(c, diff, err);

	if (rc)
		log_refused(err->text);
	return rc;
}

json_t *sl_control_reload_json(const struct sl_control *c)
{
	return json_pack("{s:b, s:I, s:I, s:s}", "pending", c->reloading || c->reload_wait, "asked",
			 (json_int_t)c->reload.asked, "in_force", (json_int_t)c->reload.in_force,
			 "refused", c->reload_refused);
}

void sl_control_step(struct sl_control *c)
{
	struct sl_err err = {c->reload_refused, sizeof(c->reload_refused)};

	if (!sl_gateway_step(c->opt.gateway) && c->reloading) {
		c->reloading = false;
		c->reload.in_force = c->reload.handed;
		sl_log_at(c->reload_warns ? SL_LOG_WARN : SL_LOG_INFO, "reload: %s",
			  c->reload_text);
	}
	if (c->reload_wait && hand_over(c, NULL, &err))
		log_refused(err.text);
}
