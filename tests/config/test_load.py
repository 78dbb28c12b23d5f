"""What the files of a user become: a02, a04-a07, a26, a29, b06, b30, c05, D1, D11."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mcpd.config.load import load, reload
from mcpd.config.spec import Agent, Config, Policy, Server
from mcpd.config.toml import MAX_FILE
from mcpd.errors import Failure

ENVIRON = {"HOME": "/home/u", "PATH": "/no/such/folder", "TOKEN": "hunter2", "MCPD_SECRETS_KEY": "sealed"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mcpd"
    for inner in ("servers.d", "agents.d"):
        (folder / inner).mkdir(parents=True)
    return folder


def read(folder: Path, main: str = "", **drop_ins: str) -> Config:
    (folder / "config.toml").write_text(main)
    for name, text in drop_ins.items():
        (folder / "servers.d" / f"{name}.toml").write_text(text)
    return load(folder, ENVIRON)


def messages(config: Config) -> str:
    return "\n".join(f"{Path(p.file).name}: {p.place}: {p.message}" for p in config.problems)


def test_without_any_file_the_built_in_values_hold(tmp_path: Path) -> None:
    config = load(tmp_path / "none", {})
    assert config.problems == ()
    assert config.servers == {}
    settings = config.settings
    # DESIGN, section 4: the values shown are built in.
    assert (settings.risk, settings.approval, settings.timeout) == ("medium", "unless_auto_approved", 60)
    assert (settings.max_result, settings.timeout_max, settings.idle_timeout) == (102_400, 1800, 900)
    assert (settings.max_in_flight_session, settings.journal_keep_days) == (8, 90)
    assert settings.journal_keep_bytes == 500 << 20
    assert settings.unannotated == "medium"  # D7
    assert (settings.approval_wait, settings.approval_deadline) == (45, 900)
    assert (settings.notify, settings.journal_arguments) == ((), False)
    assert settings.servers_dir == str(tmp_path / "none" / "servers.d")


def test_the_example_of_the_design_loads_as_far_as_this_version_goes(folder: Path) -> None:
    config = read(
        folder,
        """
        [defaults]
        risk = "high"
        timeout = "30s"
        max_result = "200 KB"
        journal_keep = "30d, 100 MB"

        [servers.filesystem]
        command = "npx"
        args = ["-y", "@modelcontextprotocol/server-filesystem", "${HOME}/notes"]
        default_policy = { risk = "low", approval = "never", timeout = "120s" }

        [servers.search]
        url = "https://mcp.example.com/v1"
        headers = { Authorization = "" }

        [tool_policies]
        "filesystem__write_*" = { approval = "always" }
        "*" = { timeout = 5 }

        [agents.coder]
        allowed_tools = ["filesystem__*", "search__*"]
        denied_tools = ["*__delete_*"]
        """,
    )
    main = str(folder / "config.toml")
    assert config.problems == ()
    assert config.settings.risk == "high"
    assert config.settings.timeout == 30
    assert config.settings.max_result == 204_800
    assert (config.settings.journal_keep_days, config.settings.journal_keep_bytes) == (30, 100 << 20)
    assert config.servers == {
        "filesystem": Server(
            name="filesystem",
            source=main,
            command="npx",
            args=("-y", "@modelcontextprotocol/server-filesystem", "/home/u/notes"),
            policy=Policy("low", "never", 120.0),
        ),
        "search": Server(
            name="search", source=main, url="https://mcp.example.com/v1", headers={"Authorization": ""}
        ),
    }
    assert config.tool_policies == (
        ("filesystem__write_*", Policy(approval="always")),
        ("*", Policy(timeout=5.0)),
    )
    assert config.agents == {
        "coder": Agent(
            name="coder",
            source=main,
            allowed_tools=("filesystem__*", "search__*"),
            denied_tools=("*__delete_*",),
        )
    }


def test_a_file_whose_name_is_no_text_hides_nothing_and_can_be_told(folder: Path) -> None:
    """What is listed goes out as JSON, which has no place for such bytes: the control API would be gone."""
    for inner in ("servers.d", "agents.d"):
        (folder / inner / os.fsdecode(b"\xff.toml")).write_text('command = "x"')
    config = read(folder, good='command = "y"')
    assert list(config.servers) == ["good"]
    assert (config.faulty, config.agents) == ({}, {})
    shown = 'cannot use the file "\\xff.toml": its name is not UTF-8 text'
    assert [problem.message for problem in config.problems] == [shown, shown]
    assert msgspec.json.encode(config.problems)


def test_a_folder_by_the_name_of_a_file_keeps_no_descriptor(folder: Path) -> None:
    (folder / "servers.d" / "dir.toml").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    assert "it is not a regular file" in read(folder).faulty["dir"].message
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_server_file_has_the_fields_at_the_top(folder: Path) -> None:
    config = read(
        folder,
        demo="""
        schema = 1
        name = "demo"
        command = "demo-server"
        env = { KEY = "${TOKEN}", EMPTY = "" }
        cwd = "${HOME}"
        path = "/opt/demo/bin:/usr/bin"
        transport = "stdio"
        start = "eager"
        replay = "never"
        protocol = "legacy"
        connect_timeout = "5s"
        idle_timeout = 0
        enabled = false
        """,
    )
    file = str(folder / "servers.d" / "demo.toml")
    assert config.problems == ()
    assert config.servers["demo"] == Server(
        name="demo",
        source=file,
        command="demo-server",
        env={"KEY": "hunter2", "EMPTY": ""},
        cwd="/home/u",
        path="/opt/demo/bin:/usr/bin",
        start="eager",
        replay="never",
        protocol="legacy",
        connect_timeout=5.0,
        idle_timeout=0.0,
        enabled=False,
        disabled_by=file,
    )


BAD_ENTRIES = [
    ('comand = "x"', 'comand: unknown field, did you mean "command"?'),
    ('command = "x"\nfrobnicate = 1', "frobnicate: unknown field"),
    ('command = "x"\ntimeout = "5s"', "write default_policy = { timeout = ... }"),
    ('command = "x"\nurl = "https://h/"', 'both "command" and "url"'),
    ('args = ["x"]', 'neither "command" nor "url"'),
    ("", 'neither "command" nor "url"'),
    ("command = 5", "command: expected a text, found a number"),
    ('command = "x"\nargs = "y"', "args: expected a list of texts, found a text"),
    ('command = "x"\nargs = ["y", 1]', "args[1]: expected a text, found a number"),
    ('command = "x"\nenv = { K = 1 }', "env.K: expected a text, found a number"),
    ('command = "x"\nenv = ["K=V"]', "env: expected a table of texts, found a list"),
    ('command = "x"\nenv = { "A=B" = "v" }', 'env: cannot use "A=B" as a name'),
    ('command = "x"\nenabled = "no"', 'enabled: expected true or false, found "no"'),
    ('command = "x"\nstart = "never"', 'start: expected "lazy" or "eager", found "never"'),
    ('command = "x"\nreplay = "yes"', 'replay: expected "auto", "always" or "never", found "yes"'),
    ('command = "x"\nprotocol = "2024-11-05"', "protocol: expected"),
    (
        'command = "x"\nconnect_timeout = "sixty"',
        'connect_timeout: expected a duration like "60s", found "sixty"',
    ),
    ('command = "x"\ndefault_policy = { risk = "lwo" }', 'default_policy.risk: expected "low", "medium" or'),
    (
        'command = "x"\ndefault_policy = { rsk = "low" }',
        'default_policy.rsk: unknown field, did you mean "risk"?',
    ),
    ('command = "x"\ndefault_policy = "low"', "default_policy: expected a table, found a text"),
    (
        'command = "x"\ndefault_policy = { leaks = { results = "alow" } }',
        'default_policy.leaks.results: expected "allow" or "redact", found "alow", did you mean "allow"?',
    ),
    (
        'command = "x"\ndefault_policy = { leaks = "allow" }',
        "default_policy.leaks: expected a table, found a text",
    ),
    ('command = "x"\ncwd = "~/x"', "cwd: expected an absolute folder"),
    ('command = "x"\npath = "/a:b"', "path: expected absolute folders"),
    ('command = "${HOME}/x"', "command: variables are not filled in here"),
    ('command = "x"\nargs = ["${"]', 'args[0]: cannot read a "${"'),
    ('command = "x"\nheaders = { A = "b" }', 'headers: means nothing beside "command"'),
    ('url = "https://h/"\nargs = ["x"]', 'args: means nothing beside "url"'),
    ('url = "ftp://h/"', "url: expected an address"),
    ('url = "https://"', "url: expected an address"),
    ('url = "https://h:x/"', "url: expected an address"),
    ('url = "https://me:pw@h/"', "url: holds a user name or password; set the header Authorization"),
    ('url = "https://@h/"', "url: holds a user name or password"),
    ('url = "https://h/"\nheaders = { "A b" = "c" }', 'cannot use "A b" as a header name'),
    ('url = "https://h/"\nheaders = { A = "c\\nd" }', "headers.A: holds a line break"),
    ('url = "https://h/"\nheaders = { A = "Grüße" }', "headers.A: holds a character that no header"),
    ('url = "https://h/"\nheaders = { A = "c", a = "d" }', "headers.a: the same header is there twice"),
    ('url = "https://h/"\ntransport = "stdio"', 'transport: "stdio" contradicts "url"'),
    ('command = "x"\ntransport = "sse"', 'transport: "sse" contradicts "command"'),
    ('command = "x"\ntransport = "http"', 'transport: "http" contradicts "command"'),
    ('command = "x"\nname = "other"', 'name: must be "bad"'),
    ('command = "x"\nschema = 2', "schema: this version of mcpd reads schema 1, found 2"),
    ('command = "x"\nschema = true', "schema: this version of mcpd reads schema 1"),
    ('command = "x"\ninstance = "session"', 'instance: expected "shared", "agent" or "project"'),
    ('command = "x"\nsampling = "yes"', "sampling: expected true or false"),
    ('command = "x"\nroots = "all"', 'roots: expected "none", "fixed" or "agent"'),
    *(
        (f'command = "x"\n{key} = "x"', f"{key}: not supported by this version")
        for key in ("confine", "oauth", "may_attach", "max_in_flight")
    ),
]


@pytest.mark.parametrize(("text", "message"), BAD_ENTRIES)
def test_a_faulty_entry_stays_listed_and_the_others_load(folder: Path, text: str, message: str) -> None:
    config = read(folder, bad=text, good='command = "x"')
    assert list(config.servers) == ["good"]
    assert config.faulty["bad"].reason == "bad_definition"
    assert message in config.faulty["bad"].message
    assert message in messages(config)
    assert {Path(problem.file).name for problem in config.problems} == {"bad.toml"}


def test_the_same_faults_are_found_inline_and_placed(folder: Path) -> None:
    config = read(
        folder, '[servers.search]\ncommand = "x"\nconnect_timeout = "sixty"\n[servers.good]\ncommand = "y"'
    )
    assert list(config.servers) == ["good"]
    [problem] = config.problems
    assert problem.place == "servers.search.connect_timeout"
    assert problem.message == 'expected a duration like "60s", found "sixty"'


@pytest.mark.parametrize(
    ("text", "variable", "place"),
    [
        ('command = "x"\nargs = ["a", "${NOPE}"]', "NOPE", "args[1]"),
        ('command = "x"\nenv = { K = "Bearer ${NOPE}" }', "NOPE", "env.K"),
        ('command = "x"\ncwd = "${NOPE}/x"', "NOPE", "cwd"),
        ('url = "https://${NOPE}/x"', "NOPE", "url"),
        ('url = "https://h/x"\nheaders = { K = "${NOPE}" }', "NOPE", "headers.K"),
        # The daemon's own settings are not for servers (a05).
        ('command = "x"\nenv = { K = "${MCPD_SECRETS_KEY}" }', "MCPD_SECRETS_KEY", "env.K"),
    ],
)
def test_an_unset_variable_is_named_and_nothing_is_started(
    folder: Path, text: str, variable: str, place: str
) -> None:
    config = read(folder, s=text)
    assert config.servers == {}
    assert config.faulty["s"].reason == "unset_variable"
    assert config.faulty["s"].message == f'{place}: the variable "{variable}" is not set'


def test_no_value_that_may_be_secret_is_repeated(folder: Path) -> None:
    secret = "sk-live-0123456789"
    config = read(
        folder,
        f'[servers.a]\ncommand = "x"\nargs = ["{secret}${{"]\nenv = {{ K = "{secret}${{NOPE}}" }}\n'
        f'[servers.b]\nurl = "ftp://{secret}/"\nheaders = {{ K = "{secret}\\n" }}\n'
        f'[servers.c]\ncommand = "{secret}${{"\npath = "{secret}"\ncwd = "{secret}"\nargs = "{secret}"\n'
        f'[servers.d]\nurl = "x{secret}"\ncommand = "{secret}"\n',
        e=f'command = "{secret}',
    )
    assert set(config.faulty) == set("abcde")
    assert secret not in messages(config) + "".join(faulty.message for faulty in config.faulty.values())


@pytest.mark.parametrize("name", ["Foo", "a__b", "a_", "a.", "-a", "a b", "ä", "a" * 33])
def test_names_that_are_not_allowed(folder: Path, name: str) -> None:
    config = read(folder, f'[servers."{name}"]\ncommand = "x"\n[servers.good]\ncommand = "y"')
    assert list(config.servers) == ["good"]
    assert config.faulty[name].reason == "bad_definition"


def test_the_first_definition_of_a_name_counts_and_both_files_are_named(folder: Path) -> None:
    config = read(
        folder, '[servers.twice]\ncommand = "inline"', twice='command = "drop-in"', z='command = "z"'
    )
    assert config.servers["twice"].command == "inline"
    assert list(config.servers) == ["twice", "z"]
    [problem] = config.problems
    assert problem.file == str(folder / "servers.d" / "twice.toml")
    assert str(folder / "config.toml") in problem.message


def test_stdio_and_http_side_by_side(folder: Path) -> None:
    config = read(folder, a='command = "x"', b='url = "http://localhost:8080/mcp"')
    assert config.servers["a"].command
    assert config.servers["b"].url
    assert config.problems == ()


def test_a_remote_server_has_its_own_fields(folder: Path) -> None:
    config = read(
        folder,
        demo="""
        url = "https://${HOST:-h.example}:8443/mcp?x=1"
        headers = { Authorization = "Bearer ${TOKEN}", X-Empty = "" }
        transport = "http"
        protocol = "2026-07-28"
        connect_timeout = "3s"
        sampling = true
        roots = "agent"
        """,
    )
    assert config.problems == ()
    server = config.servers["demo"]
    assert (server.sampling, server.roots) == (True, "agent")
    assert server.url == "https://h.example:8443/mcp?x=1"
    assert server.headers == {"Authorization": "Bearer hunter2", "X-Empty": ""}
    assert (server.protocol, server.connect_timeout, server.command) == ("2026-07-28", 3.0, "")


@pytest.mark.parametrize(
    ("text", "instance", "keeps"),
    [
        ('command = "x"', "shared", ""),
        ('command = "x"\ninstance = "project"', "project", ""),
        ('url = "https://h/"\ninstance = "agent"', "agent", ""),
        ('command = "npx"\nargs = ["-y", "@playwright/mcp@latest"]', "agent", "browser"),
        ('command = "npx"\nargs = ["-y", "@playwright/mcp"]\ninstance = "shared"', "shared", ""),
        ('command = "npx"\nargs = ["@playwright/mcp"]\ninstance = "project"', "project", ""),
    ],
)
def test_who_shares_an_instance(folder: Path, text: str, instance: str, keeps: str) -> None:
    """What the definition says, else the table of servers that keep a state of their caller's (n04)."""
    config = read(folder, a=text)
    assert config.problems == ()
    server = config.servers["a"]
    assert (server.instance, server.keeps) == (instance, keeps)
    assert server.digest == replace(server, instance="shared", keeps="").digest, "it runs the same"


