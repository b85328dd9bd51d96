"""Speak to Azure AI Foundry, over whichever of its routes the target's URL means.

    https://<res>.openai.azure.com/openai/v1                   v1; also .services.ai.azure.com; `model` is the deployment
    https://<res>.services.ai.azure.com/models                 the older model inference route
    https://<res>.openai.azure.com/openai/deployments/<name>   a deployment; also .services.ai.azure.com
    https://<name>.<region>.models.ai.azure.com                serverless
    https://<res>.services.ai.azure.com                        taken to be v1

An `api-version` in the target's own URL wins over the ones here (the versions that litellm and Microsoft's pages state).
"""

from urllib.parse import urlsplit

from r1perf.providers.openai import OpenAI
from r1perf.target import Target

MODELS_VERSION = "2024-05-01-preview"
DEPLOYMENTS_VERSION = "2024-10-21"


class Azure(OpenAI, frozen=True, tag="azure"):
    """Sends the key as `api-key`, except to serverless hosts and except a token of Entra ID (a JWT): those are Bearer."""

    def path(self, target: Target) -> str:
        """Return the path of the route, with the API version where the route needs one."""
        path, suffix = urlsplit(target.url).path.rstrip("/"), f"/{target.endpoint}"
        if path.endswith("/models"):
            return f"{suffix}?api-version={MODELS_VERSION}"
        if "/openai/deployments/" in path:
            return f"{suffix}?api-version={DEPLOYMENTS_VERSION}"
        if not path and not _serverless(target):
            return f"/openai/v1{suffix}"
        return suffix

    def headers(self, target: Target, key: str | None) -> dict[str, str]:
        """Add, on the models route, the header without which it refuses fields such as `stream_options`."""
        headers = super().headers(target, key)
        if "/models" in urlsplit(target.url).path and not any(name.lower() == "extra-parameters" for name in headers):
            headers["extra-parameters"] = "pass-through"
        return headers

    def key_header(self, target: Target, key: str) -> dict[str, str]:
        """Return the header that carries the key."""
        if _serverless(target) or key.startswith("eyJ"):
            return {"Authorization": f"Bearer {key}"}
        return {"api-key": key}


def _serverless(target: Target) -> bool:
    return (urlsplit(target.url).hostname or "").endswith(".models.ai.azure.com")
