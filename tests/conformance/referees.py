"""Two referees that are no part of the official suite, and the judge of what they find.

`jbt-mcpcheck` holds a URL against 2026-07-28: its exit code is the verdict, and its options can be the
strictest. `mcp-fuzzer` sends requests that it makes from the schema: it exits with 0 whatever it finds, and
calls every request that was answered an accepted malformed one, also where its schema allows it. So what it
finds is judged here, by the schema of the revision spoken: an input that is valid may be accepted.
"""

from __future__ import annotations

import importlib
import json
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.conformance.stacks import CHECKOUT, Reached

BIN = CHECKOUT / "tests" / "servers" / "referees" / ".venv" / "bin"
SCHEMAS = CHECKOUT.parent / "shared" / "reference" / "schema"
STRICT = ("--strict", "--probe", "all", "--legacy-probes")
"""The strictest that mcpcheck can be: warnings and what it cannot decide fail, every tool is tried."""
PATIENCE = 170
META = "io.modelcontextprotocol/"
Json = dict[str, Any]

jsonschema: Any = importlib.import_module("jsonschema")
"""It has no types."""

#: Findings about inputs that were answered, by the fuzzer's word; they are judged.
ANSWERED = "accepted_malformed"
#: Findings that say nothing, and why.
NOTHING = {
    "injection_reflection": "a name that was asked for stands in the refusal, as text in JSON",
    "performance_outlier": "it compares times on a busy machine",
}


# -- running them --------------------------------------------------------------------------------------------
def mcpcheck(reached: Reached, *options: str) -> tuple[int, list[Json]]:
    """Its exit code, and what it found against the server, down to best practice."""
    command = [str(BIN / "mcpcheck"), reached.url, "--json", *options]
    if reached.token:
        command += ["--token", reached.token]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout, done.stderr
    checks = json.loads(done.stdout)["checks"]
    unsure = [
        {"code": f"{check['name']}.{check['status']}"} for check in checks if check["status"] == "error"
    ]
    return done.returncode, unsure + [
        found for check in checks for found in (*check["failures"], *check["warnings"])
    ]


def fuzz(folder: Path, endpoint: str, *options: str, token: str = "") -> list[Json]:
    """What the fuzzer finds of a URL, or of a command on stdio. The seed is fixed: it finds that again."""
    stdio = "://" not in endpoint
    command = [str(BIN / "mcp-fuzzer"), "--endpoint", endpoint, "--no-network", "--no-corpus", "--seed", "1"]
    command += ["--protocol", "stdio" if stdio else "streamablehttp", "--security-audit"]
    if token:
        key = {"type": "api_key", "api_key": token}
        (folder / "auth.json").write_text(json.dumps({"providers": {"it": key}, "default_provider": "it"}))
        command += ["--auth-config", str(folder / "auth.json"), "--auth-audit", "--security-audit-intrusive"]
    command += ["--fs-root", str(folder / "files"), "--output-dir", str(folder / "found"), *options]
    done = subprocess.run(
        command,
        cwd=folder,
        env={"HOME": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    summary = json.loads((folder / "found" / "run_summary.json").read_text())
    assert summary["status"] == "completed", summary
    file = folder / "found" / "findings.json"
    found: list[Json] = json.loads(file.read_text())["findings"] if file.exists() else []
    assert len(found) == summary["findings"]["total"]
    return found


# -- judging what the fuzzer found ---------------------------------------------------------------------------
def why(finding: Json, revision: str, tools: Mapping[str, Json]) -> str:
    """Why a finding stands; empty when the schema of the revision says that there is nothing to find.

    `tools`: the inputSchema of each tool.
    """
    category, target = finding["category"], finding["target"]
    if category in NOTHING and finding["kind"] == "protocol":
        return ""
    if category != ANSWERED:
        return f"{category} of {target}: {finding['detail']}"
    given, result = finding["evidence"]["input"], finding["evidence"]["result"]
    if finding["kind"] == "tool":
        schema = tools.get(target)
        if schema is None:
            return f"there is no tool {target}"
        return faults(jsonschema.Draft202012Validator(schema), given, f"a call of {target}")
    if isinstance(result, dict) and result.get("response") == {"status": "notification_sent"}:
        # The fuzzer's own words: a notification is never answered.
        return ""
    name = definition(target, given.get("method"), revision)
    if name is None:
        return f"{revision} knows no {target} ({given.get('method')})"
    return faults(validator(revision, name), sent(given, name, revision), name)


def sent(given: Json, name: str, revision: str) -> Json:
    """The request that the fuzzer made of what it lists as its input: it takes the params, if an object."""
    params = given.get("params")
    params = dict(params) if isinstance(params, dict) else {}
    if revision == "2026-07-28":
        meta = params.get("_meta")
        usual = {
            META + "protocolVersion": revision,
            META + "clientInfo": {"name": "mcp-fuzzer", "version": "0"},
            META + "clientCapabilities": {},
        }
        params["_meta"] = usual | (meta if isinstance(meta, dict) else {})
    method = definitions(revision)[name]["properties"]["method"]["const"]
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def faults(validate: Any, value: Any, what: str) -> str:
    found = [f"{error.json_path}: {error.message[:200]}" for error in validate.iter_errors(value)]
    return f"{what} was accepted: {found}" if found else ""


@cache
def schema_of(revision: str) -> Json:
    schema: Json = json.loads((SCHEMAS / f"{revision}.json").read_text())
    return schema


def definitions(revision: str) -> Json:
    schema = schema_of(revision)
    found: Json = schema.get("$defs") or schema["definitions"]
    return found


def definition(target: str, method: Any, revision: str) -> str | None:
    """The definition of a request; the fuzzer's own kind for any of them is known by its method."""
    known = [kind["$ref"].rpartition("/")[2] for kind in definitions(revision)["ClientRequest"]["anyOf"]]
    if target != "GenericJSONRPCRequest":
        return target if target in known else None
    methods = {definitions(revision)[name]["properties"]["method"]["const"]: name for name in known}
    return methods.get(method)


@cache
def validator(revision: str, name: str) -> Any:
    schema = schema_of(revision)
    place = "$defs" if "$defs" in schema else "definitions"
    return jsonschema.validators.validator_for(schema)({**schema, "$ref": f"#/{place}/{name}"})


def is_optional(finding: Json) -> bool:
    """Whether mcpcheck misses an outputSchema, of which the schema says that a tool need have none."""
    tool = definitions("2026-07-28")["Tool"]
    return (
        finding["code"] == "schemas.output_schema_missing"
        and finding["level"] == "best-practice"
        and "outputSchema" in tool["properties"]
        and "outputSchema" not in tool["required"]
    )
