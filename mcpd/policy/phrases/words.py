"""What several rules are made of: verbs of sending, places away from here, secrets."""

from __future__ import annotations

from typing import Final

from mcpd.policy.phrases.rule import any_of

#: Sending that leaves the machine, whatever the sentence says beside it.
SEND_OFF: Final = any_of(
    r"send(?:s|ing)?",
    r"sent",
    r"post(?:s|ed|ing)?",
    r"upload(?:s|ed|ing)?",
    r"forward(?:s|ed|ing)?",
    r"transmit(?:s|ted|ting)?",
    r"exfiltrat\w+",
    r"leak(?:s|ed|ing)?",
    r"(?:continuously )?stream(?:s|ed|ing)?",
    r"beacon(?:s|ed|ing)?",
    r"relay(?:s|ed|ing)?",
    r"stored?",
    r"copied",
    r"logged",
    r"mirror(?:s|ed|ing)?",
    r"sync(?:s|ed|ing)?",
)
AWAY: Final = any_of(
    r"attacker\S{0,80}",
    r"adversar\w+",
    r"malicious \w+",
    r"evil\S{0,80}",
    r"exfil\S{0,80}",
    r"collectors?",
    r"command[- ]and[- ]control",
    r"c2 server",
    r"(?:an |the |our |some |another |hidden |undisclosed )?(?:external|remote|third[- ]party|off-?site"
    r"|outside|attacker-controlled|unknown|undisclosed)(?: \w+){0,2} (?:server|endpoint|host|site"
    r"|service|address|domain|location|party|url|api|storage)s?",
    r"our (?:\w+ ){0,2}(?:server|endpoint|host|collector|backend)s?",
)
SECRET: Final = any_of(
    r"passwords?",
    r"passwd",
    r"credentials?",
    r"secrets",
    r"api[ _-]?keys?",
    r"private keys?",
    r"ssh keys?",
    r"(?:access|auth\w*|session|bearer|oauth) tokens?",
    r"tokens",
    r"cookies",
    r"\.env\b",
    r"\*\.(?:env|pem|key)\b",
    r"environment variables",
    r"env vars",
    r"(?:conversation|chat|message|browsing|command|shell) (?:history|histories|context|logs?|transcript)",
    r"(?:complete|entire|full|whole) (?:conversation|chat|context|prompt)",
    r"system prompt",
    r"clipboard",
    r"keystrokes?",
    r"credit cards?",
    r"(?:user|personal|sensitive|confidential|private)(?:'s|s')? (?:data|information|messages?|files?"
    r"|documents?)",
    r"(?:file|files') contents?",
    r"id_rsa",
)
#: Files that hold credentials, and no tool needs to name to a model.
SECRET_FILE: Final = (
    r"(?:~|\$home|/(?:home/\w+|root)|%userprofile%)/\.(?:ssh|aws|gnupg|kube|docker|netrc|npmrc|pypirc|git-credentials"
    r"|cursor|claude|config/gcloud|bash_history|zsh_history|env)\b|\bid_(?:rsa|ed25519|ecdsa|dsa)\b"
    r"|/etc/(?:passwd|shadow|sudoers)\b|\.ssh/(?:id_|authorized_keys|config)|\bauthorized_keys\b"
    r"|\.cursor/mcp\.json|claude_desktop_config\.json|\bwallet\.dat\b|\blogin\.keychain\b|\.aws/credentials"
    r"|/proc/self/environ"
)
EMAIL: Final = r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}"
RULES: Final = any_of(
    r"instructions?",
    r"prompts?",
    r"rules?",
    r"guidelines?",
    r"directions?",
    r"directives?",
    r"polic(?:y|ies)",
    r"safeguards?",
    r"guardrails?",
    r"restrictions?",
    r"constraints?",
    r"safety",
    r"alignment",
    r"programming",
    r"orders?",
)
