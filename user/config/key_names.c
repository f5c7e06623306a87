/* SPDX-License-Identifier: Apache-2.0 */
#include "config/keys.h"
#include "sluice/types.h"

const struct conf_name conf_attach_modes[] = {
	{"auto", SL_ATTACH_AUTO},   {"native", SL_ATTACH_NATIVE}, {"generic", SL_ATTACH_GENERIC},
	{"adopt", SL_ATTACH_ADOPT}, {"socket", SL_ATTACH_SOCKET}, {0},
};
const struct conf_name conf_fair_keys[] = {
	{"address", SL_FAIR_ADDRESS},
	{"header", SL_FAIR_HEADER},
	{"none", SL_FAIR_NONE},
	{0},
};
const struct conf_name conf_quota_bys[] = {
	{"address", SL_QUOTA_BY_ADDRESS},
	{"header", SL_QUOTA_BY_HEADER},
	{"key", SL_QUOTA_BY_KEY},
	{"route", SL_QUOTA_BY_ROUTE},
	{0},
};
/* clang-format off */
#define X(number, NAME, name) {#name, SL_POLICY_##NAME},
const struct conf_name conf_policies[] = {
	{"auto", SL_POLICY_CNT},
	SL_POLICIES(X)
	{0},
};
const struct conf_name conf_route_policies[] = {
	{"pool", -1},
	SL_POLICIES(X)
	{0},
};
#undef X
/* clang-format on */
const struct conf_name conf_bound_modes[] = {
	{"soft", SL_BOUND_SOFT},
	{"hard", SL_BOUND_HARD},
	{0},
};
const struct conf_name conf_vias[] = {
	{"agent", SL_VIA_AGENT},
	{"stack", SL_VIA_STACK},
	{"auto", SL_VIA_AUTO},
	{0},
};

const struct conf_name conf_ejects[] = {
	{"5xx", SL_EJECT_5XX},
	{"gateway", SL_EJECT_GATEWAY},
	{"lost", SL_EJECT_LOST},
	{"none", SL_EJECT_NONE},
	{0},
};
const struct conf_name conf_priorities[] = {
	{"auto", -1},
	{"latency", SL_CLASS_LATENCY},
	{"normal", SL_CLASS_NORMAL},
	{"bulk", SL_CLASS_BULK},
	{0},
};
const struct conf_name conf_idempotence[] = {
	{"auto", -1},
	{"yes", 1},
	{"no", 0},
	{0},
};

const struct conf_name conf_strips[] = {
	{"auto", -1},
	{"yes", 1},
	{"no", 0},
	{0},
};

const struct conf_name conf_underscores[] = {
	{"drop", false},
	{"pass", true},
	{0},
};

const struct conf_name conf_streams[] = {
	{"auto", -1}, {"yes", 1}, {"no", 0}, {"true", 1}, {"false", 0}, {"on", 1}, {"off", 0}, {0},
};

const struct conf_name conf_continuers[] = {
	{"gateway", false},
	{"backend", true},
	{0},
};

const struct conf_name conf_path_policies[] = {
	{"auto", SL_PATH_AUTO},           {"check", SL_PATH_CHECK}, {"refuse", SL_PATH_REFUSE},
	{"normalise", SL_PATH_NORMALISE}, {"raw", SL_PATH_RAW},     {0},
};

const struct conf_name conf_log_formats[] = {
	{"json", SL_ACCESS_LOG_JSON},
	{"combined", SL_ACCESS_LOG_COMBINED},
	{0},
};

const struct conf_name conf_forwarded_ways[] = {
	{"replace", SL_FORWARDED_REPLACE},
	{"append", SL_FORWARDED_APPEND},
	{0},
};

const struct conf_name conf_affinity_bys[] = {
	{"header", SL_AFFINITY_BY_HEADER}, {"metadata", SL_AFFINITY_BY_HEADER},
	{"cookie", SL_AFFINITY_BY_COOKIE}, {"address", SL_AFFINITY_BY_ADDRESS},
	{"prefix", SL_AFFINITY_BY_PREFIX}, {0},
};

const struct conf_name conf_match_beyond[] = {
	{"refuse", false},
	{"pool", true},
	{0},
};

const struct conf_name conf_half_closes[] = {
	{"cancel", SL_HALF_CLOSE_CANCEL},
	{"answer", SL_HALF_CLOSE_ANSWER},
	{0},
};

const struct conf_name conf_client_certs[] = {
	{"require", SL_CLIENT_CERT_REQUIRE},
	{"optional", SL_CLIENT_CERT_OPTIONAL},
	{0},
};

const struct conf_name conf_roles[] = {
	{"read", SL_ADMIN_READ},
	{"operate", SL_ADMIN_OPERATE},
	{0},
};