def test_what_a_server_may_ask_is_part_of_what_runs() -> None:
    """It is said when the connection is opened, so a change needs a new one (5.1)."""
    plain = Server(name="a", source="", command="x")
    others = [replace(plain, sampling=True), replace(plain, roots="fixed"), replace(plain, roots="agent")]
    assert len({server.digest for server in (plain, *others)}) == 4


def test_sse_is_read_as_http(folder: Path) -> None:
    """What the server speaks is found out by asking it (b10, 3.6)."""
    config = read(folder, a='url = "https://h/sse"\ntransport = "sse"', b='url = "https://h/sse"')
    assert config.problems == ()
    a, b = config.servers.values()
    assert a.digest == b.digest


def test_servers_dir_is_a_setting(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "s.toml").write_text('command = "x"')
    config = load(folder, {})
    assert config.servers == {}
    (folder / "config.toml").write_text('servers_dir = "${WHERE}"')
    config = load(folder, {"WHERE": str(elsewhere)})
    assert list(config.servers) == ["s"]
    assert config.settings.servers_dir == str(elsewhere)
    config = load(folder, {})
    assert 'servers_dir: the variable "WHERE" is not set' in messages(config)


def test_other_files_in_the_folder_are_not_read(folder: Path) -> None:
    for name in ("x.toml~", ".hidden.toml", "README"):
        (folder / "servers.d" / name).write_text('command = "x"')
    config = read(folder)
    assert (config.servers, config.faulty, config.problems) == ({}, {}, ())


