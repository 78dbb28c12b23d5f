"""Tokens that tell by how they begin whose they are.

Each row: type, the literals, what follows (a pattern over bytes), and where the shape is stated: "docs" is
the provider's own documentation or announcement, else the rule of gitleaks (MIT) or of kingfisher
(Apache-2.0) by its name there, read for the shape alone. Lengths are least lengths where a provider may make
longer ones.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mcpd.policy.leaks.genuine import genuine
from mcpd.policy.leaks.rule import Lazy, Look, Rule, Span, bounded, whole_run

_A: Final = "[A-Za-z0-9]"
_W: Final = "[A-Za-z0-9_-]"
_H: Final = "[0-9a-fA-F]"
_U: Final = "[A-Z0-9]"
_L: Final = "[a-z0-9]"
_B: Final = "[A-Za-z0-9+/]"
_ID: Final = f"{_H}{{8}}-{_H}{{4}}-{_H}{{4}}-{_H}{{4}}-{_H}{{12}}"


#: The type of tokens that let an agent in here.
OWN: Final = "mcpd-token"


class Shape(NamedTuple):
    type: str
    literals: str
    """Separated by blanks."""
    follows: str
    source: str
    before: str = ""
    """What must stand directly before the literal and belongs to the token."""


SHAPES: Final[tuple[Shape, ...]] = (
    Shape(
        "1password-key",
        "A3-",
        f"{_U}{{6}}-(?:{_U}{{11}}|{_U}{{6}}-{_U}{{5}})(?:-{_U}{{5}}){{3}}",
        "gitleaks 1password-secret-key",
    ),
    Shape("1password-token", "ops_eyJ", f"{_B}{{100,}}={{0,3}}", "gitleaks 1password-service-account-token"),
    Shape("adafruit-key", "aio_", f"{_A}{{28}}", "docs: Adafruit IO"),
    Shape("adobe-secret", "p8e-", f"{_W}{{32}}", "gitleaks adobe-client-secret"),
    Shape("age-key", "AGE-SECRET-KEY-1", "[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}", "docs: age specification"),
    Shape(
        "age-plugin-key",
        "AGE-PLUGIN-",
        f"{_U}{{1,40}}-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{{20,}}",
        "docs: age",
    ),
    Shape("aikido-token", "AIK_", f"(?:CLIENT|SECRET|RUNTIME|CI)_{_A}{{20,}}", "kingfisher aikido"),
    Shape("airtable-token", "pat", f"{_A}{{14}}\\.{_H}{{64}}", "docs: Airtable"),
    Shape("aiven-password", "AVNS_", f"{_W}{{19,}}", "docs: Aiven"),
    Shape("alibaba-key", "LTAI", f"{_A}{{12,26}}", "gitleaks alibaba-access-key-id"),
    Shape("anthropic-key", "sk-ant-", f"[a-z]{{2,12}}[0-9]{{2}}-{_W}{{80,}}", "docs: Anthropic"),
    Shape("apify-token", "apify_api_", f"{_A}{{34,}}", "docs: Apify"),
    Shape("artifactory-key", "AKCp", f"{_A}{{69}}", "gitleaks artifactory-api-key"),
    Shape("artifactory-token", "cmVmdGtuO", f"{_A}{{54,}}", "gitleaks artifactory-reference-token"),
    Shape("atlassian-token", "ATATT3x ATCTT3x ATSTT3x ATDTT3x", "[A-Za-z0-9_=-]{60,}", "docs: Atlassian"),
    Shape(
        "authress-key",
        ".acc_ .acc-",
        "[a-z0-9-]{10,32}\\.[A-Za-z0-9+/_=-]{30,}",
        "gitleaks authress-service-client-access-key",
        before="(?:sc|ext|scauth|authress)_[a-z0-9]{5,30}\\.[a-z0-9]{4,6}",
    ),
    Shape("aws-bedrock-key", "ABSKQmVkcm9ja0FQSUtleS", f"{_B}{{60,}}={{0,3}}", "gitleaks aws-amazon-bedrock"),
    Shape(
        "aws-bedrock-key", "bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t", f"{_B}{{40,}}={{0,3}}", "gitleaks"
    ),
    Shape("aws-key-id", "A3T", "[A-Z0-9][A-Z2-7]{16}", "gitleaks aws-access-token"),
    Shape("aws-key-id", "AKIA ASIA ABIA ACCA", "[A-Z2-7]{16}", "docs: AWS IAM identifiers"),
    Shape("axiom-token", "xaat- xapt-", _ID, "docs: Axiom"),
    Shape(
        "azure-cosmos-key", "ACDb", f"{_B}{{5,8}}={{0,3}}", "docs: Azure key formats", before=f"{_B}{{76}}"
    ),
    Shape("azure-devops-token", "AZDO", f"{_A}{{4}}", "docs: Azure DevOps", before=f"{_A}{{76}}"),
    Shape(
        "azure-function-key",
        "AzFu",
        f"{_W}{{5,8}}={{0,3}}",
        "docs: Azure key formats",
        before=f"{_W}{{40,44}}",
    ),
    Shape(
        "azure-key",
        "+ASt +AMC +ARm +ASb +AEh +AIo +ACR +AzC",
        f"{_B}{{5,8}}={{0,3}}",
        "docs: Azure key formats",
        before=f"{_B}{{32,76}}",
    ),
    Shape("azure-openai-key", "JQQJ99", f"{_A}{{20,}}", "docs: Azure key formats", before=f"{_A}{{52}}"),
    Shape("azure-search-key", "AzSe", f"{_A}{{6}}", "docs: Azure key formats", before=f"{_A}{{42}}"),
    Shape(
        "azure-secret",
        "Q~",
        "[A-Za-z0-9_~.-]{31,34}",
        "gitleaks azure-ad-client-secret",
        before="[A-Za-z0-9_~.]{3}[0-9]",
    ),
    Shape("baidu-key", "ALTAK", f"{_A}{{16,}}", "docs: Baidu Cloud"),
    Shape("bitbucket-password", "ATBB", f"{_A}{{24,}}", "docs: Atlassian"),
    Shape(
        "braintree-token",
        "access_token$",
        f"(?:production|sandbox)\\${_L}{{16}}\\${_H}{{32}}",
        "docs: Braintree",
    ),
    Shape("brave-key", "BSA", f"{_W}{{26,28}}", "kingfisher brave"),
    Shape("brevo-key", "xkeysib- xsmtpsib-", f"{_H}{{64}}-{_A}{{16}}", "gitleaks sendinblue-api-token"),
    Shape("browserbase-key", "bb_live_", f"{_W}{{24,}}", "kingfisher browserbase"),
    Shape("buildkite-token", "bkua_ bkct_ bkaj_ bkpt_ bkpat_ bkat_", f"{_A}{{40,}}", "docs: Buildkite"),
    Shape("cal-key", "cal_live_", f"{_H}{{32}}", "docs: Cal.com"),
    Shape("canva-secret", "cnvca", f"{_W}{{51}}", "docs: GitHub secret scanning, Canva"),
    Shape("cerebras-key", "csk-", f"{_L}{{48}}", "kingfisher cerebras"),
    Shape("checkout-key", "sk_sbox_", f"{_L}{{20,}}", "docs: Checkout.com"),
    Shape("circleci-token", "CCIPAT_ CCIPRJ_", f"{_A}{{22}}_{_L}{{40}}", "docs: CircleCI"),
    Shape("clickhouse-key", "4b1d", f"{_A}{{38}}", "gitleaks clickhouse-cloud-api-secret-key"),
    Shape("clickup-token", "pk_", f"[0-9]{{5,10}}_{_U}{{32}}", "docs: ClickUp"),
    Shape("clojars-token", "CLOJARS_ clojars_", f"{_H}{{60}}", "gitleaks clojars-api-token"),
    Shape("cloudflare-ca-key", "v1.0-", f"{_H}{{24}}-{_H}{{146}}", "gitleaks cloudflare-origin-ca-key"),
    Shape("cloudflare-token", "cfut_ cfat_ cfk_", f"{_A}{{40,}}", "docs: Cloudflare token formats"),
    Shape("cockroach-key", "CCDB1_", f"{_A}{{22}}_{_A}{{40}}", "docs: Cockroach Labs"),
    Shape("composio-key", "uak_ ak_live_ ak_test_", f"{_W}{{20,}}", "kingfisher composio"),
    Shape("confluent-secret", "cflt", f"{_B}{{60}}", "docs: Confluent"),
    Shape("contentful-token", "CFPAT-", f"{_W}{{43}}", "docs: Contentful"),
    Shape("context7-key", "ctx7sk-", _ID, "docs: Context7"),
    Shape("crates-token", "cio", f"{_A}{{32}}", "docs: crates.io"),
    Shape("cursor-key", "key_", f"{_H}{{64}}", "docs: Cursor"),
    Shape("cursor-key", "crsr_", f"{_H}{{64}}", "docs: Cursor"),
    Shape("databricks-token", "dapi dose dkea dsapi", f"{_H}{{32}}(?:-[0-9])?", "docs: Databricks"),
    Shape("datadog-token", "ddapp_ ddpat_ pub_", f"{_A}{{34,}}", "docs: Datadog"),
    Shape("deepl-key", ":fx", "", "docs: DeepL", before=_ID),
    Shape("deepseek-key", "sk-", f"{_H}{{32}}", "docs: DeepSeek"),
    Shape("defined-token", "dnkey-", f"{_A}{{26}}-{_A}{{52}}", "gitleaks defined-networking-api-token"),
    Shape("deno-token", "ddp_ ddo_ dd0_ ddw_", f"{_A}{{36,}}", "docs: Deno Deploy"),
    Shape("dependency-track-key", "odt_", f"{_A}{{32,}}", "docs: Dependency-Track"),
    Shape("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", f"{_H}{{64}}", "docs: DigitalOcean"),
    Shape(
        "discord-token",
        "MT Mj Mz ND NT Nj Nz OD OT",
        f"{_A}{{20,26}}\\.{_W}{{6}}\\.{_W}{{27,40}}",
        "docs: Discord; a number in base64 comes first",
    ),
    Shape("docker-token", "dckr_pat_ dckr_oat_", f"{_W}{{27,}}", "docs: Docker"),
    Shape(
        "doppler-token",
        "dp.",
        f"(?:ct|pt|st|sa|said|scim|audit)\\.(?:[a-z0-9_-]{{2,35}}\\.)?{_A}{{40,}}",
        "docs: Doppler",
    ),
    Shape("dropbox-token", "sl.", f"(?:u\\.)?{_W}{{128,}}", "docs: Dropbox"),
    Shape("dub-key", "dub_", f"{_A}{{24,}}", "docs: Dub"),
    Shape("duffel-token", "duffel_live_ duffel_test_", "[A-Za-z0-9_=-]{43}", "gitleaks duffel-api-token"),
    Shape("dynatrace-token", "dt0", f"[a-z][0-9]{{2}}\\.{_U}{{24}}\\.{_U}{{64}}", "docs: Dynatrace"),
    Shape("e2b-key", "e2b_ sk_e2b_", f"{_H}{{40}}", "docs: E2B"),
    Shape("easypost-key", "EZAK EZTK", f"{_A}{{54}}", "gitleaks easypost-api-token"),
    Shape("elevenlabs-key", "sk_", f"{_H}{{48}}", "docs: ElevenLabs"),
    Shape("facebook-token", "EAA", f"{_A}{{80,}}", "gitleaks facebook-page-access-token"),
    Shape("figma-token", "figd_ figu_ figur_ figo_ figor_ figoh_", f"{_W}{{38,}}", "docs: Figma"),
    Shape(
        "firebase-key", ":APA91b", f"{_W}{{130,}}", "docs: Firebase Cloud Messaging", before=f"AAAA{_W}{{7}}"
    ),
    Shape("firecrawl-key", "fc-", f"{_H}{{32}}", "docs: Firecrawl"),
    Shape("fireworks-key", "fw_", f"{_A}{{22,24}}", "kingfisher fireworks"),
    Shape(
        "flutterwave-key", "FLWSECK_TEST- FLWSECK-", f"{_L}{{12,}}(?:-X)?", "gitleaks flutterwave-secret-key"
    ),
    Shape("fly-token", "fo1_", f"{_W}{{43}}", "gitleaks flyio-access-token"),
    Shape("fly-token", "fm1a_ fm1r_ fm2_", f"{_B}{{100,}}={{0,3}}", "gitleaks flyio-access-token"),
    Shape("frameio-token", "fio-u-", "[A-Za-z0-9=_-]{64}", "gitleaks frameio-api-token"),
    Shape("friendli-token", "flp_", f"{_A}{{46}}", "kingfisher friendli"),
    Shape("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", f"{_A}{{36,}}", "docs: GitHub token formats"),
    Shape("github-token", "github_pat_", f"{_A}{{22}}_{_A}{{55,}}", "docs: GitHub token formats"),
    Shape("gitlab-runner-token", "GR1348941", f"{_W}{{20}}", "docs: GitLab token prefixes"),
    Shape(
        "gitlab-token",
        "glpat- gldt- glrt- glrtr- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- glffct- glwt-",
        "[A-Za-z0-9_.-]{20,}",
        "docs: GitLab token prefixes",
    ),
    Shape("gocardless-token", "live_", "[A-Za-z0-9=_-]{40}", "gitleaks gocardless-api-token"),
    Shape("google-api-key", "AIza", f"{_W}{{35}}", "docs: Google Cloud API keys"),
    Shape("google-api-key", "AQ.Ab", f"{_W}{{40,}}", "docs: Gemini API keys"),
    Shape("google-oauth-access", "ya29.", f"{_W}{{40,}}", "docs: Google OAuth"),
    Shape("google-oauth-refresh", "1//0", f"{_W}{{40,}}", "docs: Google OAuth"),
    Shape("google-oauth-secret", "GOCSPX-", f"{_W}{{28}}", "docs: Google OAuth"),
    Shape("grafana-cloud-token", "glc_", f"{_B}{{32,}}={{0,3}}", "docs: Grafana Cloud"),
    Shape("grafana-key", "eyJrIjoi", f"{_B}{{70,}}={{0,3}}", "gitleaks grafana-api-key"),
    Shape("grafana-token", "glsa_", f"{_A}{{32}}_{_H}{{8}}", "docs: Grafana"),
    Shape("groq-key", "gsk_", f"{_A}{{48,}}", "docs: Groq"),
    Shape("harness-token", "pat. sat.", f"{_W}{{22}}\\.{_H}{{24}}\\.{_A}{{20}}", "docs: Harness"),
    Shape("helicone-key", "sk-helicone-", f"{_L}{{7}}(?:-{_L}{{7}}){{3}}", "docs: Helicone"),
    Shape("heroku-key", "HRKU-", f"(?:AA{_W}{{40,}}|{_ID})", "docs: Heroku"),
    Shape("honeycomb-key", "hcaik_ hcbik_ hcamk_ hcxik_ hcxlk_", f"{_L}{{50,}}", "docs: Honeycomb"),
    Shape("hubspot-token", "pat-na pat-eu pat-ap pat-au", f"[0-9]-{_ID}", "docs: HubSpot"),
    Shape("huggingface-token", "hf_ api_org_", f"{_A}{{34,}}", "docs: Hugging Face"),
    Shape("infracost-key", "ico-", f"{_A}{{32}}", "gitleaks infracost-api-token"),
    Shape("intercom-token", "dG9rO", f"{_B}{{40,}}={{0,3}}", "docs: Intercom"),
    Shape("intra42-secret", "s-s4t2", f"(?:ud|af)-{_H}{{64}}", "gitleaks intra42-client-secret"),
    Shape("jina-key", "jina_", f"{_A}{{55,}}", "docs: Jina"),
    Shape("langfuse-key", "sk-lf-", _ID, "docs: Langfuse"),
    Shape("langsmith-key", "lsv2_", f"(?:pt|sk)_{_H}{{32}}_{_H}{{10}}", "docs: LangSmith"),
    Shape("launchdarkly-key", "sdk- mob-", _ID, "docs: LaunchDarkly"),
    Shape("linear-token", "lin_api_ lin_oauth_ lin_wh_", f"{_A}{{32,}}", "docs: Linear"),
    Shape("linkedin-secret", "WPL_AP0. WPL_AP1.", f"{_A}{{16,}}(?:\\.{_A}{{4,}})?={{0,3}}", "docs: LinkedIn"),
    Shape("llamacloud-key", "llx-", f"{_A}{{40,}}", "docs: LlamaCloud"),
    Shape("lob-key", "live_ test_", f"{_H}{{35}}", "gitleaks lob-api-key"),
    Shape("logfire-token", "pylf_v", f"[0-9]{{1,2}}_[a-z]{{2}}_{_A}{{40,}}", "docs: Logfire"),
    Shape("mailchimp-key", "-us", "[0-9]{1,2}", "gitleaks mailchimp-api-key", before=f"{_H}{{32}}"),
    Shape("mailgun-key", "key-", f"{_H}{{32}}", "docs: Mailgun"),
    Shape("mapbox-token", "sk.eyJ", f"{_W}{{40,}}\\.{_W}{{20,}}", "docs: Mapbox"),
    Shape("maxmind-key", "_mmk", "", "gitleaks maxmind-license-key", before=f"{_A}{{6}}_{_A}{{29}}"),
    Shape(OWN, "mcpd_", f"{_W}{{43}}", "consent/tokens.py: an agent's own, kept here as a hash alone"),
    Shape("mercury-token", "secret-token:mercury_production_", f"{_A}{{20,}}", "docs: Mercury"),
    Shape("mongodb-secret", "mdb_sa_sk_", f"{_W}{{40}}", "docs: MongoDB Atlas"),
    Shape("neon-key", "napi_", f"{_L}{{60,}}", "docs: Neon"),
    Shape("netlify-token", "nfp_ nfc_ nfo_ nfu_ nfb_", f"{_A}{{36,}}", "docs: Netlify"),
    Shape("newrelic-key", "NRAA-", f"{_H}{{27}}", "docs: New Relic"),
    Shape("newrelic-key", "NRAK- NRBR- NRRA- NRSP-", f"{_A}{{27,42}}", "docs: New Relic"),
    Shape("newrelic-key", "NRII- NRIQ-", f"{_W}{{32}}", "docs: New Relic"),
    Shape("newrelic-license", "FFFFNRAL", "", "docs: New Relic", before=f"{_H}{{32}}"),
    Shape("notion-token", "ntn_", f"{_A}{{40,}}", "docs: Notion"),
    Shape("notion-token", "secret_", f"{_A}{{43}}", "docs: Notion"),
    Shape("npm-token", "npm_", f"{_A}{{36}}", "docs: npm"),
    Shape("nuget-key", "oy2", f"{_L}{{43}}", "docs: NuGet"),
    Shape("nvidia-key", "nvapi-", f"{_W}{{60,}}", "docs: NVIDIA"),
    Shape("octopus-key", "API-", f"{_U}{{26,}}", "docs: Octopus Deploy"),
    Shape(
        "onfido-token", "api_live api_sandbox", f"(?:_[a-z]{{2}})?\\.{_W}{{11}}\\.{_W}{{32}}", "docs: Onfido"
    ),
    Shape("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", f"{_W}{{40,}}", "docs: OpenAI"),
    Shape("openai-key", "T3BlbkFJ", f"{_W}{{20,}}", "gitleaks openai-api-key", before=f"sk-{_W}{{20,}}"),
    Shape("openrouter-key", "sk-or-v1-", f"{_H}{{64}}", "docs: OpenRouter"),
    Shape("openshift-token", "sha256~", f"{_W}{{43}}", "docs: OpenShift"),
    Shape("paystack-key", "sk_test_", f"{_H}{{40}}", "docs: Paystack"),
    Shape("perplexity-key", "pplx-", f"{_A}{{48,}}", "docs: Perplexity"),
    Shape("pinecone-key", "pcsk_", f"{_A}{{4,7}}_{_A}{{50,}}", "docs: Pinecone"),
    Shape("plaid-token", "access-production- access-sandbox- access-development-", _ID, "docs: Plaid"),
    Shape(
        "planetscale-token",
        "pscale_tkn_ pscale_oauth_ pscale_pw_ pscale_api_",
        "[A-Za-z0-9=._-]{32,}",
        "docs: PlanetScale",
    ),
    Shape(
        "polar-token",
        "polar_oat_ polar_pat_ polar_at_u_ polar_at_o_ polar_whs_",
        f"{_A}{{32,}}",
        "docs: Polar",
    ),
    Shape("posthog-key", "phx_ phs_", f"{_W}{{32,}}", "docs: PostHog"),
    Shape("postman-key", "PMAK-", f"{_H}{{24}}-{_H}{{34}}", "docs: Postman"),
    Shape("postman-token", "PMAT-", f"{_U}{{26}}", "docs: Postman"),
    Shape("prefect-key", "pnu_ pnb_", f"{_A}{{36}}", "docs: Prefect"),
    Shape("pulumi-token", "pul-", f"{_H}{{40}}", "docs: Pulumi"),
    Shape("pypi-token", "pypi-AgE", f"{_W}{{50,}}", "docs: PyPI"),
    Shape("railway-token", "rw_Fe26.2", "[A-Za-z0-9*_.~-]{100,}", "docs: Railway"),
    Shape(
        "rapidapi-key", "msh", f"{_H}{{15}}p1{_H}{{6}}jsn{_H}{{12}}", "docs: RapidAPI", before=f"{_H}{{10}}"
    ),
    Shape("razorpay-key", "rzp_live_ rzp_test_", f"{_A}{{14}}", "docs: Razorpay"),
    Shape("readme-key", "rdme_", f"{_L}{{70}}", "docs: ReadMe"),
    Shape("render-key", "rnd_", f"{_A}{{28,}}", "docs: Render"),
    Shape("replicate-token", "r8_", f"{_A}{{37}}", "docs: Replicate"),
    Shape("resend-key", "re_", f"{_A}{{8}}_{_A}{{20,}}", "docs: Resend"),
    Shape("rubygems-key", "rubygems_", f"{_H}{{48}}", "docs: RubyGems"),
    Shape("runpod-key", "rpa_", f"{_A}{{40,}}", "docs: RunPod"),
    Shape("salesforce-token", "!AQ", "[A-Za-z0-9._]{80,}", "docs: Salesforce", before=f"00D{_A}{{12,15}}"),
    Shape("scalingo-token", "tk-us-", f"{_W}{{48}}", "gitleaks scalingo-api-token"),
    Shape("scrapfly-key", "scp-live- scp-test-", f"{_H}{{32}}", "docs: Scrapfly"),
    Shape(
        "secret-key",
        "sk_live_ sk_prod_ rk_live_ rk_prod_ sk_org_live_",
        f"{_A}{{16,}}",
        "docs: Stripe, Clerk",
    ),
    Shape("sendgrid-key", "SG.", f"{_W}{{20,24}}\\.{_W}{{39,50}}", "docs: SendGrid"),
    Shape("sentry-token", "sntrys_", f"{_B}{{40,}}={{0,3}}(?:_{_B}{{40,}})?", "docs: Sentry"),
    Shape("sentry-token", "sntryu_ sntrya_ sntryi_", f"{_H}{{60,}}", "docs: Sentry"),
    Shape("settlemint-token", "sm_pat_ sm_aat_ sm_sat_", f"{_A}{{16}}", "gitleaks settlemint"),
    Shape("shippo-token", "shippo_live_ shippo_test_", f"{_H}{{40}}", "docs: Shippo"),
    Shape("shopify-token", "shpat_ shpca_ shppa_ shpss_ shpua_ shptka_", f"{_H}{{32}}", "docs: Shopify"),
    Shape("sk-key", "sk-", f"{_A}{{40,}}", "the form of OpenAI's first keys, which others took over"),
    Shape("slack-app-token", "xapp-", f"[0-9]-{_U}{{8,16}}-[0-9]{{8,20}}-{_A}{{30,}}", "docs: Slack"),
    Shape(
        "slack-token",
        "xoxb- xoxp- xoxa- xoxr- xoxs- xoxc- xoxd- xoxo-",
        "[A-Za-z0-9%+/=-]{28,}",
        "docs: Slack",
    ),
    Shape("slack-token", "xoxe. xoxe-", "(?:xox[bp]-)?[A-Za-z0-9-]{60,}", "docs: Slack"),
    Shape("snyk-token", "snyk_uat. snyk_sat.", f"{_H}{{8}}\\.[A-Za-z0-9._-]{{40,}}", "docs: Snyk"),
    Shape("sonar-token", "sqp_ sqa_ squ_", f"{_H}{{40}}", "docs: SonarQube"),
    Shape("sourcegraph-license", "slk_", f"{_H}{{64}}", "kingfisher sourcegraph"),
    Shape("sourcegraph-token", "sgp_", f"(?:(?:{_H}{{16}}|local)_)?{_H}{{40}}", "docs: Sourcegraph"),
    Shape("square-token", "sq0atp- sq0csp- sq0idp-", f"{_W}{{22,43}}", "docs: Square"),
    Shape("square-token", "EAAA", f"{_W}{{60}}", "docs: Square"),
    Shape("stripe-test-key", "sk_test_ rk_test_", f"{_A}{{24,}}", "docs: Stripe"),
    Shape("stytch-secret", "secret-live- secret-test-", "[A-Za-z0-9_=-]{36}", "docs: Stytch"),
    Shape("supabase-key", "sb_secret_", f"{_W}{{28,}}", "docs: Supabase"),
    Shape("supabase-token", "sbp_", f"(?:oauth_|v0_)?{_H}{{40}}", "docs: Supabase"),
    Shape("tailscale-key", "tskey-", f"[a-z]{{3,12}}-{_A}{{10,20}}-{_A}{{20,}}", "docs: Tailscale"),
    Shape("tavily-key", "tvly-", f"(?:dev-|prod-)?{_W}{{28,}}", "docs: Tavily"),
    Shape("telegram-token", ":AA", f"{_W}{{32,34}}", "docs: Telegram bots", before="[0-9]{8,10}"),
    Shape("telnyx-key", "KEY", f"{_H}{{32}}_{_W}{{22}}", "docs: Telnyx"),
    Shape("tencent-key", "AKID", f"{_A}{{32}}", "docs: Tencent Cloud"),
    Shape("terraform-token", ".atlasv1.", f"{_W}{{60,}}", "docs: HashiCorp", before=f"{_A}{{14}}"),
    Shape("thunderstore-token", "tss_", f"{_A}{{36,}}", "docs: GitHub secret scanning, Thunderstore"),
    Shape("together-key", "tgp_v1_", f"{_W}{{40,}}", "docs: Together AI"),
    Shape("trello-token", "ATTA", f"{_H}{{64,72}}", "docs: Trello"),
    Shape("trigger-key", "tr_prod_ tr_dev_ tr_stg_ tr_pat_", f"{_A}{{20,}}", "docs: Trigger.dev"),
    Shape("twilio-key", "SK", f"{_H}{{32}}", "docs: Twilio"),
    Shape(
        "twitter-bearer",
        "AAAAAAAAAAAAAAAAAAAA",
        "A{0,4}[B-Zb-z0-9%][A-Za-z0-9%]{60,}",
        "gitleaks twitter-bearer-token",
    ),
    Shape("typeform-token", "tfp_", "[A-Za-z0-9_.=-]{40,}", "docs: Typeform"),
    Shape("ubidots-key", "BBFF-", f"{_A}{{30,}}", "kingfisher ubidots"),
    Shape("unkey-key", "unkey_", f"{_A}{{20,}}", "docs: Unkey"),
    Shape("valtown-token", "vtwn_", f"{_A}{{26,}}", "docs: Val Town"),
    Shape("vault-token", "hvs. hvb. hvr.", f"{_W}{{24,}}", "docs: Vault"),
    Shape("vercel-blob-token", "vercel_blob_rw_", f"{_A}{{16}}_{_A}{{30,}}", "docs: Vercel"),
    Shape("vercel-token", "vcp_ vci_ vca_ vcr_ vck_", f"{_A}{{24,}}", "docs: Vercel"),
    Shape("volcengine-key", "AKLT", f"{_A}{{30,}}={{0,3}}", "docs: Volcengine"),
    Shape(
        "voyage-key",
        "pa-",
        f"(?=[A-Za-z_-]{{0,42}}[0-9])(?=[a-z0-9_-]{{0,42}}[A-Z]){_W}{{43}}",
        "docs: Voyage AI",
    ),
    Shape("wakatime-key", "waka_", _ID, "docs: WakaTime"),
    Shape("wandb-key", "wandb_v1_", f"{_W}{{40,}}", "docs: Weights & Biases"),
    Shape("weaviate-token", "WCS-", f"{_A}{{32,}}", "docs: Weaviate"),
    Shape("webflow-token", "ws-", f"{_H}{{64}}", "docs: Webflow"),
    Shape("webhook-secret", "whsec_", f"{_B}{{24,}}={{0,3}}", "docs: Stripe, Svix"),
    Shape("workato-token", "wrka", f"[a-z]{{1,3}}-eyJ{_W}{{20,}}\\.[A-Za-z0-9_.-]{{40,}}", "docs: Workato"),
    Shape("xai-key", "xai-", f"{_A}{{70,}}", "docs: xAI"),
    Shape("xata-key", "xau_", f"{_A}{{40,}}", "docs: Xata"),
    Shape("yandex-key", "AQVN", f"{_W}{{35,38}}", "docs: Yandex Cloud"),
    Shape("yandex-token", "y0_", f"{_W}{{50,}}", "docs: Yandex"),
    Shape("zoho-token", "1000.", f"{_H}{{32}}\\.{_H}{{32}}", "docs: Zoho"),
    Shape("zuplo-key", "zpka_", f"{_A}{{32}}_{_H}{{8}}", "docs: Zuplo"),
)

#: No token begins in the middle of a word; an escape or a percent sign with its digits may stand before it.
_START: Final = b"(?:(?<![A-Za-z0-9])|(?<=\\\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
_END: Final = b"(?![A-Za-z0-9])"
#: Bytes before a literal that can belong to a token.
_BEFORE: Final = 220


def _look(shape: Shape) -> Look:
    follows = Lazy(bounded(shape.follows).encode() + (b"" if shape.follows.endswith(",}") else _END))
    first = Lazy(_START)
    before = Lazy(_START + b"(?:" + shape.before.encode() + b")\\Z")

    def alone(text: bytes, start: int, end: int) -> Span | None:
        match = follows.compiled.match(text, end)
        if match is None or not first.compiled.match(text, start) or not genuine(match[0]):
            return None
        return whole_run(text, start, match.end())

    def preceded(text: bytes, start: int, end: int) -> Span | None:
        match = follows.compiled.match(text, end)
        if match is None:
            return None
        head = before.compiled.search(text, max(0, start - _BEFORE), start)
        if head is None or not genuine(head[0] + match[0]):
            return None
        return whole_run(text, head.start(), match.end())

    return preceded if shape.before else alone


RULES: Final[tuple[Rule, ...]] = tuple(
    # What opens mcpd itself counts as a value that it holds: nobody else is to have it (n17).
    Rule(
        shape.type,
        1 if shape.type == OWN else 2,
        tuple(shape.literals.encode().split()),
        _look(shape),
        shape.source,
    )
    for shape in SHAPES
)
