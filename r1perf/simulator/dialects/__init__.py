"""Write answers on the wire as each server family does; one file a family.

Written from the sources of vLLM 0.33, SGLang 0.5.23 and TensorRT-LLM (main, 2026) and from the public API pages of the
hosted ones. What is not certain there is marked "unverified".
"""

from r1perf.simulator.dialects.azure import Azure
from r1perf.simulator.dialects.deepseek import Deepseek
from r1perf.simulator.dialects.dialect import Dialect
from r1perf.simulator.dialects.dynamo import Dynamo
from r1perf.simulator.dialects.litellm import Litellm
from r1perf.simulator.dialects.llamacpp import LlamaCpp
from r1perf.simulator.dialects.openrouter import Openrouter
from r1perf.simulator.dialects.sglang import Sglang
from r1perf.simulator.dialects.trtllm import Trtllm
from r1perf.simulator.dialects.vllm import Plain, Prefilled, Tags, VllmOld
from r1perf.simulator.dialects.wire import ANSWER, DONE, THINKING, Counts, Wire

__all__ = ["ANSWER", "DIALECTS", "DONE", "THINKING", "Counts", "Dialect", "Wire"]

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        Dialect(), VllmOld(), Sglang(), Trtllm(), Deepseek(), Openrouter(), Azure(), Dynamo(), Tags(), Prefilled(), Plain(),
        Litellm(), LlamaCpp(),
    )
}  # fmt: skip
