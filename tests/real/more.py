"""The real servers that are compared by hand only: `tests/servers/more/install.sh` installs them.

Not every tool is called: what is harmless here, and where tools need the network, a browser, a cluster or an
account, a call or two whose error must be the same. `@DIR@`, `@PORT@` and masks: see `plans`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.real.plans import GIT_ENV, MOMENT, UUID, Call, Plan, Way, call, files, repository

MORE_SERVERS = Path(__file__).parents[1] / "servers" / "more"
NUMBER = r"\d+(?:\.\d+)?"
KUBECTL_LOG = r"E\d{4} [0-9:.]+ +\d+"
UMASK = r"(?<=permissions: )\d+"
"""What a server makes under mcpd is its user's alone (umask 077)."""
NOWHERE = "http://127.0.0.1:9"
"""Nothing listens there."""
PDF = b"""%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]>>endobj
trailer<</Root 1 0 R>>
%%EOF
"""
DRAWING = (
    '<mxfile><diagram id="a" name="Page-1"><mxGraphModel><root><mxCell id="0"/><mxCell id="1" parent="0"/></'
    "root></mxGraphModel></diagram></mxfile>"
)


def node(package: str, script: str, *args: str) -> tuple[str, ...]:
    return ("node", str(MORE_SERVERS / "node_modules" / package / script), *args)


def python(line: str, program: str, *args: str) -> tuple[str, ...]:
    """A server from PyPI; `line` is the virtual environment: "mcp1" or "mcp2"."""
    return (str(MORE_SERVERS / ".venv" / line / "bin" / program), *args)


def documents(folder: Path) -> None:
    files(folder)
    (folder / "page.html").write_text("<h1>Title</h1><p>One <b>bold</b> word.</p>")
    (folder / "one.pdf").write_bytes(PDF)
    (folder / "one.drawio").write_text(DRAWING)


PLAYWRIGHT = node("@playwright/mcp", "cli.js", "--headless", "--isolated")
CONTEXT7 = node("@upstash/context7-mcp", "dist/index.js")
CHART = node("@antv/mcp-server-chart", "build/index.js")
GIT_SERVER = node("@cyanheads/git-mcp-server", "dist/index.js")
KUBERNETES = node("mcp-server-kubernetes", "dist/index.js")
PDF_SERVER = node("@modelcontextprotocol/server-pdf", "dist/index.js")
NX = node("nx-mcp", "main.js")
AZURE = node("@azure/mcp", "index.js", "server", "start")
MARKITDOWN = python("mcp2", "markitdown-mcp")
DUCK = python("mcp2", "duckduckgo-mcp-server")