# Files that cannot be used -------------------------------------------------------------

BROKEN = [
    (b"{ oops", "not TOML"),
    (b'[servers.a]\ncommand = "x"\n[servers.a]\n', "not TOML"),
    (b"a = 1\nb = \xff\n", "not UTF-8"),
    (b"a = " + b"[" * 100_000, "nested too deeply"),
    (b"a = " + b"9" * 5000, "not TOML"),
    (b"#" * (MAX_FILE + 1), "larger than"),
    (b"schema = 2", "schema 1, found 2"),
]


@pytest.mark.parametrize(("data", "message"), BROKEN, ids=[message for _, message in BROKEN])
def test_a_config_toml_that_cannot_be_read(folder: Path, data: bytes, message: str) -> None:
    (folder / "servers.d" / "good.toml").write_text('command = "x"')
    (folder / "config.toml").write_bytes(data)
    # The start goes on with nothing: the limits in config.toml are not known.
    config = load(folder, {})
    assert config.servers == {}
    assert message in messages(config)
    # A reload can keep the running set.
    with pytest.raises(Failure) as caught:
        reload(folder, {})
    assert caught.value.kind == "config_invalid"
    assert str(folder / "config.toml") in caught.value.message
    assert message in caught.value.message


@pytest.mark.parametrize(("data", "message"), BROKEN[:-1], ids=[message for _, message in BROKEN[:-1]])
def test_a_server_file_that_cannot_be_read_stays_listed(folder: Path, data: bytes, message: str) -> None:
    (folder / "servers.d" / "bad.toml").write_bytes(data)
    config = read(folder, good='command = "x"')
    assert list(config.servers) == ["good"]
    assert config.faulty["bad"].reason == "bad_definition"
    assert message in config.faulty["bad"].message


