#!/usr/bin/env python3
"""Which lines of tests/contract/*.md this test run proved.

A test carries the ids it proves at the start of its own name: `b_018_…`, `b_053_b_054_…`,
`bu_02_…`. An id is covered when a test that carries it ran and passed, no test that carries it
failed, and no test reported it as skipped. The floors in tests/contract/covered.txt only rise.

    ci/coverage.py --log TEST_OUTPUT [--skipped SKIPPED_LOG] [--contract DIR]
    ci/coverage.py --self-test
"""

import argparse
import contextlib
import io
import pathlib
import re
import sys
import tempfile

CONTRACT_LINE = re.compile(r"^- ([A-Z]+)-(\d+)\b")
RESULT = re.compile(r"\btest (\S+)(?: - should panic)? \.\.\. (.*)$")
CARRIED = re.compile(r"([a-z]+)_(\d+)(?:_|$)")


def contract_ids(text):
    """The ids of one contract file, in its order: [("B", 1), …]."""
    found = (CONTRACT_LINE.match(line) for line in text.splitlines())
    return [(match[1], int(match[2])) for match in found if match]


def ids_of_test(path, prefixes):
    """The ids at the start of the last segment of a test's path."""
    name, ids, at = path.rsplit("::", 1)[-1], [], 0
    while (match := CARRIED.match(name, at)) and match[1].upper() in prefixes:
        ids.append((match[1].upper(), int(match[2])))
        at = match.end()
    return ids


def outcomes(log, prefixes):
    """Reads test output: ids that passed, ids that failed, result lines that cannot be read."""
    passed, failed, unread = set(), set(), []
    for line in log.splitlines():
        match = RESULT.search(line)
        if not match:
            continue
        ids, verdict = ids_of_test(match[1], prefixes), match[2]
        if verdict == "ok":
            passed.update(ids)
        elif verdict.startswith("FAILED"):
            failed.update(ids)
        elif ids and not verdict.startswith("ignored"):
            unread.append(line)
    return passed, failed, unread


def skipped_ids(log):
    """Reads the lines `B-21 B-23: reason` that ztests::skip appended."""
    reasons = {}
    for line in log.splitlines():
        ids, _, reason = line.partition(": ")
        for prefix, number in re.findall(r"\b([A-Z]+)-(\d+)\b", ids):
            reasons[(prefix, int(number))] = reason
    return reasons


def floors(text):
    """Reads `FILE COUNT` lines; `#` starts a comment."""
    lines = (line.split("#")[0].split() for line in text.splitlines())
    return {parts[0]: int(parts[1]) for parts in lines if parts}


def spell(ids):
    """Ids as the contract writes them, runs shortened: `B-05…B-07, B-12`."""
    runs = []
    for prefix, number in ids:
        if runs and runs[-1][0] == prefix and runs[-1][2] == number - 1:
            runs[-1][2] = number
        else:
            runs.append([prefix, number, number])

    def word(prefix, number):
        return f"{prefix}-{number:02d}"

    return ", ".join(
        word(p, first) if first == last else f"{word(p, first)}…{word(p, last)}"
        for p, first, last in runs
    )


def report(contract, log, skip_log):
    """Prints the coverage of each contract file. Returns the complaints."""
    files = {f.name: contract_ids(f.read_text()) for f in sorted(contract.glob("*.md"))}
    known = {one for ids in files.values() for one in ids}
    prefixes = {prefix for prefix, _ in known}
    passed, failed, unread = outcomes(log, prefixes)
    skipped = skipped_ids(skip_log)
    covered_file = contract / "covered.txt"
    agreed = floors(covered_file.read_text()) if covered_file.exists() else {}

    complaints = [f"unreadable result line: {line}" for line in unread]
    for prefix, number in sorted((passed | failed | set(skipped)) - known):
        complaints.append(f"a test carries {prefix}-{number:02d}, which no contract file has")
    for name in sorted(set(agreed) - set(files)):
        complaints.append(f"{covered_file}: no contract file {name}")

    for name, ids in files.items():
        held_back = [one for one in ids if one in skipped]
        covered = [one for one in ids if one in passed - failed and one not in skipped]
        missing = [one for one in ids if one not in covered and one not in skipped]
        floor = agreed.get(name, 0)
        print(
            f"{name}: {len(covered)} of {len(ids)} covered (floor {floor}), "
            f"{len(held_back)} skipped, {len(missing)} missing"
        )
        print(f"  covered: {spell(covered) or 'none'}")
        for one in held_back:
            print(f"  SKIPPED: {spell([one])}: {skipped[one]}")
        print(f"  missing: {spell(missing) or 'none'}")
        if len(covered) + len(held_back) < floor:
            complaints.append(
                f"{name}: {len(covered)} covered and {len(held_back)} skipped, "
                f"but {floor} were covered before"
            )
        elif len(covered) > floor:
            print(f"  raise the floor: write `{name} {len(covered)}` to {covered_file}")
    return complaints


