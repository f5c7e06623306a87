// SPDX-License-Identifier: Apache-2.0
// The dashboard: GET /history once, then an event of /events each second. Text enters the page as text only.
"use strict";
const $ = id => document.getElementById(id);
const num = n => !n ? "0" : n >= 1e9 ? (n / 1e9).toFixed(2) + " G" : n >= 1e6 ? (n / 1e6).toFixed(2) + " M"
	: n >= 1e4 ? (n / 1e3).toFixed(1) + " k" : n >= 100 || Number.isInteger(n) ? String(Math.round(n)) : n.toPrecision(2);
const time = ns => !ns ? "–" : ns < 1e3 ? Math.round(ns) + " ns" : ns < 1e6 ? (ns / 1e3).toFixed(ns < 1e5 ? 1 : 0) + " µs"
	: ns < 1e9 ? (ns / 1e6).toFixed(ns < 1e7 ? 2 : 1) + " ms" : (ns / 1e9).toFixed(2) + " s";
const percent = x => x ? (100 * x).toFixed(x < .0995 ? 2 : 1) + " %" : "0 %";
const sum = (list, f) => list.reduce((a, x) => a + f(x), 0);
const color = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const ago = s => s < 120 ? Math.round(s) + " s" : s < 7200 ? Math.round(s / 60) + " min" : s < 172800 ? Math.round(s / 3600) + " h"
	: Math.round(s / 86400) + " days";

function el(tag, cls, ...children) {
	const e = document.createElement(tag);
	if (cls) e.className = cls;
	e.append(...children.filter(c => c !== null && c !== undefined));
	return e;
}
function table(id, head, rows, empty) {
	const left = head.map(h => h.startsWith("<")), cell = tag => (c, i) => el(tag, left[i] ? "left" : "", ...[].concat(c));
	$(id).replaceChildren(el("tr", "", ...head.map(h => h.replace("<", "")).map(cell("th"))),
		...rows.map(r => el("tr", "", ...r.map(cell("td")))));
	if (!rows.length && empty) $(id).replaceChildren(el("tr", "", el("td", "dim", empty)));
}
const mark = (text, cls) => el("span", cls, text);
function codes(o) {
	const list = Object.entries(o.codes).map(([k, v]) => [k, v, k[0]]);
	list.push(...Object.entries(o.grpc_codes).filter(([k]) => k !== "0").map(([k, v]) => ["grpc " + k, v, "5"]));
	return list.length ? list.map(([k, v, c]) => el("span", "code k" + c, k + " × " + num(v))) : [mark("none yet", "dim")];
}
function spark(values) {
	const ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg"), p = document.createElementNS(ns, "path");
	const top = Math.max(...values, 1e-9), step = 110 / Math.max(1, values.length - 1);
	svg.setAttribute("viewBox", "0 0 110 22"); svg.setAttribute("class", "spark"); svg.setAttribute("preserveAspectRatio", "none");
	svg.setAttribute("role", "img"); svg.setAttribute("aria-label", "99th percentile, highest " + time(top < 1 ? 0 : top));
	p.setAttribute("d", values.map((v, i) => (i ? "L" : "M") + (i * step).toFixed(1) + " " + (20.5 - 19 * v / top).toFixed(1)).join(""));
	svg.append(p);
	return svg;
}

// --- history: name -> {series: [values]}, the newest last ---
const LENGTH = 600, STAGES = ["wire", "parse", "queue", "send", "rpc", "compute", "reply"];
const pools = new Map(), backends = new Map();
let times = [], picked = null, seconds = 300, operate = false, dead = false;
function append(map, name, last, count) {
	if (!last) return;
	const h = map.get(name) || {};
	for (const [k, v] of Object.entries(last)) {
		h[k] = h[k] || [];
		h[k].push(v);
		while (h[k].length > LENGTH) h[k].shift();
	}
	map.set(name, h);
}
const padded = (h, key, n) => { // oldest first; null before the pool was known
	const v = (h && h[key] || []).slice(-n);
	return Array(n - v.length).fill(null).concat(v);
};

