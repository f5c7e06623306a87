# SPDX-License-Identifier: Apache-2.0
"""The plot of the results, as SVG written by hand: throughput, processor time, latency at given rates.

svg.py TSV SVG: draws it again from the rows of a former run.
"""
import math
import pathlib
import statistics
import sys
from xml.sax.saxutils import escape

from report import CONNECTIONS, Samples

COLORS = {"sluice": "#0b7285", "nginx": "#2b8a3e", "haproxy": "#c2571a", "direct": "#868e96"}
PARTS = {"gateway_user": "#4263eb", "gateway_system": "#f08c00", "gateway_softirq": "#ae3ec9"}
MEANING = {"sluice": "SDK backend, shared memory", "nginx": "proxy of an nginx server", "haproxy": "proxy of that server",
           "direct": "that server, no proxy"}
WIDTH, HEIGHT, TOP, BASE = 1240, 460, 130, 390
PANEL = {"throughput": (60, 430), "cpu": (520, 760), "latency": (850, 1210)}


def nice_top(v):
    """The next round number at or above v."""
    if v <= 0:
        return 1
    step = 10 ** math.floor(math.log10(v))
    return next(m * step for m in (1, 2, 3, 4, 5, 6, 8, 10) if m * step >= v)


def short(v):
    return f"{v / 1000:g}k" if v >= 1000 else f"{v:g}"


class Drawing:
    def __init__(self):
        self.parts = []

    def text(self, x, y, s, size=12, anchor="middle", color="#343a40", weight="normal"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{color}" '
                          f'font-weight="{weight}">{escape(s)}</text>')

    def line(self, x0, y0, x1, y1, color="#ced4da", width=1.0):
        self.parts.append(f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="{color}" '
                          f'stroke-width="{width}"/>')

    def bar(self, x, y, width, height, color):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{max(height, 0):.1f}" '
                          f'fill="{color}"/>')

    def curve(self, points, color, dash=""):
        at = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{at}" fill="none" stroke="{color}" stroke-width="2" '
                          f'stroke-dasharray="{dash}"/>')
        for x, y in points:
            self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>')

    def axis(self, panel, title, ticks, y_of):
        left, right = PANEL[panel]
        self.text((left + right) / 2, TOP - 18, title, 13, weight="bold")
        for v in ticks:
            self.line(left, y_of(v), right, y_of(v))
            self.text(left - 6, y_of(v) + 4, short(v), 11, "end")


def scale(top):
    return lambda v: BASE - (BASE - TOP) * v / top


def draw_throughput(d, s):
    left, right = PANEL["throughput"]
    names = [n for n in COLORS if any((n, f"c{c}") in s.values for c in CONNECTIONS)]
    cell = lambda n, c: s.values.get((n, f"c{c}"), {}).get("requests_per_s")
    top = nice_top(max((max(cell(n, c)) for n in names for c in CONNECTIONS if cell(n, c)), default=1))
    y_of, group = scale(top), (right - left) / len(CONNECTIONS)
    d.axis("throughput", "requests/s, closed loop", [top * i / 4 for i in range(5)], y_of)
    for i, c in enumerate(CONNECTIONS):
        width = 0.8 * group / max(len(names), 1)
        for j, n in enumerate(names):
            if not cell(n, c):
                continue
            x, m = left + i * group + 0.1 * group + j * width, s.median(n, f"c{c}", "requests_per_s")
            d.bar(x, y_of(m), width - 2, BASE - y_of(m), COLORS[n])
            d.line(x + width / 2 - 1, y_of(min(cell(n, c))), x + width / 2 - 1, y_of(max(cell(n, c))), "#212529", 1.5)
        d.text(left + (i + 0.5) * group, BASE + 18, f"{c}")
    d.text((left + right) / 2, BASE + 38, "connections")


