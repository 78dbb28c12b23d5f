"""The real servers: how each is started, on which data, and what is asked of every one of its tools.

`@DIR@` is a folder that is made anew for each side, always at the same path, and `@PORT@` a free port. A
call's `masks` are patterns whose matches may differ between two connections: what comes from the process
itself, its environment or the clock. Nothing else may.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NODE_MODULES = Path(__file__).parents[1] / "servers" / "node_modules"
EPOCH = 1_700_000_000
MOMENT = r"\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:\d\d)?"
STAMP = r"(?<=created: )[^\n\"\\]*|(?<=modified: )[^\n\"\\]*|(?<=accessed: )[^\n\"\\]*"
DAY = r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b"
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
WHOLE_OBJECT = r"(?s)^\{.*\}$"
DATED_BLOB = r"^UmVzb3VyY2Ug[A-Za-z0-9+/=]+$"
"""Base64 of "Resource 2: This is a base64 blob created at ..." (server-everything)."""
GIT_ENV = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_AUTHOR_DATE": "1767323045 +0000",
    "GIT_COMMITTER_NAME": "C",
    "GIT_COMMITTER_EMAIL": "c@example.com",
    "GIT_COMMITTER_DATE": "1767323045 +0000",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


@dataclass(frozen=True)
class Call:
    tool: str
    arguments: dict[str, Any]
    masks: tuple[str, ...] = ()
    as_task: bool = False
    """It runs as a task only: refused to who makes none, and what mcpd follows for who knows none."""


@dataclass(frozen=True)
class Way:
    """How a server is started and reached by HTTP; `is_old`: by the transport of 2024-11-05."""

    name: str
    command: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    path: str = "/mcp"
    is_old: bool = False


@dataclass(frozen=True)
class Plan:
    name: str
    command: tuple[str, ...]
    """Starts it on stdio."""
    calls: tuple[Call, ...]
    env: dict[str, str] = field(default_factory=dict)
    prepare: Callable[[Path], None] = lambda folder: None
    ways: tuple[Way, ...] = ()
    whole: bool = True
    """Whether every tool is called."""
    asked: bool = False
    """Whether the agent can be asked for its user, its model and its roots (the Python client alone)."""

    @property
    def needs(self) -> Path:
        """The file that must be there: the script of a server from npm, else its program."""
        return Path(self.command[1] if self.command[0] == "node" else self.command[0])


def call(tool: str, *masks: str, **arguments: Any) -> Call:
    return Call(tool, arguments, masks)


def npm(package: str, *args: str) -> tuple[str, ...]:
    script = NODE_MODULES / "@modelcontextprotocol" / package / "dist" / "index.js"
    return ("node", str(script), *args)


def files(folder: Path) -> None:
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "one.txt").write_text("first\nsecond\nthird \u00fc\n", "utf-8")
    (folder / "sub" / "two.md").write_text("# two\n")
    (folder / "sub" / "deep" / "three.txt").write_text("3\n" * 5000)
    (folder / "dot.png").write_bytes(base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB"))
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, (EPOCH, EPOCH))


def repository(folder: Path) -> None:
    git = shutil.which("git")
    assert git is not None, "git is not installed"

    def run(*args: str) -> None:
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), **GIT_ENV}
        subprocess.run([git, *args], cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)

    run("init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    run("add", "a.txt")
    run("commit", "-q", "-m", "first")
    (folder / "a.txt").write_text("one\ntwo\n")
    run("commit", "-q", "-a", "-m", "second")
    run("branch", "side", "HEAD~1")
    (folder / "a.txt").write_text("one\ntwo\nthree\n")
    (folder / "b.txt").write_text("new\n")


EVERYTHING = Plan(
    "everything",
    npm("server-everything", "stdio"),
    (
        call("echo", message="na\u00efve \u65e5\u672c\u8a9e \U0001f642"),
        call("get-annotated-message", messageType="error", includeImage=True),
        call("get-annotated-message", messageType="debug"),
        call("get-env", WHOLE_OBJECT),
        call("get-resource-links", count=3),
        call("get-resource-reference", MOMENT, r"\d+:\d\d:\d\d [AP]M", resourceType="Text", resourceId=1),
        call("get-resource-reference", DATED_BLOB, resourceType="Blob", resourceId=2),
        call("get-structured-content", location="Chicago"),
        call("get-sum", a=1.5, b=-3),
        call("get-sum", a="no number", b=1),
        call("get-tiny-image"),
        call("gzip-file-as-resource", name="x.gz", data="data:text/plain,hello", outputType="resource"),
        call("gzip-file-as-resource", name="x.gz", data="data:text/plain,hello", outputType="resourceLink"),
        call("toggle-simulated-logging", UUID),
        call("toggle-simulated-logging", UUID),
        call("toggle-subscriber-updates", UUID),
        call("toggle-subscriber-updates", UUID),
        call("trigger-long-running-operation", duration=1, steps=4),
        Call("simulate-research-query", {"topic": "tasks"}, as_task=True),
    ),
    ways=(
        Way("http", npm("server-everything", "streamableHttp"), {"PORT": "@PORT@"}),
        Way("sse", npm("server-everything", "sse"), {"PORT": "@PORT@"}, "/sse", is_old=True),
    ),
)

ASKING = Plan(
    "everything-asking",
    npm("server-everything", "stdio"),
    (
        call("get-roots-list"),
        call("trigger-sampling-request", prompt="Say something", maxTokens=20),
        call("trigger-elicitation-request"),
        call("trigger-url-elicitation", UUID, url="https://example.com/"),
        call("simulate-research-query", topic="tasks", ambiguous=True),
    ),
    ways=(Way("http", npm("server-everything", "streamableHttp"), {"PORT": "@PORT@"}),),
    whole=False,
    asked=True,
)

FILESYSTEM = Plan(
    "filesystem",
    npm("server-filesystem", "@DIR@"),
    (
        call("list_allowed_directories"),
        call("list_directory", path="@DIR@"),
        call("list_directory_with_sizes", path="@DIR@", sortBy="size"),
        call("directory_tree", path="@DIR@"),
        call("search_files", path="@DIR@", pattern="**/*.txt"),
        call("get_file_info", STAMP, path="@DIR@/one.txt"),
        call("read_file", path="@DIR@/one.txt", head=2),
        call("read_text_file", path="@DIR@/sub/deep/three.txt"),
        call("read_media_file", path="@DIR@/dot.png"),
        call("read_multiple_files", paths=["@DIR@/one.txt", "@DIR@/none.txt", "@DIR@/sub/two.md"]),
        call("write_file", path="@DIR@/new.txt", content="a\nb\n"),
        call("edit_file", path="@DIR@/new.txt", edits=[{"oldText": "b", "newText": "c \u00e9"}]),
        call("edit_file", path="@DIR@/new.txt", edits=[{"oldText": "zz", "newText": ""}], dryRun=True),
        call("create_directory", path="@DIR@/fresh"),
        call("move_file", source="@DIR@/new.txt", destination="@DIR@/fresh/moved.txt"),
        call("read_text_file", path="@DIR@/fresh/moved.txt"),
        call("read_text_file", path="/etc/passwd"),
    ),
    prepare=files,
)

MEMORY = Plan(
    "memory",
    npm("server-memory"),
    (
        call(
            "create_entities",
            entities=[
                {"name": "Ada", "entityType": "person", "observations": ["wrote notes"]},
                {"name": "Engine", "entityType": "machine", "observations": []},
            ],
        ),
        call("create_relations", relations=[{"from": "Ada", "to": "Engine", "relationType": "programs"}]),
        call("add_observations", observations=[{"entityName": "Ada", "contents": ["counts", "\u00fcbt"]}]),
        call("add_observations", observations=[{"entityName": "nobody", "contents": ["x"]}]),
        call("read_graph"),
        call("search_nodes", query="counts"),
        call("open_nodes", names=["Engine"]),
        call("delete_observations", deletions=[{"entityName": "Ada", "observations": ["counts"]}]),
        call("delete_relations", relations=[{"from": "Ada", "to": "Engine", "relationType": "programs"}]),
        call("delete_entities", entityNames=["Engine"]),
        call("read_graph"),
    ),
    env={"MEMORY_FILE_PATH": "@DIR@/memory.jsonl"},
)

THINKING = Plan(
    "sequential-thinking",
    npm("server-sequential-thinking"),
    (
        call("sequentialthinking", thought="a", nextThoughtNeeded=True, thoughtNumber=1, totalThoughts=2),
        call("sequentialthinking", thought="b", nextThoughtNeeded=False, thoughtNumber=2, totalThoughts=2),
        call("sequentialthinking", thought="wrong"),
    ),
    env={"DISABLE_THOUGHT_LOGGING": "true"},
)

GIT = Plan(
    "git",
    (sys.executable, "-m", "mcp_server_git", "--repository", "@DIR@"),
    (
        call("git_status", repo_path="@DIR@"),
        call("git_diff_unstaged", repo_path="@DIR@"),
        call("git_add", repo_path="@DIR@", files=["a.txt", "b.txt"]),
        call("git_diff_staged", repo_path="@DIR@", context_lines=1),
        call("git_diff", repo_path="@DIR@", target="side"),
        call("git_reset", repo_path="@DIR@"),
        call("git_add", repo_path="@DIR@", files=["b.txt"]),
        call("git_commit", repo_path="@DIR@", message="third: \u00fc"),
        call("git_log", repo_path="@DIR@", max_count=5),
        call("git_show", repo_path="@DIR@", revision="HEAD"),
        call("git_create_branch", repo_path="@DIR@", branch_name="fresh", base_branch="side"),
        call("git_branch", repo_path="@DIR@", branch_type="local"),
        call("git_checkout", repo_path="@DIR@", branch_name="no-such-branch"),
        call("git_checkout", repo_path="@DIR@", branch_name="main"),
        call("git_status", repo_path="/"),
    ),
    env=GIT_ENV,
    prepare=repository,
)

TIME = Plan(
    "time",
    (sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC"),
    (
        call("get_current_time", MOMENT, DAY, timezone="Asia/Tokyo"),
        call("get_current_time", timezone="Nowhere/At_All"),
        call(
            "convert_time",
            MOMENT,
            DAY,
            source_timezone="UTC",
            time="12:30",
            target_timezone="Asia/Kolkata",
        ),
    ),
)

PLANS = (EVERYTHING, FILESYSTEM, MEMORY, THINKING, GIT, TIME)
