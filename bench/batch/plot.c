/* SPDX-License-Identifier: Apache-2.0 */
/* Two panels over the offered load as SVG: goodput, and the 99th percentile of the latency. */
#include <stdio.h>

#include "sim.h"

enum {
	WIDTH = 920,
	HEIGHT = 430,
	LEFT = 50,
	TOP = 66,
	PANEL = 380,
	TALL = 270,
	GAP = 64,
	LEGEND = 172,
};

struct panel {
	FILE *f;
	double x0, max_x, max_y;
};

static double px(const struct panel *p, double x)
{
	return p->x0 + x / p->max_x * PANEL;
}

static double py(const struct panel *p, double y)
{
	return TOP + TALL - (y < p->max_y ? y : p->max_y) / p->max_y * TALL;
}

static void axes(const struct panel *p, const char *title, double step_y, const char *limit_name,
		 double limit)
{
	fprintf(p->f, "<text x=\"%.0f\" y=\"%d\" class=\"t\">%s</text>\n", p->x0, TOP - 16, title);
	for (double y = 0; y <= p->max_y + step_y / 2; y += step_y)
		fprintf(p->f,
			"<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\" class=\"g\"/>"
			"<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
			p->x0, p->x0 + PANEL, py(p, y), py(p, y), p->x0 - 6, py(p, y) + 4, y);
	for (double x = 0; x <= p->max_x + 0.01; x += 0.2)
		fprintf(p->f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f%%</text>\n",
			px(p, x), TOP + TALL + 18, x * 100);
	fprintf(p->f,
		"<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\" class=\"l\"/>"
		"<text x=\"%.0f\" y=\"%.1f\">%s</text>"
		"<text x=\"%.0f\" y=\"%d\" text-anchor=\"middle\">offered load, of the capacity"
		"</text>\n",
		p->x0, p->x0 + PANEL, py(p, limit), py(p, limit), p->x0 + 6, py(p, limit) - 5,
		limit_name, p->x0 + PANEL / 2.0, TOP + TALL + 38);
}

static void curve(const struct panel *p, const double *loads, unsigned n, const struct sim_curve *c,
		  bool goodput)
{
	fprintf(p->f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%d\" points=\"",
		c->colour, c->width);
	for (unsigned i = 0; i < n; i++)
		fprintf(p->f, "%.1f,%.1f ", px(p, loads[i]),
			py(p, goodput ? c->at[i].goodput / 1000 : c->at[i].p99_ms));
	fprintf(p->f, "\"/>\n");
}

static void legend(FILE *f, const struct sim_curve *curves, unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++) {
		double x = LEFT + (double)LEGEND * i, y = TOP + TALL + 66;

		fprintf(f,
			"<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.0f\" y2=\"%.0f\" stroke=\"%s\" "
			"stroke-width=\"%d\"/><text x=\"%.0f\" y=\"%.0f\">%s</text>"
			"<text x=\"%.0f\" y=\"%.0f\" class=\"s\">%s</text>\n",
			x, x + 22, y - 4, y - 4, curves[i].colour, curves[i].width, x + 28, y,
			curves[i].policy, x + 28, y + 15, curves[i].meaning);
	}
}

void sim_plot(const char *file, const char *title, const double *loads, unsigned load_cnt,
	      const struct sim_curve *curves, unsigned curve_cnt, double capacity, double bound_ms)
{
	FILE *f = fopen(file, "w");
	struct panel good = {f, LEFT, 1.4, capacity / 1000 * 1.15};
	struct panel late = {f, LEFT + PANEL + GAP, 1.4, bound_ms * 1.2};

	if (!f) {
		perror(file);
		return;
	}
	fprintf(f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"viewBox=\"0 0 %d %d\">\n<style>text{font:12px sans-serif;fill:#333}"
		".t{font-size:14px;font-weight:bold}.s{font-size:11px}.g{stroke:#ddd}"
		".l{stroke:#777;stroke-dasharray:5 4}</style>\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
		"<text x=\"%d\" y=\"22\">%s</text>\n",
		WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT, title);
	axes(&good, "replies within the bound, thousands per second", 10, "capacity",
	     capacity / 1000);
	axes(&late, "99th percentile of the latency, milliseconds", 1, "bound", bound_ms);
	/* The first curve is drawn last, on top of those that it coincides with. */
	for (unsigned i = curve_cnt; i-- > 0;) {
		curve(&good, loads, load_cnt, &curves[i], true);
		curve(&late, loads, load_cnt, &curves[i], false);
	}
	legend(f, curves, curve_cnt);
	fprintf(f, "</svg>\n");
	fclose(f);
}
