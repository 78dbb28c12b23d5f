"""Random texts in the shapes that providers document; none was ever issued."""

from __future__ import annotations

import random
import string
from collections.abc import Callable

LETTERS = string.ascii_letters
ALNUM = LETTERS + string.digits
HEX = "0123456789abcdef"
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
URL = ALNUM + "-_"
BASE64 = ALNUM + "+/"


class Source:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def of(self, characters: str, count: int) -> str:
        return "".join(self._random.choice(characters) for _ in range(count))

    def uuid(self) -> str:
        return "-".join(self.of(HEX, count) for count in (8, 4, 4, 4, 12))


#: type -> what makes a token of that type.
TOKENS: dict[str, Callable[[Source], str]] = {
    "github-token": lambda s: "ghu_" + s.of(ALNUM, 36),
    "gitlab-token": lambda s: "gldt-" + s.of(URL, 20),
    "aws-key-id": lambda s: "ASIA" + s.of(string.ascii_uppercase + "234567", 16),
    "azure-secret": lambda s: s.of(ALNUM, 3) + "8Q~" + s.of(ALNUM + "_~.-", 34),
    "azure-devops-token": lambda s: s.of(ALNUM, 76) + "AZDO" + s.of(ALNUM, 4),
    "anthropic-key": lambda s: "sk-ant-oat01-" + s.of(URL, 95),
    "openai-key": lambda s: "sk-svcacct-" + s.of(URL, 58) + "T3BlbkFJ" + s.of(URL, 58),
    "groq-key": lambda s: "gsk_" + s.of(ALNUM, 52),
    "xai-key": lambda s: "xai-" + s.of(ALNUM, 80),
    "nvidia-key": lambda s: "nvapi-" + s.of(URL, 64),
    "huggingface-token": lambda s: "hf_" + s.of(LETTERS, 34),
    "cerebras-key": lambda s: "csk-" + s.of(LOWER, 48),
    "pinecone-key": lambda s: "pcsk_" + s.of(ALNUM, 6) + "_" + s.of(ALNUM, 63),
    "jina-key": lambda s: "jina_" + s.of(ALNUM, 60),
    "tavily-key": lambda s: "tvly-dev-" + s.of(ALNUM, 32),
    "firecrawl-key": lambda s: "fc-" + s.of(HEX, 32),
    "langfuse-key": lambda s: "sk-lf-" + s.uuid(),
    "elevenlabs-key": lambda s: "sk_" + s.of(HEX, 48),
    "netlify-token": lambda s: "nfp_" + s.of(ALNUM, 36),
    "neon-key": lambda s: "napi_" + s.of(LOWER, 64),
    "supabase-key": lambda s: "sb_secret_" + s.of(URL, 31),
    "vercel-token": lambda s: "vcp_" + s.of(ALNUM, 56),
    "fly-token": lambda s: "fm2_" + s.of(BASE64, 400),
    "render-key": lambda s: "rnd_" + s.of(ALNUM, 32),
    "pulumi-token": lambda s: "pul-" + s.of(HEX, 40),
    "prefect-key": lambda s: "pnu_" + s.of(ALNUM, 36),
    "circleci-token": lambda s: f"CCIPAT_{s.of(ALNUM, 22)}_{s.of(HEX, 40)}",
    "buildkite-token": lambda s: "bkua_" + s.of(HEX, 40),
    "sonar-token": lambda s: "squ_" + s.of(HEX, 40),
    "snyk-token": lambda s: f"snyk_uat.{s.of(HEX, 8)}.eyJ{s.of(URL, 80)}.{s.of(URL, 40)}",
    "sourcegraph-token": lambda s: f"sgp_{s.of(HEX, 16)}_{s.of(HEX, 40)}",
    "sentry-token": lambda s: "sntrys_eyJ" + s.of(ALNUM, 120) + "_" + s.of(BASE64, 43),
    "newrelic-key": lambda s: "NRAK-" + s.of(UPPER, 27),
    "grafana-cloud-token": lambda s: "glc_eyJ" + s.of(ALNUM, 100) + "=",
    "dynatrace-token": lambda s: f"dt0c01.{s.of(UPPER, 24)}.{s.of(UPPER, 64)}",
    "posthog-key": lambda s: "phx_" + s.of(ALNUM, 43),
    "linear-token": lambda s: "lin_oauth_" + s.of(HEX, 64),
    "notion-token": lambda s: "secret_" + s.of(ALNUM, 43),
    "hubspot-token": lambda s: "pat-eu1-" + s.uuid(),
    "slack-token": lambda s: f"xoxc-{s.of('123456789', 12)}-{s.of(ALNUM, 64)}",
    "telegram-token": lambda s: s.of("123456789", 10) + ":AA" + s.of(URL, 33),
    "sendgrid-key": lambda s: f"SG.{s.of(URL, 22)}.{s.of(URL, 43)}",
    "mailgun-key": lambda s: "key-" + s.of(HEX, 32),
    "mailchimp-key": lambda s: s.of(HEX, 32) + "-us21",
    "resend-key": lambda s: f"re_{s.of(ALNUM, 8)}_{s.of(ALNUM, 24)}",
    "brevo-key": lambda s: f"xkeysib-{s.of(HEX, 64)}-{s.of(ALNUM, 16)}",
    "shippo-token": lambda s: "shippo_live_" + s.of(HEX, 40),
    "square-token": lambda s: "sq0csp-" + s.of(URL, 43),
    "plaid-token": lambda s: "access-production-" + s.uuid(),
    "braintree-token": lambda s: f"access_token$production${s.of(LOWER, 16)}${s.of(HEX, 32)}",
    "webhook-secret": lambda s: "whsec_" + s.of(ALNUM, 32),
    "tailscale-key": lambda s: f"tskey-auth-{s.of(ALNUM, 12)}-{s.of(ALNUM, 32)}",
    "vault-token": lambda s: "hvb." + s.of(URL, 138),
    "terraform-token": lambda s: s.of(ALNUM, 14) + ".atlasv1." + s.of(URL, 67),
    "1password-token": lambda s: "ops_eyJ" + s.of(BASE64, 300),
    "doppler-token": lambda s: "dp.st.dev." + s.of(ALNUM, 43),
    "heroku-key": lambda s: "HRKU-AA" + s.of(URL, 58),
    "rubygems-key": lambda s: "rubygems_" + s.of(HEX, 48),
    "nuget-key": lambda s: "oy2" + s.of(LOWER, 43),
    "crates-token": lambda s: "cio" + s.of(ALNUM, 32),
    "docker-token": lambda s: "dckr_oat_" + s.of(URL, 32),
    "deno-token": lambda s: "ddp_" + s.of(ALNUM, 36),
    "typeform-token": lambda s: f"tfp_{s.of(URL, 44)}_{s.of(ALNUM, 14)}",
    "airtable-token": lambda s: f"pat{s.of(ALNUM, 14)}.{s.of(HEX, 64)}",
    "figma-token": lambda s: "figu_" + s.of(URL, 40),
    "apify-token": lambda s: "apify_api_" + s.of(ALNUM, 36),
    "cloudflare-token": lambda s: "cfut_" + s.of(ALNUM, 48),
    "replicate-token": lambda s: "r8_" + s.of(ALNUM, 37),
    "wandb-key": lambda s: "wandb_v1_" + s.of(URL, 77),
    "yandex-key": lambda s: "AQVN" + s.of(URL, 36),
    "discord-token": lambda s: f"MT{s.of(ALNUM, 24)}.{s.of(URL, 6)}.{s.of(URL, 38)}",
    "firebase-key": lambda s: f"AAAA{s.of(URL, 7)}:APA91b{s.of(URL, 134)}",
    "rapidapi-key": lambda s: f"{s.of(HEX, 10)}msh{s.of(HEX, 15)}p1{s.of(HEX, 6)}jsn{s.of(HEX, 12)}",
    "tencent-key": lambda s: "AKID" + s.of(ALNUM, 32),
    "zoho-token": lambda s: f"1000.{s.of(HEX, 32)}.{s.of(HEX, 32)}",
    "age-key": lambda s: "AGE-SECRET-KEY-1" + s.of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
}
