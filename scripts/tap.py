#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""scripts/tap.py - count test results strictly

usage: tap.py [-j NAME] [-e EXIT] [-x PROGRAM]... [-s SKIPS] FILE
       tap.py -k [-j NAME] [-e EXIT] FILE

Reads the output of a machine's job. Without -k: the TAP of test programs between
the marks of scripts/guest/run-tests. With -k: the KTAP of KUnit suites in a
kernel log.

	-j NAME     what to call the job in messages
	-e EXIT     exit code of the machine; not 0 counts as one failure if no
	            result explains it
	-x PROGRAM  a test program that must have run; repeatable
	-s SKIPS    a file of what may be skipped, lines "JOB REGEX": a shell pattern
	            for NAME, and what matches "PROGRAM: RESULT # SKIP REASON". Any
	            other skip is a failure

A program whose plan is missing, double, or unlike the number and order of its
results, or that did not end, counts as one failure on top of its results.

Prints failures, with what the program says of them before and after ("# ..."), and
skips; as last line "PASSED FAILED SKIPPED".
Exit: 0 if nothing failed and something ran, 1 otherwise.
"""
import argparse
import fnmatch
import re
import sys

RESULT = re.compile(r"^(not ok|ok)\b\s*(\d+)?\s*(?:- )?(.*)$")
PLAN = re.compile(r"^1\.\.(\d+)\s*(#.*)?$")
DIAG = 20  # lines of a failure that came before it, or of its message
SKIP = re.compile(r"#\s*skip\b\s*(.*)$", re.I)


class Count:
    def __init__(self, job, skips=None):
        self.job, self.good, self.bad, self.skip = job, 0, 0, 0
        self.skips = skips

    def may_skip(self, text):
        return self.skips is None or any(re.fullmatch(s, text) for s in self.skips)

    def fail(self, text):
        self.bad += 1
        print("    FAILED %s: %s" % (self.job, text))

    def result(self, ok, text):
        m = SKIP.search(text)
        if ok and m and not self.may_skip(text):
            self.fail("%s: nothing says that it may be skipped" % text)
        elif ok and m:
            self.skip += 1
            print("    skipped %s: %s" % (self.job, text))
        elif ok:
            self.good += 1
        else:
            self.fail(text)


def tap(lines, c, expected):
    name, plan, last, diag, failed = None, [], 0, [], False
    ran = []
    before_bad = c.bad

    def close(exit_code):
        nonlocal name
        if not plan:
            c.fail("%s: no plan" % name)
        elif len(plan) > 1:
            c.fail("%s: %d plans" % (name, len(plan)))
        elif plan[0] != last:
            c.fail("%s: %d results, planned %d" % (name, last, plan[0]))
        elif not last:
            c.fail("%s: no result" % name)
        elif exit_code not in (None, 0) and c.bad == before_bad:
            c.fail("%s: exit code %d" % (name, exit_code))
        if exit_code is None:
            c.fail("%s: did not end" % name)
        name = None

    for line in lines:
        line = line.rstrip("\r\n")
        m = re.match(r"^# roe-test: begin (\S+)$", line)
        if m:
            if name:
                close(None)
            name, plan, last, before_bad, failed = m.group(1), [], 0, c.bad, False
            diag = []
            ran.append(name)
            continue
        m = re.match(r"^# roe-test: end (\S+) exit=(\d+) seconds=(\d+)$", line)
        if m:
            if name == m.group(1):
                close(int(m.group(2)))
            continue
        if name is None:
            if RESULT.match(line):
                c.fail("result outside of a program: %s" % line)
            continue
        m = PLAN.match(line)
        if m:
            plan.append(int(m.group(1)))
            continue
        m = RESULT.match(line)
        if m:
            last += 1
            if m.group(2) and int(m.group(2)) != last:
                c.fail("%s: result %s where %d was due" % (name, m.group(2), last))
                last = int(m.group(2))
            failed = m.group(1) != "ok"
            c.result(not failed, "%s: %s" % (name, m.group(3)))
            for d in diag[-DIAG:] if failed else []:
                print("      " + d)
            diag = []
        elif line.startswith("#") and failed:
            print("      " + line)
        elif line.startswith("#"):
            diag.append(line)
    if name:
        close(None)
    for e in expected:
        if ran.count(e) != 1:
            c.fail("%s ran %d times, expected once" % (e, ran.count(e)))


def top(stack, c):
    """The end of a module's suites."""
    if stack and stack[0][0] != stack[0][1]:
        c.fail("%s suites, planned %s" % (stack[0][1], stack[0][0]))


