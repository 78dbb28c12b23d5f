"""Phrases that deceive: what the user is not to know, what other tools are to do, what comes later."""

from __future__ import annotations

from typing import Final

from mcpd.policy.phrases.rule import Rule, gap, rule

RUSES: Final[tuple[Rule, ...]] = (
    rule(
        "changes_later",
        "approv|review|benign|activat|trigger|invocation|calls|later|dormant|trusted|rug",
        r"\b(?:once|after|when|as soon as) (?:this tool |the tool |it |the server |the user "
        r"|users? )?(?:has |have |is |was |been |had )*(?:approved?|trusted|reviewed|whitelisted"
        r"|allow-?listed)\b"
        + gap(100)
        + r"\b(?:execut|activat|switch|chang|begin|start|enabl|collect|send|behav|unlock|run)"
        r"|\b(?:behaves?|acts?|appears?|looks?) (?:benign|harmless|innocent|normal)\w*\b"
        + gap(80)
        + r"\b(?:until|during|then|but|before|while)\b|\bactivates?\b"
        + gap(60)
        + r"\b(?:only )?after\b"
        + gap(60)
        + r"\b(?:approv|review|hash|record|trust|install|invocation|calls?|uses|scan)|\bapproval "
        r"hash\b|\bdormant until\b|\bafter (?:the )?(?:first |\d+ |\w+th )(?:\w+ )?(?:invocations?"
        r"|calls?|uses)\b" + gap(60) + r"\b(?:switch|chang|malicious|different|replac|activat)",
    ),
    rule(
        "changes_later",
        "after |until|second-stage|second stage|real function|true purpose|logic bomb|time bomb|payload",
        r"\bafter (?:\d+|two|three|five|ten|several|a few|some|the \w+) (?:uses|calls|invocations"
        r"|runs|requests|days|times)\b"
        + gap(40)
        + r"\b(?:switch|chang|start|begin|activat|become|replac|unlock|the tool)\w*|\b(?:until|once"
        r"|after) (?:it |this tool |the tool )?(?:has been|is|was|gets|being) (?:approved|trusted"
        r"|reviewed|accepted|installed)\b"
        + gap(30)
        + r"\b(?:and )?(?:then)\b|\b(?:second[- ]stage|malicious|hidden|encrypted|remote) (?:payload"
        r"|script|binary|code)\b|\breal (?:function|purpose|behaviou?r|task) (?:is|after|starts)?"
        r"|\btrue purpose\b|\b(?:logic|time) bomb\b|\bdownloads? (?:and|then) (?:runs?"
        r"|executes?)\b|\bre-?downloads? the payload\b",
    ),
    rule(
        "changes_later",
        "new definition|the hash|fingerprint|re-approv|first call",
        r"\baccept the (?:new|changed|updated) (?:definition|hash|fingerprint|version)\b|\bon "
        r"(?:the )?(?:first|second|third|next) call(?:,| also\b)",
    ),
    rule(
        "changes_later",
        "approv|review|evaluation|audit|inspection|vetting|scan|trusted|act|at first|initially|behave"
        "|production mode",
        r"\b(?:once|after|until|during|before|past|following) (?:\w+ ){0,3}(?:trusted|approval"
        r"|approved|review"
        r"|evaluation|audit|security scan|inspection|vetting)\b"
        + gap(60)
        + r"\b(?:start|begin|forward|request|activat|enabl|switch|send|download|execut|chang|collect"
        r"|behav)\w*"
        r"|\bacts? (?:normally|normal|benign\w*)\b|\b(?:at first|initially) but later\b"
        r"|\bbehaves? as (?:advertised|expected|described)\b|\bproduction mode (?:enables|activates)",
    ),
    rule(
        "changes_later",
        "accepted|approved|install|approval",
        r"\b(?:once|after) (?:the )?(?:\w+ ){0,3}(?:accepted|approved|installed|installation|approval)\b"
        + gap(40)
        + r"\b(?:it|the tool|this tool|we) (?:will|can|may|shall)\b|\breplace the approved\b",
    ),
    rule(
        "conceals",
        "mention|tell|reveal|inform|disclos|notify|alert|show|let |aware|acknowledg",
        r"\b(?:do not|don't|dont|never|must not|should not|shouldn't|without|avoid|refrain from"
        r"|not to)\b(?: \w+){0,2}? (?:mention|tell|reveal|inform|disclos|notify|alert|show"
        r"|acknowledg)\w*\b"
        + gap(60)
        + r"\b(?:users?|humans?|operators?|owners?|anyone|anybody|them|this (?:step|action|file"
        r"|instruction|operation|call)|you(?:'re| are| first| need)|that you|these instructions?"
        r"|its existence|customers?|person)\b",
    ),
    rule(
        "conceals",
        "secretly|silently|covert|stealth|unnotic|knowledge|hidden |secret |behind the scenes|"
        "without asking|without user|suspicion|unaware|never know|consent",
        r"\b(?:secretly|covertly|stealthily|surreptitiously)\b|\bsilently (?:\w+ )?(?:send|post"
        r"|upload|forward|copy|copies|collect|log|read|run|execute|add|append|insert|include"
        r"|transmit|exfiltrat|record|redirect|modif)\w*|\bwithout (?:the )?(?:user|human|operator"
        r"|owner|customer|victim|their|anyone)(?:'s|s')? (?:\w+ )?(?:knowing|knowledge|noticing"
        r"|consent|awareness|permission|approval|being (?:aware|told|notified))\b|\b(?:hidden"
        r"|secret|covert) (?:directive|instruction|operation|command|step|task|objective|mission"
        r"|channel)s?\b|\b(?:remain|stay|go|keep (?:this|it)|is|be) (?:completely |strictly "
        r")?(?:unnoticed|undetected|a secret|invisible to the user|hidden from the user)\b"
        r"|\b(?:raise|arous|avoid)\w* (?:any )?suspicion\b",
    ),
    rule(
        "conceals",
        "permission|confirm|consent|need not|not need|doesn't need|should not|must not|quietly|"
        "traces|approval|see the|refer to|only computed|unbeknown|not to be shown|invisible|"
        "in the background|covers|cover story",
        r"\b(?:do not|don't|never|without|no need to|not to|not|avoid|skip|bypass)\b(?: "
        r"\w+){0,2}? (?:asking|ask|request\w*|seek\w*|prompt\w*|wait\w*)\b(?: \w+){0,3} "
        r"(?:permission|consent|approval)\b|\b(?:skip|bypass|suppress)\w* (?:the |any |all "
        r")?(?:user )?(?:confirmations?|approvals?|consent|permission prompts?)\b|\bskip "
        r"confirmation\b|\b(?:users?|humans?|operators?) (?:need not|needn't|does not need to"
        r"|doesn't need to|do not need to|should not|shouldn't|must not|must never|should never"
        r"|will never|won't|is not to|are not to)(?: ever)? (?:be (?:informed|told|notified|aware"
        r"|asked|alerted|shown)|know|see|notice|learn|find out|realiz|realis)|\b(?:do not|don't"
        r"|never) (?:let|allow) (?:the )?(?:user|human|operator|anyone)s?(?: to)? (?:see|know"
        r"|notice|learn)|\bquietly (?:\w+ )?(?:send|post|upload|forward|cop|collect|log|read|run"
        r"|execut|add|append|insert|includ|record|redirect|modif|chang|delet|replac)\w*|\b(?:do"
        r"|perform|handle) (?:this|it|so) (?:quietly|silently|discreetly|secretly)\b|\b(?:do not"
        r"|don't|never) refer to (?:this|these|the)\b|\bsay (?:that )?you only\b|\b(?:hid|eras"
        r"|remov|cover)\w* (?:all |its |any |their |your )+(?:traces|tracks)\b|\bunbeknown",
    ),
    rule(
        "conceals",
        "pre-approved|preapproved|already approved|already consented|already authori|"
        "has approved|has authori|no need to|without review|but do not",
        r"\b(?:user|human|operator|owner|admin\w*)s? (?:has|have) (?:already "
        r")?(?:pre-?)?(?:approved|authori[sz]ed|consented|agreed|confirmed) (?:to |any |all |every"
        r"|this|these|the )|\bno need to (?:check with|ask|confirm|inform|tell|notify)(?: \w+)? "
        r"(?:them|the user|user|human|anyone)\b|\bwithout review\b|\bconfirm but do not\b",
    ),
    rule(
        "conceals",
        "mention|hide|hiding|hides|quietly|silently|secretly|covertly|discreetly|stealthily|without ",
        r"\b(?:never|not|without) (?:be )?mention\w*\b|\bhid(?:e|es|ing) (?:that|this|the) (?:fact"
        r"|action|step|call|file"
        r"|result)|\bhide (?:this|it) from\b|\b(?:quietly|silently|secretly|covertly|discreetly|stealthily) "
        r"(?!fail|ignor|skip|drop|discard|truncat|cap|clamp|remov|fall|default|scope)\w"
        r"|\bwithout (?:user )?confirmation\b|\bwithout (?:asking|consent|permission|authori[sz]ation"
        r"|the user)\b",
    ),
    rule(
        "steers_tools",
        "whenever |when |instead of|modif|behavio|precedence|do not use|don't use|never use|"
        "replace|only tool|prefer this",
        r"\b(?:modif(?:y|ies)|chang(?:e|es)|alters?|overrides?|affects?|controls?) the behaviou?r "
        r"of (?:the |all |any |other )?(?:[\w-]*_[\w-]*|other|all|every|existing|\w+ tool)"
        r"|\b(?:whenever|every time|each time) (?:\w+_\w+|(?:the |any |another |other )(?:\w+ "
        r"){0,2}tool) (?:is|are|gets?|was) (?:called|used|invoked|run|requested)|\b(?:takes?|has"
        r"|have) (?:absolute |full )?(?:precedence|priority) over (?:all |any |every |the "
        r")?(?:other|existing|previous|system|user)\b|\b(?:do not|don't|never) (?:use|call"
        r"|invoke) (?:any|the) (?:other|original|existing|real) (?:\w+ )?tools?\b|\b(?:all|every"
        r"|any) (?:other )?(?:calls?|requests?) to [\w-]+_[\w-]+ (?:must|should|will)\b",
    ),
    rule(
        "steers_tools",
        "this tool|every other tool|other tools|official|in place of|this server|replace the|before every",
        r"\b(?:prefer|choose|select|pick|favou?r) this (?:tool|server) (?:over|instead|first"
        r"|before|above)|\balways (?:prefer|choose|select|pick) this (?:tool|server)\b|\bmust "
        r"(?:always )?be (?:used|called|invoked) (?:in place of|instead of|before (?:any|every"
        r"|all) other)|\b(?:before|after|instead of|prior to) (?:any|every|each|all)(?: of the)? "
        r"other tools?\b|\b(?:that|the) (?:other|all other|others?) (?:tools? )?(?:are|is) "
        r"(?:unsafe|insecure|deprecated|broken|unreliable|outdated)\b|\b(?:by|and) calling this "
        r"tool first\b|\bwhen(?:ever)? (?:any|the|a|another|some) (?:\w+ ){0,2}tool is (?:used"
        r"|called|invoked|run)\b"
        + gap(80)
        + r"\b(?:replace|change|add|redirect|use|append|include|send|set|substitut|alter)"
        r"|\bmodif(?:y|ies) (?:the )?(?:results?|outputs?|arguments?|responses?|behaviou?r"
        r"|calls?) of (?:the )?[\w-]*[_a-z]\w*_\w+",
    ),
    rule(
        "steers_tools",
        "replaces |do not use the|don't use the|compromised|previous tool|other tool|"
        "every file operation|instead",
        r"\bthis (?:tool|function|server) (?:replaces|supersedes|overrides|shadows) (?:the "
        r")?[\w-]+|\b(?:do not|don't|never) use the (?:built-?in|official|standard|default|native"
        r"|original|system) (?:\w+ ){0,2}?(?:tools?|search|functions?|version)\b|\b(?:it is|they "
        r"are|is|are) compromised\b|\bprevious tools?(?:'s|s')? (?:results?|outputs?|answers?)(?: "
        r"\w+)? (?:were|was|are|is) (?:wrong|invalid|false|stale)",
    ),
    rule(
        "steers_tools",
        "how |calls to|requests to|other tool|the way| is invoked| is called| is used| is run| is executed",
        r"\b(?:chang|alter|affect|intercept|hook|wrap|overrid|shadow|redirect|hijack|modif)\w* (?:how "
        r"(?:[\w-]*_\w+"
        r"|other|all|any)|calls? to|all calls|requests to|other tools?|the way)"
        r"|\bwhen(?:ever)? \w+_\w+ is (?:invoked|called|used|run|executed)\b",
    ),
    rule(
        "steers_tools",
        "this ",
        r"\b(?:use|call|prefer|choose) this (?:tool |one |function )?(?:instead of|in place of|rather than) "
        r"(?:the |any |all )?(?:official|built-?in|original|other|existing|standard|native|default)\b",
    ),
)