def test_the_line_of_an_error_is_given(folder: Path) -> None:
    config = read(folder, "[defaults]\nrisk = low\n")
    assert [problem.place for problem in config.problems] == ["line 2"]
    config = read(folder, '\n\nx = "')
    assert [problem.place for problem in config.problems] == ["line 3"]


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(folder: Path) -> None:
    (folder / "config.toml").write_bytes(b'\xef\xbb\xbf[servers.a]\r\ncommand = "x"\r\n')
    config = load(folder, {})
    assert list(config.servers) == ["a"]
    assert config.problems == ()


def test_what_is_no_file_of_the_users(folder: Path, tmp_path: Path) -> None:
    drop_ins = folder / "servers.d"
    os.mkfifo(drop_ins / "fifo.toml")
    (drop_ins / "folder.toml").mkdir()
    (drop_ins / "open.toml").write_text('command = "x"')
    (drop_ins / "open.toml").chmod(0o666)
    (drop_ins / "dangling.toml").symlink_to(tmp_path / "nowhere")
    real = tmp_path / "dotfiles.toml"
    real.write_text('command = "x"')
    (drop_ins / "linked.toml").symlink_to(real)
    config = read(folder)
    assert list(config.servers) == ["linked"]
    assert set(config.faulty) == {"fifo", "folder", "open", "dangling"}
    assert "everybody may write" in config.faulty["open"].message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_another_users_file_is_refused(folder: Path) -> None:
    file = folder / "servers.d" / "theirs.toml"
    file.write_text('command = "x"')
    os.chown(file, 65534, 65534)
    config = read(folder)
    assert "belongs to another user" in config.faulty["theirs"].message