def self_test():
    """Plants each kind of input once and compares what is read."""
    prefixes = {"B", "BU", "BO"}
    contract = "# C\n- B-01 [C] one.\n- B-02 [C] two.\n- BU-02 [C] three.\n- B-03 [E] four.\ntext\n"
    assert contract_ids(contract) == [("B", 1), ("B", 2), ("BU", 2), ("B", 3)]
    assert ids_of_test("m::b_018_locks", prefixes) == [("B", 18)]
    assert ids_of_test("b_053_b_054_bu_02_x", prefixes) == [("B", 53), ("B", 54), ("BU", 2)]
    assert ids_of_test("b_7", prefixes) == [("B", 7)]
    assert ids_of_test("b_018::helper", prefixes) == [], "only the last segment counts"
    assert ids_of_test("queue_64_slots", prefixes) == [], "an unknown prefix is a word"
    assert ids_of_test("holds_b_001", prefixes) == [], "ids stand at the start"
    log = (
        "running 5 tests\n"
        "test a::b_001_x ... ok\n"
        "noise test a::b_002_x - should panic ... ok\n"
        "test a::b_002_y ... FAILED\n"
        "test a::b_003_z ... ignored, needs a kernel\n"
        "test a::bu_02_w ... garbled\n"
        "test zcore/src/lib.rs - x (line 3) ... ok\n"
        "test result: FAILED. 3 passed; 1 failed\n"
    )
    passed, failed, unread = outcomes(log, prefixes)
    assert passed == {("B", 1), ("B", 2)} and failed == {("B", 2)}
    assert unread == ["test a::bu_02_w ... garbled"]
    assert skipped_ids("B-03 BU-02: no io_uring: EPERM\n") == {
        ("B", 3): "no io_uring: EPERM",
        ("BU", 2): "no io_uring: EPERM",
    }
    assert floors("# floors\nx.md 3 # why\n\n") == {"x.md": 3}
    assert spell([("B", 1), ("B", 2), ("B", 3), ("BU", 2)]) == "B-01…B-03, BU-02"

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "c.md").write_text(contract)
        held = "test b_001_x ... ok\ntest b_002_x ... ok\ntest b_003_x ... ok\n"
        (folder / "covered.txt").write_text("c.md 3\n")
        assert report(folder, held, "") == []
        assert report(folder, held, "B-03: no io_uring\n") == [], "a listed skip holds the floor"
        assert len(report(folder, held.replace("b_003", "b_002"), "")) == 1, "a lost id"
        assert len(report(folder, held.replace("b_003_x ... ok", "b_003_x ... FAILED"), "")) == 1
        assert len(report(folder, held + "test b_099_x ... ok\n", "")) == 1, "an unknown id"
        (folder / "covered.txt").write_text("gone.md 3\n")
        assert len(report(folder, held, "")) == 1, "a floor without a file"


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--self-test", action="store_true")
    arguments.add_argument("--log", type=pathlib.Path)
    arguments.add_argument("--skipped", type=pathlib.Path)
    arguments.add_argument("--contract", type=pathlib.Path, default=pathlib.Path("tests/contract"))
    given = arguments.parse_args()
    if given.self_test:
        with contextlib.redirect_stdout(io.StringIO()):
            self_test()
        print("coverage self-test: ok")
        return 0
    if given.log is None:
        arguments.error("--log is needed")
    log = given.log.read_text(errors="replace")
    has_skips = given.skipped is not None and given.skipped.exists()
    complaints = report(
        given.contract, log, given.skipped.read_text(errors="replace") if has_skips else ""
    )
    for complaint in complaints:
        print(f"contract coverage: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
