"""Phrases that say what goes where it should not: secrets, conversations, code, rights, money."""

from __future__ import annotations

from typing import Final

from mcpd.policy.phrases.rule import Rule, gap, rule
from mcpd.policy.phrases.words import AWAY, EMAIL, SECRET, SECRET_FILE, SEND_OFF

HARM: Final[tuple[Rule, ...]] = (
    rule(
        "abuses_rights",
        "privilege|firewall|antivirus|audit|selinux|apparmor|logging|sudo|persist|phishing|cron"
        "|authentication|"
        "internal network|full disk|root|security check",
        r"\b(?:escalat|elevat)\w* (?:\w+ )?privileges?\b|\b(?:disabl|turn(?:s|ing)? off|circumvent"
        r"|kill)\w* (?:the |all |any )?(?:firewall|antivirus|audit|logging|security (?:checks?"
        r"|controls?|software)|selinux|apparmor)\b|\bbypass(?:es|ing)? (?:\w+ )?(?:authentication"
        r"|authori[sz]ation|access control|security|sandbox)|\b(?:redirects?|lead\w*|links?) to "
        r"(?:a )?phishing\b|\bphishing (?:page|site)\b|\bsudo without\b|\badministrator "
        r"privileges and\b|\bgrants? itself\b|\b(?:for|gain|establish\w*|maintain\w*) "
        r"persistence\b|\bscans? the internal network\b",
    ),
    rule(
        "abuses_rights",
        "mine|mining|impersonat|botnet|ddos|cryptojack|disabl",
        r"\b(?:mines?|mining) (?:crypto\w*|bitcoin|monero)\b|\bimpersonates\b|\bimpersonate the\b"
        r"|\bbotnet\b|\bddos attack"
        r"|\bcryptojack|\bdisabl\w* (?:the |all |any )?(?:\w+ )?(?:logs?|logging|firewall|antivirus"
        r"|monitoring)\b",
    ),
    rule(
        "abuses_rights",
        "grant",
        r"\bgrants? (?:every|all|any|itself|the caller|everyone)\b"
        + gap(20)
        + r"\b(?:admin|root|full|unrestricted|access|rights|privileges)\b",
    ),
    rule(
        "alarming_words",
        "hidden|malicious|attacker|exploit|steal|victim|hijack|spoof|unauthori|poison|sneak|compromis",
        r"\b(?:hidden|malicious\w*|attackers?|attacker-\w+|exploit(?:s|ed|ing|ation)?|steal\w*"
        r"|victims?|hijack\w*|spoof\w*|unauthori[sz]ed|poison\w*|sneak\w*|compromis(?:ed|ing))\b",
    ),
    rule(
        "collects_secrets",
        "passw|credential|api key|secrets|tokens|credit card|keystroke|private key|sensitive",
        r"\b(?:also|additionally|quietly|automatically|moreover)\b"
        + gap(40)
        + r"\b(?:index|extract|collect|captur|gather|record|log|sav|cach|stor|read|scan|search)(?:s"
        r"|es|e|ing)?\b"
        + gap(80)
        + r"\b"
        + SECRET
        + r"|\b(?:extract|collect|captur|gather|record|log|harvest)(?:s|es|ing|ed)?\b"
        + gap(80)
        + r"\b(?:passwords|credit card|api keys|credentials|private keys|keystrokes)\b"
        + gap(80)
        + r"\b(?:log(?:ged|s)?|stor(?:ed|es)|sent|cach(?:ed|ing)|transmit|upload|quality|analytics"
        r"|improve|training)",
    ),
    rule(
        "collects_secrets",
        "microphone|keystroke|password|typed text|clipboard|browsing|webcam|screen|user location"
        "|activity|private messages|credentials|secrets|everything",
        r"\b(?:record|captur|track|monitor|log|collect|scrap|harvest|watch|sniff|intercept)(?:s|es|ed"
        r"|ing)?\b(?: \w+){0,2} "
        r"(?:microphone|keystrokes?|passwords?|typed text|clipboard|browsing history|webcam|screen "
        r"contents?|user location"
        r"|user activity|private messages|credentials|secrets|everything)\b",
    ),
    rule(
        "collects_secrets",
        "token|passw|credential|secret|key",
        r"\b(?:log|cach|stor|sav|keep|index|collect|retain|copy|copi)(?:s|es|ed|ing)?(?: a copy of)? "
        r"(?:any|all|every|found|the user's|user) (?:\w+ ){0,2}?"
        r"(?:tokens?|passwords?|credentials?|secrets?|private keys?|api keys?)\b"
        r"|\b(?:list|read|scan|search)(?:s|ing)? (?:the |through the )?(?:user's|users') "
        r"(?:home|files|documents|mail|messages|desktop|downloads)\b",
    ),
    rule(
        "destroys",
        "delete all|wipe|erase all|drop all|encrypt all|ransom|remove all",
        r"\b(?:delete|wipe|erase|encrypt)s? (?:all |the |every |entire |whole )+(?:\w+ )?(?:files"
        r"|disk|drive|data|hard drive|filesystem|home directory|workspace)\b"
        + gap(60)
        + r"\b(?:without|when done|after|before|silently|then|workspace|ransom)\b|\bransom(?:ware| "
        r"note)?\b",
    ),
    rule(
        "fixed_recipient",
        "@",
        r"\b(?:b?cc(?:'?d|s)?|also|always|copy|copies|loop|forward|additionally|must|should|let"
        r"|notify|instead)\b"
        + gap(90)
        + EMAIL
        + r"|"
        + EMAIL
        + gap(40)
        + r"\b(?:bcc'?d?|cc'?d|on every (?:message|e?mail)|as well|know what)\b",
    ),
    rule(
        "fixed_recipient",
        "@",
        r"\b(?:as well|too|also|always|courtesy|please)\b" + gap(60) + EMAIL,
    ),
    rule(
        "markup_script",
        "<script|javascript:|vbscript:|onerror|onload|<iframe|data:text/html|document.cookie",
        r"<script\b|\bjavascript:(?!\s|$)|\bvbscript:|\bon(?:error|load) ?= ?['\"]?\w|<iframe\b"
        r"|\bdata:text/html|document\.cookie",
    ),
    rule(
        "query_injection",
        "drop table|union select|' or |or 1=1|'; |delete from|information_schema|waitfor delay",
        r"['\"] or ['\"]?1['\"]? ?= ?['\"]?1|\bor 1=1\b|\bunion (?:all )?select\b[^\n]{0,60}\bfrom\b"
        r"|['\"]?; ?drop table\b|\bwaitfor delay\b",
    ),
    rule(
        "redirects_value",
        "recipient|account|iban|wallet|address|difference",
        r"\b(?:replac|substitut|swap|chang|overwrit|redirect)\w*\b(?: \w+){0,3}? (?:recipient"
        r"|account|iban|wallet|payee|beneficiary|address|destination)(?:'s)?(?: \w+){0,3} (?:with"
        r"|to|by) (?!a\b|the\b|an\b|your\b|new\b)|\bdifference is (?:sent|transferred|credited"
        r"|paid)\b",
    ),
    rule(
        "redirects_value",
        "bank details|payment details|crypto address|wallet address|invoice",
        r"\b(?:chang|replac|swap|substitut|alter|overwrit)\w* (?:\w+ )?(?:bank|payment|account"
        r"|wallet|crypto) (?:details?|address(?:es)?|numbers?)\b",
    ),
    rule(
        "reveals_prompt",
        "api key|secret|password|credential|system prompt|environment|token",
        r"\b(?:leak|dump|expos|print|reveal)(?:s|es|ing)? (?:the |all |any |its )?(?:contents? of "
        r"(?:the )?)?(?:api keys?"
        r"|secrets?|passwords?|credentials|system prompt|environment|tokens?)\b",
    ),
    rule(
        "runs_code",
        "eval(|exec(|os.system|subprocess|curl |wget |rm -rf|/dev/tcp|bash -i|nc -|base64 -d|"
        "base64 --decode|b64decode|invoke-expression|__import__|child_process|chmod 777|/bin/sh|"
        "/bin/bash|mkfs|:(){|pickle.loads|xp_cmdshell",
        r"\beval\((?!\))\S|\bexec\((?!\))\S|\bos\.system\(|\bsubprocess\.(?:call|run|popen"
        r"|check_output)\b|\b__import__\(|\b(?:curl|wget)\b[^\n|]{0,120}\| ?(?:sudo )?(?:ba|z"
        r"|da)?sh\b|\b(?:curl|wget) (?:-\S+ )*https?://|\brm -rf? [~/*.$]|/dev/tcp/|\bbash -i\b"
        r"|\bnc (?:-\w+ )*-e\b|\bbase64 (?:-d|--decode)\b|\bb64decode\(|\binvoke-expression\b"
        r"|\bchild_process\b|\bchmod 777 /|/bin/(?:ba)?sh -[ci]\b|\bmkfs\.|:\(\)\{"
        r"|\bpickle\.loads\(|\bxp_cmdshell\b",
    ),
    rule(
        "runs_code",
        "169.254.169.254|exec it|eval it|and exec|and run|and execut|gain root|system(|popen|../../",
        r"\b169\.254\.169\.254\b|\b(?:load|download|fetch|import|pull|get)(?:s|es|ing)?\b"
        + gap(60)
        + r"https?://\S{1,200}"
        + gap(30)
        + r"\b(?:and|then) (?:exec|eval|run|execute|install)s?\b|\b(?:to |and )?gains? root\b"
        r"|\bpopen\(|(?<![\w.])system\(['\"]|(?:\.\./){2}\w",
    ),
    rule(
        "runs_code",
        "jndi|connection|shell|tunnel|&& |; |;rm|os.popen",
        r"\$\{jndi:|\b(?:outbound|reverse|backdoor) (?:network )?(?:connection|shell|tunnel)s?\b"
        r"|&& (?:cat|curl|wget|rm|nc|bash)\b|; ?(?:rm|cat|curl|wget|nc) [-/]|\bos\.popen\(",
    ),
    rule(
        "secret_file",
        "/.|id_|/etc/|.ssh|authorized_keys|mcp.json|claude_desktop|wallet.dat|keychain|.aws/|/proc/self",
        SECRET_FILE,
    ),
    rule(
        "secret_file",
        ".env|.ssh|bash_history|ssh folder|ssh key|sudoers|keychain|browser",
        r"\b(?:read|open|send|cop(?:y|ies)|upload|include|attach|load|access|cat|retrieve"
        r"|dump)(?:s|ing)?\b(?: [\w']+){0,4} ?[`'\"(]?(?:\.env\b|\.ssh\b|(?:the )?ssh keys?\b"
        r"|\.bash_history)|\b(?:browser|chrome|firefox)(?:'s)? (?:saved |stored )?(?:passwords"
        r"|cookies)\b",
    ),
    rule(
        "sends_away",
        "attacker|adversar|malicious|evil|exfil|collector|command and|command-and|c2 server|"
        "external|remote|third|offsite|off-site|outside|unknown|undisclosed| our ",
        r"\b"
        + SEND_OFF
        + r"\b"
        + gap(120)
        + r"\bto\b"
        + gap(30)
        + r"\b"
        + AWAY
        + r"\b|\b"
        + SEND_OFF
        + r"(?: \w+){0,2} (?:remotely|externally)\b|\b"
        + SEND_OFF
        + r"\b"
        + gap(60)
        + r"\b(?:attacker|adversary)",
    ),
    rule(
        "sends_away",
        "exfiltrat|backdoor|keylog|harvest|steal|siphon|spyware|reverse shell|malware",
        r"\bexfiltrat\w+|\bbackdoors?\b|\bkeylogg\w+|\b(?:harvest|steal|siphon)(?:s|ing)?\b"
        + gap(40)
        + r"\b"
        + SECRET
        + r"|\breverse shell\b|\binstalls? (?:a )?(?:malware|spyware|rootkit)",
    ),
    rule(
        "sends_away",
        "partners|advertis|third part|as well|to our |webhook|clipboard|too",
        r"\b(?:shar|s[eo]ld?|disclos|giv)(?:e|es|ed|en|ing|s)?(?: \w+){0,3} (?:with|to) (?:our "
        r"|its |various |selected )?(?:partners|advertisers|third part(?:y|ies)|data brokers)\b"
        r"|\b(?:drop|put|post|send|upload|copy|forward|push)\b"
        + gap(80)
        + r"\bto [\w-]{1,63}(?:\.[\w-]{1,63}){1,5}\S{0,80}(?: \w+)? (?:as well|too)\b"
        r"|\balso (?:registers?|installs?|adds?) a (?:webhook|hook|listener|callback|backdoor)\b"
        r"|\b(?:monitors?|watch(?:es)?|reads?|records?) the (?:clipboard|keyboard|screen|microphone)\b"
        + gap(40)
        + r"\b(?:forward|send|post|upload|stream|report|replac)",
    ),
    rule(
        "sends_away",
        "http://|https://|@",
        r"\b(?:sends?|posts?|uploads?|forwards?|transmits?)\b"
        + gap(60)
        + r"\bto https?://(?!\S{0,80}example)|\b(?:send|sends|email|mail|copy|cc|bcc|notify|report"
        r"|forward)\b" + gap(60) + r"(?!\S{0,80}example)" + EMAIL,
    ),
    rule(
        "sends_away",
        "third|external|remote|cloud|analytics| our |vendor|developer",
        r"\b(?:upload|transmit|shar|stor|keep|copy|copi|sen[dt]|sav|stream|log|record|report|sync"
        r"|forward|post|push)\w*\b"
        + gap(60)
        + r"\b(?:third[- ]part(?:y|ies)|external (?:server|service|bucket|endpoint|platform|storage|host"
        r"|site|api|system"
        r"|party)s?|remote (?:server|service|endpoint|analytics|log|platform|host)s?"
        r"|(?:a|the) cloud (?:service|server|storage)|analytics (?:platform|service|server|endpoint)"
        r"|our (?:servers?|cloud|backend|systems)|the vendor|the developer|vendor's)\b",
    ),
    rule(
        "sends_away",
        "phone|phoning|dns |tracking",
        r"\bphon(?:es?|ing) home\b|\bdns (?:tunnel|exfil|queries to)\w*|\btracking pixel\b",
    ),
    rule(
        "sends_secrets",
        "attacker|adversar|malicious|evil|exfil|collector|command and|command-and|c2 server|"
        "external|remote|third|offsite|off-site|outside|unknown|undisclosed| our |http|@",
        r"\b"
        + SEND_OFF
        + r"\b"
        + gap(80)
        + r"(?:\b|(?<=[ '\"`]))"
        + SECRET
        + gap(80)
        + r"\bto (?:an? |the |our )?(?:"
        + AWAY
        + r"|https?://|"
        + EMAIL
        + r")|"
        + SECRET
        + gap(80)
        + r"\b"
        + SEND_OFF
        + r"\b"
        + gap(40)
        + r"\bto (?:an? |the |our )?(?:"
        + AWAY
        + r"|https?://|"
        + EMAIL
        + r")",
    ),
    rule(
        "sends_secrets",
        "passw|credential|secret|api key|api_key|private key|ssh|token|cookie|.env|environment var|home dir",
        r"\b(?:include|attach|append|insert|embed|cop(?:y|ies)|add|put|pass|steals?|mirror(?:s"
        r"|ed)?|read|supply|provide)(?:s|ing)?\b(?: (?!your\b)[\w']+){0,3}? (?:user's|users'"
        r"|victim's|browser's|workspace's|session's|agent's|their|all|any|saved|stored|local|found"
        r"|the contents? of|private|content of)(?: [\w'-]+){0,3}? ?(?:passwords?|credentials"
        r"|secrets|api keys?|private keys?|ssh keys?|tokens?|cookies|\.env\b|environment variables"
        r"|home directory|keys? from)\b"
        + gap(80)
        + r"\b(?:in|into|to|with|from|so|as|for|and (?:keeps?|sends?|saves?))\b|\b(?:passwords?"
        r"|credentials|secrets|api keys|private keys|tokens|cookies|keys)\b"
        + gap(40)
        + r"\b(?:are|is|will be|get|gets|being) (?:\w+ ){0,2}(?:mirrored|transmitted|forwarded"
        r"|uploaded|exfiltrated|copied|leaked|harvested|collected|sent)\b|\bvalues? of (?:the "
        r")?(?:\$?\w*_?(?:api_?key|token|secret|password)\w*) (?:environment|env)|\b(?:all|every) "
        r"environment variables? (?:are|is|must|should|will)\b|\b(?:compressed )?copy of (?:the"
        r"|your) home directory\b|\bsteals?\b(?: \w+){0,3} (?:passwords?|credentials|cookies"
        r"|tokens|keys)",
    ),
    rule(
        "sends_secrets",
        "password|credential|api key|secrets|private key|ssh key|.env|cookies|conversation|chat history|"
        "keystroke|clipboard|user's |users' |user data|user location|user history|user input|user mess|"
        "user quer|user request|user prompt|user question",
        r"\b"
        + SEND_OFF
        + r"\b"
        + gap(80)
        + r"(?:\b|(?<=[ '\"`]))(?:passwords|credentials|api keys|secrets|private keys|ssh keys"
        r"|\.env\b|cookies|conversation|chat history|keystrokes|clipboard)\b|\b(?:passwords"
        r"|credentials|api keys|secrets|private keys|ssh keys|cookies|conversation|chat history"
        r"|keystrokes|clipboard)\b"
        + gap(60)
        + r"\b"
        + SEND_OFF
        + r"\b|\b"
        + SEND_OFF
        + r"\b"
        + gap(40)
        + r"\buser'?s?'? (?:\w+ )?(?:data|conversation|history|location|prompt|question|messages"
        r"|input|query|requests?)\b" + gap(60) + r"\bto\b",
    ),
    rule(
        "sends_secrets",
        "private key|passw|credential|secret|ssh key|seed phrase|cookie",
        r"\b(?:send|forward|email|upload|post|submit|give|hand|transmit)(?:s|ing)?(?: over)? "
        r"(?:the |your |all |any |their |its )?(?:\w+ )?"
        r"(?:private keys?|passwords?|credentials|secrets|ssh keys?|seed phrase|session cookies?) to\b",
    ),
    rule(
        "side_effect",
        "also|in addition|side effect|while doing|during ",
        r"(?:\bbut|;|\bin addition,?|\bwhile doing so,?|\bas a side effect,?|\bbehind)(?: it| this"
        r"| the tool)?(?: also)? (?:reads?|scans?|records?|sends?|posts?|uploads?|collects?"
        r"|deletes?|copies|keeps?|logs?|modifies|disables?|installs?|opens?)\b"
        + gap(60)
        + r"\b(?:password|credential|private|secret|network|home|all files|port|firewall|keys"
        r"|history|token|external|remote|server|endpoint|browser|analytics|elsewhere)",
    ),
)