# Limits never widen by a slip of the pen -------------------------------------------------


@pytest.mark.parametrize(
    "entry",
    [
        'allowed_tools = "x__*"',
        'allowed_tools = ["a", 1]',
        'allowed_tools = [""]',
        'denied_tols = ["x"]',
        'spelling = "other"',
        'open = "yes"',
        'max_risk = "lowest"',
        'auto_approve = "x"',
        'auto_approve = [""]',
        'approver = "anyone"',
        'tool_profile = "compact"',
        'name = "another"',
        "schema = 7",
    ],
)
def test_a_faulty_agent_may_use_nothing(folder: Path, entry: str) -> None:
    for name, place in (("coder", ""), ("default", "")):
        (folder / "agents.d" / f"{name}.toml").write_text(entry)
        config = read(folder)
        assert config.agents[name].allowed_tools == (), place
        assert "may use nothing" in messages(config)


def test_a_broken_agent_file_closes_that_agent(folder: Path) -> None:
    (folder / "agents.d" / "default.toml").write_text("allowed_tools = [")
    (folder / "agents.d" / "good.toml").write_text('schema = 1\nspelling = "mcp_server_tool"\nopen = true')
    config = read(folder)
    assert config.agents["default"].allowed_tools == ()
    good = str(folder / "agents.d" / "good.toml")
    assert config.agents["good"] == Agent(name="good", source=good, spelling="mcp_server_tool", open=True)