def draw_cpu(d, s):
    left, right = PANEL["cpu"]
    names = [n for n in ("sluice", "nginx", "haproxy") if s.median(n, "c64", "gateway_cpu") is not None]
    top = nice_top(max((s.median(n, "c64", "gateway_cpu") for n in names), default=1))
    y_of, group = scale(top), (right - left) / max(len(names), 1)
    d.axis("cpu", "gateway: us of its core per request", [top * i / 4 for i in range(5)], y_of)
    for i, n in enumerate(names):
        below = 0.0
        for part, color in PARTS.items():
            v = s.median(n, "c64", part)
            d.bar(left + (i + 0.2) * group, y_of(below + v), 0.6 * group, y_of(below) - y_of(below + v), color)
            below += v
        whole = s.values[n, "c64"]["gateway_cpu"]
        d.line(left + (i + 0.5) * group, y_of(min(whole)), left + (i + 0.5) * group, y_of(max(whole)), "#212529", 1.5)
        d.text(left + (i + 0.5) * group, BASE + 18, n)
    for i, (part, color) in enumerate(PARTS.items()):
        d.text(left + (i + 0.5) * (right - left) / 3, BASE + 38, part.removeprefix("gateway_"), color=color)
    d.text((left + right) / 2, BASE + 56, "64 connections", 11)


def latency_points(s):
    """Returns contender -> (rate, values of the median, values of the 99th percentile), by rate."""
    points = {}
    for (n, load), cell in s.values.items():
        if n in COLORS and load.startswith("open") and cell.get("p50"):
            points.setdefault(n, []).append((int(load[4:]), cell["p50"], cell["p99"]))
    return {n: sorted(p) for n, p in points.items()}


def draw_latency(d, s):
    left, right = PANEL["latency"]
    points = latency_points(s)
    flat = [v for p in points.values() for _, *both in p for values in both for v in values if v > 0]
    if not flat:
        return
    low, high = math.floor(math.log10(min(flat))), math.ceil(math.log10(max(flat)))
    high, rates = max(high, low + 1), sorted({a for p in points.values() for a, *_ in p})
    y_of = lambda v: BASE - (BASE - TOP) * (math.log10(max(v, 10 ** low)) - low) / (high - low)
    group = (right - left) / len(rates)
    d.axis("latency", "latency in us (solid: p99, dashed: median)", [10 ** e for e in
                                                                                     range(low, high + 1)], y_of)
    for i, (n, p) in enumerate(points.items()):
        x_of = lambda a, i=i: left + (rates.index(a) + 0.5) * group + 5 * (i - 1)  # ranges side by side
        for k, dash in (2, ""), (1, "5 4"):
            for one in p:
                d.line(x_of(one[0]), y_of(min(one[k])), x_of(one[0]), y_of(max(one[k])), COLORS[n])
            d.curve([(x_of(one[0]), y_of(statistics.median(one[k]))) for one in p], COLORS[n], dash)
    for i, a in enumerate(rates):
        d.text(left + (i + 0.5) * group, BASE + 18, f"{a}", 11)
    d.text((left + right) / 2, BASE + 38, "offered rate, % of nginx's maximum; 64 connections")


def write(path, s, about):
    d = Drawing()
    d.text(20, 26, "sluice beside nginx and HAProxy, one gateway core", 17, "start", weight="bold")
    d.text(20, 46, f"{about['cpu']}; {about['kernel']}; {about['date']}; {about['rounds']} rounds of "
                   f"{about['seconds']} s; medians, thin lines are ranges", 11, "start")
    for i, (n, color) in enumerate(COLORS.items()):
        d.bar(60 + i * 290, 62, 12, 12, color)
        d.text(78 + i * 290, 72, f"{n}: {MEANING[n]}", 12, "start")
    draw_throughput(d, s)
    draw_cpu(d, s)
    draw_latency(d, s)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>\n' + "\n".join(d.parts) + "\n</svg>\n")


def read(path):
    """Returns the samples and the facts of a TSV. Three values stand for all rounds: median, minimum and maximum."""
    s, about = Samples(), {}
    for line in path.read_text(encoding="utf-8").splitlines():
        f = line.split("\t")
        if line.startswith("# "):
            about[f[0][2:]] = f[1]
        elif f[3:4] and f[3] not in ("", "median") and f[0] != "ratio":
            s.values.setdefault((f[0], f[1]), {})[f[2]] = [float(x) for x in f[3:6]]
    return s, about


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[2]), *read(pathlib.Path(sys.argv[1])))
