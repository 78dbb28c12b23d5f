"""Which methods there are: what is declared to agents has a row here, and nothing else is served."""

from __future__ import annotations

from mcpd.agents.methods import (
    completions,
    lifecycle,
    lists,
    logs,
    prompts,
    resources,
    subscriptions,
    tasks,
    tools,
)
from mcpd.agents.methods.offered import offered
from mcpd.agents.methods.request import Method

METHODS: dict[str, Method] = {
    "initialize": Method(lifecycle.initialize, stateless=False, unopened=True),
    "ping": Method(lifecycle.ping, stateless=False, unopened=True),
    "server/discover": Method(lifecycle.discover, handshake=False),
    "tools/list": Method(lists.list_tools),
    "tools/call": Method(tools.call_tool, begin=tools.begin_call),
    "resources/list": Method(offered("resources", lists.list_resources)),
    "resources/templates/list": Method(offered("resources", lists.list_templates)),
    "resources/read": Method(offered("resources", resources.read)),
    "resources/subscribe": Method(offered("resources.subscribe", resources.subscribe), stateless=False),
    "resources/unsubscribe": Method(offered("resources.subscribe", resources.unsubscribe), stateless=False),
    "prompts/list": Method(offered("prompts", lists.list_prompts)),
    "prompts/get": Method(offered("prompts", prompts.get)),
    "tasks/get": Method(tasks.get),
    "tasks/result": Method(tasks.result, stateless=False),
    "tasks/list": Method(tasks.list_all, stateless=False),
    "tasks/cancel": Method(tasks.cancel),
    "tasks/update": Method(tasks.update, handshake=False),
    "completion/complete": Method(offered("completions", completions.complete)),
    "logging/setLevel": Method(offered("logging", logs.set_level), stateless=False),
    "subscriptions/listen": Method(subscriptions.listen, handshake=False),
}