// --- charts ---
let charts = [];
const axisSize = 62;
function options(node, series, format, stacked, range) {
	const grid = { stroke: color("line"), width: 1 }, axis = { stroke: color("dim"), grid, ticks: { show: false }, font: "11px system-ui, sans-serif" };
	return {
		width: Math.max(220, $(node).clientWidth), height: 190, padding: [8, 6, 0, 0],
		cursor: { y: false, points: { show: !stacked }, sync: { key: "sluice" } },
		scales: { x: { time: true }, y: { range } },
		axes: [{ ...axis, size: 24, space: 80, values: (u, v) => v.map(x => new Date(x * 1000).toLocaleTimeString([], { hour12: false })) }, { ...axis, size: axisSize, space: 34, values: (u, v) => v.map(x => x ? format(x) : "0") }],
		series: [{ label: "at", value: (u, v) => new Date((v === null ? times[times.length - 1] : v) * 1000).toLocaleTimeString([], { hour12: false }) }, ...series],
	};
}
// A stacked chart draws the sums, the highest first, and shows the values.
function stack(data) {
	const total = new Array(data[0].length).fill(0), out = [];
	for (const d of data) out.push(d.map((v, i) => v === null ? null : (total[i] += v)));
	return out.reverse();
}
// `bound`: index of a series that does not stretch the axis beyond four times the others.
function makeChart(node, names, colors, keys, format, stacked, bound) {
	const chart = { node, raw: [], plot: null };
	const order = names.map((n, i) => i);
	if (stacked) order.reverse();
	const series = order.map(i => ({ label: names[i], stroke: color(colors[i]), width: stacked ? 1 : 1.6, points: { show: false },
		dash: i === bound ? [5, 4] : undefined, fill: stacked ? color(colors[i]) : undefined,
		value: (u, v, si, at) => { const r = chart.raw[i] || [], x = r[at === null ? r.length - 1 : at]; return x === null || x === undefined ? "–" : format(x); } }));
	const range = (u, min, max) => {
		const others = Math.max(1e-9, ...chart.raw.filter((r, i) => i !== bound).flat());
		return [0, bound !== undefined && max > 4 * others ? others * 1.3 : max > 0 ? max * 1.08 : 1];
	};
	chart.update = h => {
		const x = times.slice(-seconds);
		chart.raw = keys.map(k => padded(h, k, x.length));
		const data = [x, ...(stacked ? stack(chart.raw) : chart.raw)];
		if (chart.plot) chart.plot.setData(data);
		else chart.plot = new uPlot(options(node, series, format, stacked, range), data, $(node));
	};
	return chart;
}
function buildCharts() {
	for (const c of charts) if (c.plot) c.plot.destroy();
	charts = [
		makeChart("c_class", ["2xx", "3xx", "4xx", "5xx"], ["c2", "c3", "c4", "c5"], ["2xx", "3xx", "4xx", "5xx"], num, true),
		makeChart("c_latency", ["p50", "p99"], ["c2", "c4"], ["p50_ns", "p99_ns"], time, false),
		makeChart("c_stage", STAGES, STAGES.map((s, i) => "s" + i), STAGES.map(s => s + "_ns"), time, true),
		makeChart("c_batch", ["mean batch", "cap", "waiting"], ["c2", "dim", "c4"], ["batch", "cap", "queued"], num, false, 1),
	];
	drawCharts();
}
function drawCharts() { if (times.length > 1 && picked) for (const c of charts) c.update(pools.get(picked)); }
function tabs(id, entries, selected, choose) {
	const want = JSON.stringify([entries, selected]);
	if ($(id).dataset.shown === want) return;
	$(id).dataset.shown = want;
	$(id).replaceChildren(...entries.map(([value, label]) => {
		const b = el("button", "", label);
		b.type = "button"; b.setAttribute("role", "tab"); b.setAttribute("aria-selected", String(value === selected));
		b.onclick = () => choose(value);
		return b;
	}));
}
function pick(pool) { picked = pool; choose(); drawCharts(); }
function choose() {
	tabs("pick", [...pools.keys()].sort().map(p => [p, p]), picked, pick);
	tabs("span", [[60, "1 min"], [300, "5 min"], [600, "10 min"]], seconds, s => { seconds = s; choose(); drawCharts(); });
}