TESTKIT_CALLS: dict[str, dict[str, Any]] = {
    "math_add": {"a": 1.5, "b": -3},
    "math_subtract": {"a": 1, "b": 0.1},
    "math_multiply": {"a": 1e300, "b": 10},
    "math_divide": {"a": 1, "b": 0},
    "math_modulo": {"a": 7, "b": 3},
    "math_power": {"base": 2, "exponent": 64},
    "math_factorial": {"n": 25},
    "math_fibonacci": {"n": 90},
    "string_reverse": {"text": "na\u00efve \U0001f642"},
    "string_uppercase": {"text": "stra\u00dfe"},
    "string_lowercase": {"text": "\u0130"},
    "string_length": {"text": "\u65e5\u672c"},
    "string_char_count": {"text": "banana", "char": "a"},
    "string_replace": {"text": "a-b", "old": "-", "new": "\u0000"},
    "string_split": {"text": "a,b,,c", "delimiter": ","},
    "string_join": {"items": ["a", "b"], "delimiter": "\n"},
    "collection_sort": {"items": [3, 1, 2]},
    "collection_flatten": {"items": [[1], [2, [3]]]},
    "collection_merge": {"dict_a": {"a": 1}, "dict_b": {"b": None}},
    "collection_filter_gt": {"items": [1, 5, 9], "threshold": 4},
    "collection_unique": {"items": [1, 1, 2]},
    "collection_group_by": {"items": [{"k": "x", "v": 1}], "key": "k"},
    "collection_zip": {"list_a": [1, 2], "list_b": ["a", "b"]},
    "collection_chunk": {"items": [1, 2, 3], "size": 2},
    "encoding_base64_encode": {"text": "\u00fc"},
    "encoding_base64_decode": {"data": "w7w="},
    "encoding_url_encode": {"text": "a b&c"},
    "encoding_url_decode": {"text": "a%20b"},
    "encoding_hex_encode": {"text": "hi"},
    "encoding_hex_decode": {"data": "6869"},
    "encoding_md5": {"text": ""},
    "encoding_sha256": {"text": ""},
    "datetime_parse": {"date_string": "2026-02-28"},
    "datetime_format": {"year": 2026, "month": 2, "day": 28, "format": "%Y/%m/%d"},
    "datetime_add_days": {"date_string": "2026-02-28", "days": 1},
    "datetime_diff": {"date_a": "2026-01-01", "date_b": "2026-02-01"},
    "datetime_day_of_week": {"date_string": "2026-11-30"},
    "datetime_is_leap_year": {"year": 2100},
    "datetime_days_in_month": {"year": 2024, "month": 2},
    "datetime_week_number": {"date_string": "2026-11-30"},
    "validation_is_email": {"text": "a@example.com"},
    "validation_is_url": {"text": "no url"},
    "validation_is_ipv4": {"text": "127.0.0.1"},
    "validation_is_ipv6": {"text": "::1"},
    "validation_is_uuid": {"text": "x"},
    "validation_is_json": {"text": "{}"},
    "validation_is_palindrome": {"text": "Level"},
    "validation_matches_regex": {"text": "abc", "pattern": "^a"},
    "conversion_celsius_to_fahrenheit": {"value": -40},
    "conversion_fahrenheit_to_celsius": {"value": 451},
    "conversion_km_to_miles": {"value": 1},
    "conversion_miles_to_km": {"value": 1},
    "conversion_bytes_to_human": {"bytes": 123456789},
    "conversion_rgb_to_hex": {"r": 255, "g": 0, "b": 300},
    "conversion_hex_to_rgb": {"hex_color": "#ff8800"},
    "conversion_decimal_to_binary": {"value": 10},
    "echo": {"message": "\u2028"},
    "echo_error": {"message": "wanted"},
    "echo_large": {"size_kb": 64},
    "echo_nested": {"depth": 20},
    "echo_types": {},
    "echo_empty": {},
    "echo_multiple": {"messages": ["a", "b"]},
    "echo_schema": {
        "str_param": "s",
        "int_param": 1,
        "float_param": 1.0,
        "bool_param": True,
        "list_param": [1],
        "obj_param": {"a": [None]},
    },
    "get_weather": {"city": "Nowhere"},
}

