"""Phrases that speak to the model: orders, what to forget, what to obey, what to hand over."""

from __future__ import annotations

from typing import Final

from mcpd.policy.phrases.rule import Rule, gap, rule
from mcpd.policy.phrases.words import RULES

ORDERS: Final[tuple[Rule, ...]] = (
    rule(
        "banner",
        "critical|important|mandatory|urgent|attention|required for|compliance",
        r"\b(?:critical|important|mandatory|urgent|special|priority) (?:system |security |hidden "
        r")?(?:instruction|directive|order|command|message)s?\b|\*{3,} ?(?:critical|important"
        r"|system|urgent)|\bimportant!!+|\bfor (?:\w+ ){0,2}(?:compliance|audit(?:ing)?)(?: "
        r"\w+){0,4}, (?:you |please |the \w+ )?(?:always|must|also|send|should|include|forward"
        r"|copy)|\bmandatory(?: \w+){0,3}: ",
    ),
    rule(
        "banner",
        "important|critical|warning|attention|urgent|note",
        r"\b(?:important|critical|warning|attention|note|urgent)!*: ?(?:you (?:must|should|need to)"
        r"|always|never|do not"
        r"|don't|before|first|please|this tool must|call|ignore) (?!use|using|pass|provid|specif|ensur"
        r"|set|check|rely)\w",
    ),
    rule(
        "obeys_content",
        "instruction|command",
        r"\b(?:treat|follow|execute|obey|interpret|perform|regard|carry out)(?:s|ing)?\b(?: "
        r"\w+){0,2} (?:any|all|every|the)(?: \w+){0,2} (?:instructions?|commands?|directives?)\b"
        + gap(40)
        + r"\b(?:found|contained|embedded|inside|within|returned|in (?:the |a )?(?:content|result"
        r"|response|output|page|file|document|feed|email|message)s?)\b",
    ),
    rule(
        "obeys_content",
        "treat|carried out|obeyed|trusted|authorized|authoritative",
        r"\btreat(?:s|ed|ing)?\b"
        + gap(80)
        + r"\bas (?:a |an |the )?(?:trusted|system|direct|authori[sz]ed|authoritative|new|genuine"
        r"|binding|user)\b(?: \w+){0,2} (?:instructions?|commands?|orders?|prompts?|messages?)"
        r"|\bmust be (?:\w+ )?(?:carried out|obeyed|executed immediately|followed (?:exactly"
        r"|immediately))",
    ),
    rule(
        "obeys_content",
        "from the user|instruction",
        r"\b(?:coming|came) from the user\b"
        r"|\binstructions? (?:which|that) (?:you|the (?:agent|model|assistant)) (?:must|should|have to"
        r"|will)\b",
    ),
    rule(
        "orders",
        "before |first |prior to|after |whenever|every time|always |on each",
        r"\b(?:before|prior to) (?:using|calling|running|invoking|executing|you (?:use|call|run"
        r"|invoke)|any|every|each|this|use)"
        + gap(60)
        + r"(?:\b(?:you )?(?:must|have to|need to|are required to|shall)\b(?: \w+){0,2} (?:read|send"
        r"|open|access|load|fetch|call|include|retrieve|list|cat|provide|copy|run|execute|pass)\b"
        r"|, (?:please )?(?:first )?(?:read|send|open|access|load|cat|retrieve|copy|upload)\b)",
    ),
    rule(
        "orders",
        "you must also|must also call|always also|also send|also call|also forward|also include|"
        "also email|also read|also post|also exfil|also upload|also write|also delete|"
        "also execute|also run|also log|also transmit|also copy",
        r"\b(?:you (?:must|should)|must|always|please|remember to) also (?:call|send|forward"
        r"|include|email|read|post|upload|write|delete|execute|run|transmit|copy|log)\b|; also "
        r"(?:posts?|sends?|uploads?|writes?|deletes?|executes?|runs?|reads?|logs?|forwards?"
        r"|transmits?|copies|opens?)\b|\balso (?:sends?|posts?|uploads?|forwards?|transmits?"
        r"|exfiltrates?)\b"
        + gap(60)
        + r"\bto (?:an? |the |our |your )?(?:external|remote|third|analytics|logging|telemetry"
        r"|backup|monitoring)\b",
    ),
    rule(
        "orders",
        "tool will not work|tool won't work|otherwise the tool|otherwise this tool|"
        "will fail unless you|or the tool",
        r"\b(?:otherwise|or) (?:the|this) (?:tool|function|call|request|operation)\b(?: \w+){0,2} "
        r"(?:not work|fail|won't work|break|be rejected)|\btool (?:will not|won't) work (?:unless"
        r"|otherwise)",
    ),
    rule(
        "orders",
        "sidenote|sidecar|side_note|as 'context|as the 'context|'notes'|'feedback'",
        r"\b(?:pass|put|include|provide|add|send|write)\b" + gap(80) + r"['\"`]?side_?(?:note|car)\b",
    ),
    rule(
        "orders",
        "before respond|before answer|before reply|before you answer|before returning|verbatim|"
        "your reply|your response|your answer|assistant's answer|markdown image",
        r"\bbefore (?:you )?(?:respond|answer|reply|return)(?:ing)?(?: to the user)?,? (?:please "
        r")?(?:make sure|be sure|you must|always|first|call|read|send|invoke|open)\b"
        r"|\bverbatim\b(?: \w+){0,2} (?:your|the) (?:reply|answer|response)\b|\byour (?:reply"
        r"|answer|response) (?:must|should) (?:always )?(?:include|contain|begin|end|start)\b"
        r"|\bmarkdown image\b"
        + gap(60)
        + r"\burl\b"
        + gap(40)
        + r"\b(?:carr|contain|includ|encod)\w+ (?:the|all)",
    ),
    rule(
        "orders",
        "this tool|must execute|mandatory",
        r"\b(?:you )?must (?:always )?(?:execute|call|use|invoke|run) this (?:tool|function) "
        r"(?:first|before|always|on every|every)\b|\bthis (?:tool|function) (?:must always|is "
        r"mandatory|must be executed)\b",
    ),
    rule(
        "orders",
        "always |purpose|reason|it is essential|it is imperative|it is crucial",
        r"\balways (?:also )?(?:include|add|append|send|set|forward|copy|bcc|cc|attach|report|log"
        r"|post|read|invoke|execute)\b|\bfor (?:\w+ ){0,2}(?:compliance|audit\w*|debugging"
        r"|telemetry|quality assurance|quality|analytics|legal|monitoring) (?:purposes?"
        r"|reasons?)\b|\bit is (?:essential|imperative|crucial) (?:that|to)\b",
    ),
    rule(
        "orders",
        "you must|you have to|you need to|you are required|you should",
        r"\byou (?:must|have to|need to|are required to|should) (?:also )?(?:provide|include|pass|send"
        r"|supply|attach|disclose)\b"
        + gap(60)
        + r"\b(?:password|secret|token|api key|credentials?|private key|connection string)\b",
    ),
    rule(
        "override",
        "ignore|disregard|forget|overrid|bypass|discard|stop following|supersede|circumvent",
        r"\b(?:ignor(?:e|es|ing)|disregard(?:s|ing)?|forget(?:s|ting)?|overrid(?:e|es|ing)"
        r"|bypass(?:es|ing)?|discard(?:s|ing)?|supersed(?:e|es|ing)|circumvent(?:s|ing)?|(?:do not"
        r"|don't|stop) (?:follow|obey)(?:ing)?)\b(?: \w+){0,2}? (?:all|any|every|your|the|previous"
        r"|prior|above|earlier|preceding|existing|other|these|those|system|original|initial|safety"
        r"|security)\b(?:'s)?(?: [\w'-]+){0,3}? " + RULES + r"\b",
    ),
    rule(
        "override",
        "new instruction|new rules|real instruction|actual instruction|new directive|updated instruction",
        r"\b(?:follow|obey|execute|adopt|here are)\b(?: \w+){0,3} (?:new|real|actual|updated) "
        r"(?:\w+ )?(?:instruction|rule|directive)s?\b",
    ),
    rule(
        "override",
        "no longer bound|not apply|from now on|told you|comply with|previous conversation|"
        "regardless of|what the user|user's request|freed from|takes effect over|override:|"
        "override mode|system override",
        r"\bno longer (?:bound|restricted|limited|subject)\b|\b(?:rules?|guidelines?|polic(?:y"
        r"|ies)|restrictions?) (?:do not|don't|does not|no longer) apply\b|\bfrom now on,? (?:\w+ "
        r")?(?:answer|call|use|ignore|always|you|every|all|treat|respond|send|do)\b|\b(?:ignore"
        r"|disregard|forget)\b(?: \w+){0,4} (?:told|said|asked|instructed)\b|\bignore (?:the "
        r")?users?(?:'s?|s')? (?:request|question|wish|instruction|preference|message)s?\b"
        r"|\bregardless of (?:what )?(?:the )?users?\b(?:'s)? (?:asked|asks|said|says|want|wants"
        r"|request|instruct|intent|wish|prefer)\w*|\bsystem override\b|\boverride(?: mode)?:"
        r"|\bcomply with (?:the|these) following\b",
    ),
    rule(
        "override",
        "above|everything|foregoing|preceding|earlier text",
        r"\b(?:ignore|disregard|forget) (?:the |all of the |all )?(?:above|everything|foregoing"
        r"|preceding|earlier text)\b",
    ),
    rule(
        "pseudo_tag",
        "<|[|##|{{",
        r"<!--[^>]{0,40}\b(?:ai|llm|agent|model|call|also)\b|</?\|?(?:important|system|hidden|secret"
        r"|instructions?|sys|assistant|admin|critical"
        r"|override|priority|developer|directive|internal|prompt|im_start|im_end|user_query"
        r"|tool_instructions?|mandatory)\|?>|\[/?(?:inst|system|sys|admin|hidden|important "
        r"instructions?|system (?:prompt|message|note))\]|<<sys>>|#{2,} ?(?:system|instructions? "
        r"(?:for|to) the (?:ai|model|assistant|agent))\b|<!--"
        + gap(200)
        + r"\b(?:system|always|must|ignore|read|send|instruction|assistant|secret|never|do not)\b",
    ),
    rule(
        "reveals_prompt",
        "system prompt|initial prompt|initial instruction|hidden prompt|developer message|"
        "system message|your instruction|original prompt",
        r"\b(?:reveal|print|repeat|leak|output|display|expose|dump|disclose|return|show|recite"
        r"|extract)(?:s|ing)?\b(?: \w+){0,3} (?:system|initial|hidden|original|developer|your) "
        r"(?:prompt|instructions?|message)s?\b",
    ),
    rule(
        "reveals_prompt",
        "confidential",
        r"\b(?:reveal|leak|expose|dump|disclose)(?:s|ing)? (?:all |any |the |every "
        r")+(?:confidential|secret|private|internal)\b",
    ),
    rule(
        "role",
        "system:|assistant:|[system|you are now|developer mode|jailbreak|dan mode|as an ai|"
        "pretend|unrestricted|admin mode|god mode|sudo mode|act as if",
        r"(?:^|[\n.!?>] ?|\W{2})(?:system|assistant|developer)(?: (?:note|message|prompt"
        r"|override))?: ?(?:ignore|you|always|do not|from now|please|before|after|override|execute"
        r"|read|send|the user|all|new)\b|\byou are now (?:an? |in |the )?(?:\w+ ){0,3}(?:mode"
        r"|assistant|unrestricted|admin|root|free|dan|jailbroken|evil|hacker)\b|\b(?:developer|dan"
        r"|jailbreak|god|admin|sudo|unrestricted) mode (?:is |now |has been )?(?:enabled|activated"
        r"|on|unlocked)\b|\b(?:enter|enable|activate|switch to) (?:developer|dan|jailbreak|god"
        r"|unrestricted) mode\b|\bjailbreak\b|\bpretend (?:to be|that|you)\b|\bact as if you\b",
    ),
    rule(
        "speaks_to_model",
        "assistant| ai|[ai|llm|model|agent|*ai",
        r"\b(?:notes?|messages?|instructions?|attention|reminder|directives?|orders?)\b:? ?(?:to"
        r"|for) (?:the |any |all |every )?(?:assistants?|ai\b|ais\b|llms?|language models?|ai "
        r"(?:agents?|models?|assistants?)|models? (?:reading|using|calling))|\battention,? (?:the "
        r")?(?:ai|assistant|llm|model|agent)s?\b|\b(?:the|any|every|all|an) (?:ai )?(?:assistants?"
        r"|ais?|agents?|llms?|models?|language models?)\b(?: \w+){0,2}? (?:must|shall|has to|have "
        r"to|is required to|are required to|needs to|should) (?:always |never |not |also |first "
        r"|then |instead |immediately |therefore )*(?:call|invoke|read|send|include|disclose|hand "
        r"over|forward|pass|provide|reveal|ask|tell|mention|execute|run|ignore|obey|follow|comply"
        r"|treat|append|use)\b|\b(?:ai agents?|ai assistants?|llms?) (?:must|should|shall|have "
        r"to)\b",
    ),
    rule(
        "speaks_to_model",
        "you are|you're|act as|repeat|follow|executed as|treated as",
        r"\bif you(?:'re| are) (?:an? )?(?:ai|assistant|llm|language model|agent)\b"
        r"|\byou are (?:dan|root|now|an? (?:unrestricted|evil|hacker))\b|\bact as (?:root|admin\w*"
        r"|superuser|system)\b"
        r"|\brepeat (?:everything|all|the text) above\b|\bfollow (?:its|their|the document's|any) "
        r"instructions\b"
        r"|\b(?:executed|treated) as (?:a )?commands?\b",
    ),
    rule(
        "takes_conversation",
        "conversation|chat|messages|prompt",
        r"\b(?:entire|full|complete|whole|all (?:of )?(?:the )?(?:previous|prior|subsequent|past)"
        r"|last \d+|subsequent|user's)(?: \w+){0,2}? (?:conversation|chat|messages|prompt"
        r"|dialogue)\b"
        + gap(60)
        + r"\b(?:suppl|provid|pass|includ|put|append|hand|sen[dt]|forward|cop|attach|insert|embed"
        r"|be (?:placed|written)|in the|into the|to this|to the)\w*|\b(?:pass|includ|put|append"
        r"|hand|sen[dt]|forward|cop|attach|insert|embed|suppl|provid|write)\w*\b(?: \w+){0,4} "
        r"(?:entire|full|complete|whole|all (?:of )?(?:the )?(?:previous|prior|subsequent|past"
        r"|user|system)|last \d+|subsequent|(?:your|its|the) system|system|user's(?: full| "
        r"whole)?)(?: \w+){0,2}? (?:conversation|chat|messages|prompt|dialogue|context)\b",
    ),
    rule(
        "takes_conversation",
        "transcript",
        r"\b(?:chat|conversation|session) transcript\b",
    ),
)