// --- overrides ---
async function change(path) {
	const r = await fetch(path, { method: "POST" });
	$("answer").textContent = r.ok ? "done" : await r.text();
	$("answer").className = r.ok ? "good" : "bad";
}
function overrideForm(s) {
	if ($("overrides").dataset.made === String(operate)) return;
	$("overrides").dataset.made = String(operate);
	if (!operate) {
		$("overrides").replaceChildren(mark("This connection may look only. An operator changes a pool or a backend with ", "dim"),
			el("code", "", "sluice set POOL bound=20ms"), " ", el("code", "", "sluice set POOL/BACKEND state=drain weight=50"));
		return;
	}
	const target = el("select"), name = el("select"), value = el("input"), go = el("button", "", "set"), form = el("form", "", target, name, value, go, mark("", ""));
	target.setAttribute("aria-label", "pool or backend"); name.setAttribute("aria-label", "value to override"); value.setAttribute("aria-label", "new value");
	const names = () => name.replaceChildren(...(target.value.includes("/") ? ["state", "weight"] : ["bound", "size", "delay", "shed", "deadline"]).map(n => new Option(n)));
	target.replaceChildren(...s.pools.map(p => new Option(p.pool)), ...s.backends.map(b => new Option(b.pool + "/" + b.name)));
	target.onchange = names; names();
	value.placeholder = "value, or auto"; value.required = true;
	form.lastChild.id = "answer";
	form.onsubmit = e => {
		e.preventDefault();
		change("set?pool=" + encodeURIComponent(target.value) + "&" + encodeURIComponent(name.value) + "=" + encodeURIComponent(value.value));
	};
	$("overrides").replaceChildren(form);
}

