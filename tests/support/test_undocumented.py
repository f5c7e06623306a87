#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of undocumented.py: which functions of a header lack a comment."""
import unittest

import undocumented


def missing(text):
    return [name for _, name, documented in undocumented.functions(text) if not documented]


def found(text):
    return [name for _, name, _ in undocumented.functions(text)]


class Undocumented(unittest.TestCase):
    def test_comment_directly_above_covers_a_function(self):
        self.assertEqual(missing("/* Frees it. */\nvoid f(void);\n"), [])
        self.assertEqual(missing("/* Frees it. */\n\nvoid f(void);\n"), ["f"])
        self.assertEqual(missing("void f(void); /* Frees it. */\n"), ["f"])

    def test_comment_covers_a_group_up_to_a_blank_line(self):
        text = "/* Return a part. */\nstruct a *f(int n);\nstatic inline int g(void)\n{\n\n\treturn 1;\n}\nint h(void);\n"
        self.assertEqual(missing(text + "\nint i(void);\n"), ["i"])

    def test_definition_of_a_type_ends_a_group(self):
        self.assertEqual(missing("/* A point. */\nstruct p {\n\tint x; /* left */\n};\nvoid f(struct p *p);\n"), ["f"])
        self.assertEqual(missing("/* Calls fn. */\ntypedef void fn(int);\nenum { N = 3 };\nvoid f(fn *fn);\n"), [])

    def test_definition_of_a_macro_ends_a_group(self):
        self.assertEqual(missing("/* Most. */\n#define N 3\nvoid f(void);\n"), ["f"])

    def test_name_of_a_file_is_no_comment(self):
        self.assertEqual(missing("/* a.c, b/c.c */\nvoid f(void);\n"), ["f"])
        self.assertEqual(missing("/* a.c: frees it. */\nvoid f(void);\n"), [])

    def test_alternative_of_a_documented_function_is_covered(self):
        self.assertEqual(missing("/* Reads. */\n#ifdef A\nint f(void);\n#else\nstatic inline int f(void) { return 0; }\n#endif\n"), [])

    def test_only_functions_count(self):
        self.assertEqual(found("#define F(x) g(x)\nF(1)\nextern int (*p)(int);\nint a[N(2)];\nstruct s { int (*m)(void); };\n"
                               "_Static_assert(sizeof(int) == 4, \"int\");\nint v = f(1);\n"), [])
        self.assertEqual(found("#ifdef __cplusplus\nextern \"C\" {\n#endif\nint f(void) __attribute__((cold));\n"
                               "#ifdef __cplusplus\n}\n#endif\n"), ["f"])


if __name__ == "__main__":
    unittest.main()
