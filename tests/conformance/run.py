"""The official conformance suite, one scenario at a time, counted by a rule that is stricter than its own.

A scenario passes when the suite exits with 0 and its checks hold at least one SUCCESS, no FAILURE and no
WARNING. The suite lets two scenarios "pass" without a single check, and ignores its client's exit code.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.stacks import CHECKOUT, FIXTURE, MODULES, Reached, bridge, endpoint, fixture, gateway

SUITE = ("node", str(MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"))
BEARER = Path(__file__).with_name("bearer.mjs")
REVISIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
SERVER_REVISIONS = REVISIONS[1:]
PATIENCE = 30
"""Seconds that the suite gives a scenario."""

NOT_OURS = re.compile(r"auth/|sep-2640-|tasks-")
"""Scenarios of logins, skills and the tasks extension's server side."""
ADAPTOR_FAILS = ("dns-rebinding-protection", "server-stateless")
"""What the adaptor itself decides, and decides wrongly, whatever server is behind it."""
ADAPTOR_WARNS = ("server-sse-polling",)
"""The adaptor has no event ids, which the suite recommends: counted by the suite's own rule."""
WIRE_FREE = (
    "completion-complete",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-image",
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-mixed-content",
    "tools-call-error",
    "tools-call-with-progress",
    "json-schema-2020-12",
    "server-sse-multiple-streams",
    "resources-list",
    "resources-read-text",
    "resources-read-binary",
    "resources-templates-read",
    "sep-2164-resource-not-found",
    "prompts-list",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-embedded-resource",
    "prompts-get-with-image",
    "dns-rebinding-protection",
)
"""The scenarios of 2026-07-28 that a server of 2025-11-25 can serve through mcpd."""


@dataclass(frozen=True)
class Part:
    """One stack that is measured."""

    about: str
    revisions: tuple[str, ...]
    serve: Callable[[], contextlib.AbstractContextManager[Reached]] | None
    """Opens the stack; None: mcpd is the client."""
    only: tuple[str, ...] = ()
    through_adaptor: bool = False
    turned: bool = False
    """As the client: whether the agent behind mcpd speaks the other era than the suite's server."""


PARTS = {
    "client": Part("mcpd as the client of the suite's servers", REVISIONS, None),
    "turned": Part("the same for an agent of the other era", SERVER_REVISIONS, None, turned=True),
    "bridge": Part("`mcpctl bridge` behind supergateway", SERVER_REVISIONS, bridge, through_adaptor=True),
    "endpoint": Part("mcpd's endpoint", SERVER_REVISIONS, endpoint),
    "across": Part(
        "mcpd's endpoint, before a server that knows 2025-11-25 at most",
        SERVER_REVISIONS[-1:],
        lambda: endpoint("--legacy"),
        only=WIRE_FREE,
    ),
    "fixture": Part("the fixture itself (no mcpd)", SERVER_REVISIONS, fixture),
    "gateway": Part(
        "the fixture on stdio behind supergateway (no mcpd)",
        SERVER_REVISIONS,
        lambda: gateway(FIXTURE),
        through_adaptor=True,
    ),
}
GROUPS = {
    "server": ("endpoint", "bridge", "across"),
    "all": ("client", "turned", "endpoint", "bridge", "across"),
}


# -- scenarios -----------------------------------------------------------------------------------------------
def scenarios(part: Part, revision: str) -> list[str]:
    """What the suite has for a revision, in its order."""
    side = "--client" if part.serve is None else "--server"
    done = subprocess.run(
        [*SUITE, "list", side, "--spec-version", revision], capture_output=True, text=True, check=True
    )
    names = re.findall(r"^ +- (\S+)", done.stdout, re.MULTILINE)
    assert names, f"the suite knows no scenario of {revision}"
    return [name for name in names if not NOT_OURS.match(name) and (not part.only or name in part.only)]