// --- tables ---
let last = null;
function tiles(s, rate) {
	const of = f => x => sum(x.workers, f), share = sum(s.pools, p => p.last ? p.last["5xx"] : 0) / (sum(s.pools, p => p.last ? p.last.rate : 0) || 1);
	const worst = k => Math.max(0, ...s.pools.map(p => p.last ? p.last[k] : 0));
	$("tiles").replaceChildren(...[
		["requests per second", num(rate(of(w => w.core.requests)))], ["share of 5xx", percent(share), share > .01 ? "bad" : ""],
		["p50, slowest pool", time(worst("p50_ns"))], ["p99, slowest pool", time(worst("p99_ns"))],
		["connections", num(of(w => w.tcp.conns + w.sock.conns)(s))], ["in progress", num(of(w => w.exchanges_used)(s))],
		["received", num(rate(of(w => sum(w.ports, p => p.rx_bytes))) * 8) + "bit/s"], ["sent", num(rate(of(w => sum(w.ports, p => p.tx_bytes))) * 8) + "bit/s"],
	].map(([name, value, cls]) => el("div", "tile", mark(name), el("b", cls, value))));
}
function stateOf(b) {
	if (b.drained) return mark("drained", "warn");
	if (b.ejected) return mark("ejected", "bad");
	if (b.silent) return mark("silent", "bad");
	if (b.on_fallback) return mark("on fallback", "warn");
	return mark(b.state, b.state === "up" ? "good" : b.state === "unused" ? "dim" : "bad");
}
function drawTables(s) {
	table("pools", ["pool", "requests/s", "4xx/s", "5xx/s", "p50", "p99", "batch", "cap", "bound", "waiting", "at backends", "shed/s", "<statuses since start", "<overrides"], s.pools.map(p => {
		const l = p.last || {}, one = p.live.reduce((a, b) => b.requests > a.requests ? b : a);
		return [p.pool, num(l.rate), mark(num(l["4xx"]), l["4xx"] ? "warn" : ""), mark(num(l["5xx"]), l["5xx"] ? "bad" : ""), time(l.p50_ns), time(l.p99_ns),
			num(l.batch), num(one.batch_cap), time(one.bound_ns), num(l.queued), num(l.flight), num(l.shed), codes(p),
			Object.entries(p.override).map(([k, v]) => k + "=" + v).join(" ") || "–"];
	}), "no pools");
	table("backends", ["backend", "<state", "requests/s", "5xx/s", "open", "p50", "p99", "<p99, last minutes", "<statuses since start", "<transport, or reason"], s.backends.map(b => {
		const l = b.last || {}, h = backends.get(b.pool + "/" + b.name);
		return [b.pool + "/" + b.name, stateOf(b), num(l.rate), mark(num(l.errors), l.errors ? "bad" : ""), num(b.outstanding), time(l.p50_ns), time(l.p99_ns),
			h ? spark(h.p99_ns.slice(-seconds)) : "", codes(b), Object.assign(mark(b.info, "dim cut"), { title: b.info })];
	}), "no backends");
	table("routes", ["route", "<pool", "<statuses since start"], s.routes.filter(r => r.route || Object.keys(r.codes).length)
		.map(r => [r.route || mark("no route", "dim"), r.pool || mark("fixed reply", "dim"), codes(r)]), "no routes");
	const ends = l => s.certificates.filter(c => c.listener === l.name).map(c => {
		const left = c.ends - Date.now() / 1000;
		return el("div", left < 0 ? "bad" : left < 14 * 86400 ? "warn" : "", c.file.split("/").pop() + (left < 0 ? " ended " + ago(-left) + " ago" : " ends in " + ago(left)));
	});
	table("listeners", ["listener", "<address", "<protocols", "<certificates"], s.listeners.map(l => [l.name, (l.address.includes(":") ? "[" + l.address + "]" : l.address) + ":" + l.port,
		(l.tls ? "TLS" : "plain") + (l.datagram ? ", datagrams" : ""), l.tls ? ends(l) : mark("–", "dim")]), "no listeners");
	const whys = new Map(s.backends.map(b => [b.pool + "/" + b.name, b.way_why || ""]));
	const servers = (l, way) => l.map(v => [v.name, Object.assign(mark(way + (whys.get(v.name) ? ": " + whys.get(v.name) : ""), "cut"), { title: whys.get(v.name) || "" }),
		!v.up ? mark("down" + (v.why ? ": " + v.why : ""), "bad") : v.healthy ? mark("up", "good") : mark(v.why, "bad"),
		num(v.in_flight), num(v.concurrency), num(v.waiting), num(v.connections)]);
	table("agents", ["server", "<way", "<state", "in flight", "at a time", "waiting", "connections"],
		s.agents.flatMap(a => servers(a.servers, "agent " + a.number)).concat(s.stack.flatMap(w => servers(w.servers, "stack, worker " + w.worker))),
		"no unmodified server");
	$("notes").replaceChildren(...(s.notes.length ? s.notes.map(n => { const t = el("time", "", new Date(n.time_ms).toLocaleTimeString([], { hour12: false }));
		return el("li", "", t, mark(n.text, n.bad ? "bad" : "good")); }) : [el("li", "dim", "nothing has changed since the start")]));
}
function drawDetails(s) {
	table("workers", ["worker", "cpu", "requests", "connections", "exchanges", "frames free", "sleeps", "retransmits"],
		s.workers.map((w, i) => [String(i), w.cpu < 0 ? "any" : String(w.cpu), num(w.core.requests), num(w.tcp.conns + w.sock.conns), w.exchanges_used + " of " + num(w.exchanges),
			num(w.frames_free) + " of " + num(w.frames), num(w.sleeps), num(w.tcp.retransmits)]));
	table("interfaces", ["interface", "<attached", "<sockets", "redirected", "passed to the kernel", "shed"],
		s.interfaces.map(i => [i.name, i.attach, s.workers.flatMap(w => w.ports).filter(p => p.interface === i.name).map(p => p.queue + ": " + p.mode).join(", "),
			num(i.verdicts.redirect), num(sum(Object.entries(i.verdicts), ([k, v]) => k.startsWith("pass_") ? v : 0)),
			num(sum(Object.entries(i.verdicts), ([k, v]) => k.startsWith("shed_") ? v : 0))]));
	const all = {};
	for (const w of s.workers)
		for (const [group, list] of [["drop", w.drops], ["outcome", w.core.outcomes], ["front", w.core.front_errors]])
			for (const [k, v] of Object.entries(list)) if (v) all[group + " " + k] = (all[group + " " + k] || 0) + v;
	table("counters", ["counter", "since start"], Object.entries(all).map(([k, v]) => [k, num(v)]));
}
function draw(s) {
	const dt = last ? (s.time_ns - last.time_ns) / 1e9 : 0, rate = f => last && dt > 0 ? Math.max(0, (f(s) - f(last)) / dt) : 0;
	$("state").textContent = s.draining ? "draining" : s.ready ? "ready" : "not ready: " + s.why_not_ready;
	$("state").className = "badge " + (s.ready && !s.draining ? "good" : "bad");
	$("about").textContent = s.config + ", up " + ago(s.uptime_ns / 1e9) + ", " + s.workers.length + (s.workers.length === 1 ? " worker" : " workers");
	if (last && dt > .5) { // the first event is of the same second as /stats
		times.push(Math.max(Math.round(Date.now() / 1000), (times[times.length - 1] || 0) + 1));
		times = times.slice(-LENGTH);
		for (const p of s.pools) append(pools, p.pool, p.last);
		for (const b of s.backends) append(backends, b.pool + "/" + b.name, b.last);
		for (const p of pools.keys()) if (!s.pools.some(x => x.pool === p)) pools.delete(p);
	}
	if (!pools.has(picked)) picked = (s.pools.slice().sort((a, b) => (b.last ? b.last.rate : 0) - (a.last ? a.last.rate : 0))[0] || {}).pool;
	tiles(s, rate); choose(); drawCharts(); drawTables(s); overrideForm(s);
	if (document.querySelector("details").open) drawDetails(s);
	if (!last || dt > .5) last = s;
}
function listen() {
	const events = new EventSource("events");
	events.onmessage = e => draw(JSON.parse(e.data));
	events.addEventListener("failure", e => { $("state").textContent = JSON.parse(e.data).failure; $("state").className = "badge bad"; });
	events.onerror = () => { $("state").textContent = "connection lost"; $("state").className = "badge bad"; };
}
async function begin() {
	const [h, s] = await Promise.all(["history", "stats"].map(p => fetch(p).then(r => r.json())));
	operate = s.may_operate;
	const n = Math.max(0, ...h.pools.map(p => p.rate.length)), now = Math.round(Date.now() / 1000);
	times = Array.from({ length: n }, (x, i) => now - n + 1 + i);
	const keep = (map, name, o) => map.set(name, Object.fromEntries(Object.entries(o).filter(([k, v]) => Array.isArray(v))));
	for (const p of h.pools) keep(pools, p.pool, p);
	for (const b of h.backends) keep(backends, b.pool + "/" + b.backend, b);
	buildCharts();
	draw(s);
	listen();
}
let resize = 0;
addEventListener("resize", () => { clearTimeout(resize); resize = setTimeout(buildCharts, 100); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", buildCharts);
document.querySelector("details").addEventListener("toggle", () => { if (last) drawDetails(last); });
begin().catch(() => { $("state").textContent = "no answer from the gateway"; $("state").className = "badge bad"; });
