/* SPDX-License-Identifier: Apache-2.0 */
/* Two panels over the offered load as SVG: goodput, and the 99th percentile of the latency. */
#include <stdio.h>

#include "sim.h"

enum { WIDTH = 900, HEIGHT = 380, LEFT = 62, TOP = 40, PANEL = 360, TALL = 270, GAP = 84 };

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
		"<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
		p->x0, p->x0 + PANEL, py(p, limit), py(p, limit), p->x0 + PANEL, py(p, limit) - 5,
		limit_name);
}

static void curve(const struct panel *p, const double *loads, unsigned n, const struct sim_curve *c,
		  bool goodput)
{
	fprintf(p->f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
		c->colour);
	for (unsigned i = 0; i < n; i++)
		fprintf(p->f, "%.1f,%.1f ", px(p, loads[i]),
			py(p, goodput ? c->at[i].goodput / 1000 : c->at[i].p99_ms));
	fprintf(p->f, "\"/>\n");
}

void sim_plot(const char *file, const double *loads, unsigned load_cnt,
	      const struct sim_curve *curves, unsigned curve_cnt, double capacity, double bound_ms)
{
	FILE *f = fopen(file, "w");
	struct panel good = {f, LEFT, 1.4, capacity / 1000 * 1.15};
	struct panel late = {f, LEFT + PANEL + GAP, 1.4, bound_ms * 1.34};

	if (!f) {
		perror(file);
		return;
	}
	fprintf(f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"viewBox=\"0 0 %d %d\">\n<style>text{font:12px sans-serif;fill:#333}"
		".t{font-size:14px;font-weight:bold}.g{stroke:#ddd}"
		".l{stroke:#999;stroke-dasharray:5 4}</style>\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		WIDTH, HEIGHT, WIDTH, HEIGHT);
	axes(&good, "replies within the bound, 1000 per s", 10, "capacity", capacity / 1000);
	axes(&late, "99th percentile of the latency, ms", 1, "bound", bound_ms);
	for (unsigned i = 0; i < curve_cnt; i++) {
		curve(&good, loads, load_cnt, &curves[i], true);
		curve(&late, loads, load_cnt, &curves[i], false);
		fprintf(f, "<text x=\"%u\" y=\"%d\" style=\"fill:%s;font-weight:bold\">%s</text>\n",
			LEFT + 200 * i, TOP + TALL + 44, curves[i].colour, curves[i].policy);
	}
	fprintf(f, "<text x=\"%d\" y=\"%d\">offered load, of the capacity</text>\n", LEFT,
		TOP + TALL + 62);
	fprintf(f, "</svg>\n");
	fclose(f);
}