def test_agents_of_the_wrong_shape_close_the_default_agent(folder: Path) -> None:
    assert read(folder, "agents = 1").agents["default"].allowed_tools == ()
    assert read(folder, "[agents]\ndefault = 1").agents["default"].allowed_tools == ()
    assert read(folder, "[agents.Default]\nallowed_tools = []").agents["default"].allowed_tools == ()


def test_an_empty_allowlist_is_not_an_absent_one(folder: Path) -> None:
    config = read(folder, "[agents.none]\nallowed_tools = []\n[agents.all]")
    assert config.agents["none"].allowed_tools == ()
    assert config.agents["all"].allowed_tools is None


def test_servers_whose_tools_would_have_the_same_names_are_not_both_there_c05(folder: Path) -> None:
    """A policy for `a_b__x` would lower what a server "a.b" may do, and a call of it could reach that one."""
    config = read(folder, '[servers.a_b]\ncommand = "good"', **{"a.b": 'command = "bad"'})
    assert list(config.servers) == ["a_b"]
    assert list(config.faulty) == ["a.b"]
    assert 'server "a_b"' in config.faulty["a.b"].message
    assert "a.b.toml" in messages(config)


@pytest.mark.parametrize("inline", ['allowed_tools = ["x"]', "", "allowed_tools = 1"])
@pytest.mark.parametrize("dropped", ['denied_tools = ["x"]', "", "= broken"])
def test_an_agent_that_is_defined_twice_may_use_nothing_and_both_files_are_named(
    folder: Path, inline: str, dropped: str
) -> None:
    """Neither entry may undo what the other denies."""
    (folder / "agents.d" / "a.toml").write_text(dropped)
    config = read(folder, f"[agents.a]\n{inline}")
    assert config.agents["a"].allowed_tools == ()
    assert not config.agents["a"].open
    told = [problem for problem in config.problems if "twice" in problem.message]
    files = [str(folder / "config.toml"), str(folder / "agents.d" / "a.toml")]
    assert [(problem.file, problem.place) for problem in told] == list(
        zip(files, ("agents.a", ""), strict=True)
    )
    for problem in told:
        assert all(file in problem.message for file in files)
        assert "it may use nothing" in problem.message


@pytest.mark.parametrize(
    "text",
    ['"s__t" = { approval = "alwys" }', '"s__t" = { aproval = "deny" }', '"s__t" = "deny"'],
)
def test_a_faulty_tool_policy_denies(folder: Path, text: str) -> None:
    config = read(folder, f'[tool_policies]\n{text}\n"s__u" = {{ risk = "low" }}')
    assert dict(config.tool_policies) == {"s__t": Policy(approval="deny"), "s__u": Policy(risk="low")}
    assert "what it matches is denied" in messages(config)