def ktap(lines, c):
    """Suites: one KTAP level; cases: the next; parameters: below, counted too.

    A case with parameters counts by its parameters alone; a suite's or such a
    case's own line only has to agree with what is in it."""
    stack = []  # [plan, seen, bad seen] by level
    total = 0
    began = False
    more = 0  # lines of a failure's message
    for line in lines:
        line = re.sub(r"^(<\d+>)?\[\s*\d+\.\d+\](\[[^]]*\])? ?", "", line.rstrip("\r\n"))
        body = line.lstrip(" ")
        level = (len(line) - len(body)) // 4
        if body.startswith("KTAP version"):
            began = True
            if not level:
                top(stack, c)
            del stack[level:]
            while len(stack) <= level:
                stack.append([None, 0, 0])
            continue
        if not began:
            continue
        m = PLAN.match(body)
        if m and level < len(stack):
            stack[level][0] = int(m.group(1))
            continue
        m = RESULT.match(body)
        if not m or not m.group(2) or level > len(stack):
            if body.startswith("# "):
                failure = re.search("EXPECT|ASSERT|FAILED", body)
                more = DIAG if failure else 0
                if failure:
                    print("      " + body)
            elif more:
                more -= 1
                print("        " + body)
            continue
        more = 0
        ok = m.group(1) == "ok"
        if level == len(stack):  # parameters have no KTAP header on old kernels
            stack.append([None, 0, 0])
        # what this line sums up
        if level + 1 < len(stack):
            plan, seen, bad = stack[level + 1]
            del stack[level + 1:]
            if plan is not None and plan != seen:
                c.fail("%s: %d results, planned %d" % (m.group(3), seen, plan))
            if seen == 0:
                c.result(ok, m.group(3)) if SKIP.search(m.group(3)) else c.fail("%s: no results" % m.group(3))
            elif not ok and not bad:
                c.fail("%s: failed as a whole" % m.group(3))
            elif ok and bad:
                c.fail("%s: ok with a failure in it" % m.group(3))
        else:
            c.result(ok, m.group(3))
            total += 1
        stack[level][1] += 1
        if not ok:
            for s in stack[:level + 1]:
                s[2] += 1
    if len(stack) > 1:
        c.fail("the log ends inside of a suite")
    top(stack, c)
    if not total:
        c.fail("no KUnit result in the log")


def read_skips(name, job):
    rows = (line.split(None, 1) for line in open(name) if line.strip() and line[0] != "#")
    return [regex.rstrip() for pattern, regex in rows if fnmatch.fnmatchcase(job, pattern)]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-k", action="store_true")
    p.add_argument("-j", default="job")
    p.add_argument("-e", type=int, default=0)
    p.add_argument("-x", action="append", default=[])
    p.add_argument("-s")
    p.add_argument("file")
    a = p.parse_args()
    c = Count(a.j, read_skips(a.s, a.j) if a.s else None)
    with open(a.file, errors="replace") as f:
        if a.k:
            ktap(f, c)
        else:
            tap(f, c, a.x)
    if a.e >= 120 or (a.e and not c.bad):
        c.fail("machine ended with %d (%s)" % (a.e, {
            120: "roe could not be unloaded", 121: "memory leak", 123: "kernel report", 124: "out of time",
            125: "machine lost"}.get(a.e, "exit code of the job")))
    if not c.good + c.bad + c.skip:
        c.fail("no result at all")
    print(c.good, c.bad, c.skip)
    return 1 if c.bad else 0


sys.exit(main())
