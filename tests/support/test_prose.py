#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of prose.py: what it counts, and what it leaves out."""
import unittest

import prose


def measured(path, text):
    room = prose.Room()
    prose.measure(path, text, room)
    return room


def counts(path, text):
    return {k: n for k, n in measured(path, text).counts.items() if n}


def places(path, text):
    return [(rule, line) for _, rule, _, line, _ in measured(path, text).places]


LONG = " ".join(["word"] * 26) + "."


class Comments(unittest.TestCase):
    def test_c_comments_count_and_code_does_not(self):
        self.assertEqual(counts("a.c", 'int who; char *s = "/* who */";\n/* Frees the peer. */\n'), {})
        self.assertEqual(places("a.c", "int a; // fine\nint b;\n/*\n * Returns it.\n * To whoever asks.\n */\n"),
                         [("who", 5), ("begin", 5)])

    def test_consecutive_line_comments_are_one_sentence(self):
        self.assertEqual(measured("a.c", "// Returns the peer\n// of the connection.\n").sentences, 1)
        self.assertEqual(measured("a.c", "int a; // the peer\nint b; // of it\n").sentences, 2)

    def test_shell_comments_count_and_here_documents_do_not(self):
        self.assertEqual(places("a.sh", "#!/bin/bash\ncat <<EOT\n# who\nEOT\n# Who asks.\necho '# who' # for nobody\n"),
                         [("who", 5), ("begin", 5), ("who", 6), ("begin", 6)])
        self.assertEqual(counts("a.sh", "echo ${#who} '# who' \"# who\"\n"), {})

    def test_python_comments_and_docstrings_count(self):
        self.assertEqual(sorted(places("a.py", '"""To do."""\nx = "of who"\n# Who.\ndef f():\n    """nobody"""\n')),
                         [("begin", 1), ("begin", 3), ("who", 3), ("who", 5)])

    def test_licence_lines_are_left_out(self):
        self.assertEqual(measured("a.h", "/* SPDX-License-Identifier: Apache-2.0 */\n").words, 0)


class Sentences(unittest.TestCase):
    def test_sentence_ends_at_a_full_stop(self):
        self.assertEqual(counts("a.c", "/* Reads e.g. Of 1.5 s of it. Of it. */"), {"begin": 1})
        self.assertEqual(measured("a.c", "/* Ends. sl_log writes it. */").sentences, 2)

    def test_blank_line_and_list_item_end_a_sentence(self):
        self.assertEqual(measured("a.c", "/* Reads\n *\n * more\n * - one\n *   and\n * - two */").sentences, 4)

    def test_more_than_25_words_are_long_and_clauses_count_alone(self):
        self.assertEqual(counts("a.c", f"/* {LONG} */"), {"long": 1})
        self.assertEqual(counts("a.c", f"/* {LONG[5:]} */"), {})
        self.assertEqual(counts("a.c", f"/* Reads; {LONG[10:]} */"), {})

    def test_quoted_text_is_one_word(self):
        self.assertEqual(counts("a.c", f"/* Prints \"{LONG}\" and `who of`. */"), {})

    def test_diagrams_tables_and_fields_are_left_out(self):
        self.assertEqual(counts("a.h", "/*\n *  client --> who\n *\n *   0  4   who sends it\n *          and to whom\n */"), {})


class Markdown(unittest.TestCase):
    def test_fences_and_tables_are_left_out(self):
        self.assertEqual(counts("a.md", f"# Title\n\n```\nwho {'x ' * 60}\n```\n\n| who | {'x ' * 60} |\n|---|---|\n"), {})

    def test_text_counts(self):
        self.assertEqual(places("a.md", "# Title\n\nRead it.\nOf it.\n"), [("begin", 4)])

    def test_lines_over_100_columns_are_wide(self):
        self.assertEqual(counts("a.md", f"A {'x' * 98}\n\nB {'x' * 99}\n\nhttps://{'x' * 99}\n"), {"wide": 1})


class Rooms(unittest.TestCase):
    def test_room_of_a_file(self):
        for path, room in (("user/rpc/a.c", "user/rpc"), ("user/rpc/rdma/rc/a.c", "user/rpc/rdma/rc"),
                           ("user/front/h2/a.c", "user/front/h2"), ("user/sdk/backend/a.c", "user/sdk"),
                           ("tests/unit/rpc/a.c", "tests/unit"), ("bench/rpc/a.c", "bench"),
                           ("user/tcp/README.md", "documents"), ("Makefile", "(top)")):
            self.assertEqual(prose.room(path), room)

    def test_shares_are_limited(self):
        room = prose.Room()
        room.words, room.sentences = 9_999, 99
        self.assertEqual(room.allowed(), {"who": 0, "begin": 2, "long": 0, "wide": 0})
        room.words, room.sentences = 10_000, 100
        self.assertEqual(room.allowed(), {"who": 1, "begin": 3, "long": 0, "wide": 0})


class Commits(unittest.TestCase):
    def test_imperative_subjects_pass(self):
        for s in ("rpc: name the peer", "front/h2, agent: address the peer", "tests/*: feed it", "user: re-read it"):
            self.assertIsNone(prose.subject_mistake(s), s)

    def test_other_subjects_do_not(self):
        for s in ("name the peer", "rpc: fixed it", "rpc: fixes it", "rpc: fixing it", "rpc: The peer", "rpc: " + "x" * 68):
            self.assertIsNotNone(prose.subject_mistake(s), s)


if __name__ == "__main__":
    unittest.main()