MORE = (
    Plan(
        "playwright",
        PLAYWRIGHT,
        (call("browser_tabs", UUID, action="list"), call("browser_resize", UUID, width=1, height=-1)),
        env={"PLAYWRIGHT_BROWSERS_PATH": "@DIR@/browsers"},
        ways=(
            Way("http", (*PLAYWRIGHT, "--port", "@PORT@")),
            Way("sse", (*PLAYWRIGHT, "--port", "@PORT@"), path="/sse", is_old=True),
        ),
        whole=False,
    ),
    Plan(
        "chrome-devtools",
        node("chrome-devtools-mcp", "build/src/bin/chrome-devtools-mcp.js", "--executablePath", "/no/chrome"),
        (call("list_pages"), call("navigate_page", pageId=1)),
        whole=False,
    ),
    Plan(
        "context7",
        CONTEXT7,
        (
            call("resolve-library-id", query="x", libraryName="react"),
            call("query-docs", libraryId="/a/b", query="x"),
        ),
        ways=(
            Way(
                "http",
                node("@upstash/context7-mcp", "dist/index.js", "--transport", "http", "--port", "@PORT@"),
            ),
        ),
    ),
    Plan(
        "desktop-commander",
        node("@wonderwhy-er/desktop-commander", "dist/index.js", "--no-onboarding"),
        (
            call("list_directory", path="@DIR@/sub"),
            call("read_file", path="@DIR@/one.txt"),
            call("read_multiple_files", paths=["@DIR@/one.txt", "@DIR@/none.txt"]),
            call("write_file", path="@DIR@/new.txt", content="a\nb\n"),
            call("edit_block", file_path="@DIR@/new.txt", old_string="b", new_string="c"),
            call("create_directory", path="@DIR@/fresh"),
            call("move_file", source="@DIR@/new.txt", destination="@DIR@/fresh/moved.txt"),
            call("get_file_info", MOMENT, UMASK, path="@DIR@/fresh/moved.txt"),
            call("list_searches"),
            call("list_sessions"),
            call("read_process_output", pid=1, timeout_ms=100),
            call("stop_search", sessionId="none"),
        ),
        env={"HOME": "@DIR@"},
        prepare=files,
        whole=False,
    ),
    Plan("eslint", node("@eslint/mcp", "src/mcp-cli.js"), (call("lint-files", filePaths=["/no/file.js"]),)),
    Plan(
        "git-mcp-server",
        GIT_SERVER,
        (
            call("git_set_working_dir", path="@DIR@"),
            call("git_status", path="@DIR@"),
            call("git_log", path="@DIR@", maxCount=2),
            call("git_show", path="@DIR@", object="HEAD"),
            call("git_diff", path="@DIR@"),
            call("git_branch", path="@DIR@", mode="list"),
            call("git_blame", path="@DIR@", filePath="a.txt", startLine=1, endLine=2),
            call("git_add", path="@DIR@", paths=["b.txt"]),
            call("git_commit", path="@DIR@", message="third"),
            call("git_tag", path="@DIR@", mode="list"),
            call("git_reflog", path="@DIR@"),
            call("git_remote", path="@DIR@", mode="list"),
            call("git_stash", path="@DIR@", mode="list"),
            call("git_fetch", path="@DIR@", remote="nowhere"),
            call("git_wrapup_instructions", MOMENT, acknowledgement="yes"),
        ),
        env={**GIT_ENV, "GIT_BASE_DIR": "@DIR@", "LOGS_DIR": "@DIR@/logs"},
        prepare=repository,
        ways=(Way("http", GIT_SERVER, {"MCP_TRANSPORT_TYPE": "http", "MCP_HTTP_PORT": "@PORT@"}),),
        whole=False,
    ),
    Plan(
        "chart",
        CHART,
        (call("generate_liquid_chart", percent=0.5), call("generate_pie_chart", data="no list")),
        env={"VIS_REQUEST_SERVER": NOWHERE},
        ways=(
            Way("http", (*CHART, "-t", "streamable", "-p", "@PORT@")),
            Way("sse", (*CHART, "-t", "sse", "-p", "@PORT@"), path="/sse", is_old=True),
        ),
        whole=False,
    ),
    Plan(
        "azure",
        AZURE,
        (
            call("storage", intent="list accounts", learn=True),
            call("bicepschema", intent="x", learn=True),
            call("storage", UUID, MOMENT, NUMBER, intent="x", command="no-such-command", parameters={}),
        ),
        env={"HOME": "@DIR@", "AZURE_MCP_COLLECT_TELEMETRY": "false"},
        ways=(
            Way(
                "http",
                (*AZURE, "--transport", "http", "--dangerously-disable-http-incoming-auth"),
                {"ASPNETCORE_URLS": "http://127.0.0.1:@PORT@"},
                path="",
            ),
        ),
        whole=False,
    ),
    Plan(
        "drawio",
        node("@drawio/mcp", "src/index.js"),
        (
            call("list_pages", path="@DIR@/one.drawio"),
            call("get_page", path="@DIR@/one.drawio", page="0"),
            call("set_page", path="@DIR@/one.drawio", page="0", content="<mxGraphModel/>"),
            call("get_page", path="@DIR@/one.drawio", page="7"),
            call("search_shapes", query="server"),
        ),
        prepare=documents,
        whole=False,
    ),
    Plan(
        "pdf",
        (*PDF_SERVER, "--stdio", "@DIR@/one.pdf"),
        (
            call("list_pdfs"),
            call("read_pdf_bytes", url="@DIR@/one.pdf", offset=0, byteCount=64),
            call("display_pdf", UUID, r'"mtimeMs":[0-9.]+', url="@DIR@/one.pdf"),
            call("read_pdf_bytes", url="@DIR@/none.pdf"),
        ),
        prepare=documents,
        ways=(Way("http", (*PDF_SERVER, "@DIR@/one.pdf"), {"PORT": "@PORT@"}),),
        whole=False,
    ),
    Plan(
        "nx",
        (*NX, "@DIR@", "--disableTelemetry"),
        (call("nx_docs", userQuery="run-many"),),
        ways=(
            Way("http", (*NX, "@DIR@", "--disableTelemetry", "--transport", "http", "-p", "@PORT@")),
            Way(
                "sse",
                (*NX, "@DIR@", "--disableTelemetry", "--transport", "sse", "-p", "@PORT@"),
                path="/sse",
                is_old=True,
            ),
        ),
    ),
    Plan(
        "kubernetes",
        KUBERNETES,
        (
            call("ping"),
            call("kubectl_context", operation="list"),
            call("kubectl_get", KUBECTL_LOG, resourceType="pods"),
        ),
        ways=(
            Way("http", KUBERNETES, {"ENABLE_UNSAFE_STREAMABLE_HTTP_TRANSPORT": "1", "PORT": "@PORT@"}),
            Way(
                "sse",
                KUBERNETES,
                {"ENABLE_UNSAFE_SSE_TRANSPORT": "1", "PORT": "@PORT@"},
                path="/sse",
                is_old=True,
            ),
        ),
        whole=False,
    ),
    Plan(
        "github",
        node("@modelcontextprotocol/server-github", "dist/index.js"),
        (call("search_repositories", query="x"), call("get_issue", owner="a")),
        whole=False,
    ),
    Plan(
        "puppeteer",
        node("@modelcontextprotocol/server-puppeteer", "dist/index.js"),
        (call("puppeteer_navigate", url=NOWHERE), call("puppeteer_evaluate", script="1")),
        env={"PUPPETEER_EXECUTABLE_PATH": "/no/chrome"},
        whole=False,
    ),
    Plan(
        "fetch",
        python("mcp2", "mcp-server-fetch"),
        (call("fetch", url=NOWHERE), call("fetch", url="no url")),
    ),
    Plan(
        "sqlite",
        python("mcp1", "mcp-server-sqlite", "--db-path", "@DIR@/x.db"),
        (
            call("create_table", query="CREATE TABLE t (id INTEGER, name TEXT)"),
            call("write_query", query="INSERT INTO t VALUES (1, '\u00fc'), (2, NULL)"),
            call("read_query", query="SELECT * FROM t"),
            call("read_query", query="DROP TABLE t"),
            call("list_tables"),
            call("describe_table", table_name="t"),
            call("append_insight", insight="two rows"),
        ),
    ),
    Plan(
        "markitdown",
        MARKITDOWN,
        (
            call("convert_to_markdown", uri="file://@DIR@/page.html"),
            call("convert_to_markdown", uri="data:text/plain,hello"),
            call("convert_to_markdown", uri="file://@DIR@/none.html"),
        ),
        prepare=documents,
        ways=(
            Way("http", python("mcp2", "markitdown-mcp", "--http", "--port", "@PORT@")),
            Way(
                "sse",
                python("mcp2", "markitdown-mcp", "--http", "--port", "@PORT@"),
                path="/sse",
                is_old=True,
            ),
        ),
    ),
    Plan(
        "duckduckgo",
        DUCK,
        (call("expand_link", token="none"), call("fetch_content", url=NOWHERE)),
        ways=(
            Way("http", (*DUCK, "--transport", "streamable-http", "--port", "@PORT@")),
            Way("sse", (*DUCK, "--transport", "sse", "--port", "@PORT@"), path="/sse", is_old=True),
        ),
        whole=False,
    ),
    Plan(
        "aws-documentation",
        python("mcp2", "awslabs.aws-documentation-mcp-server"),
        (call("read_documentation", url="http://example.com/"), call("recommend", UUID, url="no url")),
        whole=False,
    ),
    Plan(
        "calculator",
        python("mcp1", "mcp-server-calculator"),
        (call("calculate", expression="2**10 + sqrt(2)"), call("calculate", expression="1/0")),
    ),
    Plan(
        "arxiv",
        python("mcp1", "arxiv-mcp-server", "--storage-path", "@DIR@/papers"),
        (
            call("list_papers"),
            call("list_watches"),
            call("watch_topic", MOMENT, topic="llm"),
            call("unwatch_topic", topic="llm"),
            call("read_paper", paper_id="0000.00000"),
            call("get_paper_outline", paper_id="0000.00000"),
        ),
        env={"HOME": "@DIR@"},
        ways=(
            Way(
                "http",
                python("mcp1", "arxiv-mcp-server", "--storage-path", "@DIR@/papers"),
                {"TRANSPORT": "http", "PORT": "@PORT@"},
            ),
        ),
        whole=False,
    ),
    Plan(
        "testkit",
        python("mcp1", "mcp-testkit"),
        tuple(Call(tool, arguments) for tool, arguments in TESTKIT_CALLS.items()),
        ways=(Way("http", python("mcp1", "mcp-testkit", "--transport", "http", "--port", "@PORT@")),),
    ),
)
"""All of the table but the six of `plans.PLANS`."""