@pytest.mark.parametrize("field", ["allowed_tools", "denied_tools", "auto_approve"])
def test_a_servers_name_alone_is_no_pattern_and_closes_the_agent(folder: Path, field: str) -> None:
    """Whoever denies "notes" means its tools, and would be surprised."""
    config = read(folder, f'[agents.c]\n{field} = ["a__b", "notes"]')
    assert config.agents["c"].allowed_tools == ()
    text = messages(config)
    assert f"agents.c.{field}[1]: names no tool" in text
    assert '"notes__*"' in text


def test_a_servers_name_alone_denies_its_tools_as_a_tool_policy(folder: Path) -> None:
    config = read(folder, '[tool_policies]\nnotes = { approval = "never" }\n"" = { risk = "low" }')
    assert config.tool_policies == (("notes__*", Policy(approval="deny")),)
    assert 'are like "notes__*"; those are denied' in messages(config)
    named = '[tool_policies]\nnotes = { risk = "low" }\n"notes__*" = { risk = "high" }'
    assert read(folder, named).tool_policies == (("notes__*", Policy(risk="high")),)


def test_names_that_agents_see_are_patterns(folder: Path) -> None:
    config = read(folder, '[agents.c]\nallowed_tools = ["mcp_notes_read", "*", "note?", "a__b"]')
    assert config.problems == ()


def test_tool_policies_of_the_wrong_shape_deny_everything(folder: Path) -> None:
    assert read(folder, "tool_policies = []").tool_policies == (("*", Policy(approval="deny")),)


def test_defaults_that_cannot_be_read(folder: Path) -> None:
    config = read(
        folder, '[defaults]\napproval = "alwys"\nrisk = 1\ntimeout = "x"\nqueue_wait = "1s"\nrisc = "low"'
    )
    assert (config.settings.approval, config.settings.risk, config.settings.timeout) == ("deny", "high", 60)
    text = messages(config)
    for expected in (
        "defaults.approval: expected",
        "defaults.risk: expected",
        'defaults.timeout: expected a duration like "60s", found "x"',
        "defaults.queue_wait: not supported by this version",
        'defaults.risc: unknown field, did you mean "risk"?',
    ):
        assert expected in text


def test_the_settings_of_approvals_and_of_the_journal(folder: Path) -> None:
    config = read(
        folder,
        """
        [defaults]
        unannotated = "low"
        approval_wait = "1m"
        approval_deadline = 0
        notify = ["/usr/bin/logger", "-t", "mcpd"]
        journal_arguments = true
        """,
    )
    assert config.problems == ()
    settings = config.settings
    assert (settings.unannotated, settings.approval_wait, settings.approval_deadline) == ("low", 60, 0)
    assert (settings.notify, settings.journal_arguments) == (("/usr/bin/logger", "-t", "mcpd"), True)


def test_settings_of_approvals_that_cannot_be_read(folder: Path) -> None:
    config = read(
        folder,
        '[defaults]\nunannotated = "Low"\napproval_wait = "soon"\nnotify = [" ", "x"]\njournal_arguments = 1',
    )
    settings = config.settings
    # Nothing is milder than what was meant.
    assert (settings.unannotated, settings.approval_wait) == ("high", 45)
    assert (settings.notify, settings.journal_arguments) == ((), False)
    text = messages(config)
    for expected in (
        'defaults.unannotated: expected "low", "medium" or "high", found "Low", did you mean "low"?',
        'defaults.approval_wait: expected a duration like "60s", found "soon"',
        "defaults.notify[0]: an empty text names no program",
        "defaults.journal_arguments: expected true or false, found 1",
    ):
        assert expected in text


def test_what_an_agent_may_do_without_a_question_and_at_most(folder: Path) -> None:
    config = read(
        folder,
        '[agents.plain]\n[agents.reader]\nmax_risk = "low"\napprover = "host"\n'
        'auto_approve = ["a__read", "b__*"]',
    )
    assert config.problems == ()
    reader, plain = config.agents["reader"], config.agents["plain"]
    assert (reader.max_risk, reader.auto_approve, reader.approver) == ("low", ("a__read", "b__*"), "host")
    assert (plain.max_risk, plain.auto_approve, plain.approver) == ("high", (), "person")