def run(part: Part, reached: Reached, scenario: str, revision: str, folder: Path) -> list[str]:
    """Why the scenario did not pass; empty when it did."""
    if part.serve is None:
        side = ("client", "--command", "tests/conformance/client")
    else:
        side = ("server", "--url", reached.url)
    command = [*SUITE, *side, "--scenario", scenario, "--spec-version", revision, "-o", str(folder)]
    try:
        done = subprocess.run(
            [*command, "--timeout", str(PATIENCE * 1000)],
            cwd=CHECKOUT,
            env=let_in(reached) | ({"MCPD_CONFORMANCE_AGENT": other_era(revision)} if part.turned else {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE * 2,
        )
    except subprocess.TimeoutExpired:
        return [f"the suite did not end within {PATIENCE * 2} s"]
    (folder / "suite.txt").write_text(done.stdout + done.stderr)
    may_warn = part.through_adaptor and scenario in ADAPTOR_WARNS
    return judged(
        done.returncode, [json.loads(file.read_text()) for file in folder.rglob("checks.json")], may_warn
    )


def other_era(revision: str) -> str:
    return "2025-11-25" if revision >= "2026-07-28" else "2026-07-28"


def let_in(reached: Reached) -> dict[str, str]:
    """The suite's environment."""
    if not reached.token:
        return dict(os.environ)
    options = f"{os.environ.get('NODE_OPTIONS', '')} --import={BEARER.as_uri()}"
    return {**os.environ, "NODE_OPTIONS": options.strip(), "CONFORMANCE_TOKEN": reached.token}


def judged(code: int, files: list[list[dict[str, str]]], by_suite: bool = False) -> list[str]:
    """Why a run of the suite is no pass, from its exit code and its checks.json files.

    `by_suite`: by the suite's own rule for servers, to which warnings are nothing.
    """
    if len(files) != 1:
        return [f"{len(files)} files of checks, exit code {code}"]
    [checks] = files
    bad = ("FAILURE",) if by_suite else ("FAILURE", "WARNING")
    why = [
        f"{check['id']}: {check.get('errorMessage') or check['status']}"
        for check in checks
        if check["status"] in bad
    ]
    if not by_suite and not any(check["status"] == "SUCCESS" for check in checks):
        why.append("no check succeeded")
    if code != 0:
        why.append(f"exit code {code}")
    return why


def main(argv: list[str]) -> int:
    options = parsed(argv)
    counts: collections.Counter[str] = collections.Counter()
    kept = options.output or Path(tempfile.mkdtemp(prefix="conformance-"))
    for name in options.parts:
        part = PARTS[name]
        for revision in options.revisions or part.revisions:
            stack = contextlib.nullcontext(Reached("")) if part.serve is None else part.serve()
            before = counts.copy()
            with stack as reached:
                for scenario in scenarios(part, revision):
                    if options.only and scenario not in options.only:
                        continue
                    outcome = one(name, part, reached, scenario, revision, kept)
                    if outcome == "failed" and options.again:
                        outcome = one(name, part, reached, scenario, revision, kept / "again")
                    counts[outcome] += 1
            row = counts - before
            print(f"# {name} {revision}: {row['passed']} of {row['passed'] + row['failed']}", flush=True)
    if options.output is None and counts["failed"] == 0:
        shutil.rmtree(kept)
    else:
        print(f"# results: {kept}")
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['failed']} failed{skipped}")
    return 0 if counts["passed"] and not counts["failed"] else 1


def one(name: str, part: Part, reached: Reached, scenario: str, revision: str, kept: Path) -> str:
    """Run and print one scenario: "passed", "failed" or "skipped"."""
    words = f"{name} {revision} {scenario}"
    if part.through_adaptor and scenario in ADAPTOR_FAILS:
        print(f"skipped {words}: the adaptor's own", flush=True)
        return "skipped"
    folder = kept / name / revision / scenario
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    why = run(part, reached, scenario, revision, folder)
    outcome = "FAILED" if why else "passed"
    print(f"{outcome}  {words} ({time.monotonic() - began:.1f} s)", *why, sep="\n        ", flush=True)
    return outcome.lower()


def parsed(argv: list[str]) -> argparse.Namespace:
    rows = [f"  {name:8} {part.about}" for name, part in PARTS.items()]
    rows += [f"  {name:8} {' and '.join(of)}" for name, of in GROUPS.items()]
    parser = argparse.ArgumentParser(
        prog="tests/conformance/run.sh",
        description="Run the official conformance suite, one scenario at a time.",
        epilog="\n".join(["parts:", *rows]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="*", metavar="PART|REVISION", help="default: all, every revision")
    parser.add_argument("--only", action="append", metavar="SCENARIO", help="this scenario alone; repeatable")
    parser.add_argument(
        "--again",
        action="store_true",
        help="what failed is tried once more: a busy machine fails its timings",
    )
    parser.add_argument("--url", help="measure the server at this URL instead of a part")
    parser.add_argument("--token", default="", help="the bearer token for --url")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="keep the suite's results here")
    options = parser.parse_intermixed_args(argv)
    options.revisions = [word for word in options.what if word in REVISIONS]
    named = [word for word in options.what if word not in REVISIONS] or ["url" if options.url else "all"]
    if options.url:
        given = Reached(options.url, options.token)
        PARTS["url"] = Part(options.url, SERVER_REVISIONS, lambda: contextlib.nullcontext(given))
    options.parts = [part for word in named for part in GROUPS.get(word, (word,))]
    for part in options.parts:
        if part not in PARTS:
            parser.error(f"no such part or revision: {part}")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
