# SPDX-License-Identifier: Apache-2.0
"""The plot of the results, as SVG written by hand: throughput, CPU per request, latency under a given rate."""
import math
from xml.sax.saxutils import escape

from report import CONNECTIONS

COLORS = {"sluice": "#0b7285", "nginx": "#2b8a3e", "haproxy": "#c2571a", "direct": "#868e96"}
PARTS = {"gateway_user": "#4263eb", "gateway_system": "#f08c00", "gateway_softirq": "#ae3ec9"}
WIDTH, HEIGHT, TOP, BASE = 1240, 420, 90, 350
PANEL = {"throughput": (70, 430), "cpu": (560, 760), "latency": (850, 1210)}


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
    d.axis("throughput", "requests/s, closed loop (bar: median, line: range)", [top * i / 4 for i in range(5)], y_of)
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
    d.axis("cpu", "gateway core, CPU s per million", [top * i / 4 for i in range(5)], y_of)
    for i, n in enumerate(names):
        below = 0.0
        for part, color in PARTS.items():
            v = s.median(n, "c64", part)
            d.bar(left + (i + 0.2) * group, y_of(below + v), 0.6 * group, y_of(below) - y_of(below + v), color)
            below += v
        d.text(left + (i + 0.5) * group, BASE + 18, n)
    for i, (part, color) in enumerate(PARTS.items()):
        d.text(left + (i + 0.5) * (right - left) / 3, BASE + 38, part.removeprefix("gateway_"), color=color)


def draw_latency(d, s):
    left, right = PANEL["latency"]
    points = {}
    for (n, load), cell in s.values.items():
        if n in COLORS and load.startswith("open") and cell.get("p50"):
            at = int(load[4:])
            points.setdefault(n, []).append((at, s.median(n, load, "p50"), s.median(n, load, "p99")))
    flat = [v for p in points.values() for _, *vs in p for v in vs if v > 0]
    if not flat:
        return
    low, high = math.floor(math.log10(min(flat))), math.ceil(math.log10(max(flat)))
    high, far = max(high, low + 1), max(a for p in points.values() for a, *_ in p)
    y_of = lambda v: BASE - (BASE - TOP) * (math.log10(max(v, 10 ** low)) - low) / (high - low)
    x_of = lambda a: left + (right - left) * a / far
    d.axis("latency", "latency in us, open loop (solid p99, dashed p50)", [10 ** e for e in range(low, high + 1)], y_of)
    for n, p in points.items():
        p.sort()
        d.curve([(x_of(a), y_of(v)) for a, _, v in p], COLORS[n])
        d.curve([(x_of(a), y_of(v)) for a, v, _ in p], COLORS[n], "5 4")
    for a in sorted({a for p in points.values() for a, *_ in p}):
        d.text(x_of(a), BASE + 18, f"{a}", 11)
    d.text((left + right) / 2, BASE + 38, "offered rate, % of nginx's maximum")


def write(path, s, about):
    d = Drawing()
    d.text(20, 26, "sluice beside nginx and HAProxy, one gateway core", 17, "start", weight="bold")
    d.text(20, 46, f"{about['cpu']}; {about['kernel']}; {about['date']}; {about['rounds']} rounds of "
                   f"{about['seconds']} s", 11, "start")
    for i, (n, color) in enumerate(COLORS.items()):
        d.bar(640 + i * 110, 16, 12, 12, color)
        d.text(658 + i * 110, 26, n, 12, "start")
    draw_throughput(d, s)
    draw_cpu(d, s)
    draw_latency(d, s)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>\n' + "\n".join(d.parts) + "\n</svg>\n")