def test_a_wrong_word_is_met_by_the_nearest_right_one(folder: Path) -> None:
    config = read(
        folder,
        """
        [tool_policies]
        "a__*" = { approval = "alwys" }
        "b__*" = { approval = "auto_approved" }
        "c__*" = { approval = "sometimes" }
        "d__*" = { approvl = "deny" }
        [agents.c]
        max_risk = "mediun"
        """,
    )
    text = messages(config)
    for expected in (
        'found "alwys", did you mean "always"?',
        'found "auto_approved", did you mean "unless_auto_approved"?',
        'found "sometimes"; what it matches is denied',
        'unknown field, did you mean "approval"?',
        'agents.c.max_risk: expected "low", "medium" or "high", found "mediun", did you mean "medium"?',
    ):
        assert expected in text


def test_tables_that_this_version_does_not_have_are_reported(folder: Path) -> None:
    config = read(folder, '[secrets]\nbackend = "sealed"\n[tool_profiles.x]\n[server.a]\ncommand = "x"')
    text = messages(config)
    assert "secrets: not supported by this version" in text
    assert "tool_profiles: not supported by this version" in text
    assert 'server: unknown field, did you mean "servers"?' in text


def test_who_is_trusted_is_said_in_config_toml_alone_b14_b30(folder: Path) -> None:
    config = read(
        folder,
        """
        [overrides]
        yes = { trusted = true }
        no = { trusted = false }
        odd = { trusted = "yes" }
        stray = { trusted = true, command = "other" }
        """,
        **dict.fromkeys(("yes", "no", "odd", "stray", "unsaid"), 'command = "x"'),
        itself='command = "x"\ntrusted = true',
    )
    said = {name: server.trusted for name, server in config.servers.items()}
    # A slip of the pen trusts nobody.
    assert said == {"yes": True, "no": False, "odd": False, "stray": False, "unsaid": None}
    assert "write it under [overrides] in config.toml" in config.faulty["itself"].message


def test_overrides_only_switch_off(folder: Path) -> None:
    config = read(
        folder,
        """
        [overrides]
        on = { enabled = true }
        off = { enabled = false }
        stray = { command = "other" }
        odd = { enabled = "no" }
        was-off = { enabled = true }
        unknown = { enabled = false }
        """,
        **dict.fromkeys(("on", "off", "stray", "odd"), 'command = "x"'),
        **{"was-off": 'command = "x"\nenabled = false'},
    )
    main = str(folder / "config.toml")
    enabled = {name: server.enabled for name, server in config.servers.items()}
    assert enabled == {"on": True, "off": False, "stray": True, "odd": False, "was-off": False}
    assert config.servers["off"].disabled_by == main
    assert config.servers["was-off"].disabled_by == str(folder / "servers.d" / "was-off.toml")
    assert config.servers["stray"].command == "x"
    text = messages(config)
    assert "overrides.stray.command: unknown field" in text
    assert "overrides.unknown: there is no server of this name" in text


TOML = st.recursive(
    st.sampled_from(["1", "true", '"x"', "[]", "2020-01-01", '"${A}"', "nan", "-1"]),
    lambda inner: st.lists(
        st.tuples(
            st.sampled_from(["command", "env", "args", "risk", "servers", "default_policy", "enabled", "x"]),
            inner,
        ),
        max_size=4,
        unique_by=lambda pair: pair[0],
    ).map(lambda pairs: "{" + ", ".join(f"{key} = {value}" for key, value in pairs) + "}"),
    max_leaves=20,
)


@given(
    st.dictionaries(
        st.sampled_from(["servers", "agents", "defaults", "tool_policies", "overrides", "servers_dir", "x"]),
        TOML,
    )
)
def test_any_shape_is_read_or_reported(
    tmp_path_factory: pytest.TempPathFactory, tables: dict[str, str]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "shapes"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text("\n".join(f"{key} = {value}" for key, value in tables.items()))
    config = load(folder, {})
    assert not config.servers.keys() & config.faulty.keys()
    if "x" in tables:
        assert any(problem.place == "x" for problem in config.problems)


def test_what_switches_a_server_off_is_read_also_where_the_rest_cannot_be_used(folder: Path) -> None:
    config = read(
        folder,
        "[overrides.b]\nenabled = false",
        a="enabled = false\ncommand = 1",
        b="command = 1",
        c="command = 1\nenabled = true",
    )
    assert {name: Path(faulty.disabled_by).name for name, faulty in config.faulty.items()} == {
        "a": "a.toml",
        "b": "config.toml",
        "c": "",
    }
