/* SPDX-License-Identifier: Apache-2.0 */
#include "control/dashboard.h"

#include <string.h>

#include "base/check.h"

#define FILE_BYTES(name, path)                                                                     \
	extern const char name[], name##_end[];                                                    \
	__asm__(".section .rodata\n" #name ": .incbin \"" path "\"\n" #name "_end: .byte 0\n"      \
		".previous\n")

FILE_BYTES(page_html, "user/control/dashboard.html");
FILE_BYTES(page_css, "user/control/dashboard.css");
FILE_BYTES(page_js, "user/control/dashboard.js");
FILE_BYTES(uplot_css, "vendor/uplot/uPlot.min.css");
FILE_BYTES(uplot_js, "vendor/uplot/uPlot.iife.min.js");

static const struct {
	const char *path, *type, *begin, *end;
} files[] = {
	{"/", "text/html; charset=utf-8", page_html, page_html_end},
	{"/dashboard.css", "text/css; charset=utf-8", page_css, page_css_end},
	{"/dashboard.js", "text/javascript; charset=utf-8", page_js, page_js_end},
	{"/uplot.css", "text/css; charset=utf-8", uplot_css, uplot_css_end},
	{"/uplot.js", "text/javascript; charset=utf-8", uplot_js, uplot_js_end},
};

bool sl_dashboard_find(const char *path, struct sl_dashboard_file *out)
{
	for (size_t i = 0; i < SL_ARRAY_LEN(files); i++) {
		if (strcmp(files[i].path, path) != 0)
			continue;
		*out = (struct sl_dashboard_file){files[i].type, files[i].begin,
						  (size_t)(files[i].end - files[i].begin)};
		return true;
	}
	return false;
}
